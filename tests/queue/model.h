// SPDX-License-Identifier: Apache-2.0
// The queue as a first reader would write it: one list of all messages ever sent, searched from the
// front, no indexes, nothing forgotten. Slow, and easy to believe. The machine must agree with it
// in everything that can be seen.
#pragma once

#include "queue/core/machine.h"

#define MODEL_MESSAGES_MAX 4096
#define MODEL_ROWS_MAX     4096
#define MODEL_NAME_MAX     16
#define MODEL_WORKERS_MAX  16

struct model_message {
    enum message_state state;
    uint64_t slot;    // where it was sent
    uint32_t ordinal; // ... after how many others of that entry
    char group[MODEL_NAME_MAX];
    uint8_t priority;
    uint32_t retries;
    uint32_t deliveries;
    int64_t due;
    bool opened;  // strict: handed out, not finished
    bool waiting; // for a retry
    bool locked_once;
    bool held; // in this entry: a word came in time
    struct hash128 token;
    uint64_t fence;
    int64_t deadline;
    uint64_t order;
    bool ticket;
    bool expired; // how the last lock ended
    char worker[MODEL_NAME_MAX];
    uint64_t death;
    uint64_t body; // of an uploaded body: what its name begins with after the time; 0: none
    bool kept;     // how it ended, as below
    enum finished_outcome outcome;
    int64_t finished_at;
    uint32_t finished_attempts;
    char finished_by[MODEL_NAME_MAX];
    bool has_result; // while it is kept
    char result[MODEL_NAME_MAX];
    size_t result_len;
    uint64_t why_slot; // of the op that says why it ended; 0: none
    bool body_kept;
    bool has_progress; // of its holder
    uint8_t percent;
    int64_t progress_at;
    char workflow[MODEL_NAME_MAX];
    size_t row; // of its workflow, from 1; 0: none
    uint32_t run;
    bool listed; // with its workflow, while it is kept
};

struct model_workflow {
    char id[MODEL_NAME_MAX];
    uint32_t run;
    enum workflow_state state;
    bool saw_last;
    bool listed; // no message refers to it ...
    int64_t since;
    bool gone;
};

struct model_signal {
    struct request_id id;
    uint64_t seq;
    uint64_t slot;   // of its op
    uint32_t number; // 0: it ended at once
    enum signal_kind kind;
    enum signal_then then;
    bool once;
    enum signal_state state;
    bool in_force; // an interrupt whose lock has not ended
    int64_t due;
    uint32_t deliveries;
    int64_t ended_at;
    bool dropped; // how it ended is not kept any more
    bool answered;
};

struct model_worker {
    char name[MODEL_NAME_MAX];
    uint32_t capacity; // 0: not registered
    int64_t expires_at;
    uint64_t serial;
    uint64_t instance;
    int64_t ttl_ms;
    uint32_t flags;
    enum worker_mode mode;
    uint64_t served; // order of its last ticket
};

struct model_dedup {
    struct hash128 key;
    uint64_t seq;
    int64_t expires_at;
    bool dropped; // left from the front
};

struct model_request {
    struct request_id id;
    uint16_t kind;
    int64_t expires_at;
    struct bytes body;
    bool dropped;
};

struct model_entry {
    uint64_t slot;
    int64_t at;
    uint64_t bytes;
    bool all_before; // all events before it were published
};

struct model {
    struct queue_id queue;
    uint32_t shard;
    struct queue_config config;
    uint64_t version;
    bool paused, deleted;
    uint16_t rules;
    uint64_t event_count;
    uint64_t refused;
    bool published;
    uint64_t cursor_slot, cursor_sequence;
    struct model_entry entries[MODEL_ROWS_MAX]; // since it is published
    size_t entries_len;
    uint64_t slot;
    int64_t now, from;
    uint64_t epoch;
    uint32_t ordinal;
    uint64_t fence, order, deaths, serial;
    struct model_message messages[MODEL_MESSAGES_MAX]; // by seq - 1
    uint64_t sent;
    struct model_worker workers[MODEL_WORKERS_MAX];
    size_t workers_len;
    struct model_dedup dedup[MODEL_ROWS_MAX];
    size_t dedup_len;
    struct model_request requests[MODEL_ROWS_MAX];
    size_t requests_len;
    uint64_t source_mark;
    struct model_workflow workflows[MODEL_ROWS_MAX]; // by number
    size_t workflows_len;
    struct model_signal signals[MODEL_ROWS_MAX]; // all that were accepted
    size_t signals_len;
    struct cost spent;
    struct events events;
    uint32_t op, event_n, time_n;
    struct buf body;
};

void model_init(struct model *m, const struct queue_id *queue, uint32_t shard,
                const struct queue_config *config);
void model_done(struct model *m);
// bodies: one per op, released by the caller with bytes_free. Events are in m->events.
void model_apply(struct model *m, const struct machine_entry *e, struct bytes *bodies);
uint64_t model_count(const struct model *m, enum message_state state);
int64_t model_wake_at(const struct model *m);
void model_unpublished(const struct model *m, uint64_t *events, int64_t *age, uint64_t *bytes);
void model_workflow_counts(const struct model *m, size_t row, struct workflow_view *out);
bool model_floor_ok(const struct model *m, uint64_t slot);
enum body_hold model_holds(const struct model *m, struct bytes name);
// Without jitter.
int64_t model_backoff(const struct queue_config *c, uint32_t retry);
