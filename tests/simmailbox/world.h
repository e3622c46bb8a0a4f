// SPDX-License-Identifier: Apache-2.0
// One seeded world on virtual time: a store with mailbox objects, nodes that own the shard one
// after the other, workers that reach only the store, and one machine, which every entry goes
// through. The machine, the worker's side and the owner's side are those that ship.
#pragma once

#include "../sim/idle.h"
#include "../sim/trace.h"
#include "base/heap.h"
#include "base/rng.h"
#include "mailbox/limit.h"
#include "mailbox/owner.h"
#include "mailbox/worker.h"
#include "queue/core/machine.h"

#define WORLD_START  ((int64_t)1000000000)
#define WORKERS_HERE 5
#define NODES_HERE   4 // one after another
#define JOBS_MAX     8
#define MESSAGES_MAX 64
#define PREFIX       "q/1/0"

// What one seed draws.
struct mix {
    uint32_t workers;
    uint32_t capacity;
    uint32_t messages;
    int64_t run_ms, heal_ms;
    int64_t latency_ms;
    int64_t work_ms; // the longest job
    int64_t slow_ms; // how much longer a step of a round may take
    int64_t lag_ms;  // how late LIST shows a change; 0: at once
    int64_t visibility_ms;
    // Chances of one request, in hundredths of a percent.
    uint32_t lost_request, lost_reply, late, unavailable;
    // Mean time between two of them; 0: never.
    int64_t owner_every, stall_every, death_every, outage_every, sender_every;
};

struct object {
    char key[MAILBOX_KEY_MAX];
    struct bytes body;
    int64_t created;
    int64_t listed_from;
    bool deleted;
    int64_t unlisted_from;
};

struct job {
    bool open;
    uint64_t seq;
    struct lock_ref ref;
    int64_t deadline;
    int64_t ends;
    bool renews; // a renewal is under way
};

// A request of a worker's program.
struct asked {
    uint32_t worker;
    uint64_t life;
    uint16_t kind;
    struct lock_ref ref;
    int64_t since;
    uint32_t replies;
    bool excused; // its direct commit had no answer from the store
};

struct here_worker {
    struct mailbox_worker *box;
    char name[16];
    uint64_t instance;
    uint64_t life; // events of an earlier life are dropped
    bool alive;
    int64_t paused_until;
    int64_t wake_at;  // of the event that is scheduled
    int64_t heard_at; // when it read an object of the owner last, or started
    struct idle idle;
    bool claiming;
    struct job jobs[JOBS_MAX];
};

struct node {
    struct mailbox_owner *owner;
    bool runs;
    uint64_t epoch;
    uint64_t life;
    int64_t stalled_until;
    int64_t begun; // of the round
    int64_t listed_at;
};

struct world;
typedef void event_fn(struct world *w, uint32_t index, uint64_t life, uint64_t n);

struct sim_event {
    event_fn *fn;
    uint32_t index;
    uint64_t life;
    uint64_t n;
};

struct world {
    struct mix mix;
    struct rng rng;
    struct trace trace;
    struct findings findings;
    int64_t now;
    bool healed;
    struct heap queue;
    struct sim_event *events;
    uint32_t events_len, events_cap, *events_free;
    uint32_t free_len, free_cap;
    uint64_t order;
    struct machine *machine;
    struct queue_id id;
    uint64_t slot;
    uint64_t epoch;
    uint32_t owner; // a node
    struct node nodes[NODES_HERE];
    struct here_worker workers[WORKERS_HERE];
    struct object *objects;
    size_t objects_len, objects_cap;
    struct asked *asked;
    size_t asked_len, asked_cap;
    struct hash128 acked_by[MESSAGES_MAX + 1];
    uint32_t sent;
    uint64_t lives;
    int64_t outage_until; // no node runs rounds
    int64_t marked_at;    // when the mark was written; TIME_UNKNOWN: never
    struct op_result results[512];
    struct buf text;
    struct events out;
    // figures
    uint64_t steps, commits, tickets, marks, by_box, by_direct, deaths, changes, claims;
};

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all);
void world_run(struct world *w);
void world_done(struct world *w);
void at(struct world *w, int64_t when, event_fn *fn, uint32_t index, uint64_t life, uint64_t n);
int64_t latency(struct world *w);
bool chance(struct world *w, uint32_t hundredths);
struct interval clock_of(struct world *w);

// The store. The effect of a write can come later, or twice.
enum err store_write(struct world *w, const char *key, struct bytes body);
enum err store_read(struct world *w, const char *key, struct bytes *body);
enum err store_remove(struct world *w, const char *key);
void store_create(struct world *w, const char *key, struct bytes body);

// Commits ops in one entry. epoch 0: directly. False: the entry is void. limit: the latest time
// that the entry may have.
bool commit(struct world *w, uint64_t epoch, const struct op *ops, size_t ops_len, int64_t limit);
struct bytes result_of(struct world *w, size_t op);

void nodes_start(struct world *w);
void nodes_done(struct world *w);
void workers_start(struct world *w);
void worker_step(struct world *w, uint32_t i);
void workers_end(struct world *w); // releases them

void check_delivered(struct world *w, uint32_t worker, uint64_t seq);
void check_overdue(struct world *w);
void check_reply(struct world *w, uint64_t ticket, enum err err, struct bytes result);
void check_in_time(struct world *w, const struct op *ops, size_t ops_len, int64_t time);
void check_end(struct world *w);
