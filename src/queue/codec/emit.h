// SPDX-License-Identifier: Apache-2.0
// Adds the events of an entry (event.c), for the files of src/queue.
#pragma once

#include "queue/codec/event.h"
#include "queue/codec/ops.h"

struct machine;

struct event *emit(struct machine *m, enum event_kind kind, uint32_t h); // NULL: no list of events
void emit_worker(struct machine *m, struct event *e, uint32_t w);
void emit_worker_name(struct machine *m, struct event *e, struct bytes name);
void emit_failure_text(struct machine *m, struct event *e, struct bytes text); // e: the last row
void emit_origin(struct machine *m, const struct op_arrive *a);
void emit_workflow(struct machine *m, struct event *e, struct bytes id);     // e: the last row
void emit_key(struct machine *m, struct event *e, uint64_t seq, uint32_t h); // e: the last row
