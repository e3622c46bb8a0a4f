// SPDX-License-Identifier: Apache-2.0
// The agenda and what each event does. A run has three phases: one with faults, one without in
// which every receive must be served, and one in which every receive is cancelled and must end.
#include "life.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "check.h"
#include "runner.h"

#include <inttypes.h>

#define STEPS_MAX   200000
#define SERVED_MAX  (240 * SECOND) // few messages may serve not all within it
#define STALLED_MAX (15 * SECOND)  // a lock of 3 s, a read for waiting calls within 6 s, and delays
#define ENDED_MAX   (15 * SECOND)  // the longest that expect_end gives to a call
#define SOON        (2 * SECOND)   // an effect and its event may take some 600 ms

void world_at(struct world *w, int64_t at, enum world_event_kind kind, uint32_t a, uint32_t b)
{
    struct life *life = w->life;
    CHECK(at >= w->now);
    uint32_t ref;
    if (life->events_free_len > 0) {
        ref = life->events_free[--life->events_free_len];
    } else {
        ref = life->events_len++;
        life->events = memory_resize(life->events, life->events_len * sizeof *life->events);
        life->events_free = memory_resize(life->events_free, life->events_len * sizeof(uint32_t));
    }
    uint64_t order = w->events_order++;
    life->events[ref] =
        (struct world_event){.at = at, .order = order, .kind = kind, .a = a, .b = b};
    heap_push(&life->agenda, at, order, ref);
}

void world_every(struct world *w, int64_t mean, enum world_event_kind kind, uint32_t a)
{
    if (mean > 0) world_at(w, w->now + rng_range(&w->rng, 1, 2 * mean), kind, a, 0);
}

void life_after(struct world *w, int64_t delay, enum life_event kind, uint32_t a)
{
    world_at(w, w->now + delay, (enum world_event_kind)kind, a, 0);
}

static struct world_event pop(struct life *life)
{
    uint32_t ref = heap_top(&life->agenda)->ref;
    heap_remove(&life->agenda, ref);
    life->events_free[life->events_free_len++] = ref;
    return life->events[ref];
}

// What was under way when the faults ceased arrives soon, in the same order. So does a read that a
// pause put off.
static void hurry_flights(struct world *w)
{
    struct life *life = w->life;
    for (uint32_t ref = 0; ref < life->events_len; ref++) {
        struct world_event *e = &life->events[ref];
        bool flight = e->kind == EVENT_PERFORM || e->kind == EVENT_ANSWER;
        bool put_off = e->kind == EVENT_SYNC && e->at > w->now + 2 * w->mix.sync_every_ms;
        if (!(flight || put_off) || !heap_has(&life->agenda, ref)) continue;
        heap_remove(&life->agenda, ref);
        e->at = w->now + (e->at - w->now) / 100;
        heap_push(&life->agenda, e->at, e->order, ref);
    }
}

static void init_nodes(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        n->index = i;
        n->world = w;
        n->late_by = rng_range(&w->rng, 0, 20);
        n->early_by = rng_range(&w->rng, 0, 20);
        world_every(w, w->mix.sync_every_ms, EVENT_SYNC, i);
        if (i % w->life->shards == 0)
            world_at(w, w->now + (int64_t)rng_below(&w->rng, 100), EVENT_START, i, 0);
    }
}

void world_init(struct world *w, const struct world_options *o)
{
    *w = (struct world){.seed = o->seed, .now = WORLD_START_MS};
    rng_init(&w->rng, hash64_mix(o->seed, 11));
    trace_init(&w->trace, o->print, o->all);
    struct life *life = NEW(struct life);
    w->life = life;
    life->calls = memory_zeroed(SIM_CALLS_MAX, sizeof *life->calls);
    heap_init(&life->agenda);
    buf_init(&life->scratch, (size_t)1 << 20);
    draw_life(w);
    bucket_init(&w->bucket, &w->rng); // not used
    for (uint32_t i = 0; i < life->shards; i++)
        truth_init(w, &life->lanes[i], i);
    init_nodes(w);
    owner_init(w);
    life_after(w, 150, LIFE_CLIENT, 0);
    world_every(w, life->close_every_ms, (enum world_event_kind)LIFE_CLOSE, 0);
    fault_plan(w);
}

void world_done(struct world *w)
{
    struct life *life = w->life;
    w->findings.broken = true; // the world stops
    for (uint32_t i = 0; i < w->mix.nodes; i++)
        node_crash(w, &w->nodes[i]);
    wire_done(w);
    for (uint32_t i = 0; i < life->shards; i++)
        truth_done(&life->lanes[i]);
    shell_done(w);
    heap_done(&life->agenda);
    memory_free(life->events);
    memory_free(life->events_free);
    memory_free(life->ids);
    memory_free(life->ops);
    memory_free(life->actions);
    memory_free(life->asks);
    memory_free(life->calls);
    buf_done(&life->scratch);
    memory_free(life);
}

void world_sum(const struct world *w, struct runner_sum *sum)
{
    _Static_assert(FIGURES <= RUNNER_FIGURES, "they are added up there");
    sum->commits += w->life->commits;
    for (size_t i = 0; i < FIGURES; i++)
        sum->figures[i] += w->life->figures[i];
    for (uint32_t i = 0; i < w->life->shards; i++)
        sum->messages += w->life->lanes[i].seqs;
}

void world_figures(const struct runner_sum *sum, char *out, size_t out_len)
{
    (void)snprintf(out, out_len,
                   "messages=%" PRIu64 " sends=%" PRIu64 " settles=%" PRIu64 " receives=%" PRIu64,
                   sum->messages, sum->figures[FIGURE_SENDS], sum->figures[FIGURE_SETTLES],
                   sum->figures[FIGURE_RECEIVES]);
}

static void on_tick(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    if (!n->up || n->life != e->b || n->tick_at > w->now) return;
    n->tick_at = TIME_NEVER;
    idle_begin(&n->idle);
    shard_tick(w->life->handles[e->a], node_now(n));
    node_settle(w, n);
    if (n->up)
        idle_end(&n->idle, &w->findings, n->index, w->now, shard_wake_at(w->life->handles[e->a]),
                 node_now(n).lo);
}

// A process reads for its waiting calls.
static void on_sync(struct world *w, const struct world_event *e)
{
    struct node *n = &w->nodes[e->a];
    world_every(w, w->mix.sync_every_ms, EVENT_SYNC, e->a);
    struct shard *s = w->life->handles[e->a];
    if (!n->up || !shard_has_waiting(s) || shard_is_catching_up(s)) return;
    shard_catch_up(s, node_now(n));
    node_settle(w, n);
}

// A paused node hears of nothing until it wakes, and then of everything at once.
static bool put_off(struct world *w, const struct world_event *e)
{
    const struct node *n = NULL;
    if (e->kind == EVENT_ANSWER) n = &w->nodes[w->flights[e->a].node];
    if (e->kind == EVENT_TICK || e->kind == EVENT_SYNC) n = &w->nodes[e->a];
    if (!n || !n->up || w->now >= n->paused_until) return false;
    w->life->put_off_at[n->index] = w->now;
    world_at(w, n->paused_until, e->kind, e->a, e->b);
    return true;
}

static void on_trouble(struct world *w, const struct world_event *e)
{
    const struct mix *m = &w->mix;
    if (w->phase == WORLD_HEALED) return;
    switch (e->kind) {
    case EVENT_STORM:
        fault_storm(w);
        world_every(w, m->storm_every_ms, e->kind, 0);
        break;
    case EVENT_CUT:
        fault_cut(w);
        world_every(w, m->cut_every_ms, e->kind, 0);
        break;
    case EVENT_CRASH:
        fault_crash(w);
        world_every(w, m->crash_every_ms, e->kind, 0);
        break;
    case EVENT_PAUSE:
        fault_pause(w);
        world_every(w, m->pause_every_ms, e->kind, 0);
        break;
    case EVENT_JUMP:
        fault_jump(w);
        world_every(w, m->jump_every_ms, e->kind, 0);
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
    life->served = all_served(w);
    if (life->served) return;
    if (w->now > life->given_at + STALLED_MAX)
        findings_add(&w->findings, "served", "a receive waits although there are messages");
    life_after(w, 500, LIFE_LOOK, 0);
}

// A cancelled call ends within the timeout of what it asked the store for. Its acks may have been
// asked of three owners before, and are repeated once.
static void expect_end(struct world *w, uint32_t call)
{
    const struct sim_call *c = call_at(w, call);
    int64_t acks_ms = c->locks_len > 0 ? 3 * w->life->ask_ms + w->mix.patience_ms : 0;
    int64_t most = w->mix.patience_ms + acks_ms + SOON;
    CHECK(most <= ENDED_MAX);
    life_after(w, most, LIFE_ENDED, call);
}

static void on_client(struct world *w, const struct world_event *e)
{
    struct life *life = w->life;
    switch ((int)e->kind) {
    case LIFE_CLIENT:
        if (life->quiet) break;
        world_every(w, w->mix.ask_every_ms, e->kind, 0);
        client_acts(w);
        break;
    case LIFE_REPEAT:
        if (!life->quiet) client_repeats(w, e->a);
        break;
    case LIFE_CANCEL:
        shell_cancel(w, e->a);
        expect_end(w, e->a);
        break;
    case LIFE_ENDED:
        check_ended(w, e->a);
        break;
    case LIFE_CLOSE:
        if (w->phase == WORLD_HEALED) break;
        world_every(w, life->close_every_ms, e->kind, 0);
        process_close(w);
        break;
    case LIFE_PERFORM:
        shell_perform(w, e->a);
        break;
    case LIFE_REPORT:
        shell_report(w, e->a);
        break;
    case LIFE_RESUME:
        shell_resume(w, e->a);
        break;
    case LIFE_TURN:
        shell_take_turn(w, e->a);
        break;
    case LIFE_LOOK:
        on_look(w);
        break;
    case LIFE_ASK_SEND:
    case LIFE_ASK_ARRIVES:
    case LIFE_ASK_ANSWERED:
    case LIFE_ASK_TIMEOUT:
    case LIFE_ASK_CUT:
    case LIFE_ANNOUNCEMENT:
    case LIFE_OWN:
    case LIFE_LEARN:
        owner_event(w, e);
        break;
    case LIFE_FOUND:
        shell_found(w, e->a);
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
    default:
        on_client(w, &e);
        break;
    }
    if (!w->findings.broken) check_announced(w);
    if (!w->findings.broken) process_end_closed(w);
}

static void run_until(struct world *w, int64_t until, bool (*ended)(struct world *w))
{
    while (!w->findings.broken && !(ended && ended(w))) {
        const struct heap_row *top = heap_top(&w->life->agenda);
        if (!top || top->key > until) {
            w->now = until;
            break;
        }
        step(w);
        if (w->steps > STEPS_MAX)
            findings_add(&w->findings, "liveness", "nothing but steps: %" PRIu64, w->steps);
    }
}

static void heal(struct world *w)
{
    int64_t every = w->mix.ask_every_ms;
    fault_heal(w);
    w->mix.ask_every_ms = every;
    for (uint32_t i = 0; i < w->life->shards; i++)
        w->life->lanes[i].bucket.list_lag_ms = 0;
    hurry_flights(w);
}

static bool is_served(struct world *w)
{
    return w->life->served;
}

static bool all_over(struct world *w)
{
    return w->life->calls_open == w->life->calls_len &&
           w->life->actions_open == w->life->actions_len && w->life->asks_open == w->life->asks_len;
}

void world_run(struct world *w)
{
    struct life *life = w->life;
    run_until(w, w->now + w->mix.run_ms, NULL);
    if (w->findings.broken) return;
    heal(w);
    run_until(w, w->now + rng_range(&w->rng, 1, SECOND), NULL); // with calls, without faults
    life->quiet = true;
    life->given_at = w->now;
    life_after(w, 5 * SECOND, LIFE_LOOK, 0);
    run_until(w, w->now + SERVED_MAX, is_served);
    if (!w->findings.broken) client_waits(w);
    run_until(w, w->now + rng_range(&w->rng, 1, 300), NULL);
    trace_line(&w->trace, w->now, "! every receive is cancelled");
    for (uint32_t i = 0; i < life->calls_len && !w->findings.broken; i++)
        shell_cancel(w, i);
    for (uint32_t i = life->calls_open; i < life->calls_len; i++)
        expect_end(w, i);
    run_until(w, w->now + ENDED_MAX, all_over);
    if (!w->findings.broken) check_nothing_left(w);
    if (!w->findings.broken) check_history(w);
}
