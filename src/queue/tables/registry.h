// SPDX-License-Identifier: Apache-2.0
// Registered workers, for the files of this folder: the registry's rows, the lanes of messages that
// only some of them may get, groups that stay with one of them, and the choice of the next one.
#pragma once

#include "queue/core/state.h"

// registry.c: the rows of OP_WORKERS
static inline bool has_row(const struct machine *m, uint32_t w)
{
    return m->rows > 0 && m->workers[w].row; // most queues have no rows
}
struct bytes registry_labels(const struct registration *row);
uint64_t registry_hash(const struct machine *m, uint32_t w); // its row's part of the digest
void registry_drop(struct machine *m, uint32_t w);           // the registration ends
void registry_note_ticket(struct machine *m, uint32_t w, uint64_t order);
void registry_note_end(struct machine *m, uint32_t w, bool done);  // its lock ended: done or failed
enum reason registry_refuses(const struct machine *m, uint32_t w); // a claim, because of its mode
void registry_save(const struct machine *m, struct buf *out);
void registry_load(struct machine *m, struct reader *r);
void registry_check(const struct machine *m);

// ready_for.c: messages that only some workers may get
uint8_t requirement_need(struct machine *m, struct bytes text); // its lane; 0: too many others
uint8_t requirement_find(const struct machine *m, struct bytes text); // 0: none has it
void requirement_ref(struct machine *m, uint8_t lane);
void requirement_unref(struct machine *m, uint8_t lane);
uint64_t requirements_met(const struct machine *m, struct bytes labels);
void requirements_clear(struct machine *m);
void requirements_save(const struct machine *m, struct buf *out);
uint8_t requirement_number(const struct machine *m, uint8_t lane); // in the saved order, from 1
void requirements_load(struct machine *m, struct reader *r, uint8_t lanes[REQUIREMENTS_MAX + 1]);
void offer_push(struct machine *m, uint32_t h); // into `ready`, or into its lane
void offer_remove(struct machine *m, uint32_t h);
bool offer_has(const struct machine *m, uint32_t h);
void lane_free(struct heap *lane);
void lanes_reorder(struct machine *m);          // the order of delivery changed
void lane_flush(struct machine *m, uint32_t w); // its row ends: its groups are free
void lanes_check(const struct machine *m);
bool backlog_blocks(const struct machine *m, uint32_t h); // ready.c

// affinity.c: groups that stay with their worker
static inline bool has_affinity(const struct machine *m)
{
    return m->config.dispatch == DISPATCH_AFFINITY && is_strict(m);
}
uint32_t scope_row(const struct machine *m, const struct scope *s); // the live row; 0: none
void scope_bind(struct machine *m, uint32_t scope, uint32_t w);
void scope_adopt(struct machine *m, uint32_t scope);  // a new scope: finds its bond
void scope_retire(struct machine *m, uint32_t scope); // it ends: keeps its bond
void bonds_clear(struct machine *m);                  // frees the memory, too
void scopes_reoffer(struct machine *m, uint32_t w);   // the row has other labels
void bonds_forget(struct machine *m);                 // the setting changed: no group is bound
void bonds_save(const struct machine *m, struct buf *out);
void bonds_load(struct machine *m, struct reader *r);
void bonds_check(const struct machine *m);

// dispatch.c: which row gets the next ticket
void idle_refresh(struct machine *m, uint32_t w); // its room, its mode or its last ticket changed
void idle_rebuild(struct machine *m);             // the setting `dispatch` changed
void dispatch_check(const struct machine *m);
