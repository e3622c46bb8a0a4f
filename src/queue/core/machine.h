// SPDX-License-Identifier: Apache-2.0
// The queue as a pure machine: the state of one shard is the fold of its journal's entries. An
// entry goes in, results and events come out. There is no clock, no randomness and no I/O. The same
// entries give the same state, results, events and digest in every process, with or without
// snapshots between.
//
// Time: the machine first advances to max(before, entry.now): delays end and locks expire.
// Deadlines count from entry.time.hi. If a renewal, ack, fail or release arrived before its lock's
// deadline, it is honoured even if its entry is later.
//
// Memory: a plain ready message costs nothing (ready.c). A message with its own state costs 48
// bytes and an index row.
//
// The journal calls it through struct fold: reset, apply, recall, save, load, digest and needs are
// machine_reset and so on, with the same meaning. The journal must not pass void entries. A slot
// that was not passed is never read for a body.
#pragma once

#include "base/interval.h"
#include "base/op.h"
#include "queue/codec/config.h"
#include "queue/codec/event.h"
#include "queue/codec/message.h"
#include "queue/codec/ops.h"
#include "queue/codec/result.h"
#include "queue/core/rules.h"
#include "queue/tables/signal_view.h"

struct machine;

struct machine_entry {
    uint64_t slot;
    struct interval time;
    int64_t now;
    uint64_t epoch;     // 0: written directly; else by the owner
    struct bytes bytes; // the whole entry; the machine does not read it
    const struct op *ops;
    size_t ops_len;
};

// birth: the configuration at the queue's creation.
struct machine *machine_new(const struct queue_id *queue, uint32_t shard,
                            const struct queue_config *birth);
void machine_free(struct machine *m); // accepts NULL
void machine_reset(struct machine *m);

// Applies every op of the entry in order. Kinds under OP_KIND_MACHINE are skipped, and their
// results are left unchanged. results (one row per op) and text go together; events are appended.
// Each may be NULL.
void machine_apply(struct machine *m, const struct machine_entry *e, struct op_result *results,
                   struct buf *text, struct events *events);
// Returns the stored answer to the request id of this op. Answers are kept for REQUEST_KEEP_MS, and
// only the newest REQUEST_BYTES_MAX bytes of them. If the request id was used for another kind of
// op, the answer is REASON_REQUEST_REUSED.
bool machine_recall(const struct machine *m, const struct op *op, struct op_result *result,
                    struct buf *text);

#define REQUEST_KEEP_MS   (INT64_C(10) * 60 * 1000)
#define REQUEST_BYTES_MAX ((size_t)32 << 20)
#define BODY_AGE_MAX_MS   (INT64_C(3600) * 1000) // limit of a body's age when it is sent
#define WORKERS_MAX       16384
#define REQUIREMENTS_MAX  64 // different `requires` of pending messages
#define SNAPSHOT_VERSION  1

void machine_save(const struct machine *m, struct buf *out);
// CORRUPT: the state is reset.
MUST_USE enum err machine_load(struct machine *m, struct bytes saved);
uint64_t machine_digest(const struct machine *m); // O(1)
// Returns whether these slots hold the bytes of an unfinished message, or the reason of its newest
// failure. May return true for up to PLACE_SPAN slots too many.
bool machine_needs(const struct machine *m, uint64_t first, uint64_t last);
// Exact answers: if one of these returns true for a slot, the slot was never dropped
// (live_slots.c). All but machine_backlog_in read every record. machine_backlog_in is about plain
// ready messages.
bool machine_backlog_in(const struct machine *m, uint64_t first, uint64_t last);
// An unfinished message, or a finished one whose body is kept.
bool machine_lives_at(const struct machine *m, struct place place);
// The reason of the newest failure of an unfinished message.
bool machine_reason_lives_at(const struct machine *m, uint64_t slot, uint32_t op);
// Sets live[i] if slot first + i holds the first bytes of an unfinished message or a part of the
// backlog.
void machine_live_slots(const struct machine *m, uint64_t first, size_t count, bool *live);
// Returns whether a message refers to the uploaded body of this name (queue/codec/body_name.h).
// BODY_FREE is final: no later state refers to it.
enum body_hold {
    BODY_FREE,
    BODY_YET, // not referred to yet; an entry may refer to it until it is stale
    BODY_HELD,
};
enum body_hold machine_holds(const struct machine *m, struct bytes name);
// Returns the i-th message with an uploaded body, in no order, and the first part of the random
// number in that body's name. False: there are no more.
bool machine_body(const struct machine *m, size_t i, uint64_t *seq, uint64_t *key);

// CHECKs every invariant that is visible inside the machine: one token per open message, counts add
// up (I3, I5), one open message per strict scope and the right one on offer (I6), indexes agree.
void machine_check(const struct machine *m);

int64_t machine_now(const struct machine *m);
uint64_t machine_slot(const struct machine *m);
// When the next delay ends, or the next lock, ticket or worker's registration expires. An entry
// should be committed then.
int64_t machine_wake_at(const struct machine *m);
bool machine_has_locks(const struct machine *m); // as folded: some may have expired since
const struct queue_config *machine_config(const struct machine *m);
uint64_t machine_config_version(const struct machine *m); // 1 at birth
uint16_t machine_rules(const struct machine *m);          // queue/core/rules.h
// The version that an entry with these ops needs: the state's, or one to which an op raises it.
uint16_t machine_rules_needed(const struct machine *m, const struct op *ops, size_t ops_len);
uint64_t machine_event_count(const struct machine *m); // events so far
// The publisher's cursor: the events of all slots up to `slot` are on the bus, and `sequence` is
// the number of the last one. False: the shard is not published (never, or no longer).
bool machine_published(const struct machine *m, uint64_t *slot, uint64_t *sequence);
// What is not published yet. Age and size are upper bounds, and at most a minute or 16 MiB too high
// while the lag is short. False: the shard is not published, or its queue has publish=off.
struct machine_publish_lag {
    uint64_t events;
    int64_t age_ms; // of the oldest entry
    uint64_t bytes; // of the entries
    bool overdue;   // past publishKeep or publishKeepBytes
};
bool machine_unpublished(const struct machine *m, int64_t now, struct machine_publish_lag *out);
// The highest slot that a floor may reach; UINT64_MAX: any.
uint64_t machine_floor_limit(const struct machine *m, int64_t now);
bool machine_paused(const struct machine *m);
// Only the shard's owner hands out messages: the fold refuses every other claim (`consume`).
bool machine_owner_only(const struct machine *m);
bool machine_deleted(const struct machine *m);

// clang-format off
// The life of a message. States marked * have a record. In the other states the message is part of
// a range, or is finished.
//
//               send         claim, publish, lock      ack
//     (none) ---------> READY -----------------> LOCKED* --------> PROCESSED
//        |               ^  ^                     | | |
//        | delay     due |  '-- expire, release --' | |
//        '---------> DELAYED* <---- fail: wait -----' |   fail, expire: retries used up
//                                                     '---------> DEAD* ------> REDRIVEN (redrive)
//     purge: READY, DELAYED, DEAD --> PURGED          '---------> OUTBOUND* --> MOVED    (arrived)
//     cancel: READY, DELAYED, a ticket that is not taken --> CANCELLED; DEAD --> PURGED
//     interrupt: LOCKED, when the lock ends --> CANCELLED, READY, or DEAD and OUTBOUND
// clang-format on
enum message_state {
    STATE_READY,
    STATE_DELAYED,
    STATE_LOCKED,
    STATE_PROCESSED,
    STATE_DEAD,     // retries used up; it stays for inspection and redrive
    STATE_OUTBOUND, // on its way to the dead-letter queue
    STATE_MOVED,    // arrived in the dead-letter queue
    STATE_REDRIVEN, // a new message replaces it
    STATE_PURGED,
    STATE_CANCELLED,
    STATE_COUNT
};
const char *message_state_name(enum message_state s);

// sent is the sum of counts at every slot.
struct machine_stats {
    uint64_t sent;
    uint64_t counts[STATE_COUNT];
    uint64_t tickets;    // of the locked messages: tickets that are not taken yet
    uint64_t waiting;    // of the delayed messages: waiting for a retry
    uint64_t granted;    // locks given in total: the last fence
    uint64_t duplicates; // sends that dedup answered
    uint64_t refused;    // claims that `consume` refused
    uint64_t workers;    // registered
    uint64_t ranges;     // ranges of the backlog
    uint64_t records;    // messages with a record
    uint64_t requests;   // stored answers
    uint64_t bodies;     // uploaded bodies that messages refer to
    uint64_t finished;   // rows about finished messages
    uint64_t signals;    // pending
    uint64_t ended;      // rows about signals that have ended
    uint64_t results;    // results of finished messages that are kept
    uint64_t result_bytes;
    uint64_t retained; // finished messages whose bodies are kept
    // Of dead letters that have not arrived: when the oldest one died. 0: all have.
    int64_t outbound_since;
    bool takes_letters; // a dead letter of another queue has arrived here
};
void machine_stats(const struct machine *m, int64_t now, struct machine_stats *out);
// Locks that expired while this machine folded: for metrics; not part of the state.
uint64_t machine_expired(const struct machine *m);

// The reported cost of store requests for this shard. Hours are hours of the clock.
struct machine_cost {
    struct cost total;
    struct cost this_hour;
    struct cost last_hour;
    int64_t hour_ms; // elapsed part of this hour
};
void machine_spent(const struct machine *m, int64_t now, struct machine_cost *out);

// Returns whether a claim by this worker (empty: any) would get a message at that moment.
bool machine_claimable(const struct machine *m, int64_t now, struct bytes worker);
// Returns why a claim is certain to be refused, or a send certain to exceed the capacity;
// REASON_NONE: neither.
enum reason machine_refuses(const struct machine *m, uint16_t kind, uint32_t count);
// Returns why a claim by this worker is certain to be refused: an operator paused, drains or
// evicted it.
enum reason machine_refuses_worker(const struct machine *m, struct bytes worker);

struct message_view {
    uint64_t seq;
    enum message_state state;
    struct place place;
    uint32_t deliveries;
    uint32_t retries;
    uint8_t priority;
    bool ticket;
    int64_t until;       // LOCKED: deadline; DELAYED: due time; else 0
    uint64_t fence;      // of the current or last lock
    uint64_t order;      // LOCKED: of its ticket; else 0
    struct bytes worker; // LOCKED: the holder; view into the machine
    int64_t died_at;     // DEAD, OUTBOUND
    enum dead_cause cause;
    uint64_t reason_slot;   // slot of the fail op whose reason ended it; 0: none
    uint32_t reason_op;     // index of that op in its entry
    uint64_t outbox_number; // OUTBOUND
};
// ERR_NOT_FOUND: never sent. ERR_CONFLICT: finished and no longer stored (processed, moved,
// redriven, purged or cancelled).
MUST_USE enum err machine_find(const struct machine *m, uint64_t seq, int64_t now,
                               struct message_view *out);
// Writes the newest failures of a message, the oldest first, and returns their number. A finished
// message and a message that never failed have none. Failures that an older version folded are
// missing, except for the last failure of a dead message, which then has no worker.
#define FAILURES_KEPT 8
enum failure_kind { FAILURE_FAILED, FAILURE_EXPIRED, FAILURE_KIND_COUNT };
const char *failure_kind_name(enum failure_kind kind); // "failed", "lock-expired"
struct failure_view {
    uint32_t attempt;
    int64_t at;          // when the worker reported it; for an expiry: the lock's deadline
    struct bytes worker; // holder of the lock; empty: not known. View into the machine
    enum failure_kind kind;
    // FAILURE_FAILED: slot of the fail op. The slot of the newest failure is kept.
    uint64_t slot;
    uint32_t op; // index of that op in its entry
};
size_t machine_failures(const struct machine *m, uint64_t seq, int64_t now,
                        struct failure_view out[static FAILURES_KEPT + 1]);
// How a message ended. Kept for the setting `retention`, for the newest FINISHED_MAX rows of
// messages. False: not kept, or it did not end.
// A dead letter that is still OUTBOUND has a row, too: machine_find has its present state.
#define FINISHED_MAX 100000
enum finished_outcome {
    FINISHED_PROCESSED,
    FINISHED_DEAD_LETTERED,
    FINISHED_PURGED,
    FINISHED_REDRIVEN, // a new message replaces it
    FINISHED_CANCELLED,
    FINISHED_COUNT
};
const char *finished_outcome_name(enum finished_outcome outcome); // "dead-lettered"
struct finished_view {
    uint64_t seq;
    enum finished_outcome outcome;
    int64_t at;
    uint32_t attempts;
    struct bytes worker; // the last one; empty: none took part. View into the machine
    // queue/tables/signal_view.h; slot 0: none.
    struct op_place result; // PROCESSED: of the ack that carried it
    struct op_place reason; // CANCELLED, DEAD_LETTERED: of the op that says why
    struct place body;      // retainBody: where the message's bytes are; not of purged messages
};
bool machine_finished(const struct machine *m, uint64_t seq, int64_t now,
                      struct finished_view *out);
// Lists finished messages, the newest first: those that ended before this one, or all of them
// (NULL). Only at and seq of `before` are read. If that message is no longer kept, the list goes on
// with the messages that ended before its time.
size_t machine_finished_list(const struct machine *m, int64_t now,
                             const struct finished_view *before, struct finished_view *out,
                             size_t max);
// Workflows. A run begins with its first message. It ends
// when a message that is marked as the last was sent and none is open. The rows of ended workflows
// stay for the setting `retention`, and those that wait for a message for a day.
#define WORKFLOWS_MAX 100000
enum workflow_state { WORKFLOW_OPEN, WORKFLOW_COMPLETED, WORKFLOW_FAILED, WORKFLOW_STATE_COUNT };
const char *workflow_state_name(enum workflow_state state); // "completed"
struct workflow_view {
    struct bytes id; // view into the machine
    uint64_t number; // of the row: rises
    enum workflow_state state;
    uint64_t open; // messages of this run
    uint64_t done;
    uint64_t failed;    // dead, or dead-lettered
    uint64_t cancelled; // cancelled, or purged
    uint32_t run;       // from 1
    int64_t begun;
    int64_t seen; // when a message was sent or ended
    bool saw_last;
};
bool machine_workflow(const struct machine *m, struct bytes id, struct workflow_view *out);
// Rows with a number over `after`, by number.
size_t machine_workflows(const struct machine *m, uint64_t after, struct workflow_view *out,
                         size_t max);
// The first messages of a workflow that are not gone, by number: unfinished, dead and outbound.
size_t machine_workflow_messages(const struct machine *m, struct bytes id, uint64_t *out,
                                 size_t max);
// The messages of the workflow's run that have finished and of which machine_finished tells more,
// in the order in which they ended, without those that were redriven. It knows the newest 100,000
// such messages of all workflows. machine_workflow_messages has none of them.
size_t machine_workflow_finished(const struct machine *m, struct bytes id, int64_t now,
                                 uint64_t *out, size_t max);
uint32_t machine_workflow_count(const struct machine *m);
// Returns up to max messages in that state with seq > after, by seq. It reads all records, so it is
// for users and tools.
size_t machine_list(const struct machine *m, enum message_state state, uint64_t after, int64_t now,
                    struct message_view *out, size_t max);
// REASON_NONE: the lock is in force, as folded; it may have expired since. Else why it is not.
enum reason machine_lock(const struct machine *m, const struct lock_ref *ref);
// The tickets of a worker, in order.
size_t machine_tickets(const struct machine *m, struct bytes worker, struct grant *out, size_t max);
// The dead letters to move, by number. The mover commits each in the dead-letter queue with
// OP_ARRIVE, then commits OP_OUTBOX here.
size_t machine_outbox(const struct machine *m, struct message_view *out, size_t max);

enum worker_mode { WORKER_RUNNING, WORKER_IS_PAUSED, WORKER_IS_DRAINING, WORKER_IS_EVICTED };
const char *worker_mode_name(enum worker_mode mode); // "running", "paused", "draining", "evicted"

struct worker_view {
    struct bytes name;
    uint32_t capacity; // 0: not registered
    uint32_t open;     // locks and tickets
    int64_t expires_at;
    // Of a registered worker; else 0 and empty.
    uint64_t instance; // 0: no such row
    int64_t ttl_ms;
    uint32_t flags;      // enum worker_flag
    struct bytes labels; // canonical; view into the machine
    int64_t since;       // when it joined
    int64_t last_seen;
    enum worker_mode mode;
    uint64_t done;   // messages that it processed since it joined
    uint64_t failed; // messages that it failed, or whose lock expired
};
// Returns workers by name; index from 0. False past the last one.
bool machine_worker(const struct machine *m, size_t index, struct worker_view *out);
bool machine_worker_find(const struct machine *m, struct bytes name, struct worker_view *out);
// Returns whether ready messages require labels: a registered worker may get what others may not.
bool machine_requires(const struct machine *m);
// Returns whether an OP_DISPATCH in the next entry of the owner would grant something.
bool machine_dispatchable(const struct machine *m);
// Returns whether a row has room for a ticket. The owner then keeps the time: it commits an entry
// when a delay ends or a lock expires.
bool machine_dispatches(const struct machine *m);
// The rows of OP_WORKERS that are not evicted. 0: no dispatch and no heartbeat is needed.
uint32_t machine_rows(const struct machine *m);
// It rises when a worker was paused, drained or evicted. It is no part of the state.
uint64_t machine_orders(const struct machine *m);
