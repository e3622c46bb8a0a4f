// SPDX-License-Identifier: Apache-2.0
// One seeded world on virtual time: processes that use the shards of one store. Some are nodes,
// alone or in a cluster, and some are clients. Which node takes a shard, and where an op goes, is
// decided by the code that ships (cluster/ownership.h, cluster/op_route.h). The journals, the
// challenges between processes and the cluster are models.
#pragma once

#include "../sim/trace.h"
#include "base/heap.h"
#include "base/interval.h"
#include "base/rng.h"
#include "cluster/op_route.h"
#include "cluster/ownership.h"

#define PROCESSES_MAX 7
#define SHARDS_MAX    3
#define LIVES_MAX     256 // starts of processes in one world
#define NONE          UINT32_MAX
#define WORLD_START   ((int64_t)1000000000)
// As in the product (peer/peer.h, queues/where.c).
#define ASK_MS        1000
#define PROBE_MS      1000
#define CHECKING_MS   (2 * ASK_MS)
#define ALIVE_MS      3000 // the model of the cluster sees the end of a node so late
// After the faults, a shard has a live owner that every process knows within this time: a last
// look at the old owner, a challenge, the lease, and the next look of the others.
#define TAKEN_MS      (OWNERSHIP_OTHER_MS + ASK_MS + OWNERSHIP_LEASE_MS + OWNERSHIP_SYNC_MS + 4000)

// What one seed draws.
struct mix {
    uint32_t nodes, clients, shards;
    bool cluster; // the nodes are members of one
    bool queues;  // each shard is a queue of its own
    bool tokens;  // the clients of nodes have tokens
    bool deletes; // the queue of the first shard is deleted
    int64_t run_ms, calm_ms, latency_ms, call_every, clock_ms;
    uint32_t lost;      // chance of a request to an owner
    uint32_t nameless;  // ... that no process can read the address that a node writes
    uint32_t snapshots; // ... that a process sees no entry of an owner when it starts
    // Mean time between two of them; 0: never.
    int64_t crash_every, pause_every, cut_every, store_cut_every, focus_every;
};

struct journal {
    uint64_t epoch;
    uint32_t owner;  // life; NONE: there was none
    uint64_t writes; // entries of the owner
    int64_t wrote_at;
    bool deleted;
};

// The journal as a process folded it.
struct fold {
    struct journal journal;
    uint64_t unseen; // entries of the owner in the snapshot that it loaded
    uint64_t unseen_epoch;
};

struct op {
    bool used;
    bool has_token, lacks_token, large;
    bool tried; // the owner did not do it
};

// The ownership of one shard, as a process sees it.
struct seen_shard {
    struct ownership_silence silence;
    int64_t check_at; // 0: never checked
    bool wanted, checking, read;
    struct ownership_facts facts;
    struct journal before; // as the facts were collected
    struct op op;          // that waits for the check
    uint32_t known;        // life that ops go to; NONE: none
    // For the checkers.
    int64_t since;
    uint32_t reads, asks, wants;
};

struct peer {
    int64_t probe_at, doubted_until; // 0: it is not away
    bool probing;
    enum ownership_answer last; // of a challenge that has ended ...
    int64_t answered_at;        // ... then
};

struct process {
    uint32_t index, life;
    bool node, up, hangs;
    bool token_host;   // a token may be sent to it
    int64_t joined_at; // of a node of a cluster
    int64_t paused_until, cut_until, store_cut_until;
    int64_t ended_at;   // when it went down or hung
    int64_t good_since; // it runs, and other processes reach it
    int64_t late_by;
    struct fold folds[SHARDS_MAX];
    struct seen_shard shards[SHARDS_MAX];
    struct peer peers[LIVES_MAX];
};

enum event_kind {
    EVENT_CALL,
    EVENT_START,   // process
    EVENT_READ,    // process, shard: the read of the journal ends
    EVENT_ASKED,   // process, shard: the challenge of a check ends
    EVENT_PROBED,  // process; life that was asked
    EVENT_FOUND,   // process, shard; life that was in doubt
    EVENT_OWN,     // process, shard; number: the epoch that it expects
    EVENT_HINT,    // process, shard: the cluster says that the shard is used
    EVENT_REQUEST, // process, shard; number: the life that is asked
    EVENT_ANSWER,  // process, shard; answer: of the request
    EVENT_CRASH,
    EVENT_PAUSE,
    EVENT_CUT,
    EVENT_STORE_CUT,
    EVENT_DELETE,
    EVENT_FOCUS, // other shards are used, at other processes
    EVENT_HEAL,
    EVENT_END,
};
enum request_end { REQUEST_DONE, REQUEST_MOVED, REQUEST_LOST };

struct event {
    enum event_kind kind;
    uint32_t process, life, shard;
    uint64_t number;
    int answer;
    struct op op;
};

struct start {
    uint32_t process;
    bool named;
};

struct world {
    uint64_t seed;
    struct rng rng;
    struct mix mix;
    struct trace trace;
    struct findings findings;
    int64_t now, heal_at;
    int64_t calm_at; // no fault begins any more
    bool healed, ended;
    struct heap agenda;
    struct event *events;
    uint32_t events_len, events_cap;
    uint64_t order;
    struct process processes[PROCESSES_MAX];
    uint32_t processes_len;
    struct start lives[LIVES_MAX];
    uint32_t lives_len;
    struct journal journals[SHARDS_MAX];
    bool unused[PROCESSES_MAX][SHARDS_MAX]; // no call comes
    uint64_t steps, takes, replaced, asks, forwards, direct;
};

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all);
void world_done(struct world *w);
void world_run(struct world *w);
void world_after(struct world *w, int64_t delay, const struct event *e);
int64_t world_hop(struct world *w);
struct process *world_live(struct world *w, uint32_t life); // NULL: that start has ended
bool process_runs(const struct world *w, const struct process *p);
bool process_is_reached(const struct world *w, const struct process *from,
                        const struct process *to);

// owner.c: the checks of a process, as queues/where.c makes them
enum ownership_kind process_kind(const struct world *w, const struct process *p);
bool process_owns(const struct process *p, uint32_t shard); // by its fold
void owner_fold(struct world *w, struct process *p, uint32_t shard);
void owner_use(struct world *w, struct process *p, uint32_t shard, const struct op *op);
void owner_read(struct world *w, struct process *p, uint32_t shard);
void owner_asked(struct world *w, struct process *p, uint32_t shard, enum ownership_answer answer,
                 int64_t age_ms);
void owner_owns(struct world *w, struct process *p, uint32_t shard, uint64_t expected);
void owner_hint(struct world *w, struct process *p, uint32_t shard);
void owner_want(struct process *p, uint32_t shard);

// peer.c: challenges, as peer/peer.c makes them
void peer_ask(struct world *w, struct process *p, uint32_t shard, uint32_t life);
void peer_ended(struct world *w, struct process *p, uint32_t life, enum ownership_answer answer);
void peer_doubt(struct world *w, struct process *p, uint32_t shard, uint32_t life);
void peer_found(struct world *w, struct process *p, uint32_t shard, uint32_t life,
                enum ownership_answer answer);
bool peer_is_good(const struct world *w, const struct process *p, uint32_t life);

// route.c: ops, as ops/forward.c sends them
void route_op(struct world *w, struct process *p, uint32_t shard, struct op op);
void route_arrives(struct world *w, const struct event *e);
void route_ends(struct world *w, struct process *p, const struct event *e);

// check.c
void check_facts_move(struct world *w, struct process *p, uint32_t shard, enum ownership_move move);
void check_decision(struct world *w, struct process *p, uint32_t shard,
                    const struct ownership_decision *d);
void check_own(struct world *w, const struct process *p, uint32_t shard);
void check_request(struct world *w, const struct process *p, const struct op *op, uint32_t life);
void check_direct(struct world *w, const struct process *p, uint32_t shard, const struct op *op);
void check_healed(struct world *w);
