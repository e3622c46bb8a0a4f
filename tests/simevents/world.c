// SPDX-License-Identifier: Apache-2.0
// The world's time, its journal and its floor.
#include "world.h"

#include "base/check.h"
#include "base/memory.h"

#define WRITE_MS 20
#define FLOOR_MS 250
#define HEAL_MS  300000

static int64_t sometimes(struct rng *r, int64_t lo, int64_t hi)
{
    return rng_chance(r, 5000) ? rng_range(r, lo, hi) : 0;
}

static void draw(struct world *w)
{
    struct rng *r = &w->rng;
    struct mix *m = &w->mix;
    *m = (struct mix){.fenced = rng_chance(r, 4000),
                      .skip = rng_chance(r, 2000),
                      .window = (uint32_t)rng_range(r, 2, 24),
                      .events = (uint32_t)rng_range(r, 40, EVENTS_HERE),
                      .latency_ms = rng_range(r, 1, 60),
                      .settle_ms = rng_range(r, 4000, 12000),
                      .dedup_ms = rng_range(r, 2000, 20000),
                      .keep_ms = rng_range(r, 2000, 8000)};
    // A fence counts messages, so a message may not be late by more than the window of duplicates.
    if (m->fenced) m->dedup_ms += 20000;
    m->run_ms = m->events * (WRITE_MS + 5) + rng_range(r, 2000, 30000);
    m->outage_every = sometimes(r, 2000, 15000);
    m->cut_every = sometimes(r, 1000, 8000);
    m->owner_every = sometimes(r, 1500, 8000);
    m->crash_every = sometimes(r, 1500, 8000);
    if (rng_chance(r, 8000)) {
        m->lost = (uint32_t)rng_below(r, 600);
        m->lost_ack = (uint32_t)rng_below(r, 600);
        m->late = (uint32_t)rng_below(r, 600);
        m->repeated = (uint32_t)rng_below(r, 600);
        m->refused = (uint32_t)rng_below(r, 200);
    }
    // A former owner that publishes behind a tail that the stream has lost, and then crashes, can
    // leave a hole that only the consumer notices (docs/simulation.md). Such worlds are left out.
    m->forgets = m->outage_every > 0 && rng_chance(r, 6000);
    m->splits = !m->forgets && rng_chance(r, 5000);
    m->forget_ms = rng_range(r, 200, m->settle_ms / 2);
    m->unheard = (uint32_t)rng_below(r, 2000);
    m->forged = rng_chance(r, 5000) ? (uint32_t)rng_below(r, 500) : 0;
}

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all)
{
    rng_init(&w->rng, seed);
    trace_init(&w->trace, print, all);
    heap_init(&w->queue);
    w->now = WORLD_START;
    w->next = 1;
    draw(w);
}

void world_done(struct world *w)
{
    nodes_done(w);
    follower_done(w);
    memory_free(w->events);
    memory_free(w->stream);
    memory_free(w->flights);
    heap_done(&w->queue);
}

int64_t latency(struct world *w)
{
    return rng_range(&w->rng, 1, w->mix.latency_ms);
}

bool chance(struct world *w, uint32_t hundredths)
{
    return !w->healed && rng_chance(&w->rng, hundredths);
}

void at(struct world *w, int64_t when, event_fn *fn, uint32_t index, uint64_t life, uint64_t n)
{
    CHECK(when >= w->now);
    if (w->events_len == w->events_cap) {
        w->events_cap = w->events_cap < 64 ? 64 : w->events_cap * 2;
        w->events = memory_resize(w->events, w->events_cap * sizeof *w->events);
    }
    w->events[w->events_len] = (struct sim_event){fn, index, life, n};
    heap_push(&w->queue, when, ++w->order, w->events_len++);
}

// An entry with a few events.
static void write_entry(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    uint64_t events = (uint64_t)rng_range(&w->rng, 1, 4);
    (void)index, (void)life, (void)n;
    w->slot++;
    for (uint64_t i = 0; i < events && w->journal_len < w->mix.events; i++)
        w->journal[++w->journal_len] = (struct journal_event){
            .slot = w->slot, .at = w->now, .in_tail = w->mix.fenced || !rng_chance(&w->rng, 2000)};
    for (uint32_t i = 0; i < NODES_HERE; i++)
        node_step(w, i);
    if (w->journal_len < w->mix.events)
        at(w, w->now + rng_range(&w->rng, 1, 3 * WRITE_MS), write_entry, 0, 0, 0);
}

// The collector: the floor waits for the cursor. With skip it does not wait for old events.
static void raise_floor(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    uint64_t to = w->cursor.slot;
    (void)index, (void)life, (void)n;
    for (uint64_t i = 1; w->mix.skip && w->published && i <= w->journal_len; i++)
        if (w->now - w->journal[i].at > w->mix.keep_ms && w->journal[i].slot > to)
            to = w->journal[i].slot;
    if (to > w->floor) {
        w->floor = to;
        trace_line(&w->trace, w->now, "floor %llu", (unsigned long long)to);
    }
    if (!w->healed || w->next <= w->mix.events) at(w, w->now + FLOOR_MS, raise_floor, 0, 0, 0);
}

static void heal(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    (void)index, (void)life, (void)n;
    trace_line(&w->trace, w->now, "heal");
    w->healed = true;
    bus_end_outage(w);
    nodes_heal(w);
}

static bool is_done(const struct world *w)
{
    const struct publisher *p = w->nodes[w->owner].publisher;
    if (!w->healed || w->next <= w->mix.events || !p) return false;
    if (w->follower.read < w->mix.events) return false;
    struct publisher_status s = publisher_status(p);
    return s.running && s.acked >= w->mix.events;
}

void world_run(struct world *w)
{
    trace_line(&w->trace, w->now, "fenced=%d skip=%d splits=%d forgets=%d window=%u events=%u",
               w->mix.fenced, w->mix.skip, w->mix.splits, w->mix.forgets, w->mix.window,
               w->mix.events);
    at(w, w->now + w->mix.run_ms, heal, 0, 0, 0);
    nodes_start(w);
    bus_start(w);
    consumer_start(w);
    follower_start(w);
    at(w, w->now + 1, write_entry, 0, 0, 0);
    at(w, w->now + FLOOR_MS, raise_floor, 0, 0, 0);
    int64_t deadline = w->now + w->mix.run_ms + HEAL_MS;
    while (w->queue.len > 0 && !w->findings.broken) {
        const struct heap_row *top = heap_top(&w->queue);
        struct sim_event e = w->events[top->ref];
        if (top->key > deadline || is_done(w)) break;
        w->now = top->key;
        heap_remove(&w->queue, top->ref);
        w->steps++;
        e.fn(w, e.index, e.life, e.n);
    }
    if (!w->findings.broken) check_end(w);
}
