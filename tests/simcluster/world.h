// SPDX-License-Identifier: Apache-2.0
// One seeded world on virtual time: nodes that run src/cluster, a coordination service, the
// journals of a few shards, clients that commit, and a bad network between them. All that happens
// is an event in one queue, ordered by time and number.
#pragma once

#include "../sim/idle.h"
#include "../sim/trace.h"
#include "base/rng.h"
#include "cluster/cluster.h"

#define NODES_MAX   6
#define SHARDS_MAX  12
#define LIVES_MAX   64 // starts of nodes in one world; also sessions of the service
#define OPS_MAX     4096
#define WORLD_START ((int64_t)1000000)
#define NONE        UINT32_MAX
#define NOISE_PARTS 50 // a measured traffic differs from the true one by up to one of these parts

// What one seed draws.
struct mix {
    uint32_t nodes;
    uint32_t shards;
    int64_t lease_ms;
    int64_t run_ms;
    int64_t heal_ms;
    int64_t latency_ms;
    int64_t timeout_ms;
    int64_t late_ms;
    uint32_t moves_max;
    bool lazy;       // nodes claim only shards that clients use
    bool lists_dead; // the service lists ended sessions for a while
    bool cold;       // all nodes start at once, and the faults begin later
    bool traffic;    // the leader is told the traffic of the shards
    bool reach;      // ... and which members do not reach each other
    uint32_t queue_shards;
    // Chances of one request, in hundredths of a percent.
    uint32_t lost_request, lost_reply, late, slow, unavailable;
    // Mean time between two of them; 0: never.
    int64_t cut_every, store_cut_every, outage_every, pause_every, crash_every, stop_every;
    int64_t drain_every, jump_every, commit_every, peer_cut_every;
    int64_t jump_ms;
};

struct session {
    struct member_id id;
    uint32_t node;
    bool used; // has joined
    bool alive;
    bool replaced;
    bool leaving;
    uint64_t joined;
    int64_t beat_at;
    int64_t expires;
};

struct claim {
    uint32_t life; // the session that holds it, or NONE
    uint64_t token;
};

// The coordination service. Its clock is the true time.
struct service {
    struct session sessions[LIVES_MAX]; // by life
    uint64_t joins;
    struct claim claims[SHARDS_MAX];
    uint32_t leader; // a life, or NONE
    uint64_t epoch;
    struct plan **plans; // all that were accepted; the last is current
    size_t plans_len;
    size_t plans_cap;
    int64_t planned_at;
};

#define EPOCHS_MAX 2048

// The journal of one shard, as far as ownership goes.
struct register_log {
    uint64_t epoch;
    uint64_t token;
    uint64_t highest;            // the highest token accepted, for the checker
    uint32_t owners[EPOCHS_MAX]; // life by epoch
    uint64_t commits;
};

struct op {
    uint32_t shard;
    bool applied;
    bool open; // a flight is under way
};

struct node {
    uint32_t index;
    uint32_t life; // of this start; an index of sessions
    bool up;
    bool leaving; // a drain or a stop was ordered
    bool drains;  // ... a drain, which a second order ends
    struct cluster *cluster;
    struct member_id id;
    int64_t paused_until, cut_until, store_cut_until;
    int64_t peer_cut_until; // the service sees it, and no other node reaches it
    int64_t late_by, early_by;
    int64_t tick_at;
    struct idle idle;
    // What the checkers know of this life.
    uint64_t taking[SHARDS_MAX];  // the epoch with which it serves; 0: not
    bool untold[SHARDS_MAX];      // it stopped serving, and has not said how
    uint32_t commits[SHARDS_MAX]; // under way
    bool doubt[SHARDS_MAX];
    int64_t viewed_at;     // its first view; TIME_UNKNOWN: none
    int64_t contact_at;    // when the last request was sent that got a definite answer
    struct plan *plan;     // the newest that it has seen; borrowed from the service
    bool used[SHARDS_MAX]; // it was told so
};

enum flight_kind { FLIGHT_REQUEST, FLIGHT_COMMIT, FLIGHT_WATCH };

struct flight {
    bool used;
    enum flight_kind kind;
    uint32_t node;
    uint32_t life;
    struct cluster_effect effect;
    uint32_t shard; // of the effect, by number
    int64_t sent;
    uint32_t op;
    uint64_t expected; // own: the epoch that was read
    bool read;
    bool performs;
    bool blind; // the answer is `err`, whatever was performed
    bool performed;
    enum err err;
    uint64_t number;
    uint32_t pending; // events that refer to it
    struct member_report members[LIVES_MAX];
    size_t members_len;
    uint64_t at;
    struct leader_report leader;
    struct plan *plan; // view: borrowed from the service; publish: owned
};

enum event_kind {
    EVENT_PERFORM,
    EVENT_ANSWER,
    EVENT_TICK,
    EVENT_START,
    EVENT_HINT_FREE,   // a: node, b: shard
    EVENT_HINT_IN_WAY, // a: node, b: shard
    EVENT_COMMIT,
    EVENT_SAMPLE, // the leader samples the traffic and the reports of its members
    EVENT_CUT,
    EVENT_PEER_CUT,
    EVENT_STORE_CUT,
    EVENT_OUTAGE,
    EVENT_PAUSE,
    EVENT_CRASH,
    EVENT_STOP,
    EVENT_DRAIN,
    EVENT_JUMP,
};

struct event {
    int64_t at;
    uint64_t order;
    enum event_kind kind;
    uint32_t a;
    uint32_t b;
};

struct world {
    uint64_t seed;
    struct rng rng;
    struct mix mix;
    struct trace trace;
    struct findings findings;
    int64_t now;
    bool healed;
    int64_t calm_until;   // no fault happens before
    uint32_t unreachable; // the node that no other reaches after the faults, or NONE
    uint32_t traffic[SHARDS_MAX];
    int64_t outage_until;
    struct event *events; // a heap
    size_t events_len, events_cap;
    uint64_t order;
    struct node nodes[NODES_MAX];
    uint32_t lives;
    struct service service;
    struct shard_key keys[SHARDS_MAX];
    struct register_log logs[SHARDS_MAX];
    struct flight **flights;
    size_t flights_len;
    struct op ops[OPS_MAX];
    uint32_t ops_len;
    uint32_t leaders[EPOCHS_MAX]; // life by epoch
    uint64_t steps, owns, elections, moves, fenced, plans;
};

static inline uint32_t node_capacity(uint32_t node)
{
    return 1 + node % 2;
}

void mix_draw(struct mix *m, struct rng *rng);

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all);
void world_done(struct world *w);
void world_run(struct world *w);
void world_at(struct world *w, int64_t at, enum event_kind kind, uint32_t a, uint32_t b);
void world_every(struct world *w, int64_t mean, enum event_kind kind);
uint32_t world_shard(const struct world *w, const struct shard_key *key);

struct interval node_now(const struct world *w, const struct node *n);
void node_start(struct world *w, struct node *n);
void node_call(struct world *w, struct node *n, uint32_t shard);
void node_end(struct world *w, struct node *n);
bool node_acts(const struct world *w, const struct node *n);
void node_step(struct world *w, struct node *n, const struct cluster_event *e);
void node_tick(struct world *w, struct node *n);
void node_commit(struct world *w);

void sample_init(struct world *w); // what the leaders will be told, by the mix
void sample_all(struct world *w);

struct flight *flight_new(struct world *w, struct node *n, enum flight_kind kind);
void flights_watch(struct world *w); // a watch reports the present view to some nodes
void flight_send(struct world *w, uint32_t number);
void flight_perform(struct world *w, uint32_t number);
void flight_answer(struct world *w, uint32_t number);
void flights_done(struct world *w);

void service_init(struct service *s);
void service_done(struct service *s);
void service_perform(struct world *w, struct flight *f);
enum err service_list(struct world *w, struct flight *f);
struct plan *service_plan(const struct world *w, const struct plan *version);
bool session_lives(const struct world *w, uint32_t life);
void log_perform(struct world *w, struct flight *f); // own and commit

void fault_plan(struct world *w);
void fault_do(struct world *w, enum event_kind kind);
void fault_heal(struct world *w);

// Checkers.
void check_effect(struct world *w, struct node *n, const struct cluster_effect *e);
void check_plan(struct world *w, struct node *n);
void check_leader(struct world *w, struct node *n);
void check_leases(struct world *w); // at every moment
void check_granted(struct world *w, uint32_t life, uint64_t epoch);
void check_own(struct world *w, uint32_t shard, uint32_t life, uint64_t token);
void check_commit(struct world *w, uint32_t shard, uint32_t life);
void check_healed(struct world *w);
bool plan_rests(const struct world *w); // it has not changed for four leases

const char *effect_name(enum cluster_effect_kind kind); // "heartbeat"
