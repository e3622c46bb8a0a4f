// SPDX-License-Identifier: Apache-2.0
// What the calls of an open queue share. The engine makes it with the queue and frees it with the
// queue (struct engine_hooks).
#pragma once

#include "base/list.h"
#include "ops/blocked_sends.h"
#include "queues/queues.h"

#define TURN_BUCKETS 16

struct queue_calls {
    struct open_queue *queue;
    // Receives with a caller's request id, by the id (same_request.h). Under the engine's lock.
    struct local_call *turns[TURN_BUCKETS];
    struct send_line line;      // sends that wait for space (blocked_sends.h)
    struct await_hub *hubs;     // its polls at other nodes (awaits.c); under the engine's lock
    struct list waiting;        // struct local_call: receives that wait; under the engine's lock
    struct pool_job upkeep_job; // moves its dead letters, or closes it
    bool upkeep_runs;           // the job waits or runs; under the engine's lock
    struct mailbox_rounds *mailbox_rounds; // of its shards that this node owns; the job's
    struct pool_job mailbox_job;
    int64_t mailbox_at; // clock_boot_ms of the next one; under the engine's lock
    bool mailbox_runs;  // the job waits or runs; under the engine's lock
};

void queue_calls_new(struct open_queue *q);  // as engine_hooks.opened
void queue_calls_free(struct open_queue *q); // as engine_hooks.closed
