// SPDX-License-Identifier: Apache-2.0
// A shard: the journal and the queue's machine joined into one step function. Ops of clients go in.
// Store requests, replies, events and dead letters come out. It is pure: time and random bits are
// arguments.
//
// Use it like a journal (journal/journal.h): shard_start, then the calls below. After each call
// take all requests, replies and letters. Call shard_tick no later than shard_wake_at. Only one
// thread may use it at a time.
#pragma once

#include "base/histogram.h"
#include "journal/journal.h"
#include "queue/core/machine.h"
#include "queue/tables/signal_view.h"

// Counters that several shards share and that outlive them. Any thread may read them.
struct shard_totals {
    _Atomic uint64_t others; // entries of other writers
    struct histogram ops;    // ops in each entry of this process, by histogram_sizes
};

struct shard_config {
    struct journal_config journal;
    char queue[QUEUE_NAME_MAX + 1]; // the name, for dead letters
    struct queue_config birth;
    size_t cache_bytes; // entries kept for their bodies; 0: 8 MiB
    bool from_oldest;   // as in journal_config
    bool keeps_events;  // collect events (shard_events)
    // Commit an entry whenever a timer of the machine is due, even if no call waits for it.
    bool keeps_time;
    bool moves_dead_letters;     // deliver dead letters (shard_next_dead_letter)
    uint16_t rules_newest;       // as in journal_config; 0: rules_newest()
    uint16_t rules_oldest;       // as in journal_config; 0: RULES_OLDEST
    struct shard_totals *totals; // borrowed; counted there too; NULL: not
};

struct shard;

struct shard *shard_new(const struct shard_config *config);
void shard_free(struct shard *s); // NULL is allowed

void shard_start(struct shard *s, struct interval now);
// Submits one op of the queue, which is copied. Its ticket is answered once. If a send or claim is
// certain to be refused as a whole, it is answered without an entry. An op whose request id already
// has an answer gets that answer.
void shard_submit(struct shard *s, uint64_t ticket, struct op op, int64_t deadline,
                  struct interval now);
// Returns whether the entries of this handle may hand out messages: it owns the shard, or the
// queue's setting `consume` allows any process. As far as it has folded.
bool shard_may_grant(const struct shard *s);
// A claim that can wait for messages until wait_until (store time). If that is in the past, it does
// not wait. The answer has the messages themselves, or none. The same request id gets the same
// messages again, as long as the fold remembers it. A waiting receive ends empty when another with
// the same request id begins to wait. If this handle may not hand out messages, the answer is
// REASON_NOT_OWNER without an entry, after a short wait for the ownership.
void shard_receive(struct shard *s, uint64_t ticket, const struct op_claim *claim,
                   int64_t wait_until, int64_t deadline, struct interval now);
// An op that ends locks, answered as by shard_submit, together with a receive. The claim is in the
// op's entry, behind the op, so it sees the messages that the op frees. The receive waits only if
// that claim gets nothing. The op does not wait.
void shard_receive_after(struct shard *s, uint64_t op_ticket, struct op op, uint64_t ticket,
                         const struct op_claim *claim, int64_t wait_until, int64_t op_deadline,
                         int64_t deadline, struct interval now);
// Waits until there is something to claim, and claims nothing. Returns ERR_OK, or ERR_NOT_FOUND if
// nothing came. For a receive that waits in several shards at once.
void shard_await(struct shard *s, uint64_t ticket, struct bytes worker, int64_t wait_until,
                 int64_t deadline, struct interval now);
// The earlier result of the claim's request id, answered as by shard_receive, with a body. Nothing
// is claimed. ERR_OK without a body: there was no result, as far as the journal was read; with
// `sync`, up to its present tail. ERR_UNKNOWN: there may be one later, because the claim is still
// in progress.
void shard_recall(struct shard *s, uint64_t ticket, const struct op_claim *claim, bool sync,
                  int64_t deadline, struct interval now);
// A waiter that shard_await notified will not claim after all: notifies the next waiter.
void shard_notify_next(struct shard *s, struct interval now);
// Cancels a receive, await, follow or listen that waits; its ticket is not answered. Returns false
// if it does not wait any more, or not yet. It is then answered soon, without a message if
// possible. Its deadline is as long after the cancel as it was after the end of the wait.
bool shard_cancel(struct shard *s, uint64_t ticket, struct interval now);
// The same, but its caller waits on, at another owner: the deadline stays.
bool shard_withdraw(struct shard *s, uint64_t ticket);
// Reads the messages at these places, in any state. One reply has one delivery per place.
// ERR_NOT_FOUND: one of the slots was collected.
void shard_fetch(struct shard *s, uint64_t ticket, const struct place *places, size_t count,
                 int64_t deadline, struct interval now);
// The same, with texts that ops carry: the reasons of failures (machine_failures has their places),
// and what struct op_place names (queue/tables/signal_view.h). A text whose slot was collected or
// is damaged does not fail the call.
struct reason_place {
    uint64_t slot;
    uint32_t op;
    uint32_t index; // of a row of the op: an answer, a result, a progress
    bool type;      // of a result: its content type
};
struct shard_places {
    const struct place *places;
    size_t places_len;
    const struct reason_place *reasons;
    size_t reasons_len;
};
void shard_read(struct shard *s, uint64_t ticket, const struct shard_places *wants,
                int64_t deadline, struct interval now);
void shard_sync(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now);
void shard_own(struct shard *s, uint64_t ticket, uint64_t expected,
               const struct journal_owner *owner, int64_t deadline, struct interval now);
// Makes the journal accept the tokens of another coordination service.
void shard_coord_switch(struct shard *s, uint64_t ticket, const uint8_t coord[16], int64_t deadline,
                        struct interval now);
// Commits an entry without ops, so that only time passes.
void shard_touch(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now);
// The same without a ticket.
void shard_pass_time(struct shard *s, struct interval now);
// Another process may have written: reads the journal for the calls that wait.
void shard_catch_up(struct shard *s, struct interval now);
// Waits for events that were not taken. ERR_NOT_FOUND: none came until wait_until.
void shard_follow(struct shard *s, uint64_t ticket, int64_t wait_until, struct interval now);
// Waits for signals to the holders of these locks, with a number over `after`. The answer has them
// in shard_reply.signals, up to SIGNALS_ANSWER_MAX. Each lock has the same share of them, and the
// oldest signals come first. If a lock is not in force, its row has the reason; there are up to
// SIGNALS_ANSWER_MAX such rows, too. ERR_NOT_FOUND: nothing came until wait_until.
struct listen_ask {
    struct lock_ref ref;
    uint32_t after;
};
// Or waits until a signal has ended for a message of this shard (seq 0: for all). The answer has a
// row for each message, also if some are still pending at wait_until. No row: it is not known.
// Or waits until one of these messages has ended (only ref.seq of an ask counts), or all of them. A
// message has ended if it is finished or dead, or was never sent. The answer has a row then. An ask
// with `after` LISTEN_ANSWER waits until none of the questions is pending for the message. The
// first such ask ends the wait, also if `all` messages are wanted.
struct shard_listen {
    const struct listen_ask *asks;
    size_t len; // 0: for the end of `signal`
    bool messages;
    bool all;
    const struct request_id *questions;
    size_t questions_len;
    struct request_id signal;
    uint64_t seq;
    bool as_owner; // ends with REASON_NOT_OWNER when this handle is not the owner
};
#define LISTEN_ASKS_MAX     10000  // locks
#define LISTEN_MESSAGES_MAX 200000 // ends and answers of 100,000 messages
#define LISTEN_ANSWER       2
#define SIGNALS_ANSWER_MAX  256
void shard_listen(struct shard *s, uint64_t ticket, const struct shard_listen *what,
                  int64_t wait_until, int64_t deadline, struct interval now);
// As the owner: grants ready messages, as tickets, to registered workers that have capacity. seed:
// fresh random bits. Returns false if there is nothing to do: no message, no worker, a receive that
// takes what is ready, or a dispatch that is still under way.
bool shard_dispatch(struct shard *s, const uint8_t seed[16], struct interval now);
// Whether shard_dispatch would do something now: cheap, so that the caller asks after each commit.
bool shard_may_dispatch(const struct shard *s);
// While workers have mailboxes, the time of the shard passes no deadline before the owner has
// listed the mailboxes after it (mailbox/limit.h). listed_at: the begin of the newest LIST whose
// ops were submitted. TIME_NEVER: no worker has a mailbox.
void shard_listed(struct shard *s, int64_t listed_at, struct interval now);
// The time of the shard if the store's clock says `now`. It stands still while that is behind what
// the shard saw before. Deadlines count from it.
struct interval shard_time(const struct shard *s, struct interval now);
void shard_respond(struct shard *s, const struct response *r, struct interval now);
void shard_tick(struct shard *s, struct interval now);
// Adds the cost of store requests that were made for this shard outside of it. The costs of its own
// requests come with their responses.
void shard_add_cost(struct shard *s, const struct cost *cost);

int64_t shard_wake_at(const struct shard *s);
bool shard_next_request(struct shard *s, struct request *out);

// The headers that mark a dead letter.
#define HEADER_DEAD          "sluice-dead-"
#define HEADER_DEAD_QUEUE    HEADER_DEAD "queue"
#define HEADER_DEAD_ID       HEADER_DEAD "id"
#define HEADER_DEAD_REASON   HEADER_DEAD "reason"
#define HEADER_DEAD_RETRIES  HEADER_DEAD "retries"
#define HEADER_DEAD_AT       HEADER_DEAD "at"
// The number of deliveries, and the worker that failed it last. If that is unknown, there is no
// header.
#define HEADER_DEAD_ATTEMPTS HEADER_DEAD "attempts"
#define HEADER_DEAD_WORKER   ARRIVE_WORKER_HEADER

// A message for a caller. The views are valid until the next call of the shard.
struct delivery {
    struct grant grant; // shard_fetch: only the place is set
    struct message message;
    // The length of the part at the end of the headers that a dead letter's move added.
    size_t dead_letter_headers_len;
    int64_t sent_at;
};

// The worker's text about a failure, or another text of an op. The view is valid as long as a
// delivery's.
struct reason_text {
    struct bytes text;
    bool kept; // false: its slot was collected or is damaged
};

// A signal in an answer. The view is valid as long as a delivery's.
struct signal_delivery {
    uint32_t index;     // shard_listen: of the ask; renew: of the lock
    enum reason reason; // shard_listen: why the lock is not in force; nothing else is set
    uint32_t waiting;   // renew: how many signals wait for the holder; nothing else is set
    struct signal_view view;
    struct bytes text; // pending: its payload, or why it interrupts; ended: the answer
    bool kept;         // false: there is no text, or its slot was collected or is damaged
};

struct shard_reply {
    uint64_t ticket;
    enum err err; // as in journal_reply
    // The fold's result (queue/codec/result.h), valid until the next call. May be empty.
    struct bytes body;
    const struct delivery *deliveries; // shard_receive, shard_fetch, shard_read
    size_t deliveries_len;
    const struct reason_text *reasons; // shard_read
    size_t reasons_len;
    // shard_listen; shard_receive: those that come with the messages; a renew: the locks that have
    // signals.
    const struct signal_delivery *signals;
    size_t signals_len;
};
bool shard_next_reply(struct shard *s, struct shard_reply *out);

// A dead letter to move. Submit op to shard 0 of the queue `to`, then report the result.
struct dead_letter {
    const char *to;
    uint64_t number;
    struct op op; // OP_ARRIVE
};
// The views are valid until the next call.
bool shard_next_dead_letter(struct shard *s, struct dead_letter *out);
// Answers ERR_OK when shard_next_dead_letter has a letter. Answers ERR_NOT_FOUND if there is none
// now, or if one is being moved. The content of a letter may have to be read first.
void shard_dead_letters(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now);
void shard_dead_letter_arrived(struct shard *s, uint64_t number, struct interval now);
// The letter is offered again later.
void shard_dead_letter_failed(struct shard *s, uint64_t number, struct interval now);

// Events since the last shard_events_taken, oldest first. At EVENTS_HELD_MAX events the shard stops
// reading until they are taken. With from_oldest the bound is EVENTS_FROM_OLDEST_MAX, because there
// can be many such readers.
#define EVENTS_HELD_MAX        20000
#define EVENTS_FROM_OLDEST_MAX 4000
const struct events *shard_events(const struct shard *s);
void shard_events_taken(struct shard *s);

const struct machine *shard_machine(const struct shard *s);
// Counted since this handle first reached the tail.
struct shard_counters {
    uint64_t others;  // entries of other writers
    uint64_t expired; // locks that expired
};
const struct shard_counters *shard_counters(const struct shard *s);
struct journal *shard_journal(struct shard *s); // for reading, and for a collector
bool shard_has_waiting(const struct shard *s);
size_t shard_waiting(const struct shard *s);      // receives that wait for something to claim
bool shard_is_catching_up(const struct shard *s); // a shard_catch_up has not reached the tail yet
