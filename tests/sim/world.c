// SPDX-License-Identifier: Apache-2.0
// The event queue and what each event does. A run has a faulty phase and a healed one; the first
// broken promise ends it.
#include "world.h"

#include "base/check.h"
#include "base/memory.h"
#include "check.h"
#include "runner.h"

#include <inttypes.h>
#include <string.h>

#define SECOND    ((int64_t)1000)
#define MINUTE    (60 * SECOND)
#define STEPS_MAX 2000000

static bool before(const struct world_event *a, const struct world_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct world_event *a, struct world_event *b)
{
    struct world_event c = *a;
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

static void push(struct world *w, struct world_event e)
{
    if (w->events_len == w->events_cap) {
        w->events_cap = w->events_cap ? w->events_cap * 2 : 64;
        w->events = memory_resize(w->events, w->events_cap * sizeof *w->events);
    }
    size_t i = w->events_len++;
    w->events[i] = e;
    while (i > 0 && before(&w->events[i], &w->events[(i - 1) / 2])) {
        swap(&w->events[i], &w->events[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static struct world_event pop(struct world *w)
{
    CHECK(w->events_len > 0);
    struct world_event e = w->events[0];
    w->events[0] = w->events[--w->events_len];
    sift_down(w, 0);
    return e;
}

void world_at(struct world *w, int64_t at, enum world_event_kind kind, uint32_t a, uint32_t b)
{
    CHECK(at >= w->now);
    struct world_event e = {.at = at, .order = w->events_order++, .kind = kind, .a = a, .b = b};
    push(w, e);
}

void world_every(struct world *w, int64_t mean, enum world_event_kind kind, uint32_t a)
{
    if (mean > 0) world_at(w, w->now + rng_range(&w->rng, 1, 2 * mean), kind, a, 0);
}

// What was under way when the faults ceased arrives soon, in the same order. A round of collection
// that a pause put off comes now, because no other one follows before it. A sync may stay late: the
// end of the healed phase makes its own.
static void hurry_events(struct world *w)
{
    for (size_t i = 0; i < w->events_len; i++) {
        struct world_event *e = &w->events[i];
        bool flight = e->kind == EVENT_PERFORM || e->kind == EVENT_ANSWER;
        if (flight) {
            e->at = w->now + (e->at - w->now) / 1000;
        } else if (e->put_off && e->kind == EVENT_COLLECT) {
            e->at = w->now;
        }
    }
    for (size_t i = w->events_len / 2; i-- > 0;)
        sift_down(w, i);
}

static void on_slot_made(void *ctx, uint64_t slot, struct bytes body)
{
    struct world *w = ctx;
    if (!w->lying) history_slot_made(&w->history, slot, body, w->now);
}

static void on_slot_dropped(void *ctx, uint64_t slot, int64_t made_at)
{
    struct world *w = ctx;
    if (!w->lying) check_slot_dropped(w, slot, made_at);
}

static void on_object_made(void *ctx, const char *key, struct bytes body)
{
    struct world *w = ctx;
    if (!w->lying) check_floor_made(w, key, body);
}

static void on_object_deleted(void *ctx, const char *key)
{
    struct world *w = ctx;
    if (!w->lying) check_object_deleted(w, key);
}

static void init_bucket(struct world *w)
{
    bucket_init(&w->bucket, &w->rng);
    w->bucket.watch = (struct bucket_watch){.ctx = w,
                                            .slot_made = on_slot_made,
                                            .slot_dropped = on_slot_dropped,
                                            .object_made = on_object_made,
                                            .object_deleted = on_object_deleted};
    w->bucket.tick_ms = w->mix.store_tick_ms;
    w->bucket.run_max = w->mix.run_max;
    w->bucket.list_lag_ms = w->mix.list_lag_ms;
    w->bucket.partial = w->mix.partial;
    if (!w->lying) return;
    uint32_t *kinds[] = {&w->bucket.lies.overwrite, &w->bucket.lies.two_win,
                         &w->bucket.lies.stale_404};
    *kinds[rng_below(&w->rng, 3)] = (uint32_t)rng_range(&w->rng, 100, 2000);
    w->bucket.lies.lost = w->mix.lost;
}

static void init_nodes(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        n->index = i;
        n->world = w;
        n->late_by = rng_range(&w->rng, 0, 50);
        n->early_by = rng_range(&w->rng, 0, 50);
        world_at(w, w->now + (int64_t)rng_below(&w->rng, 1000), EVENT_START, i, 0);
        world_every(w, w->mix.sync_every_ms, EVENT_SYNC, i);
        if (i < w->mix.collectors) world_every(w, w->mix.collect_every_ms, EVENT_COLLECT, i);
    }
}

void world_init(struct world *w, const struct world_options *o)
{
    *w = (struct world){.seed = o->seed, .lying = o->lying, .now = WORLD_START_MS};
    rng_init(&w->rng, hash64_mix(o->seed, o->lying));
    trace_init(&w->trace, o->print, o->all);
    mix_draw(&w->mix, &w->rng);
    if (!o->lying) mix_draw_end(&w->mix, o->seed);
    mix_draw_wrong(&w->mix, o->seed, o->lying);
    buf_init(&w->payload, 4096);
    tickets_init(&w->tickets);
    history_init(&w->history, &w->tickets, w->mix.memory_ms, &w->findings);
    init_bucket(w);
    init_nodes(w);
    world_every(w, w->mix.ask_every_ms, EVENT_ASK, 0);
    if (w->mix.end_ms > 0) world_at(w, w->now + w->mix.end_ms, EVENT_END, 0, 0);
    fault_plan(w);
}

void world_done(struct world *w)
{
    w->phase = WORLD_HEALED; // no client retries any more
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        node_crash(w, &w->nodes[i]);
        memory_free(w->nodes[i].folded);
    }
    wire_done(w);
    bucket_done(&w->bucket);
    history_done(&w->history);
    tickets_done(&w->tickets);
    buf_done(&w->payload);
    memory_free(w->versions);
    memory_free(w->events);
}

void world_sum(const struct world *w, struct runner_sum *sum)
{
    sum->commits += w->lying ? w->bucket.slots_len : w->history.len;
    sum->dropped += w->dropped;
    sum->zombies += w->history.zombies;
    sum->lies += w->bucket.lies.told_total > 0;
    sum->forks += w->forks > 0;
    sum->escapes += w->escapes > 0;
    sum->halted += w->halted > 0;
    sum->resumed += w->resumed > 0;
}

void world_figures(const struct runner_sum *sum, char *out, size_t out_len)
{
    (void)snprintf(out, out_len, "dropped=%" PRIu64, sum->dropped);
}

static void again(struct world *w, int64_t mean, const struct world_event *e)
{
    if (w->phase == WORLD_FAULTY) world_every(w, mean, e->kind, e->a);
}

static void on_tick(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    if (!n->up || n->life != e->b || n->tick_at > w->now) return;
    n->tick_at = TIME_NEVER;
    idle_begin(&n->idle);
    journal_tick(n->journal, node_now(n));
    node_settle(w, n);
    if (n->up)
        idle_end(&n->idle, &w->findings, n->index, w->now, journal_wake_at(n->journal),
                 node_now(n).lo);
    check_patience(w, n);
}

static void on_collect(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    world_every(w, w->mix.collect_every_ms, EVENT_COLLECT, e->a);
    if (!n->up || !journal_is_ready(n->journal)) return;
    trace_line(&w->trace, w->now, "n%u.%u collects", n->index, n->life);
    w->finishes += collector_finished(n->collector);
    if (registers_ended(n->machine)) {
        collector_finish(n->collector, node_now(n));
    } else {
        collector_start(n->collector, node_now(n));
    }
    node_settle(w, n);
}

static bool has_ended(const struct world *w)
{
    return w->mix.end_ms > 0 && registers_ended(w->history.machine);
}

static void on_end(struct world *w)
{
    if (has_ended(w)) return;
    client_end(w);
    world_at(w, w->now + MINUTE, EVENT_END, 0, 0);
}

static void on_sync(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    world_every(w, w->mix.sync_every_ms, EVENT_SYNC, e->a);
    if (n->up && w->now >= w->quiet_until) client_sync(w, n);
}

static void on_ask(struct world *w)
{
    world_every(w, w->mix.ask_every_ms, EVENT_ASK, 0);
    if (has_ended(w) && rng_chance(&w->rng, 9500)) return; // few handles are opened any more
    client_ask(w);
}

// A paused node hears of nothing until it wakes, and then of everything at once.
static bool put_off(struct world *w, const struct world_event *e)
{
    const struct node *n = NULL;
    if (e->kind == EVENT_ANSWER) n = &w->nodes[w->flights[e->a].node];
    if (e->kind == EVENT_TICK || e->kind == EVENT_SYNC || e->kind == EVENT_COLLECT)
        n = &w->nodes[e->a];
    if (!n || !n->up || w->now >= n->paused_until) return false;
    struct world_event later = *e;
    later.at = n->paused_until;
    later.put_off = true;
    push(w, later);
    return true;
}

static void on_trouble(struct world *w, const struct world_event *e)
{
    const struct mix *m = &w->mix;
    if (w->phase == WORLD_HEALED) return;
    switch (e->kind) {
    case EVENT_STORM:
        again(w, m->storm_every_ms, e), fault_storm(w);
        break;
    case EVENT_CUT:
        again(w, m->cut_every_ms, e), fault_cut(w);
        break;
    case EVENT_CRASH:
        again(w, m->crash_every_ms, e), fault_crash(w);
        break;
    case EVENT_PAUSE:
        again(w, m->pause_every_ms, e), fault_pause(w);
        break;
    case EVENT_JUMP:
        again(w, m->jump_every_ms, e), fault_jump(w);
        break;
    case EVENT_QUIET:
        again(w, m->quiet_every_ms, e), fault_quiet(w);
        break;
    case EVENT_OWN:
        again(w, m->own_every_ms, e), client_own(w);
        break;
    case EVENT_SWITCH:
        again(w, m->switch_every_ms, e), client_switch(w);
        break;
    case EVENT_FREEZE:
        fault_freeze(w, &w->nodes[e->a], e->b);
        break;
    default:
        CHECK(false); // an event without a meaning
    }
}

static void step(struct world *w)
{
    struct world_event e = pop(w);
    w->now = e.at;
    if (put_off(w, &e)) return;
    w->steps++;
    switch (e.kind) {
    case EVENT_PERFORM:
        wire_perform(w, &w->flights[e.a]);
        break;
    case EVENT_ANSWER:
        wire_answer(w, &w->flights[e.a]);
        break;
    case EVENT_TICK:
        on_tick(w, &e);
        break;
    case EVENT_START:
        if (!w->nodes[e.a].up) node_start(w, &w->nodes[e.a]);
        break;
    case EVENT_ASK:
        on_ask(w);
        break;
    case EVENT_RETRY:
        client_retry(w, e.a);
        break;
    case EVENT_END:
        on_end(w);
        break;
    case EVENT_SYNC:
        on_sync(w, &e);
        break;
    case EVENT_COLLECT:
        on_collect(w, &e);
        break;
    default:
        on_trouble(w, &e);
        break;
    }
}

static void run_until(struct world *w, int64_t until)
{
    while (!w->findings.broken && w->events_len > 0 && w->events[0].at <= until) {
        step(w);
        if (w->steps > STEPS_MAX)
            findings_add(&w->findings, "liveness", "nothing but steps: %" PRIu64, w->steps);
    }
    w->now = until;
}

#define SNAPSHOTS_A_ROUND 48 // a round of collection deletes at least so many, if they may go

// Commits fast enough for the snapshots that the floor needs, then waits for everything to grow
// old, then looks.
static void run_healed(struct world *w)
{
    fault_heal(w);
    hurry_events(w);
    int64_t commits = (int64_t)w->mix.rules.snapshot_every * 4 * w->mix.ask_every_ms;
    run_until(w, w->now + commits + 30 * SECOND);
    w->mix.ask_every_ms = 20 * SECOND;
    int64_t collects = 4 + (int64_t)(count_snapshots(w) / SNAPSHOTS_A_ROUND);
    int64_t rounds = collects * w->mix.collect_every_ms + 3 * w->mix.rules.floor_every_ms;
    run_until(w, w->now + w->mix.rules.retain_ms + w->mix.rules.floor_lag_ms + rounds);
    w->quiet_until = TIME_NEVER;
    // The end grows old, then the entry after it.
    if (has_ended(w)) run_until(w, w->now + 3 * (w->mix.rules.retain_ms + rounds));
    run_until(w, w->now + w->mix.patience_ms + w->mix.memory_ms / 3 + 30 * SECOND);
    for (uint32_t i = 0; i < w->mix.nodes && !w->findings.broken; i++)
        client_sync(w, &w->nodes[i]);
    run_until(w, w->now + 5 * MINUTE + 30 * SECOND);
}

void world_run(struct world *w)
{
    run_until(w, w->now + w->mix.run_ms);
    if (w->findings.broken) return;
    run_healed(w);
    if (w->findings.broken) return;
    if (w->lying) {
        check_lying(w);
    } else {
        check_live(w);
    }
}
