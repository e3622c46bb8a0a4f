// SPDX-License-Identifier: Apache-2.0
// One seeded world on virtual time: nodes with journal handles, clients, a store behind a bad wire,
// and the checkers. All that happens is an event in one queue ordered by time and number; nothing
// else decides.
#pragma once

#include "bucket.h"
#include "history.h"
#include "idle.h"
#include "mix.h"

#define WORLD_START_MS ((int64_t)1000000000)
#define WORLD_PREFIX   "q/sim/0"

struct node {
    uint32_t index;
    uint32_t life; // rises with every start; what is older belongs to a dead handle
    bool up;
    struct journal *journal;
    struct collector *collector; // NULL: not this node's work
    struct registers *machine;
    struct fold inner; // the machine's own; the journal gets one that the checkers listen to
    struct world *world;
    int64_t paused_until;
    int64_t cut_until;
    int64_t late_by; // how far the node's interval reaches back from the true time, and ahead of it
    int64_t early_by;
    int64_t tick_at; // of the one tick event that counts
    struct idle idle;
    uint64_t proved;        // the newest slot that its collector read
    struct hash128 *folded; // lying stores: what it folded, by slot
    uint64_t folded_len;
    uint64_t folded_cap;
    bool halt_seen;
    int64_t looked_at;    // when the store last performed a read on a fresh connection
    bool jumped;          // a snapshot was loaded since
    uint64_t stands_from; // the first slot folded after the last snapshot
};

// One request on its way. Copied: the asker may die before it arrives.
struct flight {
    bool used;
    uint32_t node;
    uint32_t life;
    bool collector;
    struct request request; // owned views
    struct bucket_answer answer;
    uint32_t pending; // events that still refer to it
    uint32_t performed;
    uint32_t answer_of; // which performance is answered; 0: none, the answer is `blind`
    enum err blind;
};

enum world_event_kind {
    EVENT_PERFORM, // a: flight
    EVENT_ANSWER,  // a: flight
    EVENT_TICK,    // a: node, b: life
    EVENT_START,   // a: node
    EVENT_ASK,
    EVENT_RETRY,   // a: ask
    EVENT_SYNC,    // a: node
    EVENT_COLLECT, // a: node
    EVENT_OWN,
    EVENT_SWITCH,
    EVENT_STORM,
    EVENT_CUT,
    EVENT_CRASH,
    EVENT_PAUSE,
    EVENT_JUMP,
    EVENT_QUIET,
    EVENT_FREEZE, // a: node, b: for how long
    EVENT_END,    // a client ends the machine, unless it has ended
};

struct world_event {
    int64_t at;
    uint64_t order;
    enum world_event_kind kind;
    uint32_t a;
    uint32_t b;
    bool put_off; // it was due while its node was paused
};

enum world_phase { WORLD_FAULTY, WORLD_HEALED };

struct world {
    uint64_t seed;
    struct rng rng;
    struct mix mix;
    struct trace trace;
    struct findings findings;
    int64_t now;
    enum world_phase phase;
    bool lying;
    struct world_event *events; // a heap
    size_t events_len;
    size_t events_cap;
    uint64_t events_order;
    struct node nodes[MIX_NODES_MAX];
    struct flight *flights;
    size_t flights_len;
    struct bucket bucket;
    struct tickets tickets;
    struct history history;
    struct buf payload; // scratch
    int64_t storm_until;
    int64_t quiet_until;
    uint64_t tokens[2]; // the highest token each coordination service gave out
    uint32_t coord;     // the service in use
    uint64_t steps;
    uint64_t floor_index; // I8: the newest floor in the store
    uint64_t floor_slot;
    uint64_t dropped;
    uint64_t
        finishes; // how often a collector said that nothing is left of a journal that has ended
    struct hash128 *versions; // lying stores: the first version of each slot that a handle folded
    uint64_t versions_len;
    uint64_t forks;   // ... and how often another one was folded
    uint64_t escapes; // slots of a losing version that a handle no longer stands on
    uint64_t halted;  // handles that halted
    uint64_t resumed; // ... and went on
    int64_t healed_at;
    uint64_t healed_len;   // length of the history when the faults ceased
    size_t healed_tickets; // tickets given out until then
    size_t tickets_open;   // all before it are answered
    struct life *life;     // the queue's world (tests/simqueue) keeps its own here
};

struct world_options {
    uint64_t seed;
    bool lying;
    uint32_t scenario; // 0: the usual one
    FILE *print;
    struct buf *all;
};

void world_init(struct world *w, const struct world_options *o);
void world_done(struct world *w);
void world_run(struct world *w); // to the end, or to the first broken promise
struct runner_sum;
void world_sum(const struct world *w, struct runner_sum *sum); // adds what it came to

void world_at(struct world *w, int64_t at, enum world_event_kind kind, uint32_t a, uint32_t b);
// Draws a delay around mean and schedules kind; nothing for mean 0.
void world_every(struct world *w, int64_t mean, enum world_event_kind kind, uint32_t a);

void fault_plan(struct world *w); // schedules the first of each kind
void fault_storm(struct world *w);
void fault_cut(struct world *w);
void fault_crash(struct world *w);
void fault_pause(struct world *w);
void fault_stall(struct world *w,
                 struct node *n); // paused by its own luck rather than by the clock's
void fault_freeze(struct world *w, struct node *n, int64_t len);
void fault_jump(struct world *w);
void fault_quiet(struct world *w);
void fault_heal(struct world *w); // all faults off, all nodes up

struct interval node_now(const struct node *n);
void node_start(struct world *w, struct node *n);
void node_crash(struct world *w, struct node *n);
void node_settle(struct world *w,
                 struct node *n);        // takes requests and replies, checks, sets the next tick
bool node_can_act(const struct node *n); // up and not paused
struct bucket *node_bucket(struct world *w, struct node *n); // where its requests are performed
void node_respond(struct world *w, struct node *n, const struct flight *f,
                  const struct response *r);

void wire_send(struct world *w, struct node *n, const struct request *q, bool collector);
void wire_perform(struct world *w, struct flight *f);
void wire_answer(struct world *w, struct flight *f);
void wire_done(struct world *w);

void client_ask(struct world *w);
void client_retry(struct world *w, uint32_t ask);
void client_end(struct world *w);
void client_sync(struct world *w, struct node *n);
void client_touch(struct world *w, struct node *n); // no client waits for it
void client_own(struct world *w);
void client_switch(struct world *w);
void client_heard(struct world *w, struct node *n, const struct journal_reply *r);
void client_orphans(struct world *w, struct node *n); // n crashed: its tickets get no answer
