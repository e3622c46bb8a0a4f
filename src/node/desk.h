// SPDX-License-Identifier: Apache-2.0
// A desk: one shard of a queue on a real store, with blocking calls that any thread may make. Other
// processes may have desks of the same shard; the journal keeps them from contradicting each other.
#pragma once

#include "node/driver.h"
#include "shard/shard.h"
#include "store/store.h"

struct desk_config {
    struct crew *crew; // borrowed: serves its desks in the background; NULL: one of the desk's own
    struct journal_id id;
    char queue[QUEUE_NAME_MAX + 1];
    struct queue_config birth;
    struct journal_rules rules; // all zero: the defaults
    bool from_oldest;           // fold from the oldest entry that is kept
    bool keeps_events;
    bool keeps_time;
    bool moves_letters;
    struct shard_totals *totals; // as in shard_config
    bool no_courtesy;    // do not pause for a live owner's sake: for tests whose time is their own
    int64_t patience_ms; // how long a call may take beside waiting for messages; 0: 30 s
};

struct desk;

MUST_USE enum err desk_open(struct store *s, const struct desk_config *config, struct desk **out);
void desk_close(struct desk *d); // NULL is fine; no call may be in progress

// What a call brought. Init once, pass to any number of calls, release at the end.
struct desk_answer {
    struct buf body;             // the fold's result (queue/result.h)
    struct delivery *deliveries; // receive: views into text
    size_t deliveries_len;
    struct reason_text *reasons; // desk_read: too
    size_t reasons_len;
    struct buf text;
    char why[STORE_WHY_MAX]; // what the store said, when it is to blame for an error; may be empty
};

void desk_answer_init(struct desk_answer *a);
void desk_answer_done(struct desk_answer *a);

// Fills in what every ack, fail, release or renewal carries: which shard gave the lock, and when
// the word of it reached us.
void desk_outcome_origin(struct desk *d, struct op_outcome *op);
// Any op of queue/ops.h. ERR_OK, a refusal (its reason is in the body), or what the store did to
// it.
MUST_USE enum err desk_do(struct desk *d, struct op op, struct desk_answer *a);
// Waits up to wait_ms for something to claim; none is ERR_OK too.
MUST_USE enum err desk_receive(struct desk *d, const struct op_claim *claim, int64_t wait_ms,
                               struct desk_answer *a);
// Reads messages, as deliveries, and the reasons of failures.
MUST_USE enum err desk_read(struct desk *d, const struct shard_wants *wants, struct desk_answer *a);
MUST_USE static inline enum err desk_fetch(struct desk *d, const struct place *places, size_t count,
                                           struct desk_answer *a)
{
    return desk_read(d, &(struct shard_wants){.places = places, .places_len = count}, a);
}
MUST_USE enum err desk_sync(struct desk *d);
// What the store said to the last request, if that failed, with this error or one that stands for
// it; else empty. For errors of calls that bring no answer.
void desk_why(struct desk *d, enum err err, char out[static STORE_WHY_MAX]);

// The same without waiting, for those who have more calls than threads. Embed one in what is to be
// known afterwards; `then` is called once, on any thread, perhaps before the call returns. It
// should be quick: the journal's next commit waits for it. l lives until `then` has returned, or
// the call was cancelled.
struct desk_later {
    struct desk_call {
        struct waiter waiter;
        enum err err;
        struct desk_answer *answer; // NULL: only the error matters
    } call;
    struct desk_answer answer;
    struct desk *desk;
    void (*then)(struct desk_later *l, enum err err, struct desk_answer *a); // a is released after
};
void desk_do_later(struct desk *d, struct op op, struct desk_later *l);
void desk_receive_later(struct desk *d, const struct op_claim *claim, int64_t wait_ms,
                        struct desk_later *l);
// shard_receive_after: op, answered to `done`, and a receive behind it.
void desk_receive_after_later(struct desk *d, struct op op, struct desk_later *done,
                              const struct op_claim *claim, int64_t wait_ms, struct desk_later *l);
// The same for one who waits for the receive; `done` is called all the same, perhaps after this has
// returned.
MUST_USE enum err desk_receive_after(struct desk *d, struct op op, struct desk_later *done,
                                     const struct op_claim *claim, int64_t wait_ms,
                                     struct desk_answer *a);
// ERR_OK: there is something to claim; ERR_NOT_FOUND: there was not, for wait_ms.
void desk_await_later(struct desk *d, struct bytes worker, int64_t wait_ms, struct desk_later *l);
// shard_recall: what the claim's request id brought earlier.
void desk_recall_later(struct desk *d, const struct op_claim *claim, bool looks,
                       struct desk_later *l);
void desk_pass_on(struct desk *d); // one who was told so by an await will not claim
// A receive or await that waits is forgotten: true, and `then` is not called. False: it was, or
// will be soon.
bool desk_cancel(struct desk *d, struct desk_later *l);
// Who owns the shard, as far as the desk has folded its journal.
struct desk_owner {
    uint64_t epoch; // 0: nobody ever did
    uint8_t coord[16];
    uint64_t token;
    char address[JOURNAL_ADDRESS_MAX + 1]; // "" unless it is text
    int64_t
        seen_at; // store time of the newest entry that the owner wrote; TIME_DAWN: none was seen
    bool mine;   // this desk is it
};
void desk_owner(struct desk *d, struct desk_owner *out);
void desk_owner_away(struct desk *d); // it does not answer: journal_owner_away
MUST_USE enum err desk_own(struct desk *d, uint64_t expected, const struct journal_owner *owner);
MUST_USE enum err desk_touch(struct desk *d); // commits an entry, so that the fold's time moves on
bool desk_dispatch(struct desk *d);           // shard_dispatch with fresh random bits

// Carries the dead letters that are there, one after another: carry puts op into shard 0 of the
// queue `to` and answers whether it is there now. Returns how many were carried.
typedef enum err desk_carry_fn(void *ctx, const char *to, struct op op);
size_t desk_carry(struct desk *d, desk_carry_fn *carry, void *ctx);

// For the shard's books: what was asked of the store beside the desk.
void desk_note_cost(struct desk *d, const struct store_answer *answer);
struct interval desk_time(struct desk *d); // the store's clock, as well as it is known
// Looks at the state of the last entry folded, under the desk's lock.
typedef void desk_look_fn(void *ctx, const struct machine *m, int64_t now);
void desk_look(struct desk *d, desk_look_fn *look, void *ctx);
// Waits until there are events that were not taken, or the tail was reached; then up to wait_ms for
// the next entry.
MUST_USE enum err desk_follow(struct desk *d, int64_t wait_ms);
size_t desk_waiting(struct desk *d); // receives that wait for something to claim
void desk_tally(struct desk *d, struct shard_tally *to); // what it has seen so far
// The events since the last call, in order; under the desk's lock.
typedef void desk_event_fn(void *ctx, const struct events *list, const struct event *e);
void desk_events(struct desk *d, desk_event_fn *on_event, void *ctx);
