// SPDX-License-Identifier: Apache-2.0
// One call of the library. call/step.h decides, and this part performs. A call of any kind is one
// object: it begins with a struct local_call, and its kind has a struct call_type.
//
// One thread at a time runs a call: the thread that began it, a thread of the pool, or the thread
// on which a shard's runner answers. Events that come meanwhile wait in `inbox`.
//
// A call is asynchronous. If a thread waits for it (call_blocking), that thread performs the
// commits and whatever blocks, so it pays for no context switch. Otherwise parts that may block run
// on the pool.
#pragma once

#include "base/list.h"
#include "call/step.h"
#include "ops/async.h"
#include "ops/blocked_sends.h"
#include "ops/same_request.h"
#include "os/thread_pool.h"
#include "queues/queues.h"

struct local_call;

// Something that a shard's runner was asked for.
struct call_slot {
    struct runner_async async; // first; keeps the answer until the call ends
    struct local_call *call;
    struct call_slot *next; // in the inbox
    enum call_effect_kind effect;
    uint32_t index;
    enum err err;
    bool busy;
    bool kept; // it has ended, and its answer stays; before that, a runner may write to it
    bool here; // it may not go to the owner: see struct call_effect
    // At the shard's owner (forward.c). NULL: here.
    union {
        struct forwarded_call *forwarded; // the request under way
        struct await_hub *shared;         // of an await: the polls that it shares (awaits.c)
    };
    struct list_link waits;    // in the hub's list; under the hub's lock
    enum call_return returned; // the owner gave no result
    bool listed;               // it is in the hub's list; under the hub's lock
    union {
        bool part_ended; // claim: only the owner's part of the wait is over
        bool looked;     // look: it was made
    };
    union {
        bool remembered; // send: the shard remembers the answer for the request id
        bool enough;     // look: the other shards are not needed
    };
};

enum call_built {
    CALL_BUILT,
    CALL_ENDED,  // nothing is to be submitted; c->error says why
    CALL_MOVED,  // served: this node does not own the shards
    CALL_BLOCKS, // it would block, and it may not
};

struct call_type {
    enum call_kind kind;
    // The caller has a reference: it cancels the call with call_note_cancel, and reads the slots
    // until it calls call_release.
    bool held;
    // Opens the queue and makes the plan.
    enum call_built (*build)(struct local_call *c, bool may_block, struct call_plan *plan);
    // Copies the arguments, which are borrowed until then. NULL: they live until the answer.
    void (*own)(struct local_call *c);
    // Encodes an op. The payload is valid until the call's next function is called. NULL: the
    // shard cannot be opened, and the result was noted.
    struct shard_runner *(*op)(struct local_call *c, uint32_t index, struct op *out,
                               uint32_t *shard);
    // Notes the result of an op, unless it will be submitted again.
    enum call_op_end (*op_end)(struct local_call *c, const struct call_slot *slot);
    void (*conclude)(struct local_call *c, const struct call_slot *slot); // may be NULL
    void (*ended)(struct local_call *c); // before the answer; may be NULL
    // A read. True: it is enough. synced: its slot, if the shard was read up to its tail already;
    // NULL: that blocks.
    bool (*look)(struct local_call *c, uint32_t shard, const struct call_slot *synced);
    bool (*look_blocks)(const struct local_call *c);       // also if the shard was read
    bool (*deliver)(struct local_call *c, bool may_block); // false: that would block
    // The runner of a shard, if it is not the queue's own; may be NULL.
    struct shard_runner *(*runner)(struct local_call *c, uint32_t shard);
    // The token of the node's client for which a thread waits; may be NULL.
    const char *(*token)(const struct local_call *c);
    // Fills in the answer. It stays the call's, except the batch. NULL: the results are where the
    // caller wants them.
    void (*answer)(struct local_call *c, struct async_answer *out);
    void (*release)(struct local_call *c); // frees what the call has, and then the call
};

struct local_call {
    struct call_state state;
    const struct call_type *type;
    struct engine *engine;
    struct async_call *caller;     // NULL: a thread waits
    char name[QUEUE_NAME_MAX + 2]; // of the queue; one that is too long is refused
    struct open_queue *queue;      // with a hold; NULL until it is built
    struct sluice_error *error;    // NULL, or with code SLUICE_OK, until something fails
    int64_t until;                 // clock_boot_ms: the end of a wait or a pause
    struct call_slot *slots;
    size_t slots_len;
    struct call_slot one; // the memory of `slots`, if that is enough
    struct pool_job job;
    enum call_effect_kind job_effect;
    _Atomic int refs;
    // Side by side: a call above CALL_BYTES_MAX takes a longer way through malloc.
    bool owns; // the arguments were copied
    bool owns_error;
    bool claim_repeated;        // a claim may have been made at an owner before
    bool is_waiting;            // it is in the queue's list of receives that wait
    bool released;              // the call has dropped its own reference
    bool *forwarded;            // messages or locks that an owner did; NULL: none
    struct list_link waiting;   // under the handle's lock
    struct blocked_place place; // a send that waits for space (blocked_sends.h)
    struct request_turn turn;   // a receive whose request id may be repeated (same_request.h)
    int64_t pause_ms;           // of a send whose thread waits
    // Under the lock:
    pthread_mutex_t lock;
    pthread_cond_t *ended; // of the thread that waits; NULL: none
    bool running;          // a thread runs it
    bool answered;
    bool cancelled;
    bool has_turn;
    bool resumed, last;
    bool rerouted;
    struct call_slot *inbox;
};

#define CALL_BYTES_MAX 1024 // of a call of any kind

// Initializes a call that was allocated with zeros. caller: NULL if a thread will wait for it.
void call_prepare(struct local_call *c, const struct call_type *type, struct engine *e,
                  const char *queue, struct async_call *caller);
void call_start(struct local_call *c);
// Starts a call without a caller, waits for its end and releases it. Returns the code of its error.
enum sluice_code call_blocking(struct local_call *c, struct sluice_error *error);
// Starts the call. If it has no caller, it waits as call_blocking does.
enum sluice_code call_run(struct local_call *c, struct sluice_error *error);
void call_release(struct local_call *c);
// Notes the events, and runs the call if no other thread does.
void call_note_cancel(struct local_call *c);
void call_note_turn(struct local_call *c);
void call_note_reroute(struct local_call *c);
void call_note_resumed(struct local_call *c, bool last);
void call_note_slot(struct call_slot *slot); // its answer, or its end at the owner, is there

// For the functions of struct call_type. Opens the queue of the call; if no thread waits for the
// call, all its runners too.
enum call_built call_open_queue(struct local_call *c, bool may_block);
// Opens the present life of the queue's name instead. False: the call's error says why. Blocks.
bool call_open_again(struct local_call *c);
void call_slot_free(struct call_slot *slot);
// Copies the arguments, which the caller may free when its function returns.
void call_own(struct local_call *c);
// The runner of a shard. NULL: it cannot be opened, which is the call's error.
struct shard_runner *call_runner(struct local_call *c, uint32_t shard);
// Where to write an error. The first one counts: NULL if the call has one already.
struct sluice_error *call_error(struct local_call *c);
enum sluice_code call_code(const struct local_call *c); // of its error
void call_set_code(struct local_call *c, enum sluice_code code);
void call_forget_error(struct local_call *c);
// An owner did this message or lock, of `len`.
void call_mark_away(struct local_call *c, size_t index, size_t len);
// The claim of a receive: the shell submits it with these (receive.c).
struct op_claim;
const struct op_claim *receive_claim(struct local_call *c);
int64_t receive_left_ms(const struct local_call *c);
// The event of a claim, recall or await; its answer is in the slot.
enum call_find_end receive_found(const struct call_slot *slot);
struct answer_budget *receive_budget(struct local_call *c);
bool receive_repeats(const struct local_call *c); // the caller may repeat the request id
// The slot with the answer of the shard.
struct call_slot *call_slot_of(const struct local_call *c, enum call_effect_kind effect,
                               uint32_t index);
