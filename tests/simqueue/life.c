// SPDX-License-Identifier: Apache-2.0
// The agenda and what each event does: world.h's functions for this life. A faulty phase, then a
// healed one that lasts until every queue is drained; the first broken promise ends the run.
#include "life.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/memory.h"
#include "check.h"
#include "journal/snapshot.h"
#include "runner.h"

#include <inttypes.h>
#include <string.h>

#define STEPS_MAX   500000
#define DRAIN_MAX   (30 * MINUTE)
#define DRAIN_LOOKS SECOND

static void push(struct world *w, struct world_event e)
{
    struct life *life = w->life;
    CHECK(e.at >= w->now);
    uint32_t ref;
    if (life->events_free_len > 0) {
        ref = life->events_free[--life->events_free_len];
    } else {
        ref = life->events_len++;
        life->events = memory_resize(life->events, life->events_len * sizeof *life->events);
        life->events_free = memory_resize(life->events_free, life->events_len * sizeof(uint32_t));
    }
    e.order = w->events_order++;
    life->events[ref] = e;
    heap_push(&life->agenda, e.at, e.order, ref);
}

void world_at(struct world *w, int64_t at, enum world_event_kind kind, uint32_t a, uint32_t b)
{
    push(w, (struct world_event){.at = at, .kind = kind, .a = a, .b = b});
}

void life_put_off(struct world *w, const struct node *n, enum world_event_kind kind, uint32_t a,
                  uint32_t b)
{
    push(w, (struct world_event){
                .at = n->paused_until, .kind = kind, .a = a, .b = b, .put_off = true});
}

void world_every(struct world *w, int64_t mean, enum world_event_kind kind, uint32_t a)
{
    if (mean > 0) world_at(w, w->now + rng_range(&w->rng, 1, 2 * mean), kind, a, 0);
}

void life_after(struct world *w, int64_t delay, enum life_event kind, uint32_t a, uint32_t b)
{
    world_at(w, w->now + delay, (enum world_event_kind)kind, a, b);
}

static struct world_event pop(struct life *life)
{
    uint32_t ref = heap_top(&life->agenda)->ref;
    heap_remove(&life->agenda, ref);
    life->events_free[life->events_free_len++] = ref;
    return life->events[ref];
}

// What was under way when the faults ceased arrives soon, in the same order. What a pause put off
// comes now: the pause is over.
static void hurry_events(struct world *w)
{
    struct life *life = w->life;
    for (uint32_t ref = 0; ref < life->events_len; ref++) {
        struct world_event *e = &life->events[ref];
        bool flight = e->kind == EVENT_PERFORM || e->kind == EVENT_ANSWER;
        if (!(flight || e->put_off) || !heap_has(&life->agenda, ref)) continue;
        heap_remove(&life->agenda, ref);
        e->at = flight ? w->now + (e->at - w->now) / 100 : w->now;
        heap_push(&life->agenda, e->at, e->order, ref);
    }
}

struct lane *lane_of(struct world *w, const struct node *n)
{
    return &w->life->lanes[w->life->handles[n->index].lane];
}

struct lane *lane_pick(struct world *w)
{
    bool first = rng_chance(&w->rng, 6000);
    return &w->life->lanes[first ? 0 : rng_below(&w->rng, w->life->lanes_len)];
}

bool life_is_crowd(const struct world *w)
{
    return w->life->scene == SCENE_CROWD;
}

bool life_drains(const struct world *w)
{
    return w->phase == WORLD_HEALED;
}

static void on_slot_made(void *ctx, uint64_t slot, struct bytes body)
{
    struct reference *g = ctx;
    struct life *life = g->world->life;
    life->lanes[g->lane].finished =
        false; // there is something again, which a round may have missed
    for (uint32_t i = 0; i < g->world->mix.nodes; i++)
        if (life->handles[i].lane == g->lane) life->handles[i].finishes = false;
    reference_slot_made(g, slot, body);
}

static void on_slot_dropped(void *ctx, uint64_t slot, int64_t made_at)
{
    struct reference *g = ctx;
    check_dropped(g, slot, made_at);
    sleeper_may_wake(g->world, &g->world->life->lanes[g->lane], slot);
}

static void on_object_made(void *ctx, const char *key, struct bytes body)
{
    struct reference *g = ctx;
    struct floor floor;
    if (strstr(key, "/floor/") && !floor_decode(body, &floor)) {
        g->floor = floor.slot;
        check_floor_published(g);
    }
}

static void on_object_deleted(void *ctx, const char *key)
{
    struct reference *g = ctx;
    check_deleted(g, key);
}

static void init_lane(struct world *w, struct lane *l)
{
    reference_init(&l->reference, w, l->index);
    bucket_init(&l->bucket, &w->rng);
    l->bucket.watch = (struct bucket_watch){.ctx = &l->reference,
                                            .slot_made = on_slot_made,
                                            .slot_dropped = on_slot_dropped,
                                            .object_made = on_object_made,
                                            .object_deleted = on_object_deleted};
    l->bucket.tick_ms = w->mix.store_tick_ms;
    l->bucket.run_max = w->mix.run_max;
    l->bucket.list_lag_ms = w->mix.list_lag_ms;
    l->bucket.partial = w->mix.partial;
    if (w->life->dispatch_every_ms)
        life_after(w, rng_range(&w->rng, 1, 5 * SECOND), LIFE_DISPATCH, l->index, 0);
}

static void init_nodes(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        n->index = i;
        n->world = w;
        n->late_by = rng_range(&w->rng, 0, 50);
        n->early_by = rng_range(&w->rng, 0, 50);
        w->life->handles[i].lane = i % w->life->lanes_len;
        world_at(w, w->now + (int64_t)rng_below(&w->rng, SECOND), EVENT_START, i, 0);
        world_every(w, w->mix.sync_every_ms, EVENT_SYNC, i);
        if (i < w->mix.collectors) world_every(w, w->mix.collect_every_ms, EVENT_COLLECT, i);
    }
}

static void init_workers(struct world *w)
{
    for (uint32_t i = 0; i < w->life->thread_pool_len; i++) {
        if (!life_is_crowd(w)) worker_soon(w, i, rng_range(&w->rng, 1, 5 * SECOND));
        if (w->life->workers[i].capacity > 0)
            life_after(w, rng_range(&w->rng, 1, 5 * SECOND), LIFE_BEAT, i, 0);
    }
}

void world_init(struct world *w, const struct world_options *o)
{
    *w = (struct world){.seed = o->seed, .now = WORLD_START_MS};
    rng_init(&w->rng, hash64_mix(o->seed, 7 + o->scenario));
    trace_init(&w->trace, o->print, o->all);
    struct life *life = NEW(struct life);
    w->life = life;
    life->world = w;
    life->scene = o->scenario;
    sim_calls_init(w);
    heap_init(&life->agenda);
    buf_init(&life->scratch, (size_t)1 << 20);
    mix_draw(&w->mix, &w->rng);
    draw_life(w);
    if (life_is_crowd(w)) crowd_draw(w);
    bucket_init(&w->bucket, &w->rng); // not used
    for (uint32_t i = 0; i < life->lanes_len; i++)
        init_lane(w, &life->lanes[i]);
    init_nodes(w);
    init_workers(w);
    world_every(w, w->mix.ask_every_ms, EVENT_ASK, 0);
    world_every(w, life->stale_every_ms, (enum world_event_kind)LIFE_STALE, 0);
    world_every(w, life->operate_every_ms, (enum world_event_kind)LIFE_OPERATE, 0);
    fault_plan(w);
}

void world_done(struct world *w)
{
    struct life *life = w->life;
    w->findings.broken = true; // the world stops
    for (uint32_t i = 0; i < w->mix.nodes; i++)
        node_crash(w, &w->nodes[i]);
    wire_done(w);
    for (uint32_t i = 0; i < life->lanes_len; i++) {
        reference_done(&life->lanes[i].reference);
        bucket_done(&life->lanes[i].bucket);
    }
    sim_calls_done(w);
    uploads_done(w);
    heap_done(&life->agenda);
    memory_free(life->events);
    memory_free(life->events_free);
    memory_free(life->pens);
    buf_done(&life->scratch);
    memory_free(life);
}

void world_sum(const struct world *w, struct runner_sum *sum)
{
    for (uint32_t i = 0; i < w->life->lanes_len; i++) {
        sum->commits += w->life->lanes[i].reference.len;
        sum->messages += w->life->lanes[i].reference.rows_len;
        sum->zombies += w->life->lanes[i].reference.zombies;
    }
    sum->letters += w->life->letters;
    sum->swept += w->life->swept;
    _Static_assert(JOINED_FIGURES <= RUNNER_FIGURES, "they are added up there");
    for (size_t i = 0; i < JOINED_FIGURES; i++)
        sum->figures[i] += w->life->joined[i];
    sum->dropped += w->dropped;
}

void world_figures(const struct runner_sum *sum, char *out, size_t out_len)
{
    (void)snprintf(out, out_len,
                   "messages=%" PRIu64 " letters=%" PRIu64 " dropped=%" PRIu64 " swept=%" PRIu64,
                   sum->messages, sum->letters, sum->dropped, sum->swept);
}

static void on_tick(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    if (!n->up || n->life != e->b || n->tick_at > w->now) return;
    n->tick_at = TIME_NEVER;
    idle_begin(&n->idle);
    shard_tick(w->life->handles[e->a].shard, node_now(n));
    node_settle(w, n);
    if (n->up)
        idle_end(&n->idle, &w->findings, n->index, w->now,
                 shard_wake_at(w->life->handles[e->a].shard), node_now(n).lo);
    check_patience(w, n);
}

static void on_collect(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    world_every(w, w->mix.collect_every_ms, EVENT_COLLECT, e->a);
    if (!n->up || !journal_is_ready(n->journal)) return;
    trace_line(&w->trace, w->now, "n%u.%u collects", n->index, n->life);
    struct handle *h = &w->life->handles[e->a];
    if (machine_deleted(shard_machine(h->shard))) {
        // A listing that lags hides slots: only a round of the healed phase saw all of them.
        if (h->finishes && collector_finished(n->collector)) lane_of(w, n)->finished = true;
        collector_finish(n->collector, node_now(n));
        h->finishes = life_drains(w);
    } else {
        collector_start(n->collector, node_now(n));
    }
    node_settle(w, n);
}

// A waiting client reads now and then; some ask the shard.
static void on_sync(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    struct shard *s = w->life->handles[e->a].shard;
    world_every(w, w->mix.sync_every_ms, EVENT_SYNC, e->a);
    if (!n->up || w->now < w->quiet_until) return;
    if (rng_chance(&w->rng, 300)) {
        sim_call_submit_to(w, sim_call_new(w, SIM_CALL_SYNC, 0, w->life->handles[e->a].lane), n);
    } else if (!life_is_crowd(w) && rng_chance(&w->rng, 300)) {
        sim_call_await(w, n);
    } else if (shard_waiting(s) > 0 || rng_chance(&w->rng, 2000)) {
        shard_catch_up(s, node_now(n));
        node_settle(w, n);
    }
}

// A paused node hears of nothing until it wakes, and then of everything at once.
static bool put_off(struct world *w, const struct world_event *e)
{
    const struct node *n = NULL;
    if (e->kind == EVENT_ANSWER) n = &w->nodes[w->flights[e->a].node];
    if (e->kind == EVENT_TICK || e->kind == EVENT_SYNC || e->kind == EVENT_COLLECT)
        n = &w->nodes[e->a];
    if (!n || !n->up || w->now >= n->paused_until) return false;
    life_put_off(w, n, e->kind, e->a, e->b);
    return true;
}

static void again(struct world *w, int64_t mean, const struct world_event *e)
{
    world_every(w, mean, e->kind, e->a);
}

static void on_trouble(struct world *w, const struct world_event *e)
{
    const struct mix *m = &w->mix;
    if (w->phase == WORLD_HEALED) return;
    switch (e->kind) {
    case EVENT_STORM:
        again(w, m->storm_every_ms, e);
        fault_storm(w);
        break;
    case EVENT_CUT:
        again(w, m->cut_every_ms, e);
        fault_cut(w);
        break;
    case EVENT_CRASH:
        again(w, m->crash_every_ms, e);
        fault_crash(w);
        break;
    case EVENT_PAUSE:
        again(w, m->pause_every_ms, e);
        fault_pause(w);
        break;
    case EVENT_JUMP:
        again(w, m->jump_every_ms, e);
        fault_jump(w);
        break;
    case EVENT_QUIET:
        again(w, m->quiet_every_ms, e);
        fault_quiet(w);
        break;
    case EVENT_FREEZE:
        fault_freeze(w, &w->nodes[e->a], e->b);
        break;
    default:
        CHECK(false); // an event without a meaning
    }
}

static void on_look(struct world *w)
{
    struct life *life = w->life;
    bool all = true;
    for (uint32_t i = 0; i < life->lanes_len; i++) {
        bool owned = coordinator_is_there(w, i);
        if (machine_paused(life->lanes[i].reference.machine)) operator_resume(w, &life->lanes[i]);
        if (!owned) coordinator_own(w, &life->lanes[i]);
        all = all && owned && lane_is_empty(w, &life->lanes[i]);
        const struct lane *l = &life->lanes[i];
        if (l->reference.deleted_slot) all = all && l->finished && slots_left(w, l) == 0;
        if (!life_is_crowd(w)) all = all && lane_orphans(&life->lanes[i]) == 0;
    }
    if (life_is_crowd(w)) all = crowd_ended(w);
    for (uint32_t i = 0; i < life->sim_calls_len; i++)
        all = all && (!life->calls[i].open || life->calls[i].what == SIM_CALL_RECEIVE);
    life->drained = all;
    if (!all) life_after(w, DRAIN_LOOKS, LIFE_LOOK, 0, 0);
}

static void on_life(struct world *w, const struct world_event *e)
{
    struct life *life = w->life;
    switch ((int)e->kind) {
    case EVENT_ASK:
        again(w, w->mix.ask_every_ms, e);
        if (life_is_crowd(w)) {
            crowd_send(w);
        } else if (w->phase == WORLD_FAULTY) {
            sender_send(w);
        }
        break;
    case EVENT_RETRY:
        sim_call_again(w, e->a);
        break;
    case EVENT_OWN:
        again(w, w->mix.own_every_ms, e);
        if (w->phase == WORLD_FAULTY) coordinator_own(w, lane_pick(w));
        break;
    case LIFE_WORK:
        worker_work(w, e->a, e->b);
        break;
    case LIFE_PUBLISH:
        workflows_publish(w, &w->life->lanes[e->a]);
        break;
    case LIFE_SIGNAL:
        signals_send(w);
        break;
    case LIFE_EVICT:
        fleet_operate(w);
        break;
    case LIFE_BEAT:
        worker_beat(w, e->a);
        break;
    case LIFE_STALE:
        again(w, life->stale_every_ms, e);
        worker_stale(w);
        break;
    case LIFE_DISPATCH:
        coordinator_dispatch(w, &life->lanes[e->a]);
        break;
    case LIFE_MOVE:
        mover_move(w, e->a);
        break;
    case LIFE_OPERATE:
        again(w, life->operate_every_ms, e);
        if (w->phase == WORLD_FAULTY) operator_operate(w);
        break;
    case LIFE_RESUME:
        operator_resume(w, &life->lanes[e->a]);
        break;
    case LIFE_LOOK:
        on_look(w);
        break;
    case LIFE_UPLOADED:
        (void)sim_call_submit(w, e->a);
        break;
    case LIFE_LATE_UPLOAD:
        upload_lands(w, e->a);
        break;
    case LIFE_DELETE:
        operator_delete(w, e->a);
        break;
    case LIFE_SLEEPER:
        sleeper_wakes(w, &life->lanes[e->a], e->b);
        break;
    case LIFE_RAISE:
        operator_raise(w, &life->lanes[e->a]);
        break;
    case LIFE_UPGRADE:
        releases_upgrade(w, e->a, e->b);
        break;
    default:
        on_trouble(w, e);
        break;
    }
}

static void step(struct world *w)
{
    struct world_event e = pop(w->life);
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
    case EVENT_SYNC:
        on_sync(w, &e);
        break;
    case EVENT_COLLECT:
        on_collect(w, &e);
        break;
    default:
        on_life(w, &e);
        break;
    }
}

static void run_until(struct world *w, int64_t until)
{
    struct life *life = w->life;
    while (!w->findings.broken && !life->drained) {
        const struct heap_row *top = heap_top(&life->agenda);
        if (!top || top->key > until) break;
        step(w);
        if (w->steps > STEPS_MAX)
            findings_add(&w->findings, "liveness", "nothing but steps: %" PRIu64, w->steps);
    }
    if (!life->drained) w->now = until;
}

static void heal(struct world *w)
{
    int64_t every = w->mix.ask_every_ms;
    fault_heal(w);
    w->mix.ask_every_ms = every;
    for (uint32_t i = 0; i < w->life->lanes_len; i++) {
        w->life->lanes[i].bucket.list_lag_ms = 0;
        w->life->lanes[i].bucket.partial = 0;
    }
    hurry_events(w);
    operator_heal(w);
    life_after(w, 5 * SECOND, LIFE_LOOK, 0, 0);
}

void world_run(struct world *w)
{
    run_until(w, w->now + w->mix.run_ms);
    if (w->findings.broken) return;
    heal(w);
    run_until(w, w->now + DRAIN_MAX);
    if (w->findings.broken) return;
    if (life_is_crowd(w)) {
        crowd_check(w);
    } else {
        check_drain(w);
    }
}
