// SPDX-License-Identifier: Apache-2.0
// The queue as a pure machine: the state of one shard is the fold of its journal's entries. Entry
// in, results and events out; no clock, no chance, no I/O. The same entries give the same state,
// results, events and digest, whoever folds them and whatever snapshots were taken in between.
//
// Time: the machine advances to max(before, entry.now) first: delays end, locks expire. Deadlines
// are counted from entry.time.hi. A renewal, ack, fail or release that arrived before its lock's
// deadline is honoured even if the entry that brings it is later.
//
// Memory: a plain pending message costs nothing (ready.c), one with a state of its own 48 bytes and
// an index row.
//
// To plug it into the journal: fold.reset/apply/recall/save/load/digest/needs are machine_reset/...
// with the same meaning. The journal must not show it void entries; a slot it was not shown is
// never read for a body.
#pragma once

#include "base/interval.h"
#include "base/op.h"
#include "queue/config.h"
#include "queue/event.h"
#include "queue/message.h"
#include "queue/ops.h"
#include "queue/result.h"

struct machine;

struct machine_entry {
    uint64_t slot;
    struct interval time;
    int64_t now;
    uint64_t epoch;     // 0: written directly; else by the owner
    struct bytes bytes; // the whole entry; not looked at
    const struct op *ops;
    size_t ops_len;
};

// birth: the configuration the queue was created with.
struct machine *machine_new(const struct queue_id *queue, uint32_t shard,
                            const struct queue_config *birth);
void machine_free(struct machine *m); // NULL is fine
void machine_reset(struct machine *m);

// Applies every op of the entry in order; kinds under OP_KIND_MACHINE are skipped and their results
// left alone. results (a row per op) and text go together; events are appended. Each may be NULL.
void machine_apply(struct machine *m, const struct machine_entry *e, struct op_result *results,
                   struct buf *text, struct events *events);
// The answer to an op with this request id, if it was given within REQUEST_KEEP_MS (and among the
// newest REQUEST_BYTES_MAX bytes of answers). A request id used for another kind of op answers
// REASON_REQUEST_REUSED.
bool machine_recall(const struct machine *m, const struct op *op, struct op_result *result,
                    struct buf *text);

#define REQUEST_KEEP_MS   (INT64_C(10) * 60 * 1000)
#define REQUEST_BYTES_MAX ((size_t)32 << 20)
#define BODY_AGE_MAX_MS   (INT64_C(3600) * 1000) // of an uploaded body when it is sent
#define WORKERS_MAX       4096
#define SNAPSHOT_VERSION  3

void machine_save(const struct machine *m, struct buf *out);
MUST_USE enum err machine_load(struct machine *m, struct bytes saved); // CORRUPT: the reset state
uint64_t machine_digest(const struct machine *m);                      // O(1)
// Does a live body, or the reason of a message's newest failure, lie in these slots? May say yes
// for up to PLACE_SPAN slots too many.
bool machine_needs(const struct machine *m, uint64_t first, uint64_t last);
// Exactly: slots for which one of these says yes were never dropped (living.c). All but the first
// look at every message that has a state.
bool machine_backlog_in(const struct machine *m, uint64_t first, uint64_t last); // ready, untouched
bool machine_lives_at(const struct machine *m, struct place place); // an unfinished message
// ... the reason of the newest failure of one
bool machine_reason_lives_at(const struct machine *m, uint64_t slot, uint32_t op);
// ... the first bytes of one, or some of the backlog, for each of count slots
void machine_live_slots(const struct machine *m, uint64_t first, size_t count, bool *live);
// Does a message refer to the uploaded body of this name (queue/body_name.h)? BODY_FREE is final:
// no later state will.
enum body_hold {
    BODY_FREE,
    BODY_YET, // nobody does, but an entry may, until the machine's time has moved on
    BODY_HELD,
};
enum body_hold machine_holds(const struct machine *m, struct bytes name);
// The i-th message with an uploaded body, in any order, and what begins the random part of that
// body's name. False: there are no more.
bool machine_body(const struct machine *m, size_t i, uint64_t *seq, uint64_t *key);

// Every invariant that can be seen from inside, CHECKed: one token per open message, counts add up
// (I3, I5), one open message per strict scope and the right one on offer (I6), indexes agree.
void machine_check(const struct machine *m);

int64_t machine_now(const struct machine *m);
uint64_t machine_slot(const struct machine *m);
// When a delay ends, a lock, a ticket or a worker's registration expires next: somebody should
// commit an entry then.
int64_t machine_wake_at(const struct machine *m);
bool machine_has_locks(const struct machine *m); // as folded: some may have expired since
const struct queue_config *machine_config(const struct machine *m);
uint64_t machine_config_version(const struct machine *m); // 1 at birth
bool machine_paused(const struct machine *m);
bool machine_deleted(const struct machine *m);

// clang-format off
// The life of a message. Those marked * have a record; the others are ranges, or gone.
//
//               send            claim, publish         ack
//     (none) ---------> READY -----------------> LOCKED* --------> PROCESSED
//        |               ^  ^                     | | |
//        | delay     due |  '-- expire, release --' | |
//        '---------> DELAYED* <---- fail: wait -----' |   fail, expire: retries used up
//                                                     '---------> DEAD* ------> REDRIVEN (redrive)
//     purge: READY, DELAYED, DEAD --> PURGED          '---------> OUTBOUND* --> MOVED    (arrived)
// clang-format on
enum message_state {
    STATE_READY,
    STATE_DELAYED,
    STATE_LOCKED,
    STATE_PROCESSED,
    STATE_DEAD,     // retries used up, stays to be seen and redriven
    STATE_OUTBOUND, // on its way to the dead-letter queue
    STATE_MOVED,    // arrived there
    STATE_REDRIVEN, // a new message continues it
    STATE_PURGED,
    STATE_COUNT
};
const char *message_state_name(enum message_state s);

// sent is the sum of counts at every slot.
struct machine_stats {
    uint64_t sent;
    uint64_t counts[STATE_COUNT];
    uint64_t tickets;    // of the locked ones: not taken up yet
    uint64_t waiting;    // of the delayed ones: for a retry
    uint64_t granted;    // locks ever given: the last fence
    uint64_t duplicates; // sends answered by dedup
    uint64_t workers;    // registered
    uint64_t ranges;     // what the plain backlog costs
    uint64_t records;    // messages with a record
    uint64_t requests;   // remembered answers
    uint64_t bodies;     // uploaded bodies that are referred to
};
void machine_stats(const struct machine *m, int64_t now, struct machine_stats *out);
// Locks that ran out while this machine folded: for whoever counts, no part of the state.
uint64_t machine_expired(const struct machine *m);

// What the store was asked for this shard's sake, as far as it was reported. Hours are the clock's.
struct machine_spent {
    struct cost total;
    struct cost this_hour;
    struct cost last_hour;
    int64_t hour_ms; // how much of this hour has passed
};
void machine_spent(const struct machine *m, int64_t now, struct machine_spent *out);

// Would a claim by this worker (empty: any) get something at that moment?
bool machine_claimable(const struct machine *m, int64_t now, struct bytes worker);
// Is a claim certain to be refused or a send certain to find no room? REASON_NONE: no.
enum reason machine_refuses(const struct machine *m, uint16_t kind, uint32_t count);

struct message_view {
    uint64_t seq;
    enum message_state state;
    struct place place;
    uint32_t deliveries;
    uint32_t retries;
    uint8_t priority;
    bool ticket;
    int64_t until;       // LOCKED: deadline; DELAYED: due; else 0
    uint64_t fence;      // of the current or last lock
    uint64_t order;      // LOCKED: of the ticket it came from; else 0
    struct bytes worker; // LOCKED: the holder; view into the machine
    int64_t died_at;     // DEAD, OUTBOUND
    enum dead_cause cause;
    uint64_t reason_slot;   // where the fail op is whose reason ended it; 0: none
    uint32_t reason_op;     // ... which op of that entry
    uint64_t outbox_number; // OUTBOUND
};
// ERR_NOT_FOUND: never sent. ERR_CONFLICT: finished and no longer held (processed, moved, redriven
// or purged).
MUST_USE enum err machine_find(const struct machine *m, uint64_t seq, int64_t now,
                               struct message_view *out);
// The newest failures of a message, the oldest first; how many. None of a message that is finished
// or never failed. Failures that were folded by an older version are missing, but for the last one
// of a dead message, which has no worker then.
#define FAILURES_KEPT 8
enum failure_kind { FAILURE_FAILED, FAILURE_EXPIRED, FAILURE_KIND_COUNT };
const char *failure_kind_name(enum failure_kind kind); // "failed", "lock-expired"
struct failure_view {
    uint32_t attempt;
    int64_t at;          // when the worker reported it; of an expiry: the lock's deadline
    struct bytes worker; // the holder of the lock; empty: not known. View into the machine
    enum failure_kind kind;
    uint64_t slot; // FAILURE_FAILED: where the fail op is; of the newest the slot is kept
    uint32_t op;   // ... which op of that entry
};
size_t machine_failures(const struct machine *m, uint64_t seq, int64_t now,
                        struct failure_view out[static FAILURES_KEPT + 1]);
// Up to max messages in that state with seq > after, by seq. Reads all records: for people and
// tools.
size_t machine_list(const struct machine *m, enum message_state state, uint64_t after, int64_t now,
                    struct message_view *out, size_t max);
// REASON_NONE: the lock is in force, as folded: it may have expired since. Else what has become of
// it.
enum reason machine_lock(const struct machine *m, const struct lock_ref *ref);
// Tickets waiting for a worker, in order.
size_t machine_tickets(const struct machine *m, struct bytes worker, struct grant *out, size_t max);
// Dead letters to move, by number: carry each to the dead-letter queue with OP_ARRIVE, then
// OP_OUTBOX.
size_t machine_outbox(const struct machine *m, struct message_view *out, size_t max);

struct worker_view {
    struct bytes name;
    uint32_t capacity; // 0: not registered
    uint32_t open;     // locks and tickets
    int64_t expires_at;
};
// Workers by name; index from 0. False past the last one.
bool machine_worker(const struct machine *m, size_t index, struct worker_view *out);
