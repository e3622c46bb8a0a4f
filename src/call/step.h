// SPDX-License-Identifier: Apache-2.0
// The decisions of one call: events go in, effects come out. It is pure. The library's shell
// performs the effects (ops/call.c), and a simulator performs them on simulated shards.
//
// clang-format off
//     built ──► submitted ──► answered         send, settle, change: ops
//       ▲           │ full
//       └── paused ◄┘
//
//     built ──► (acks) ──► waiting ◄──► claiming ──► delivering ──► answered          receive
//
//     built ──► looking at one shard after another ──► answered                       read
//
//     built ──► waiting ──► delivering ──► answered         follow: the next events of a stream
//                                                           listen: signals
// clang-format on
//
// clang-format off
//     built ──► submitted, claiming or waiting ──► answered          served: for another process
//       │ moved                                   ▲
//       └─────────────────────────────────────────┘
// clang-format on
//
// An op, a claim or an await goes to the node that owns its shard, if there is one (op_route.h in
// src/cluster). Otherwise this process does it. If the owner does not do it, this process does it
// with the same request id. So no call fails because of an owner, and each takes effect once:
//
// clang-format off
//     ┌──► at the owner ──► done
//     │        │ away, or in doubt                in doubt: it may still take effect there
//     │        ├──────────────────────► here ──► done
//     │        │ moved
//     └─ find ◄┘                                  at most MOVES_MAX times in a call
// clang-format on
//
// A receive of a queue with one shard waits inside its claim. A receive of several shards awaits a
// message in each of them, and then claims in one of them.
//
// A repeated receive must get the answer of the shard where the first one claimed, in any process.
// So a receive of several shards with a caller's request id works in this order:
//
//   - It makes a round: it asks every shard for a stored answer to the id, up to the tail.
//   - If there is none, it awaits a message.
//   - After each wait it makes another round, of the entries folded so far. Then it claims.
//
// Two processes hash the id to the same first shard, so the second one usually finds the answer of
// the first one there. If they still claim in different shards, each caller gets a message. Later
// repeats return one of the two, the same as long as every shard answers the round. The lock of the
// other message expires.
//
// A served call is what another process asks of this one, the owner of the shards: an op, a claim,
// both, or an await in several shards. It is done here, or not at all. Each part is done once: the
// process that asks repeats it. An await ends when one shard has something. The answer waits for
// the others, so that it has what they find before they can be cancelled.
//
// Only one thread may use a call at a time. After each event, perform the effects of call_next
// until it returns false. The event of an effect may come before the next call of call_next.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum call_kind {
    STEP_SEND,
    STEP_SETTLE,
    STEP_CHANGE,
    STEP_RECEIVE,
    STEP_READ,
    STEP_FOLLOW,
    STEP_LISTEN,
    STEP_SERVED
};

enum call_effect_kind {
    // Open the queue, check the arguments, make the ops: call_built, call_failed, call_moved.
    STEP_BUILD,
    STEP_SUBMIT,         // submit op `index`: call_op_ended
    STEP_SUBMIT_JOINED,  // submit op `index` and the claim of shard 0 behind it: both events
    STEP_CLAIM,          // claim in shard `index`; with one shard it waits: call_claimed
    STEP_AWAIT,          // wait in shard `index`, or for part `index` of a listen: call_awaited
    STEP_LOOK,           // read the state of shard `index` up to its tail: call_looked
    STEP_FIND,           // find the owners of its shards again: call_found
    STEP_RECALL,         // ask shard `index` for a stored answer to the request id: call_recalled
    STEP_WITHDRAW_AWAIT, // end the await of shard `index`: call_withdrawn, at once
    STEP_WITHDRAW_CLAIM, // end the waiting claim of shard 0: call_withdrawn, at once
    // The message that shard `index` announced is for another waiter. Served: soon, if the process
    // that hears of it does not claim it.
    STEP_NOTIFY,
    STEP_PAUSE,   // wait until the queue may have space: call_resumed
    STEP_DELIVER, // read the bodies of the messages, or the events: call_delivered
    STEP_ANSWER,  // answer the caller; receive, follow: with call_state.result
};

struct call_effect {
    enum call_effect_kind kind;
    uint32_t index;
    bool sync; // STEP_RECALL: read the journal up to its tail first
    bool here; // STEP_SUBMIT, STEP_SUBMIT_JOINED, STEP_CLAIM, STEP_AWAIT: not at the owner
    // STEP_WITHDRAW_AWAIT, STEP_WITHDRAW_CLAIM: no caller waits any more. Otherwise it is made
    // again, perhaps at another owner. A withdrawal that is too late can be followed by a last one.
    bool last;
};

// What a call consists of, once its queue is known.
struct call_plan {
    uint32_t ops;         // of a send, settle or change; of a receive's acks
    uint32_t at_once;     // ops that may be submitted at the same time
    bool behind;          // send: other sends wait for space
    bool blocks;          // send: it waits while the queue is full
    bool all;             // listen: it ends when all parts have ended, not with the first
    bool awaits_only;     // served: it awaits, and does not claim ...
    bool shared;          // ... what is there for every caller
    uint32_t shards;      // receive, read, follow: of the queue; listen, served: its parts
    uint32_t first_shard; // the one that it prefers; read: the first that it looks at
    bool likely;          // receive: first_shard seems to have a message: it claims there first
    bool joined;          // receive: the ack op goes into the claim's entry
    bool named;           // receive: the caller may repeat the request id
    bool has_turn;        // receive: no earlier call with this id is under way
};

// How an attempt at the owner ended without a result.
enum call_return {
    STEP_RESULT,  // it has a result, or it was made here
    STEP_UNDONE,  // certainly not done there
    STEP_DOUBTED, // perhaps done there, now or later
    STEP_MOVED,   // that node does not own the shard any more; certainly not done
};
enum call_op_end { STEP_OP_DONE, STEP_OP_FULL, STEP_OP_UNKNOWN };
enum call_find_end {
    STEP_FOUND,
    STEP_NOTHING,
    STEP_FAILED,
    STEP_AGAIN, // claim, await: the owner's part of the wait has ended
};
enum call_source { STEP_FROM_NOTHING, STEP_FROM_CLAIM, STEP_FROM_RECALL, STEP_FROM_AWAIT };

// One op of a call, or one shard of a receive.
struct call_op;
struct call_shard;
struct call_state {
    enum call_kind kind;
    enum call_phase {
        STEP_PHASE_NEW,
        STEP_PHASE_BUILDING,
        STEP_PHASE_BUILT,
        STEP_PHASE_PAUSED,
        STEP_PHASE_DECIDED,    // receive: it is known where the answer comes from
        STEP_PHASE_DELIVERING, // receive: the bodies of its messages are being read
        STEP_PHASE_ENDING,     // nothing is left to do but the answer
        STEP_PHASE_ANSWERED,
    } phase;
    struct call_plan plan;
    // Ops.
    struct call_op *ops; // plan.ops; owned
    uint32_t ops_next;   // the first op that was not submitted yet
    uint32_t ops_open;   // under way
    uint32_t ops_again;  // to be submitted again
    bool in_doubt;       // an attempt at an owner may still take effect
    uint32_t moves;      // how often a shard had moved
    bool finds;          // the owners must be found ...
    bool finding;        // ... or are being found
    bool full;           // send: the queue refused a message of this attempt
    bool last;           // send: it does not pause any more
    // Receive.
    struct call_shard *shards; // plan.shards; owned
    bool unwanted;             // cancelled; reads and follows too
    bool has_turn;             // as in call_plan
    bool claims;               // a claim is under way
    bool withdrawn;            // ... and was asked to end ...
    bool cancelled;            // ... for good
    bool claim_here;           // the next claim does not go to the owner
    bool reroutes;             // what waits must be begun again, perhaps at another owner
    bool started;              // the awaits were started
    bool certain;              // a round was made, and the receive has not waited since
    uint32_t awaits;           // under way; of a follow too
    bool in_round;
    bool looks;           // read: a look is under way
    uint32_t shard_next;  // the next shard to ask in this round; read: to look at
    uint32_t recalls;     // under way
    bool has_recalled;    // a shard answered the round with a result ...
    bool recall_failed;   // ... or with an error
    uint32_t recalled_at; // ... and it is this one
    bool failed;          // an await failed ...
    uint32_t failed_at;   // ... in this shard
    // Served. Its parts that have no result, or found nothing, are not done: the process that asks
    // does them.
    bool undone;
    bool moved;          // ... because this one does not own the shards
    struct call_result { // where the answer comes from
        enum call_source from;
        bool failed; // it is an error
        uint32_t shard;
    } result;
};

void call_init(struct call_state *c, enum call_kind kind);
void call_done(struct call_state *c);

void call_built(struct call_state *c, const struct call_plan *plan);
void call_failed(
    struct call_state *c); // it is over before it was submitted: the shell has the error
// Served: this process does not own all shards. It is over before it was submitted.
void call_moved(struct call_state *c);
// One more op: how many a send needs is known when the last one is encoded.
void call_add_op(struct call_state *c);
// Returns true if the result of the op is final. Otherwise the op is submitted again.
bool call_op_ended(struct call_state *c, uint32_t op, enum call_op_end end);
bool call_op_was_repeated(const struct call_state *c, uint32_t op); // also: it is in doubt
// The owner gave no result for the op, claim or await. It is made again.
void call_op_returned(struct call_state *c, uint32_t op, enum call_return how);
void call_claim_returned(struct call_state *c, uint32_t shard, enum call_return how);
void call_await_returned(struct call_state *c, uint32_t shard, enum call_return how);
void call_found(struct call_state *c);
// The owners are found before the next part of the call is routed.
void call_find_owners(struct call_state *c);
// A shard has another owner: what waits for it is begun again.
void call_reroute(struct call_state *c);
void call_resumed(struct call_state *c, bool last); // last: its time is over
void call_awaited(struct call_state *c, uint32_t shard, enum call_find_end end);
// over: the receive's wait has ended.
void call_claimed(struct call_state *c, uint32_t shard, enum call_find_end end, bool over);
void call_recalled(struct call_state *c, uint32_t shard, enum call_find_end end);
// cancelled: the event of the await or claim will not come.
void call_withdrawn(struct call_state *c, uint32_t shard, bool cancelled);
void call_looked(struct call_state *c, bool enough); // enough: the other shards are not needed
void call_delivered(struct call_state *c);
void call_has_turn(struct call_state *c); // no earlier call with the same id is left
// The caller does not want to wait any longer. A receive that has claimed nothing ends without
// messages, a follow without events, a listen without signals, a read after the shard it looks at,
// and a served call as undone. Other calls go on.
void call_cancel(struct call_state *c);

bool call_next(struct call_state *c, struct call_effect *out);
bool call_is_over(const struct call_state *c); // answered, and no event is left
