// SPDX-License-Identifier: Apache-2.0
// A shard: the journal and the queue's machine joined into one step function. Clients' ops come in,
// store requests, replies, events and dead letters go out. Pure: told the time, handed its
// randomness.
//
// Use it as a journal (journal/journal.h): shard_start, then the calls below; after each take all
// requests, replies and letters, and call shard_tick no later than shard_wake_at. One thread at a
// time.
#pragma once

#include "base/histogram.h"
#include "journal/journal.h"
#include "queue/machine.h"

// What several shards count together, and what outlives them. Any thread reads.
struct shard_totals {
    _Atomic uint64_t others; // entries that somebody else wrote
    struct histogram ops;    // in each entry of one's own, by histogram_sizes
};

struct shard_config {
    struct journal_config journal;
    char queue[QUEUE_NAME_MAX + 1]; // the name, for dead letters
    struct queue_config birth;
    size_t cache_bytes; // entries kept for bodies; 0: 8 MiB
    bool from_oldest;   // as in journal_config
    bool keeps_events;  // collect events (shard_events)
    bool keeps_time;    // commit an entry whenever something falls due, even if nobody waits for it
    bool moves_dead_letters;     // hand out dead letters (shard_next_dead_letter)
    struct shard_totals *totals; // counted here too; borrowed, NULL: nowhere
};

struct shard;

struct shard *shard_new(const struct shard_config *config);
void shard_free(struct shard *s); // NULL is fine

void shard_start(struct shard *s, struct interval now);
// One op of the queue, copied; its ticket is answered once. A send or claim that is certain to be
// refused as a whole is answered without an entry, unless its request id has an answer already.
void shard_submit(struct shard *s, uint64_t ticket, struct op op, int64_t deadline,
                  struct interval now);
// A claim that may wait for something to claim until wait_until (store time; in the past: do not
// wait). Answered with the messages themselves, or with none. The same request id brings the same
// messages again, as long as the fold remembers it; one that waits ends empty when another with the
// same request id begins to wait.
void shard_receive(struct shard *s, uint64_t ticket, const struct op_claim *claim,
                   int64_t wait_until, int64_t deadline, struct interval now);
// Both at once: an op that ends locks, answered as by shard_submit, and the receive of one who asks
// for the next. The claim is made in the op's entry, behind it: what that sets free is there, and
// only if it brings nothing the receive waits. The op waits for nothing.
void shard_receive_after(struct shard *s, uint64_t op_ticket, struct op op, uint64_t ticket,
                         const struct op_claim *claim, int64_t wait_until, int64_t op_deadline,
                         int64_t deadline, struct interval now);
// Waits until there is something to claim, and claims nothing: ERR_OK, or ERR_NOT_FOUND when
// nothing came. For those who look into several shards at once.
void shard_await(struct shard *s, uint64_t ticket, struct bytes worker, int64_t wait_until,
                 int64_t deadline, struct interval now);
// What the claim's request id brought earlier, answered as by shard_receive, with a body; nothing
// is claimed. ERR_OK without a body: it brought nothing, as far as the journal was read: up to its
// present end when `looks`. ERR_UNKNOWN: it may yet, for it is still on its way.
void shard_recall(struct shard *s, uint64_t ticket, const struct op_claim *claim, bool looks,
                  int64_t deadline, struct interval now);
// Somebody who was told that there is something will not come for it: it is for another.
void shard_pass_on(struct shard *s, struct interval now);
// A receive or await that waits is forgotten, and its ticket will not be answered. False: it does
// not wait any more (or not yet), and is answered soon; without a message if that can be had.
bool shard_cancel(struct shard *s, uint64_t ticket);
// The messages that sit at these places, whatever their state; one reply, one delivery per place.
// ERR_NOT_FOUND: one of their slots was collected.
void shard_fetch(struct shard *s, uint64_t ticket, const struct place *places, size_t count,
                 int64_t deadline, struct interval now);
// The same, and the reasons of failures (machine_failures tells their places). A reason whose slot
// was collected or is damaged does not fail the call.
struct reason_place {
    uint64_t slot;
    uint32_t op;
};
struct shard_wants {
    const struct place *places;
    size_t places_len;
    const struct reason_place *reasons;
    size_t reasons_len;
};
void shard_read(struct shard *s, uint64_t ticket, const struct shard_wants *wants, int64_t deadline,
                struct interval now);
void shard_sync(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now);
void shard_own(struct shard *s, uint64_t ticket, uint64_t expected,
               const struct journal_owner *owner, int64_t deadline, struct interval now);
// An entry without ops: only time passes.
void shard_touch(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now);
// The same, and nobody waits for it.
void shard_pass_time(struct shard *s, struct interval now);
// Somebody else may have written: look, for the sake of those who wait.
void shard_look(struct shard *s, struct interval now);
// As the owner: grants ready messages to registered workers with room, as tickets. seed: fresh
// random bits. False: there was nothing to grant, or nobody.
bool shard_dispatch(struct shard *s, const uint8_t seed[16], struct interval now);
void shard_respond(struct shard *s, const struct response *r, struct interval now);
void shard_tick(struct shard *s, struct interval now);
// What was asked of the store for this shard's sake beside its requests, whose responses tell.
void shard_spent(struct shard *s, const struct cost *cost);

int64_t shard_wake_at(const struct shard *s);
bool shard_next_request(struct shard *s, struct request *out);

// The headers of a dead letter that say so.
#define HEADER_DEAD          "sluice-dead-"
#define HEADER_DEAD_QUEUE    HEADER_DEAD "queue"
#define HEADER_DEAD_ID       HEADER_DEAD "id"
#define HEADER_DEAD_REASON   HEADER_DEAD "reason"
#define HEADER_DEAD_RETRIES  HEADER_DEAD "retries"
#define HEADER_DEAD_AT       HEADER_DEAD "at"
// The deliveries, and the worker that failed it last; no header when that is not known.
#define HEADER_DEAD_ATTEMPTS HEADER_DEAD "attempts"
#define HEADER_DEAD_WORKER   ARRIVE_WORKER_HEADER

// A message handed to somebody. The views live until the next call with the shard.
struct delivery {
    struct grant grant; // shard_fetch: only the place is set
    struct message message;
    size_t letter_len; // so many bytes at the end of its headers say where a dead letter comes from
    int64_t sent_at;
};

// Why a message failed, in its worker's words. The view lives as long as a delivery's.
struct reason_text {
    struct bytes text;
    bool kept; // false: its slot was collected, or cannot be read
};

struct shard_reply {
    uint64_t ticket;
    enum err err; // as in journal_reply
    struct bytes
        body; // the fold's result (queue/result.h), valid until the next call; may be empty
    const struct delivery *deliveries; // shard_receive, shard_fetch, shard_read
    size_t deliveries_len;
    const struct reason_text *reasons; // shard_read
    size_t reasons_len;
};
bool shard_next_reply(struct shard *s, struct shard_reply *out);

// A dead letter on its way: submit op to shard 0 of the queue `to`, then say what came of it.
struct letter {
    const char *to;
    uint64_t number;
    struct op op; // OP_ARRIVE
};
bool shard_next_dead_letter(struct shard *s, struct letter *out); // views until the next call
// Answered ERR_OK when shard_next_dead_letter has one to give, ERR_NOT_FOUND when there is none for
// now (or one is on its way): what a letter is made of may have to be read first.
void shard_dead_letters(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now);
void shard_dead_letter_arrived(struct shard *s, uint64_t number, struct interval now);
void shard_dead_letter_failed(struct shard *s, uint64_t number,
                              struct interval now); // it is offered again

// Events since the last shard_events_taken, oldest first. When there are EVENTS_HELD_MAX of them
// nothing more is read until they are taken; fewer where the whole journal is read for their sake
// (from_oldest), for there may be many such readers.
#define EVENTS_HELD_MAX 20000
#define EVENTS_TOLD_MAX 4000
const struct events *shard_events(const struct shard *s);
void shard_events_taken(struct shard *s);

const struct machine *shard_machine(const struct shard *s);
// What this handle has seen since it first came to the tail: for whoever counts.
struct shard_counters {
    uint64_t others;  // entries that somebody else wrote
    uint64_t expired; // locks that ran out
};
const struct shard_counters *shard_counters(const struct shard *s);
struct journal *shard_journal(struct shard *s); // to look, and for a collector
bool shard_has_waiting(const struct shard *s);
size_t shard_waiting(const struct shard *s);  // receives that wait for something to claim
bool shard_is_looking(const struct shard *s); // a shard_look has not come to the tail yet
