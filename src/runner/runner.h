// SPDX-License-Identifier: Apache-2.0
// A shard runner: one shard of a queue on a real store, with blocking calls for any thread. Other
// processes can run the same shard. The journal keeps all of them consistent.
#pragma once

#include "runner/driver.h"
#include "runner/rollout.h"
#include "shard/kept_reply.h"
#include "shard/shard.h"
#include "store/store.h"

struct runner_config {
    // Borrowed. Runs the background work of the runner. NULL: the runner makes its own pool.
    struct thread_pool *pool;
    struct journal_id id;
    char queue[QUEUE_NAME_MAX + 1];
    struct queue_config birth;
    struct journal_rules rules; // all zeros: the defaults
    bool from_oldest;           // fold from the oldest entry that still exists
    bool keeps_events;
    bool keeps_time;
    bool moves_dead_letters;
    struct shard_totals *totals;       // as in shard_config
    struct dispatch_rollout *dispatch; // borrowed; NULL: on
    // Do not pause for a live owner. For tests that control time.
    bool no_courtesy;
    // How long a call may take, without the time it waits for messages. 0: 30 s.
    int64_t patience_ms;
};

struct shard_runner;

MUST_USE enum err runner_open(struct store *s, const struct runner_config *config,
                              struct shard_runner **out);
void runner_close(struct shard_runner *r); // NULL is allowed; no call may be in progress

// Sets the fields that each ack, fail, release or renewal needs: the shard that granted the lock,
// and the time when the request reached this process.
void runner_outcome_origin(struct shard_runner *r, struct op_outcome *op);
// Commits any op of queue/codec/ops.h. Returns ERR_OK, a refusal (its reason is in the body) or the
// store's error.
MUST_USE enum err runner_do(struct shard_runner *r, struct op op, struct kept_reply *a);
// Waits up to wait_ms for something to claim. Returns ERR_OK also if there was nothing.
MUST_USE enum err runner_receive(struct shard_runner *r, const struct op_claim *claim,
                                 int64_t wait_ms, struct kept_reply *a);
// Reads messages, as deliveries, and texts.
MUST_USE enum err runner_read(struct shard_runner *r, const struct shard_places *wants,
                              struct kept_reply *a);
MUST_USE static inline enum err runner_fetch(struct shard_runner *r, const struct place *places,
                                             size_t count, struct kept_reply *a)
{
    return runner_read(r, &(struct shard_places){.places = places, .places_len = count}, a);
}
MUST_USE enum err runner_sync(struct shard_runner *r);
// If the last store request failed with err, or err is a timeout that such a failure caused: copies
// what the store reported. Otherwise out is empty. For calls that have no kept_reply.
void runner_why(struct shard_runner *r, enum err err, char out[static STORE_WHY_MAX]);

// The same calls without waiting, for callers with more calls than threads. Embed the struct in the
// caller's own. The runner calls `then` once, on any thread, perhaps before the call returns.
// `then` must be quick: the next commit of the journal waits for it. l must stay valid until `then`
// has returned or the call was cancelled.
struct runner_async {
    struct runner_call {
        struct waiter waiter;
        enum err err;
        struct kept_reply *answer; // NULL: the caller needs only the error
    } call;
    struct kept_reply answer;
    struct shard_runner *runner;
    // The runner releases a afterwards.
    void (*then)(struct runner_async *async, enum err err, struct kept_reply *a);
};
void runner_do_async(struct shard_runner *r, struct op op, struct runner_async *a);
void runner_sync_async(struct shard_runner *r, struct runner_async *a);
void runner_receive_async(struct shard_runner *r, const struct op_claim *claim, int64_t wait_ms,
                          struct runner_async *a);
// shard_receive_after: commits op, whose answer goes to `done`, and then receives.
void runner_receive_after_async(struct shard_runner *r, struct op op, struct runner_async *done,
                                const struct op_claim *claim, int64_t wait_ms,
                                struct runner_async *a);
// The same, but the caller waits for the receive. The runner also calls `done`, perhaps after this
// function has returned.
MUST_USE enum err runner_receive_after(struct shard_runner *r, struct op op,
                                       struct runner_async *done, const struct op_claim *claim,
                                       int64_t wait_ms, struct kept_reply *a);
// ERR_OK: there is something to claim. ERR_NOT_FOUND: there was nothing for wait_ms.
void runner_await_async(struct shard_runner *r, struct bytes worker, int64_t wait_ms,
                        struct runner_async *a);
// shard_recall: the result of an earlier claim with the same request id.
void runner_recall_async(struct shard_runner *r, const struct op_claim *claim, bool sync,
                         struct runner_async *a);
// ERR_OK: there are events that were not taken. ERR_NOT_FOUND: none came for wait_ms.
void runner_follow_async(struct shard_runner *r, int64_t wait_ms, struct runner_async *a);
// shard_listen: signals for holders of locks, or the end of a signal.
void runner_listen_async(struct shard_runner *r, const struct shard_listen *what, int64_t wait_ms,
                         struct runner_async *a);
// A caller that an await notified will not claim: notify the next one.
void runner_notify_next(struct shard_runner *r);
// Cancels a receive, await, follow or listen that still waits. Returns true if `then` will not be
// called. Returns false if `then` was called or will be soon.
bool runner_cancel(struct shard_runner *r, struct runner_async *a);
// The same for a caller that waits on at another owner: the call keeps its deadline.
bool runner_withdraw(struct shard_runner *r, struct runner_async *a);
// The owner of the shard, as far as the runner has folded the journal.
struct runner_owner {
    uint64_t epoch; // 0: the shard never had an owner
    uint8_t coord[16];
    uint64_t token;
    char address[JOURNAL_ADDRESS_MAX + 1]; // "" unless it is text
    // Store time of the newest entry that the owner wrote. TIME_UNKNOWN: the runner saw none.
    int64_t seen_at;
    bool mine; // this runner is the owner
    // The newest version of the rules that the owner's program folds. 0: not known.
    uint16_t rules_newest;
};
void runner_owner(struct shard_runner *r, struct runner_owner *out);
void runner_owner_away(struct shard_runner *r); // the owner does not answer: journal_owner_away
MUST_USE enum err runner_own(struct shard_runner *r, uint64_t expected,
                             const struct journal_owner *owner);
// Makes the journal accept the tokens of another coordination service.
MUST_USE enum err runner_coord_switch(struct shard_runner *r, const uint8_t coord[16]);
// Commits an empty entry, so that the fold's time advances.
MUST_USE enum err runner_touch(struct shard_runner *r);
// shard_listed: the mailboxes were listed; TIME_NEVER: no worker has one.
void runner_listed(struct shard_runner *r, int64_t listed_at);
// The folder of the shard's objects, without a final '/'.
void runner_prefix(const struct shard_runner *r, char out[static JOURNAL_PREFIX_MAX + 1]);
bool runner_dispatch(struct shard_runner *r); // shard_dispatch with fresh random bits

// Moves the dead letters of the outbox, one after another. `move` commits op in shard 0 of the
// queue `to` and returns ERR_OK when the letter is there. Returns the number of letters moved.
typedef enum err runner_move_fn(void *ctx, const char *to, struct op op);
size_t runner_move_dead_letters(struct shard_runner *r, runner_move_fn *move, void *ctx);

// Adds the cost of a store request that was made outside the runner to the shard's cost ledger.
void runner_note_cost(struct shard_runner *r, const struct store_answer *answer);
// The store's clock, as precisely as it is known.
struct interval runner_time(struct shard_runner *r);
// Reads the state after the last folded entry. The callback runs under the runner's lock.
typedef void runner_inspect_fn(void *ctx, const struct machine *m, int64_t now);
void runner_inspect(struct shard_runner *r, runner_inspect_fn *inspect, void *ctx);
// The same for what every call asks, without the runner's lock.
enum runner_flag {
    RUNNER_DELETED = 1,
    RUNNER_BLOCKS_SENDERS = 2, // while the queue is full
    RUNNER_HAS_READY = 4,      // a message that can be claimed
};
bool runner_saw(const struct shard_runner *r, enum runner_flag flag);
// The same with the journal's own part of the state.
typedef void runner_read_fn(void *ctx, const struct journal *j, const struct machine *m,
                            int64_t now);
void runner_read_journal(struct shard_runner *r, runner_read_fn *read, void *ctx);
size_t runner_waiting(struct shard_runner *r); // receives that wait for something to claim
// The counters since the runner first reached the tail.
void runner_counters(struct shard_runner *r, struct shard_counters *to);
// Passes the events since the last call, in order. The callback runs under the runner's lock.
typedef void runner_event_fn(void *ctx, const struct events *list, const struct event *e);
void runner_events(struct shard_runner *r, runner_event_fn *on_event, void *ctx);
