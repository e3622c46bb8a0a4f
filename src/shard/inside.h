// SPDX-License-Identifier: Apache-2.0
// Inside a shard: shared by shard.c (the calls and the joint), receive.c (claims that wait),
// fetch.c (bodies) and post.c (dead letters). Nobody else includes this.
#pragma once

#include "journal/asking.h"
#include "shard/cache.h"
#include "shard/shard.h"

// What a call waits for. Ops go to JOURNAL at once; a receive walks through all of them.
//
//     (op) ------> JOURNAL ------> answered
//     (receive) -> LOOKING ------> WAITING <-----> JOURNAL ------> FETCHING ------> answered
//                     '--- nothing there, no time ---^---> answered empty
//     (letters) -> POSTING ------> answered
enum call_state {
    CALL_LOOKING,
    CALL_WAITING,
    CALL_JOURNAL,
    CALL_FETCHING,
    CALL_POSTING,
    CALL_STATES
};

struct call {
    struct call *next;
    uint64_t ticket;
    uint16_t kind; // of its op; 0: sync, own, touch, fetch
    bool receives;
    bool awaits;  // a receive that claims nothing: it only wants to know when to
    bool recalls; // a receive that claims nothing: it only wants what its id brought earlier
    bool silent;  // the shard's own: nobody hears the answer
    bool looked;  // since it came the tail was seen
    bool fenced;  // proposed by an owner who was none any more; it is asked for once again
    enum call_state state;
    struct bytes payload; // owned: kept while it may be submitted again
    int64_t wait_until;
    int64_t deadline;
    struct bytes worker; // receive: a view into payload
    uint32_t max;
    struct bytes result; // owned: the fold's answer, while bodies are fetched
    struct grant *grants;
    size_t grants_len;
    size_t fetched; // deliveries made so far
    struct delivery *deliveries;
    struct reason_place *asked; // of reasons
    size_t asked_len;
    struct reason_text *reasons;
    size_t told;     // reasons found so far, or found to be gone
    struct buf text; // what the deliveries' views point into
};

struct call_list {
    struct call *head;
    struct call *tail;
};

struct answer {
    struct answer *next;
    struct shard_reply out;
    struct call *call; // owned: holds what out points to
};

// How far a read of bodies has got (fetch.c).
//
//     READING --- rows ---> FLOORS --- under the floor ---> TAIL ---> believed, or gone
//        '------ not found --------------------------------^
enum fetch_stage { FETCH_READING, FETCH_FLOORS, FETCH_TAIL };

struct fetch_row {
    uint64_t slot;
    struct bytes bytes; // owned
};

struct fetch {
    enum fetch_stage stage;
    struct asking ask;
    int64_t again;   // not before this, after a request that failed
    uint64_t wanted; // the slot to read; 0: none
    // What was read and is not believed yet; without a row for wanted: it was not found.
    struct fetch_row *rows;
    size_t rows_len;
    uint64_t floor_index; // the newest floor object seen
    uint64_t floor_slot;
    struct call *looking; // a look at the tail is under way
};

struct shard {
    struct shard_config config;
    struct interval now;
    struct machine *machine;
    struct journal *journal;
    struct cache *cache;
    struct events events;
    struct shard_counters counters;
    struct call_list calls[CALL_STATES];

    struct fetch fetch; // of bodies; nothing of it is folded

    int64_t waits_end; // no waiting call gives up earlier
    bool full;         // of events: the journal is on hold
    bool looking;      // a sync of the shard's own is open
    bool touching;     // an entry only for time's sake is open
    uint64_t offered;  // claims on their way: how many messages they may take

    struct answer *answers;
    struct answer *answers_tail;
    struct answer *answer_out;

    // books.c
    struct cost spent;   // not booked yet
    uint64_t paid_ahead; // writes that were booked before they were made
    int64_t book_again;  // not before this
    bool booking;        // an op is on its way

    // post.c
    bool letter_open;       // one is on its way: the next waits, so that they arrive in order
    uint64_t letter_done;   // all up to this arrived, and the fold was asked to forget them
    int64_t letters_again;  // not before this, after one failed
    struct buf letter_text; // the op of the letter being handed out
    struct buf letter_reason;
    struct buf letter_headers;
    uint64_t letter_reason_of; // the number of the letter it belongs to
    uint64_t letter_wants;     // the slot it needs next, as of the last look
    char letter_to[QUEUE_NAME_MAX + 1];
};

struct call *call_new(struct shard *s, uint64_t ticket, int64_t deadline);
void call_free(struct call *c); // unanswered; it is in no list
void call_push(struct shard *s, struct call *c, enum call_state state);
struct call *call_take(struct shard *s, struct call *c); // out of its list
void call_answer(struct shard *s, struct call *c, enum err err, struct bytes body); // ends it
void call_commit(struct shard *s, struct call *c); // hands its op to the journal
static inline uint64_t call_ticket(struct call *c) // the journal's
{
    return (uint64_t)(uintptr_t)c;
}
void call_refuse(struct shard *s, struct call *c, enum reason reason); // without an entry
int64_t shard_now(const struct shard *s); // the moment that decisions are made for

void replies_hear(struct shard *s);

// Whether an op with its request id, which got no answer, may still be committed.
bool call_under_way(const struct shard *s, const struct call *c);
// The reason for which the fold would refuse all of its op at a fresh tail; REASON_NONE: not sure.
enum reason call_certain_refusal(const struct shard *s, const struct call *c);
void receive_set_claim(struct call *c, const struct op_claim *claim);
void receive_try(struct shard *s, struct call *c);
void receive_join_op(struct shard *s, struct call *c); // behind an op that was just proposed
void receive_result(struct shard *s, struct call *c, enum err err, struct bytes body);
void receive_join_send(struct shard *s, uint32_t messages); // before the send is proposed
void receive_poke(struct shard *s);

void fetch_start(struct shard *s, struct call *c);
void fetch_go_on(struct shard *s);
void fetch_respond(struct shard *s, const struct response *r);
void fetch_want(struct shard *s, uint64_t slot);
void fetch_tail_seen(struct shard *s, enum err err); // what came of fetch.looking
int64_t fetch_wake_at(const struct shard *s);
void fetch_done(struct shard *s);

// True: c was proposed again, and is not answered by r.
bool fenced_again(struct shard *s, struct call *c, struct journal_reply *r);

void counters_note(struct shard *s, const struct fold_entry *e, bool mine, uint64_t expired);

// journal_submit and journal_respond; what was spent joins the entry that comes of them.
void cost_ledger_journal_submit(struct shard *s, struct call *c, struct op op);
void cost_ledger_journal_respond(struct shard *s, const struct response *r);
void cost_ledger_result(struct shard *s, const struct call *c, const struct journal_reply *r);

void outgoing_poke(struct shard *s);
bool post_wants(struct shard *s, uint64_t slot); // for a letter that has not left yet
void outgoing_not_forgotten(struct shard *s);
