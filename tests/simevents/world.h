// SPDX-License-Identifier: Apache-2.0
// One seeded world on virtual time: a shard's journal with events and a floor, a bus that loses,
// repeats, delays and forgets, nodes that publish, and one consumer. The publisher is the one that
// ships.
#pragma once

#include "../sim/idle.h"
#include "../sim/trace.h"
#include "base/heap.h"
#include "base/rng.h"
#include "events/bus_progress.h"
#include "events/publisher.h"

#define WORLD_START ((int64_t)1000000000)
#define NODES_HERE  2
#define EVENTS_HERE 600

// What one seed draws.
struct mix {
    bool fenced;  // the queue has one shard
    bool skip;    // the floor passes the cursor when events are too old
    bool splits;  // a former owner goes on for a while
    bool forgets; // a restart of the bus loses its newest messages
    uint32_t window;
    uint32_t events;
    int64_t run_ms, latency_ms, settle_ms, forget_ms, dedup_ms, keep_ms;
    // Chances of one message, in hundredths of a percent.
    uint32_t lost, lost_ack, late, repeated, refused;
    uint32_t unheard, forged; // of what a reader of the journal hears
    // Mean time between two of them; 0: never.
    int64_t outage_every, cut_every, owner_every, crash_every;
};

struct journal_event {
    uint64_t slot;
    int64_t at;
    bool in_tail;
};

struct message {
    uint64_t number;
    uint64_t sequence; // of the event; 0: of another shard
    uint64_t first;    // gap: its first event; 0: no gap
    int64_t stored_at;
};

struct flight {
    uint32_t node;
    uint64_t life;
    uint64_t tag;
    uint64_t outages; // before it was sent
    uint64_t sequence, first;
    bool fenced;
    uint64_t stream_last;
    struct publisher_answer answer;
};

struct sim_node {
    struct publisher *publisher; // NULL: it is down
    uint64_t life;
    bool believes; // it owns the shard
    bool up;       // its connection
    uint64_t next; // the event that its reader reads next
    int64_t wake_at;
    struct idle idle;
};

// A reader of the journal at a node that does not own the shard.
struct follower {
    struct bus_progress bus;
    uint64_t read;        // events
    uint64_t turn;        // of its next run
    int64_t asleep_since; // 0: it is awake
    uint32_t named_in_sleep, silent;
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
    uint32_t events_len, events_cap;
    uint64_t order;
    // The journal.
    struct journal_event journal[EVENTS_HERE + 1];
    uint64_t journal_len, slot, floor;
    struct publisher_cursor cursor;
    bool published;
    uint32_t owner;
    struct sim_node nodes[NODES_HERE];
    // The bus.
    bool down;
    struct message *stream;
    size_t stream_len, stream_cap;
    struct flight *flights;
    size_t flights_len, flights_cap;
    // The consumer.
    uint64_t read_number; // of the last message that it read
    struct message last;  // ... and what it was
    uint64_t next;        // the event that it passes on next
    uint64_t held;        // events that wait for it
    bool seen[EVENTS_HERE + 2], named[EVENTS_HERE + 2];
    struct follower follower;
    // figures
    uint64_t steps, publishes, stored, duplicates, forgotten, gaps, healed_tails, outages, commits;
    uint64_t sleeps, wakes;
};

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all);
void world_run(struct world *w);
void world_done(struct world *w);
void at(struct world *w, int64_t when, event_fn *fn, uint32_t index, uint64_t life, uint64_t n);
bool chance(struct world *w, uint32_t hundredths);
int64_t latency(struct world *w);

void nodes_start(struct world *w);
void node_step(struct world *w, uint32_t i);
void node_connection(struct world *w, uint32_t i, bool up);
void nodes_heal(struct world *w);
void nodes_done(struct world *w);

void bus_publish_from(struct world *w, uint32_t node, const struct publisher_effect *e);
struct publisher_tail bus_tail(struct world *w);
void bus_start(struct world *w);
void bus_end_outage(struct world *w);
void consumer_start(struct world *w);
void follower_start(struct world *w);
void follower_done(struct world *w);
void follower_hears(struct world *w, uint64_t sequence); // a message of the shard was stored
void follower_connection(struct world *w, bool up);
void check_end(struct world *w);
