// SPDX-License-Identifier: Apache-2.0
// The internals of the machine, shared only by the files of src/queue. Each table has its
// own header in src/queue/tables.
//
// A message is either a number in a range of the backlog (ready.c) or a record here. Records refer
// to each other by handle (an index; 0 is none), so a snapshot can renumber them. Handles affect
// only speed: every visible order comes from a sequence number, a fence or a name.
#pragma once

#include "base/check.h"
#include "base/heap.h"
#include "base/layout_flat.h"
#include "base/map.h"
#include "base/mutant.h"
#include "base/ring.h"
#include "queue/codec/body_name.h"
#include "queue/codec/emit.h"
#include "queue/core/apply.h"
#include "queue/core/machine.h"
#include "queue/tables/bodies.h"
#include "queue/tables/changes.h"
#include "queue/tables/cost_ledger.h"
#include "queue/tables/cursor.h"
#include "queue/tables/dedup.h"
#include "queue/tables/failures.h"
#include "queue/tables/finished.h"
#include "queue/tables/name_table.h"
#include "queue/tables/requests.h"
#include "queue/tables/retained.h"
#include "queue/tables/rows.h"
#include "queue/tables/signals.h"
#include "queue/tables/workers.h"
#include "queue/tables/workflow.h"

#include <assert.h>

struct msg {
    uint64_t seq; // 0: a free row
    uint64_t slot;
    uint32_t skip;
    uint32_t scope; // strict queues: the scope of its order
    uint32_t lock;  // its lock, or its dead-list entry; 0: it never had one
    uint32_t next;  // in its scope, the dead list, the outbox, or the free rows
    uint32_t prev;
    uint32_t retries;
    uint32_t deliveries;
    uint8_t state; // enum message_state
    uint8_t priority;
    uint8_t flags;
    uint8_t lane; // its requirement (ready_for.c); 0: any worker may get it
};
static_assert(sizeof(struct msg) == 48, "promise 6: a message with a state costs 48 bytes");

enum msg_flag {
    MSG_OPENED = 1,  // strict: it was delivered once and keeps its scope until it is finished
    MSG_WAITING = 2, // delayed because it failed
};

enum lock_end { LOCK_CURRENT, LOCK_END_EXPIRED, LOCK_END_RELEASED };

// The current or last lock of a message. For a dead message: why and when it died.
struct lock {
    union {
        struct {
            struct hash128 token;
            uint64_t fence;
            int64_t deadline;
            uint64_t order; // of its ticket; 0: claimed directly
            uint32_t worker;
            uint32_t next; // tickets of one worker, by order
            uint32_t prev;
            uint8_t end; // enum lock_end
            bool ticket; // not taken yet
        };
        struct {
            uint64_t number; // of the death; also the outbox number
            int64_t died_at;
            uint64_t reason_slot;
            uint32_t reason_op;
            uint8_t cause;
        };
    };
    uint32_t free_next;
};

// The messages of one group in a strict queue, by seq. Messages without a group are in
// SCOPE_UNGROUPED, and most of them are in the backlog.
struct scope {
    // Hash of the name. Groups whose hashes collide share their order, which is safe.
    uint64_t group;
    uint32_t first; // the unfinished messages
    uint32_t last;
    uint32_t opened;  // delivered and not finished
    uint32_t offered; // in the ready heap, or in a lane
    uint32_t refs;    // records in this scope; 0: a free row
    uint32_t free_next;
    // dispatch=affinity: the row that got its last ticket. It counts while that registration lives.
    uint32_t bound;
    uint32_t offered_to; // the bound row in whose lane `offered` is; 0: not in such a lane
    uint64_t bound_serial;
};

#define SCOPE_UNGROUPED 1

// Plain ready messages seq .. seq + count - 1. In a walk of the journal from slot, the first comes
// after `skip` others. The rest follow it without a gap, up to slot + slots.
struct range {
    uint64_t seq;
    uint64_t slot;
    uint32_t count;
    uint32_t skip;
    uint32_t slots;
};

struct backlog {
    struct range *rows; // in the ring, by seq
    struct ring ring;
    // The next message of the journal directly follows the last message of the last range.
    bool open;
};

struct letter_source {
    struct queue_id queue;
    uint32_t shard;
    uint64_t number; // of the last dead letter that arrived
};

struct machine {
    struct queue_id queue;
    uint32_t shard;
    struct queue_config birth;

    // Scalars of the state.
    struct queue_config config;
    uint64_t config_version;
    bool paused;
    bool deleted;
    uint64_t slot;
    int64_t now;
    uint64_t seq_next;
    uint64_t fence;
    uint64_t order;
    uint64_t deaths;
    uint64_t serial;
    uint64_t counts[STATE_COUNT];
    uint64_t sent;
    uint64_t tickets;
    uint64_t waiting;
    uint64_t duplicates;
    uint16_t rules;          // queue/core/rules.h
    uint64_t event_count;    // whether or not events are kept
    uint64_t refused_claims; // by `consume`
    uint64_t expired;        // locks that expired while it folded; a metric, not part of the state
    struct cost_ledger spent;
    struct cursor cursor;
    struct workflows workflows;
    struct signals signals;
    struct retained_table retained;

    struct backlog backlog;
    struct dedup dedup;
    struct requests requests;
    struct bodies bodies;
    struct failures failures; // not part of the digest
    struct finished_table finished;
    struct letter_source *sources; // by queue id and shard
    size_t sources_len;
    size_t sources_cap;

    struct msg *msgs;
    uint32_t msgs_len; // rows in use or free; row 0 is none
    uint32_t msgs_cap;
    uint32_t msgs_free;
    uint32_t msgs_used;
    struct lock *locks;
    uint32_t locks_len;
    uint32_t locks_cap;
    uint32_t locks_free;
    struct scope *scopes;
    uint32_t scopes_len;
    uint32_t scopes_cap;
    uint32_t scopes_free;
    struct worker *workers;
    uint32_t workers_len;
    uint32_t workers_cap;
    uint32_t workers_free;
    uint32_t *names; // workers by name
    uint32_t names_len;
    uint32_t names_cap;

    struct map by_seq;
    struct map by_group;
    struct map marks;          // slot / PLACE_SPAN -> number of records whose bytes start there
    struct heap ready;         // records that can be delivered now, best first
    struct heap timers;        // delayed and locked records, by their time
    struct heap open;          // not strict: locked and retrying records, in delivery order
    struct heap registrations; // registered workers, by the end of their registration
    struct heap idle;          // rows that a ticket may go to: served longest ago first
    // The lanes: READY records that only some rows may get. A record is in one of `ready` and the
    // lanes, so all lanes share one index of positions.
    struct requirement *requirements; // REQUIREMENTS_MAX + 1 rows, row 0 is none; NULL: no row yet
    uint64_t required;                // records with a requirement
    uint64_t lanes_ready;             // bit lane - 1: the requirement has READY records on offer
    uint64_t bound_ready;             // records in the lanes of rows
    uint32_t *lane_at;
    size_t lane_at_cap;
    struct affinity_table bonds;
    struct map by_serial;  // rows by the number of their registration
    uint32_t rows;         // registered workers
    uint32_t rows_evicted; // of these
    uint64_t orders;       // pauses, drains and evictions since this process loaded the state
    uint32_t dead_first;   // by number
    uint32_t dead_last;
    uint32_t outbox_first;
    uint32_t outbox_last;

    struct changes changes; // no part of the state

    uint64_t digest; // the sum over all rows; machine_digest adds the scalars
    uint32_t edited; // the record that is being edited; 0: none

    // Working state of the entry that is being applied.
    int64_t deadline_base; // the time from which deadlines count
    uint64_t epoch;
    uint32_t ordinal; // messages of the entry so far
    uint32_t op_index;
    uint32_t event_n;
    uint32_t time_n;
    struct events *events;
    struct buf result;
    // Locks that an op of this entry reached before their deadline.
    uint32_t *held;
    size_t held_len;
    size_t held_cap;
};

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    return hash64_step(a, b);
}

static inline struct msg *msg_at(const struct machine *m, uint32_t h)
{
    return &m->msgs[h];
}

static inline struct lock *lock_of(const struct machine *m, const struct msg *msg)
{
    CHECK(msg->lock < m->locks_len);
    return &m->locks[msg->lock];
}

static inline int64_t finished_kept_ms(const struct machine *m)
{
    return MUTANT(RETENTION_OFF) ? 2 * m->config.retention_ms : m->config.retention_ms;
}

// Whether the first row about finished messages is over.
static inline bool finished_due(const struct machine *m)
{
    const struct finished_table *f = &m->finished;
    return f->len > 0 && f->rows[f->head].at + finished_kept_ms(m) <= m->now;
}

static inline bool is_owner_only(const struct machine *m)
{
    return m->config.consume == CONSUME_OWNER && !MUTANT(CONSUME_OFF);
}

// What holds between any two ops, as far as a few counters tell. machine_check has all of it.
static inline bool machine_is_sound(const struct machine *m)
{
    uint64_t timed = m->counts[STATE_LOCKED] + m->counts[STATE_DELAYED];
    bool records = m->msgs_used < m->msgs_len && m->msgs_used == m->by_seq.len;
    bool timers = m->timers.len == timed && m->tickets <= m->counts[STATE_LOCKED];
    return records && timers && m->waiting <= m->counts[STATE_DELAYED] && m->edited == 0;
}

// The result of an op with rows. Its first byte is the reason of the first refused row, if the op
// has rows and none of them was applied.
struct result_rows {
    size_t at; // in the result
    uint32_t count;
    uint32_t applied;
    enum reason first;
};

static inline struct result_rows result_rows(struct machine *m, uint32_t count)
{
    result_begin(&m->result, REASON_NONE);
    buf_put_u32(&m->result, count);
    return (struct result_rows){.at = m->result.len, .count = count};
}

static inline void result_rows_note(struct result_rows *r, enum reason reason, bool applied)
{
    CHECK(r->applied < r->count);
    if (applied) {
        r->applied++;
    } else if (r->first == REASON_NONE) {
        r->first = reason;
    }
}

static inline enum reason result_rows_end(struct machine *m, const struct result_rows *r)
{
    if (r->applied > 0 || r->count == 0) return REASON_NONE;
    CHECK(r->first != REASON_NONE);
    m->result.data[0] = (uint8_t)r->first;
    return r->first;
}

static inline bool is_strict(const struct machine *m)
{
    return m->config.ordering_guarantee;
}

// records.c: rows of every kind, the moves between states, and the digest
#define STATE_NONE STATE_COUNT
void count_move(struct machine *m, enum message_state from, enum message_state to, uint64_t n);
// An edit of a record. While it lasts, the record is not in the digest. The end of the block ends
// the edit and adds the record to the digest, unless the record was freed:
//     CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
// One record is edited at a time. The functions that change it check that it is being edited.
struct msg_edit {
    struct machine *m;
    uint32_t h; // 0: none
};
MUST_USE struct msg_edit msg_edit(struct machine *m, uint32_t h);
MUST_USE struct msg_edit msg_new(struct machine *m, uint64_t seq, struct place place,
                                 uint64_t group);
void msg_edit_end(struct msg_edit *edit);
void msg_edit_discard(struct msg_edit *edit); // the record is not complete: the load failed
void msg_free(struct machine *m, uint32_t h);
void msg_move(struct machine *m, uint32_t h, enum message_state to);
void msg_mark(struct machine *m, uint64_t slot);
void msg_unmark(struct machine *m, uint64_t slot);
void lock_need(struct machine *m, uint32_t h); // gives the record a lock row if it has none
void lock_drop(struct machine *m, uint32_t h);
uint64_t group_hash(struct bytes group);

// ready.c: which messages can be delivered, and in which order
void backlog_add(struct machine *m, uint64_t seq, uint32_t skip);
void backlog_break(struct machine *m);
void backlog_clear(struct machine *m);
void backlog_push(struct machine *m, const struct range *range); // for snapshots
const struct range *backlog_at(const struct machine *m, size_t index);
const struct range *backlog_find(const struct machine *m, uint64_t seq);
void ready_offer(struct machine *m, uint32_t h);    // the record became READY
void ready_withdraw(struct machine *m, uint32_t h); // the record is READY and leaves
// What a worker can get: messages that require nothing, and those in these lanes.
struct reach_lanes {
    uint64_t lanes;
    uint32_t row; // its own lane; 0: none
};
static inline struct reach_lanes reach_of(const struct machine *m, uint32_t w)
{
    const struct registration *row = m->rows > 0 ? m->workers[w].row : NULL; // row 0 has none
    return row ? (struct reach_lanes){.lanes = row->matches, .row = w} : (struct reach_lanes){0};
}
// The next message within reach, or this one if it is next in its scope: withdrawn, or none.
MUST_USE struct msg_edit ready_take(struct machine *m, const struct reach_lanes *reach);
MUST_USE struct msg_edit ready_take_chosen(struct machine *m, uint64_t seq);
bool ready_any(const struct machine *m, const struct reach_lanes *reach);
// The record of a message that is not finished. A message of the backlog gets one. 0: finished.
uint32_t ready_record(struct machine *m, uint64_t seq);
// Whether a message of the backlog comes next within reach, and its key.
bool backlog_head(const struct machine *m, uint32_t row, struct heap_row *out);
bool heap_row_before(const struct heap_row *a, const struct heap_row *b);
void ready_rebuild(struct machine *m); // after a change of orderingMode
void scope_enter(struct machine *m, uint32_t h);
void scope_leave(struct machine *m, uint32_t h); // finished: the next may be delivered
void scope_refresh(struct machine *m, uint32_t scope);
int64_t order_key(const struct msg *msg);
uint64_t order_tie(const struct machine *m, const struct msg *msg);

// locks.c: giving and ending locks, the failure strategy
struct death_policy {
    enum message_state state; // READY, DELAYED, DEAD or OUTBOUND
    bool counted;             // the retry counter rises
    enum dead_cause cause;
};
struct death_policy failure_policy(const struct machine *m, const struct msg *msg, bool failed);
// Locks the next message, or this one. Returns 0 if ready_take gives none.
uint32_t lock_grant(struct machine *m, uint32_t worker, const uint8_t seed[16], int64_t deadline,
                    bool ticket);
uint32_t lock_grant_chosen(struct machine *m, uint64_t seq, uint32_t worker, const uint8_t seed[16],
                           int64_t deadline);
// The ticket is taken; does nothing without a ticket.
void ticket_use(struct machine *m, uint32_t h);
void lock_extend(struct machine *m, uint32_t h, int64_t deadline);
void lock_finish(struct machine *m, uint32_t h, const struct retained_source *result); // processed
void lock_give_back(struct machine *m, uint32_t h, int64_t due, enum lock_end end);
void lock_abandon(struct machine *m, uint32_t h); // removes it from every heap
void open_leave(struct machine *m, uint32_t h);
// The lock ends by an interrupt: READY, CANCELLED, DEAD or OUTBOUND. The record is being edited.
void lock_stop(struct machine *m, uint32_t h, enum message_state state, bool expired,
               struct op_place why);
enum outcome_status lock_fail(struct machine *m, uint32_t h, bool failed, int64_t *until);
enum reason lock_check(const struct machine *m, const struct lock_ref *ref, uint32_t *h);
void lock_expire(struct machine *m, uint32_t h); // its deadline passed

// outcome.c: renew, ack, fail, release
void outcomes_hold(struct machine *m, const struct machine_entry *e);
void outcomes_unhold(struct machine *m);
bool is_here(const struct machine *m, const struct queue_id *queue, uint32_t shard);

// outbox.c: dead letters
// The record is LOCKED and becomes DEAD or OUTBOUND.
// why: the op with the reason; slot 0: none
void dead_list_add(struct machine *m, uint32_t h, enum message_state state, enum dead_cause cause,
                   struct op_place why);
void dead_list_link(struct machine *m, uint32_t h);
void dead_list_unlink(struct machine *m, uint32_t h);
struct letter_source *source_need(struct machine *m, const struct queue_id *queue, uint32_t shard);
void source_raise(struct machine *m, struct letter_source *s, uint64_t number);
extern const struct row_table source_rows;

// claim.c: delivery
struct grant grant_of(const struct machine *m, uint32_t h); // of a locked record
bool gives_only_tickets(const struct machine *m);
void grant_report(struct machine *m, uint32_t h, uint32_t worker_row); // a row of the result
// Best-effort order: a batch that delivers a message while an earlier one is still open.
struct overtaken_batch {
    struct heap_row top; // the first open message before the batch
    uint64_t open;       // open messages before the batch; 0: none to overtake
    bool seen;
};
struct overtaken_batch overtaking_begin(const struct machine *m);
void overtaking_look(const struct machine *m, struct overtaken_batch *o, uint32_t h);
void overtaking_end(struct machine *m, const struct overtaken_batch *o); // emits the event

// admin.c: the record leaves the queue. to: PURGED or CANCELLED
void record_drop(struct machine *m, uint32_t h, enum message_state to);

// cancel.c: a message that no worker holds ends as CANCELLED. text: why, for its event
void message_cancel(struct machine *m, uint32_t h, struct bytes text);

// send.c: a message enters the queue: READY or DELAYED, in the backlog or with a record. The caller
// has decided whether it belongs to its workflow.
uint64_t message_enter(struct machine *m, const struct message *msg, int64_t due, uint32_t skip,
                       bool in_workflow);
uint64_t messages_held(const struct machine *m); // is compared with capacity
