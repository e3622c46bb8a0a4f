// SPDX-License-Identifier: Apache-2.0
// The world of the call model (call/step.h). One queue of 1 to 4 shards is used by several
// processes. Each process has a real shard of its own for every shard of the queue. Clients make
// calls, and a simulated shell performs the effects of their state machines.
//
// The store, the wire, the faults and the runner are those of the journal's world (tests/sim). A
// node of that world is one shard of one process: node p * shards + s.
#pragma once

#include "base/heap.h"
#include "call/step.h"
#include "queue/codec/ops_signals.h"
#include "shard/shard.h"
#include "world.h"

#define SIM_SHARDS_MAX    4
#define SIM_PROCESSES_MAX 4
#define SIM_CALLS_MAX     600
#define SIM_OPS_MAX       8 // of one attempt of a call
#define SIM_MESSAGES_MAX  8 // of one send
#define SIM_REFS_MAX      3 // messages or locks of one op or claim
#define SIM_HELD_MAX      16
#define SIM_CAPACITY_MAX  1000 // more messages than a world has
#define NOT_INDEX         UINT32_MAX

#define SECOND            ((int64_t)1000)

// Beside those of world.h.
enum life_event {
    LIFE_CLIENT = EVENT_END + 1, // a client makes a call
    LIFE_REPEAT,                 // a: call whose request id is used again
    LIFE_CANCEL,                 // a: call
    LIFE_ENDED,                  // a: call that was cancelled a while ago
    LIFE_CLOSE,                  // a process closes its handle
    LIFE_PERFORM,                // a: action
    LIFE_REPORT,                 // a: action
    LIFE_RESUME,                 // a: call that is paused
    LIFE_TURN,                   // a: call whose turn may have come
    LIFE_LOOK,                   // are all receives served?
    LIFE_ASK_SEND,               // a: request to an owner that has all its parts
    LIFE_ASK_ARRIVES,            // a: request to an owner
    LIFE_ASK_ANSWERED,           // a: request whose answer arrives
    LIFE_ASK_TIMEOUT,            // a: request that the caller waits for no longer
    LIFE_ASK_CUT,                // a: request whose caller is gone, and the owner notices
    LIFE_ANNOUNCEMENT,           // a: node whose next waiter hears of a message, b: its life
    LIFE_OWN,                    // a shard gets another owner
    LIFE_LEARN,                  // a: process and shard whose owner the process learns
    LIFE_FOUND,                  // a: call that has found the owners again
};

// A request id and what the history has of it.
struct sim_claim {
    bool made;       // it brought messages
    uint64_t commit; // number among all commits of the world
    uint32_t call;
    uint32_t len;
    struct lock_ref refs[SIM_REFS_MAX];
};
struct sim_id {
    struct request_id id;
    bool flown;                    // an entry with it was sent to the store
    bool in_shard[SIM_SHARDS_MAX]; // an entry with it is in the history
    struct sim_claim claims[SIM_SHARDS_MAX];
    bool answered;
    enum err err; // of an op: the last answer
    bool has_body;
};

// An op of a call. A later attempt of a send makes new ones.
struct sim_op {
    uint32_t call, attempt, index, shard, id;
    uint16_t kind;
    int64_t arrived_at;
    uint32_t len;
    uint32_t members[SIM_REFS_MAX]; // send: places in sim_call.messages
    struct lock_ref refs[SIM_REFS_MAX];
    uint32_t submits;
    uint32_t lefts;  // attempts at an owner without a result, beside the submits
    bool doubted;    // ... one of them may still take effect
    bool by_entry;   // send: an entry has the result
    bool at_owner;   // the result came from an owner ...
    bool remembered; // ... whose shard remembers it
    bool over;
    enum err err;
    bool full[SIM_REFS_MAX];
};

// An effect that was planned, performed or answered.
enum action_state { ACTION_PLANNED, ACTION_OPEN, ACTION_REPLIED, ACTION_OVER };
struct action {
    enum call_effect_kind kind; // SUBMIT_JOINED: the op of the pair
    enum action_state state;
    uint32_t call, index, shard;
    uint32_t partner; // of a joined pair: the other action; else NOT_INDEX
    bool sync;
    bool here;      // not at the owner
    bool withdrawn; // the shell was told to cancel it
    uint32_t ask;   // the request to the owner; NOT_INDEX: it is done here
    bool slice;     // the owner waits for a part of the time
    enum call_return left;
    int64_t cancelled_at; // in the shard, too late: its reply comes; 0: it was not
    // The shard's reply.
    enum err err;
    bool has_body;
    uint32_t rows_len;
    enum reason rows[SIM_REFS_MAX]; // send
    uint32_t refs_len;
    struct lock_ref refs[SIM_REFS_MAX]; // claim, recall
    bool heard;                  // listen: it has signals, or locks that are not in force ...
    uint32_t gone[SIM_REFS_MAX]; // ... these: places among its locks of this shard
    uint32_t gone_len;
};

// A request to the owner of shards: an op, a claim, both, or awaits in several of them.
enum ask_state { ASK_SENT, ASK_THERE, ASK_OVER };
struct sim_ask {
    enum ask_state state;
    uint32_t caller;  // process
    uint32_t process; // that is asked
    uint32_t life;    // how often it was started, when the request arrived
    uint32_t call;
    uint32_t op;   // place in life.ops
    int64_t until; // end of the wait there
    bool waits;
    bool opening; // it is not sent yet: other awaits of the call may join it
    bool answer_lost;
    unsigned lie;    // of the owner, see owner.c
    bool lies_moved; // ... that it does not own the shards
    bool ended;      // for the caller
    uint32_t parts_len;
    uint32_t actions[SIM_SHARDS_MAX];    // of the caller; NOT_INDEX: withdrawn
    struct action parts[SIM_SHARDS_MAX]; // the replies
    bool remembered;
    // The owner's side.
    struct call_state served;
    bool pumping;
    bool cut; // the caller is gone
};

struct held_lock {
    uint32_t shard;
    struct lock_ref ref;
};

struct sim_message {
    uint32_t shard;
    bool answered;
    enum err err;
    uint32_t accepted; // how often the history has it
};

struct sim_call {
    struct call_state state;
    uint32_t process, incarnation; // incarnation: how often the process was started
    bool lost;                     // its process crashed
    bool pumping;
    int64_t began_at;
    uint64_t began_commit; // commits of the world until then
    int64_t until;         // send: it pauses no longer; receive: it waits no longer
    bool build_fails;
    uint32_t answers;
    // Ops.
    uint32_t attempt, at_once;
    bool adds_ops; // its state machine learns of each op when the one before it is submitted
    uint32_t ops[SIM_OPS_MAX]; // of this attempt
    uint32_t ops_len;
    struct sim_message messages[SIM_MESSAGES_MAX];
    uint32_t messages_len, op_len_max;
    bool paused;
    uint16_t settles; // settle, acks: the kind of op
    struct held_lock locks[SIM_REFS_MAX];
    uint32_t locks_len;
    bool went_away;                   // one of its ops was asked of an owner
    uint32_t last_op[SIM_SHARDS_MAX]; // order check: the last op of this attempt in the history + 1
    // Receive.
    uint32_t id;
    bool named;
    uint32_t first_shard;
    uint32_t max;
    uint64_t built; // the order of builds; 0: not built
    bool has_turn;
    bool decided;        // it delivers, or was answered: the next call with its id can begin
    int64_t unwanted_at; // cancelled, or another call with its id came; 0: neither
    uint32_t awaits[SIM_SHARDS_MAX];
    bool told[SIM_SHARDS_MAX]; // the await found a message; neither claimed nor passed on yet
    uint32_t recalls[SIM_SHARDS_MAX];
    uint32_t recalls_open;
    uint32_t claim;
    uint32_t claim_left; // shard of a claim without a result at its owner; NOT_INDEX: none
    bool claim_doubted;  // an owner may have made, or may still make, a claim of this call
    bool waited;         // it only waits for messages
    bool had_answer;     // when that wait ended, a fold of its process had an answer to its id
    int64_t due[SIM_SHARDS_MAX];
    // Read.
    uint64_t began_len[SIM_SHARDS_MAX]; // the length of the histories when it began
    uint32_t looked;                    // shards that it looked at
    uint32_t looks_max;                 // ... after which it has enough
    // Follow.
    size_t taken; // events
    // Listen, to `locks`.
    uint32_t parts[SIM_REFS_MAX]; // its shards
    uint32_t parts_len;
    // The answer of a receive, read or follow.
    enum err err;
    uint32_t from;
    uint32_t refs_len;
    struct lock_ref refs[SIM_REFS_MAX];
};

// A shard of the queue: its store and its true history.
struct sim_shard {
    struct world *world;
    uint32_t index;
    struct bucket bucket;
    struct machine *machine;
    uint64_t len;
    int64_t now;
    uint64_t seqs;         // messages that were sent
    uint64_t empty_commit; // the last commit of the world at which it had nothing to claim
    struct buf text;
};

// What a process knows of the owner of a shard.
struct sim_belief {
    uint32_t owner;     // process; NOT_INDEX: none is known
    int64_t away_until; // it did not answer
};

struct sim_process {
    bool closing;
    struct sim_belief owners[SIM_SHARDS_MAX];
};

enum life_figure {
    FIGURE_SENDS,
    FIGURE_SETTLES,
    FIGURE_RECEIVES,
    FIGURE_CHANGES,
    FIGURE_READS,
    FIGURE_FOLLOWS,
    FIGURE_EVENTS, // that follows took
    FIGURE_LISTENS,
    FIGURE_SIGNALS, // that were sent
    FIGURE_HEARD,   // listens that were told something
    FIGURE_CANCELLED,
    FIGURE_CLOSED,
    FIGURE_CRASHED,
    FIGURE_PAUSED,
    FIGURE_AGAIN,    // ops that were submitted twice
    FIGURE_GIVEN,    // receives with messages
    FIGURE_RECALLED, // ... of an earlier call with the id
    FIGURE_TWICE,    // request ids that claimed in two shards
    FIGURE_NOTIFIED, // announcements that were passed on
    FIGURE_UNKNOWN,  // answers
    FIGURE_ASKED,    // requests to owners
    FIGURE_DOUBTED,  // ... without an answer
    FIGURE_MOVED,    // ... to a process that does not own the shard any more
    FIGURE_LIES,     // ... with a false answer
    FIGURE_REROUTED, // receives that waited, and began again
    FIGURES
};

struct life {
    uint32_t shards, processes;
    struct queue_id queue;
    struct queue_config config;
    struct sim_shard lanes[SIM_SHARDS_MAX];
    struct shard *handles[MIX_NODES_MAX];
    struct sim_process process[SIM_PROCESSES_MAX];
    struct sim_call *calls; // of SIM_CALLS_MAX: they stay where they are
    uint32_t calls_len;
    uint32_t calls_open; // all before it are over
    struct sim_id *ids;
    uint32_t ids_len;
    struct sim_op *ops;
    uint32_t ops_len;
    struct action *actions;
    uint32_t actions_len;
    uint32_t actions_open; // all before it are over
    struct sim_ask *asks;
    uint32_t asks_len;
    uint32_t asks_open;                  // all before it are over
    struct held_lock held[SIM_HELD_MAX]; // locks that clients got
    uint32_t held_len;
    uint64_t commits, builds;
    int64_t put_off_at[MIX_NODES_MAX]; // when a pause last delayed an event of the node
    // What the seed draws beside the mix.
    int64_t close_every_ms;
    int64_t wait_ms;  // the longest usual wait
    uint32_t sends;   // how many of a hundred calls are sends
    bool many_waits;  // most receives wait until they are cancelled
    uint32_t delays;  // chance that an effect or an event takes its time
    int64_t delay_ms; // ... and how long at most
    uint32_t named;   // chance that a receive has a request id
    uint32_t repeats; // ... and that it is used again
    uint32_t cancels; // ... that a receive is cancelled
    uint32_t between; // ... that another event comes between two effects of a call
    uint32_t build_fails;
    bool owned;                     // shards have owners ...
    uint32_t owner[SIM_SHARDS_MAX]; // ... these processes; NOT_INDEX: none
    bool claimed[MIX_NODES_MAX];    // a call of this process claimed in this shard at its owner
    uint32_t announcements[MIX_NODES_MAX]; // LIFE_ANNOUNCEMENT events that will come
    int64_t own_every_ms;
    int64_t ask_ms;      // an owner that has nothing to wait for answers within it
    int64_t ask_part_ms; // the longest wait at an owner
    uint32_t ask_faults; // chance that a request to an owner fails
    uint32_t ask_lies;   // chance that its answer is false
    bool calm;           // there is no fault, from the beginning
    bool quiet;          // no client makes calls any more
    bool served;         // no receive waits for a message that is there
    int64_t given_at;    // the last time a receive got messages; the start of the quiet phase
    struct heap agenda;
    struct world_event *events; // by handle in the agenda
    uint32_t events_len;
    uint32_t *events_free;
    uint32_t events_free_len;
    struct buf scratch;
    uint64_t figures[FIGURES];
};

void life_after(struct world *w, int64_t delay, enum life_event kind, uint32_t a);
void draw_life(struct world *w);

// process.c
struct node *process_node(struct world *w, uint32_t process, uint32_t shard);
bool process_is_up(struct world *w, uint32_t process);
void process_close(struct world *w);
void process_end_closed(struct world *w); // drops the shards of closed handles whose calls are over

// truth.c
bool truth_has_message(const struct sim_shard *s); // ready, as of its last entry
void truth_init(struct world *w, struct sim_shard *s, uint32_t index);
void truth_done(struct sim_shard *s);
void truth_flown(struct world *w, struct bytes entry); // an append was sent
uint32_t id_new(struct world *w);
struct sim_id *id_find(struct world *w, const struct request_id *id); // NULL: a shard's own
// Whether the fold of this handle has an answer to the claim.
bool fold_has_answer(struct world *w, struct shard *s, uint32_t id);
bool fold_has_answer_to(struct world *w, struct shard *s, const struct sim_op *op);

// shell.c
void shell_pump(struct world *w, uint32_t call);
void shell_perform(struct world *w, uint32_t action);
void shell_heard(struct world *w, const struct node *n, const struct shard_reply *r);
void shell_report(struct world *w, uint32_t action);
void shell_resume(struct world *w, uint32_t call);
void shell_cancel(struct world *w, uint32_t call);
void shell_take_turn(struct world *w, uint32_t call);
void shell_lost(struct world *w, uint32_t process); // it crashed
void shell_done(struct world *w);

void shell_ended(struct world *w, uint32_t action,
                 bool now); // it has a reply, or the owner left it
void shell_found(struct world *w, uint32_t call);
void shell_reroute(struct world *w, uint32_t process);
void call_drop(struct call_state *c); // frees the memory of a call whose process has crashed
void keep_reply(struct action *a, const struct shard_reply *r);
enum call_find_end find_end(const struct action *a);

// owner.c: the owners of shards, and what is asked of them
void owner_init(struct world *w);
void owner_started(struct world *w, uint32_t process);
void owner_crashed(struct world *w, uint32_t process);
bool owner_is_away(struct world *w, uint32_t process, uint32_t shard); // it is another process
bool owner_ask(struct world *w, uint32_t action); // false: the action is done here
bool owner_cancel(struct world *w, struct action *a);
void owner_answers(struct world *w, uint32_t ask);        // the owner has its answer
void owner_left(struct world *w, const struct action *a); // the caller hears of it
void owner_find(struct world *w, uint32_t process);
void owner_event(struct world *w, const struct world_event *e);

// served.c: what is asked, at the owner
#define ASK_TICKETS ((uint64_t)1 << 40) // tickets of an owner's shard for other processes
#define RELEASES    (ASK_TICKETS * 2)   // ticket of ops without a caller, such as releases of locks
void served_arrives(struct world *w, uint32_t ask);
void served_reply(struct world *w, const struct shard_reply *r);
void served_cancel(struct world *w, uint32_t ask); // the caller is gone
void served_lost(struct world *w, uint32_t ask);   // the answer did not reach it
void served_announce(struct world *w, const struct world_event *e);
void served_closes(struct world *w, uint32_t process);
bool served_any(const struct world *w, uint32_t process); // requests are there
void served_drop(struct sim_ask *k);                      // its process has crashed
bool ask_listens(struct world *w, const struct sim_ask *k);

// submit.c: effects on a shard
struct op_claim claim_of(struct world *w, uint32_t call);
struct op op_bytes(struct world *w, const struct sim_op *op);
int64_t patience(struct world *w);
void submit_action(struct world *w, uint32_t action);
void submit_signal(struct world *w, const struct node *n, const struct held_lock *lock);
// What a listen asks one shard. asks: of SIM_REFS_MAX
struct shard_listen listen_of(const struct sim_call *c, uint32_t shard, struct listen_ask *asks);
// last: no caller waits any more. Returns false if its reply comes.
bool submit_cancel(struct world *w, struct action *a, bool last);

// build.c
void build_call(struct world *w, uint32_t call);
// Notes the final answer of an op.
void op_concluded(struct world *w, struct sim_op *op, const struct action *a);
enum call_op_end op_end(const struct sim_op *op, const struct action *a);

// client.c
void client_acts(struct world *w);
void client_repeats(struct world *w, uint32_t call);
void client_waits(struct world *w); // some receives in every process
void client_answered(struct world *w, uint32_t call);
struct sim_call *call_at(struct world *w, uint32_t call);
uint32_t call_of(const struct world *w, const struct sim_call *c);
bool call_waits(const struct sim_call *c);   // a receive that is wanted and has no answer
bool call_is_wait(const struct sim_call *c); // a receive or a follow: it has a time until
