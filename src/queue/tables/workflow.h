// SPDX-License-Identifier: Apache-2.0
// The table of workflows (workflow.c, workflow_save.c), for the files of this folder.
#pragma once

#include "base/map.h"
#include "base/ring.h"
#include "queue/core/machine.h"
#include "queue/tables/rows.h"

#include <assert.h>

// A row. It is in a list while no message refers to it: it may then be dropped.
struct workflow {
    struct bytes id; // owned; empty: a free row
    uint64_t hash;
    uint64_t serial; // number of the row, from 1
    uint64_t open;   // messages of this run that have not ended
    uint64_t done;
    uint64_t failed; // dead, or dead-lettered
    uint64_t cancelled;
    int64_t begun; // the run
    int64_t seen;
    int64_t since;   // when it entered its list
    uint64_t listed; // the number of that entry; 0: in no list
    uint32_t run;
    uint32_t refs; // messages that refer to it, dead ones included
    uint32_t prev; // in its list
    uint32_t next; // in its list, or of the free rows
    uint8_t state; // enum workflow_state
    bool saw_last;
    bool pending; // something ended in this op
};

#define WORKFLOW_RUN_MAX  0x7fffffffu // so that a run and a bit fit into 32 bits
#define WORKFLOW_ROW_MASK 0x7fffffffu

// A message of a workflow: unfinished, dead or outbound.
struct workflow_member {
    uint64_t seq;
    uint32_t run;
    uint32_t row : 31;
    uint32_t ended : 1;
};
static_assert(sizeof(struct workflow_member) == 16, "a message of a workflow costs 16 bytes more");

// A finished message of a workflow (workflow_ended.c).
struct workflow_end_row {
    uint64_t seq;
    uint64_t serial; // of the row, which may be dropped already
    uint32_t run;
};
static_assert(sizeof(struct workflow_end_row) == 24, "a finished message of a workflow: 24 bytes");

enum workflow_list { LIST_ENDED, LIST_IDLE, LIST_COUNT };

struct workflows {
    struct workflow *rows; // row 0 is none
    uint32_t len;
    uint32_t cap;
    uint32_t free;
    uint32_t used;
    uint64_t serial;
    uint64_t listings;
    uint32_t first[LIST_COUNT]; // the lists, by `listed`
    uint32_t last[LIST_COUNT];
    struct map by_hash;
    struct workflow_member *members; // in no order
    uint32_t members_len;
    uint32_t members_cap;
    struct map by_seq;
    uint32_t *pending;
    uint32_t pending_len;
    uint32_t pending_cap;
    struct workflow_end_row *ended; // in the ring
    struct ring ended_ring;
};

#define WORKFLOW_IDLE_KEEP_MS CONFIG_DAY_MS
#define WORKFLOW_ENDED_MAX    FINISHED_MAX // rows; the newest are kept

// A message with a workflow. Refuses it, if it cannot be in this queue or in this shard.
enum reason workflow_admit(const struct machine *m, const struct message *msg);
bool workflow_has_room(const struct machine *m, struct bytes id);
void workflow_join(struct machine *m, uint64_t seq, struct bytes id, bool last);
// The message is no longer open. It may have no workflow.
enum workflow_end { WORKFLOW_DONE, WORKFLOW_DIED, WORKFLOW_PURGED };
void workflow_note_end(struct machine *m, uint64_t seq, enum workflow_end end);
// Its messages that are not finished, in no order. out has room for all members of workflows.
size_t workflow_unfinished(const struct machine *m, struct bytes id, uint64_t *out);
void workflow_leave(struct machine *m, uint64_t seq); // the message is gone
void workflow_redrive(struct machine *m, uint64_t from, uint64_t to);
void workflows_purge_backlog(struct machine *m); // before backlog_clear
void workflows_settle(struct machine *m);        // at the end of an op, or of an advance
bool workflows_due(const struct machine *m);
void workflows_expire(struct machine *m);
void workflows_clear(struct machine *m);                         // for a new state
void workflows_drop_all(struct machine *m);                      // the queue was deleted
struct bytes workflow_of(const struct machine *m, uint64_t seq); // empty: none

// workflow_ended.c: messages that are finished. They are still members when they are noted.
void workflow_ended_note(struct machine *m, uint64_t seq, uint32_t count);
// The row about finished messages with these numbers goes.
void workflow_ended_leave(struct machine *m, uint64_t seq, uint32_t count);
extern const struct row_table workflow_end_rows;
bool workflow_ended_ok(const struct machine *m); // the rows are about finished messages

// For workflow_save.c.
uint64_t workflow_hash(const struct workflow *w);
uint32_t workflow_row_new(struct machine *m, struct bytes id);
void workflow_member_add(struct machine *m, const struct workflow_member *member);
void workflow_list_add(struct machine *m, uint32_t w);
void workflows_save(const struct machine *m, struct buf *out);
void workflows_load(struct machine *m, struct reader *r);
void workflows_check(const struct machine *m);
