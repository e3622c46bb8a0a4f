// SPDX-License-Identifier: Apache-2.0
// A desk: one shard of a queue on a real store, with blocking calls that any thread may make. Other
// processes may have desks of the same shard; the journal keeps them from contradicting each other.
#pragma once

#include "node/driver.h"
#include "shard/shard.h"
#include "store/store.h"

struct runner_config {
    struct thread_pool
        *pool; // borrowed: serves its desks in the background; NULL: one of the desk's own
    struct journal_id id;
    char queue[QUEUE_NAME_MAX + 1];
    struct queue_config birth;
    struct journal_rules rules; // all zero: the defaults
    bool from_oldest;           // fold from the oldest entry that is kept
    bool keeps_events;
    bool keeps_time;
    bool moves_dead_letters;
    struct shard_totals *totals; // as in shard_config
    bool no_courtesy;    // do not pause for a live owner's sake: for tests whose time is their own
    int64_t patience_ms; // how long a call may take beside waiting for messages; 0: 30 s
};

struct shard_runner;

MUST_USE enum err runner_open(struct store *s, const struct runner_config *config,
                              struct shard_runner **out);
void runner_close(struct shard_runner *d); // NULL is fine; no call may be in progress

// What a call brought. Init once, pass to any number of calls, release at the end.
struct runner_answer {
    struct buf body;             // the fold's result (queue/result.h)
    struct delivery *deliveries; // receive: views into text
    size_t deliveries_len;
    struct reason_text *reasons; // runner_read: too
    size_t reasons_len;
    struct buf text;
    char why[STORE_WHY_MAX]; // what the store said, when it is to blame for an error; may be empty
};

void runner_answer_init(struct runner_answer *a);
void runner_answer_done(struct runner_answer *a);

// Fills in what every ack, fail, release or renewal carries: which shard gave the lock, and when
// the word of it reached us.
void runner_outcome_origin(struct shard_runner *d, struct op_outcome *op);
// Any op of queue/ops.h. ERR_OK, a refusal (its reason is in the body), or what the store did to
// it.
MUST_USE enum err runner_do(struct shard_runner *d, struct op op, struct runner_answer *a);
// Waits up to wait_ms for something to claim; none is ERR_OK too.
MUST_USE enum err runner_receive(struct shard_runner *d, const struct op_claim *claim,
                                 int64_t wait_ms, struct runner_answer *a);
// Reads messages, as deliveries, and the reasons of failures.
MUST_USE enum err runner_read(struct shard_runner *d, const struct shard_wants *wants,
                              struct runner_answer *a);
MUST_USE static inline enum err runner_fetch(struct shard_runner *d, const struct place *places,
                                             size_t count, struct runner_answer *a)
{
    return runner_read(d, &(struct shard_wants){.places = places, .places_len = count}, a);
}
MUST_USE enum err runner_sync(struct shard_runner *d);
// What the store said to the last request, if that failed, with this error or one that stands for
// it; else empty. For errors of calls that bring no answer.
void runner_why(struct shard_runner *d, enum err err, char out[static STORE_WHY_MAX]);

// The same without waiting, for those who have more calls than threads. Embed one in what is to be
// known afterwards; `then` is called once, on any thread, perhaps before the call returns. It
// should be quick: the journal's next commit waits for it. l lives until `then` has returned, or
// the call was cancelled.
struct runner_async {
    struct runner_call {
        struct waiter waiter;
        enum err err;
        struct runner_answer *answer; // NULL: only the error matters
    } call;
    struct runner_answer answer;
    struct shard_runner *runner;
    void (*then)(struct runner_async *l, enum err err,
                 struct runner_answer *a); // a is released after
};
void runner_do_async(struct shard_runner *d, struct op op, struct runner_async *l);
void runner_receive_async(struct shard_runner *d, const struct op_claim *claim, int64_t wait_ms,
                          struct runner_async *l);
// shard_receive_after: op, answered to `done`, and a receive behind it.
void runner_receive_after_async(struct shard_runner *d, struct op op, struct runner_async *done,
                                const struct op_claim *claim, int64_t wait_ms,
                                struct runner_async *l);
// The same for one who waits for the receive; `done` is called all the same, perhaps after this has
// returned.
MUST_USE enum err runner_receive_after(struct shard_runner *d, struct op op,
                                       struct runner_async *done, const struct op_claim *claim,
                                       int64_t wait_ms, struct runner_answer *a);
// ERR_OK: there is something to claim; ERR_NOT_FOUND: there was not, for wait_ms.
void runner_await_async(struct shard_runner *d, struct bytes worker, int64_t wait_ms,
                        struct runner_async *l);
// shard_recall: what the claim's request id brought earlier.
void runner_recall_async(struct shard_runner *d, const struct op_claim *claim, bool looks,
                         struct runner_async *l);
void runner_notify_next(struct shard_runner *d); // one who was told so by an await will not claim
// A receive or await that waits is forgotten: true, and `then` is not called. False: it was, or
// will be soon.
bool runner_cancel(struct shard_runner *d, struct runner_async *l);
// Who owns the shard, as far as the desk has folded its journal.
struct runner_owner {
    uint64_t epoch; // 0: nobody ever did
    uint8_t coord[16];
    uint64_t token;
    char address[JOURNAL_ADDRESS_MAX + 1]; // "" unless it is text
    int64_t
        seen_at; // store time of the newest entry that the owner wrote; TIME_UNKNOWN: none was seen
    bool mine;   // this desk is it
};
void runner_owner(struct shard_runner *d, struct runner_owner *out);
void runner_owner_away(struct shard_runner *d); // it does not answer: journal_owner_away
MUST_USE enum err runner_own(struct shard_runner *d, uint64_t expected,
                             const struct journal_owner *owner);
MUST_USE enum err
runner_touch(struct shard_runner *d);         // commits an entry, so that the fold's time moves on
bool runner_dispatch(struct shard_runner *d); // shard_dispatch with fresh random bits

// Carries the dead letters that are there, one after another: carry puts op into shard 0 of the
// queue `to` and answers whether it is there now. Returns how many were carried.
typedef enum err runner_move_fn(void *ctx, const char *to, struct op op);
size_t runner_move_dead_letters(struct shard_runner *d, runner_move_fn *carry, void *ctx);

// For the shard's books: what was asked of the store beside the desk.
void runner_note_cost(struct shard_runner *d, const struct store_answer *answer);
struct interval runner_time(struct shard_runner *d); // the store's clock, as well as it is known
// Looks at the state of the last entry folded, under the desk's lock.
typedef void runner_inspect_fn(void *ctx, const struct machine *m, int64_t now);
void runner_inspect(struct shard_runner *d, runner_inspect_fn *look, void *ctx);
// Waits until there are events that were not taken, or the tail was reached; then up to wait_ms for
// the next entry.
MUST_USE enum err runner_follow(struct shard_runner *d, int64_t wait_ms);
size_t runner_waiting(struct shard_runner *d); // receives that wait for something to claim
void runner_counters(struct shard_runner *d, struct shard_counters *to); // what it has seen so far
// The events since the last call, in order; under the desk's lock.
typedef void runner_event_fn(void *ctx, const struct events *list, const struct event *e);
void runner_events(struct shard_runner *d, runner_event_fn *on_event, void *ctx);
