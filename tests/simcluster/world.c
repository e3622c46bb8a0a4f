// SPDX-License-Identifier: Apache-2.0
// The event queue, and what each event does. A run has a faulty phase and a healed one; the first
// broken promise ends it.
#include "world.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

#define STEPS_MAX 400000

static bool before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct event *a, struct event *b)
{
    struct event c = *a;
    *a = *b;
    *b = c;
}

static void sift_down(struct world *w, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < w->events_len; i = child) {
        bool right = child + 1 < w->events_len && before(&w->events[child + 1], &w->events[child]);
        child += right;
        if (!before(&w->events[child], &w->events[i])) break;
        swap(&w->events[child], &w->events[i]);
    }
}

void world_at(struct world *w, int64_t at, enum event_kind kind, uint32_t a, uint32_t b)
{
    CHECK(at >= w->now);
    if (w->events_len == w->events_cap) {
        w->events_cap = w->events_cap ? w->events_cap * 2 : 256;
        w->events = memory_resize(w->events, w->events_cap * sizeof *w->events);
    }
    size_t i = w->events_len++;
    w->events[i] = (struct event){.at = at, .order = w->order++, .kind = kind, .a = a, .b = b};
    while (i > 0 && before(&w->events[i], &w->events[(i - 1) / 2])) {
        swap(&w->events[i], &w->events[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static struct event pop(struct world *w)
{
    CHECK(w->events_len > 0);
    struct event e = w->events[0];
    w->events[0] = w->events[--w->events_len];
    sift_down(w, 0);
    return e;
}

void world_every(struct world *w, int64_t mean, enum event_kind kind)
{
    if (mean > 0) world_at(w, w->now + rng_range(&w->rng, 1, 2 * mean), kind, 0, 0);
}

// What is late when the faults end arrives soon, in the same order.
static void hurry(struct world *w)
{
    for (size_t i = 0; i < w->events_len; i++) {
        struct event *e = &w->events[i];
        bool flight = e->kind == EVENT_PERFORM || e->kind == EVENT_ANSWER || e->kind == EVENT_START;
        if (flight) e->at = w->now + (e->at - w->now) / 16;
    }
    for (size_t i = w->events_len / 2; i-- > 0;)
        sift_down(w, i);
}

uint32_t world_shard(const struct world *w, const struct shard_key *key)
{
    for (uint32_t i = 0; i < w->mix.shards; i++) {
        if (shard_key_compare(&w->keys[i], key) == 0) return i;
    }
    CHECK(w->mix.shards == 0); // a shard that does not exist
    return NONE;
}

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all)
{
    w->seed = seed;
    w->now = WORLD_START;
    rng_init(&w->rng, seed);
    trace_init(&w->trace, print, all);
    mix_draw(&w->mix, &w->rng);
    w->mix.lazy = seed % 2 == 0;
    w->mix.cold = seed % 8 == 3;
    if (w->mix.cold) w->calm_until = w->now + 4 * w->mix.lease_ms;
    if (seed % 16 >= 14) w->mix.shards = 0; // a leader that has nothing to place
    sample_init(w);
    service_init(&w->service);
    for (uint32_t i = 0; i < EPOCHS_MAX; i++)
        w->leaders[i] = NONE;
    for (uint32_t i = 0; i < w->mix.shards; i++) {
        w->keys[i].queue[0] = (uint8_t)(i / w->mix.queue_shards);
        w->keys[i].shard = i % w->mix.queue_shards;
    }
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        n->index = i;
        n->late_by = rng_range(&w->rng, 0, 20);
        n->early_by = rng_range(&w->rng, 0, 20);
        int64_t first = rng_chance(&w->rng, 5000) ? 100 : 8 * w->mix.lease_ms;
        if (w->mix.cold) first = 20;
        world_at(w, w->now + rng_range(&w->rng, 0, first), EVENT_START, i, 0);
    }
    world_every(w, w->mix.commit_every, EVENT_COMMIT);
    if (w->mix.traffic || w->mix.reach) world_at(w, w->now, EVENT_SAMPLE, 0, 0);
    fault_plan(w);
}

void world_done(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        if (w->nodes[i].up) cluster_free(w->nodes[i].cluster);
    }
    flights_done(w);
    service_done(&w->service);
    memory_free(w->events);
}

static void hint(struct world *w, const struct event *e)
{
    struct node *n = &w->nodes[e->a];
    if (!node_acts(w, n)) return;
    bool in_way = e->kind == EVENT_HINT_IN_WAY;
    if (in_way) n->doubt[e->b] = true;
    struct cluster_event event = {.kind = in_way ? CLUSTER_IN_THE_WAY : CLUSTER_FREE,
                                  .shard = w->keys[e->b]};
    node_step(w, n, &event);
}

static int64_t mean_of(const struct world *w, enum event_kind kind)
{
    const struct mix *m = &w->mix;
    switch (kind) {
    case EVENT_CUT:
        return m->cut_every;
    case EVENT_STORE_CUT:
        return m->store_cut_every;
    case EVENT_OUTAGE:
        return m->outage_every;
    case EVENT_PAUSE:
        return m->pause_every;
    case EVENT_CRASH:
        return m->crash_every;
    case EVENT_STOP:
        return m->stop_every;
    case EVENT_DRAIN:
        return m->drain_every;
    case EVENT_PEER_CUT:
        return m->peer_cut_every;
    default:
        return m->jump_every;
    }
}

// After the faults, every shard is used at some node.
static void call_all(struct world *w)
{
    uint32_t node = (uint32_t)rng_below(&w->rng, w->mix.nodes);
    for (uint32_t i = 0; i < w->mix.shards; i++)
        node_call(w, &w->nodes[node], i);
}

static void happen(struct world *w, const struct event *e)
{
    struct node *n = &w->nodes[e->a < NODES_MAX ? e->a : 0];
    switch (e->kind) {
    case EVENT_PERFORM:
        if (e->b == 1) {
            flight_send(w, e->a);
            w->flights[e->a]->pending--; // flight_send has added what comes next
        } else {
            flight_perform(w, e->a);
        }
        return;
    case EVENT_ANSWER:
        flight_answer(w, e->a);
        return;
    case EVENT_TICK:
        if (node_acts(w, n) && n->life == e->b && w->now >= n->tick_at) node_tick(w, n);
        return;
    case EVENT_START:
        if (!n->up) node_start(w, n);
        return;
    case EVENT_HINT_FREE:
    case EVENT_HINT_IN_WAY:
        hint(w, e);
        return;
    case EVENT_COMMIT:
        node_commit(w);
        if (w->healed) call_all(w);
        world_every(w, w->mix.commit_every, EVENT_COMMIT);
        return;
    case EVENT_SAMPLE:
        sample_all(w);
        world_at(w, w->now + w->mix.lease_ms / 2, EVENT_SAMPLE, 0, 0);
        return;
    default:
        fault_do(w, e->kind);
        if (!w->healed) world_every(w, mean_of(w, e->kind), e->kind);
    }
}

// A member just below the threshold of its traffic is relieved late, when a sample is above it.
// Then the world goes on for another phase: after its relief the plan rests, or it never does.
void world_run(struct world *w)
{
    int64_t heal_at = w->now + w->mix.run_ms, end_at = heal_at + w->mix.heal_ms;
    bool longer = w->mix.traffic;
    while (!w->findings.broken && w->events_len > 0) {
        struct event e = pop(w);
        if (!w->healed && e.at >= heal_at) {
            w->now = heal_at;
            world_at(w, e.at > heal_at ? e.at : heal_at, e.kind, e.a, e.b);
            fault_heal(w);
            hurry(w);
            continue;
        }
        if (e.at >= end_at && longer && !plan_rests(w)) {
            end_at += w->mix.heal_ms;
            longer = false;
        }
        if (e.at >= end_at) break;
        w->now = e.at;
        happen(w, &e);
        check_leases(w);
        if (++w->steps > STEPS_MAX) findings_add(&w->findings, "steps", "the world does not end");
    }
    w->now = end_at;
    if (!w->findings.broken) check_healed(w);
}
