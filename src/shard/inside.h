// SPDX-License-Identifier: Apache-2.0
// Private to a shard: shared by shard.c (the calls), fold.c (the machine as a fold), receive.c
// (claims that wait), replies.c (the journal's answers), fetch.c (bodies), cost_ledger.c, fenced.c,
// counters.c and outgoing.c (dead letters), follow.c (calls that wait for events), listen.c
// (signals).
#pragma once

#include "base/map.h"
#include "base/slab.h"
#include "journal/open_request.h"
#include "queue/tables/changes.h"
#include "shard/cache.h"
#include "shard/shard.h"

// What a call waits for. An op goes to JOURNAL at once. A receive can pass through all states but
// OUTBOX.
//
// clang-format off
//     (op) ------> JOURNAL ------> answered
//     (receive) -> SYNCING ------> WAITING <-----> JOURNAL ------> FETCHING ------> answered
//                     '--- nothing there, no time ---^---> answered empty
//     (letters) -> OUTBOX  ------> answered
//     (follow) --> FOLLOWING ----> answered
//     (listen) --> SYNCING ------> LISTENING -----> FETCHING ------> answered
// clang-format on
enum shard_call_state {
    SHARD_CALL_SYNCING,
    SHARD_CALL_WAITING,
    SHARD_CALL_JOURNAL,
    SHARD_CALL_FETCHING,
    SHARD_CALL_OUTBOX,
    SHARD_CALL_FOLLOWING,
    SHARD_CALL_LISTENING,
    SHARD_CALL_STATES
};

#define SHARD_CALL_NEAR_MAX 96
struct shard_call {
    struct shard_call *next;
    uint64_t ticket;
    uint16_t kind; // of its op; 0: sync, own, touch, fetch
    bool receives;
    // A receive that claims nothing. Its answer says that there is something to claim.
    bool awaits;
    // A receive that claims nothing. It returns the result that its request id had earlier.
    bool recalls;
    bool listens;   // waits for signals (listen.c)
    bool silent;    // the shard's own call: no caller gets the answer
    bool tail_seen; // the tail was seen since the call began
    bool fenced;    // its first proposal was void, and it was proposed once more
    bool withdrawn; // it does not wait any more, even if its wait is not over
    enum shard_call_state state;
    struct bytes payload; // owned, or in `near`; kept while it may be submitted again
    int64_t wait_until;
    // A receive that waits: the epoch at its begin, and how long it waits without the ownership.
    uint64_t owner_epoch;
    int64_t owner_until;
    int64_t deadline;
    struct bytes worker; // receive: a view into payload
    uint32_t max;
    struct bytes result; // owned: the fold's answer, while bodies are read
    struct grant *grants;
    size_t grants_len;
    size_t fetched; // deliveries built so far
    struct delivery *deliveries;
    struct reason_place *reason_places; // places of the texts that are wanted
    size_t reason_places_len;
    struct reason_text *reasons;
    size_t reasons_found;               // texts found so far, or known to be collected
    struct buf text;                    // the views of deliveries and texts point into it
    struct shard_call_signals *signals; // NULL: the call has to do with none
    uint8_t
        near[SHARD_CALL_NEAR_MAX]; // the payload of most claims: a receive that waits is one object
};

// The signals of an answer, and what a call that listens waits for.
struct shard_call_signals {
    struct signal_delivery *rows;
    size_t len, cap;
    // Of a call that listens:
    struct listen_ask *asks; // of the wait for an end: the messages where it is pending
    uint32_t *watches;       // of these, by ask; NULL: it does not watch
    size_t asks_len;
    uint32_t *hits; // asks whose message changed
    size_t hits_len, hits_cap;
    struct shard_call *next_hit;
    bool waits_end;               // of `signal`
    bool messages;                // it waits for the end of messages ...
    bool all;                     // ... of all of them
    size_t left;                  // ... which are so many
    struct request_id *questions; // ... or for the end of one of these
    size_t questions_len;
    bool as_owner;
    struct request_id signal;
    uint64_t seq;
};

// A message that a call watches.
struct signal_watch {
    uint64_t seq;
    struct shard_call *call; // NULL: a free row
    uint32_t ask;
    bool hit; // its message changed, and the call was not checked yet
};

struct shard_call_list {
    struct shard_call *head;
    struct shard_call *tail;
};

struct shard_answer_row {
    struct shard_answer_row *next;
    struct shard_reply out;
    struct shard_call *call; // owned: out points into it
};

// The stages of a read of bodies (fetch.c).
//
// clang-format off
//     READING --- rows ---> FLOORS --- under the floor ---> TAIL ---> trusted, or collected
//        '------ not found --------------------------------^
// clang-format on
enum fetch_stage { FETCH_READING, FETCH_FLOORS, FETCH_TAIL };

struct fetch_row {
    uint64_t slot;
    struct bytes bytes; // owned
};

struct body_fetch {
    enum fetch_stage stage;
    struct open_request ask;
    int64_t again;   // after a request that failed: not before this time
    uint64_t wanted; // the slot to read; 0: none
    // Rows that were read and are not trusted yet. No rows: the slot was not found.
    struct fetch_row *rows;
    size_t rows_len;
    uint64_t floor_index; // the newest floor object seen
    uint64_t floor_slot;
    struct shard_call *sync; // the sync that is under way
};

struct shard {
    struct shard_config config;
    struct interval now;
    int64_t listed_at; // shard_listed
    int64_t held_at;   // the store's time, while the shard's time is behind it; else TIME_UNKNOWN
    struct machine *machine;
    struct journal *journal;
    const struct journal_view *view; // of the journal: asks it nothing
    uint32_t holds;                  // steps_hold
    bool owner_only;                 // machine_owner_only, after the last entry
    struct cache *cache;
    struct events events;
    struct shard_counters counters;
    struct shard_call_list calls[SHARD_CALL_STATES];

    struct body_fetch fetch; // not part of the fold

    // listen.c
    struct signal_watch *watches;
    struct slab watch_slab; // of these rows
    struct map watched;     // by message
    uint64_t changes_seen;  // machine_changes that were handled
    int64_t listens_end;    // no wait_until of a call that listens is earlier
    bool owned_before;      // ... when these calls were last checked

    uint64_t orders_seen;   // machine_orders when the waiting calls were last checked
    int64_t waits_end;      // no wait_until of a waiting call is earlier
    bool full;              // too many events: the journal is on hold
    bool catching_up;       // the shard's own sync is open
    enum err catch_up_err;  // of the last one
    uint64_t catch_up_from; // the slot where it began
    bool touching;          // the shard's own touch is open
    bool dispatching;       // the shard's own OP_DISPATCH is open
    uint64_t offered;       // messages that the open claims may take

    struct shard_answer_row *answers;
    struct shard_answer_row *answers_tail;
    struct shard_answer_row *answer_out;

    // cost_ledger.c
    struct cost cost;       // not in the ledger yet
    uint64_t counted_ahead; // writes that were entered before they were made
    int64_t ledger_at;      // not before this time
    bool ledger_op_open;    // an op is in the journal

    // outgoing.c
    // A dead letter is being moved. The next one waits, so that they arrive in order.
    bool dead_letter_open;
    // All up to this number arrived, and the fold was asked to forget them.
    uint64_t dead_letter_done;
    int64_t dead_letters_at;   // after one failed: not before this time
    struct buf dead_letter_op; // the op of the letter that is being moved
    struct buf dead_letter_reason;
    struct buf dead_letter_headers;
    uint64_t dead_letter_reason_of; // the number of the letter that dead_letter_reason belongs to
    uint64_t dead_letter_wants;     // the slot that the next letter needs, by the last check
    char dead_letter_to[QUEUE_NAME_MAX + 1];
};

struct shard_call *call_new(struct shard *s, uint64_t ticket, int64_t deadline);
void call_free(struct shard_call *c); // for a call without an answer; it is in no list
void call_push(struct shard *s, struct shard_call *c, enum shard_call_state state);
struct shard_call *call_take(struct shard *s, struct shard_call *c); // removes it from its list
// Frees it, or passes it on with its answer.
void call_answer(struct shard *s, struct shard_call *c, enum err err, struct bytes body);
void call_commit(struct shard *s, struct shard_call *c); // passes its op to the journal
static inline uint64_t call_ticket(struct shard_call *c) // the journal's
{
    return (uint64_t)(uintptr_t)c;
}
void call_refuse(struct shard *s, struct shard_call *c, enum reason reason); // without an entry
int64_t shard_now(const struct shard *s); // the time that decisions use
bool call_wait_is_over(const struct shard *s, const struct shard_call *c); // of a receive or listen
void shard_note_time(struct shard *s, struct interval now);
int64_t held_wake_at(const struct shard *s, int64_t at); // when to tick, if that is due at `at`

struct fold shard_fold(struct shard *s); // its machine; refers to s

// Between them the journal sends no request (journal_hold). They nest.
void steps_hold(struct shard *s);
void steps_release(struct shard *s);
void replies_handle(struct shard *s);

// Returns true if an op with the same request id, which got no answer, may still be committed.
bool call_under_way(const struct shard *s, const struct shard_call *c);
// The reason for which the fold would refuse the whole op at a fresh tail. REASON_NONE: not
// certain.
enum reason call_certain_refusal(const struct shard *s, const struct shard_call *c);
void receive_set_claim(struct shard_call *c, const struct op_claim *claim);
void receive_try(struct shard *s, struct shard_call *c);
void receive_join_op(struct shard *s, struct shard_call *c); // behind an op that was just proposed
void receive_result(struct shard *s, struct shard_call *c, enum err err, struct bytes body);
void receive_join_send(struct shard *s, uint32_t messages); // before the send is proposed
void receive_wake(struct shard *s);
// The owner publishes tickets for workers with capacity. Returns false if there is nothing to do.
bool tickets_dispatch(struct shard *s, const uint8_t seed[16]);
#define DISPATCH_MAX 1000                                          // tickets of one op
void dispatch_result(struct shard *s, const struct shard_call *c); // its answer came

void catch_up_start(struct shard *s);
void follow_wake(struct shard *s);
int64_t follow_wake_at(const struct shard *s);

void signals_free(struct shard_call_signals *signals);                  // NULL is allowed
void signals_tell(const struct shard_call *c, struct shard_reply *out); // adds them
void listen_synced(struct shard *s, struct shard_call *c, enum err err);
void listen_wake(struct shard *s);
struct shard_call *listen_take(struct shard *s, struct shard_call *c); // it does not wait any more
void listen_fetched(struct shard_call *c);                             // the texts are there
void listen_done(struct shard *s);
// The signals of the locks that a claim or a renew has; nothing if the shard has none.
void signals_of_grants(struct shard *s, struct shard_call *c);
void signals_of_renewal(struct shard *s, struct shard_call *c);

void fetch_start(struct shard *s, struct shard_call *c);
void fetch_go_on(struct shard *s);
void fetch_respond(struct shard *s, const struct response *r);
void fetch_want(struct shard *s, uint64_t slot);
void fetch_tail_seen(struct shard *s, enum err err); // the result of fetch.sync
int64_t fetch_wake_at(const struct shard *s);
void fetch_done(struct shard *s);

// Returns true if c was proposed again, so that r does not answer it.
bool fenced_again(struct shard *s, struct shard_call *c, struct journal_reply *r);

void counters_note(struct shard *s, const struct fold_entry *e, bool mine, uint64_t expired);

// journal_submit and journal_respond. The costs so far join the entry that they lead to.
void cost_ledger_journal_submit(struct shard *s, struct shard_call *c, struct op op);
void cost_ledger_journal_respond(struct shard *s, const struct response *r);
void cost_ledger_result(struct shard *s, const struct shard_call *c, const struct journal_reply *r);

void outgoing_advance(struct shard *s);
bool outgoing_wants(struct shard *s, uint64_t slot); // for a letter that is not complete yet
void outgoing_not_forgotten(struct shard *s);
