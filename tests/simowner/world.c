// SPDX-License-Identifier: Apache-2.0
// The event queue, the starts and the faults. A run has a faulty phase and a healed one. The first
// broken promise ends it.
#include "world.h"

#include "base/check.h"
#include "base/memory.h"

#include <inttypes.h>

#define AFTER_MS  4000 // the end of the world after TAKEN_MS
#define STEPS_MAX 400000

void world_after(struct world *w, int64_t delay, const struct event *e)
{
    CHECK(delay >= 0);
    if (w->events_len == w->events_cap) {
        w->events_cap = w->events_cap ? 2 * w->events_cap : 1024;
        w->events = memory_resize(w->events, w->events_cap * sizeof *w->events);
    }
    w->events[w->events_len] = *e;
    heap_push(&w->agenda, w->now + delay, w->order++, w->events_len++);
}

int64_t world_hop(struct world *w)
{
    return rng_range(&w->rng, 1, 2 * w->mix.latency_ms);
}

static void every(struct world *w, int64_t mean, enum event_kind kind)
{
    struct event e = {.kind = kind};
    if (mean > 0) world_after(w, rng_range(&w->rng, 1, 2 * mean), &e);
}

struct process *world_live(struct world *w, uint32_t life)
{
    struct process *p = &w->processes[w->lives[life].process];
    return p->up && p->life == life ? p : NULL;
}

bool process_runs(const struct world *w, const struct process *p)
{
    return p->up && w->now >= p->paused_until;
}

bool process_is_reached(const struct world *w, const struct process *from, const struct process *to)
{
    return process_runs(w, to) && w->now >= to->cut_until && w->now >= from->cut_until;
}

static void start(struct world *w, struct process *p)
{
    if (p->up || w->lives_len == LIVES_MAX) return;
    struct process fresh = {.index = p->index,
                            .life = w->lives_len,
                            .node = p->node,
                            .up = true,
                            .token_host = p->token_host,
                            .cut_until = p->cut_until,
                            .store_cut_until = p->store_cut_until,
                            .late_by = rng_range(&w->rng, 0, w->mix.clock_ms)};
    bool never = rng_chance(&w->rng, 1000);
    fresh.joined_at = never ? TIME_NEVER : w->now + rng_range(&w->rng, 100, 3000);
    fresh.good_since = w->now > fresh.cut_until ? w->now : fresh.cut_until;
    for (uint32_t i = 0; i < SHARDS_MAX; i++) {
        fresh.shards[i].known = NONE;
        fresh.shards[i].since = w->now;
        fresh.folds[i].journal.owner = NONE;
    }
    *p = fresh;
    w->lives[w->lives_len++] =
        (struct start){.process = p->index, .named = !rng_chance(&w->rng, w->mix.nameless)};
    trace_line(&w->trace, w->now, "p%u.%u starts", p->index, p->life);
}

static int64_t maybe(struct rng *r, uint32_t percent, int64_t lo, int64_t hi)
{
    int64_t drawn = rng_range(r, lo, hi);
    return rng_chance(r, 100 * percent) ? drawn : 0;
}

static void mix_draw(struct mix *m, struct rng *r)
{
    *m = (struct mix){.nodes = (uint32_t)rng_range(r, 1, 4),
                      .clients = (uint32_t)rng_range(r, 0, 3),
                      .shards = (uint32_t)rng_range(r, 1, SHARDS_MAX)};
    m->cluster = rng_chance(r, 4000);
    m->queues = rng_chance(r, 5000);
    m->tokens = rng_chance(r, 3000);
    m->deletes = rng_chance(r, 1000);
    m->focus_every = maybe(r, 60, 1000, 8000);
    m->run_ms = rng_range(r, 10, m->focus_every > 0 ? 60 : 30) * 1000;
    m->calm_ms = m->run_ms;
    if (m->focus_every > 0 && rng_chance(r, 5000)) { // what was away long ago is used again
        m->calm_ms = 15000;
        m->run_ms = rng_range(r, 40, 120) * 1000;
    }
    m->latency_ms = rng_range(r, 1, 40);
    m->call_every = rng_range(r, 100, 400) / (m->shards * (m->nodes + m->clients)) + 1;
    m->clock_ms = rng_range(r, 0, 500);
    m->lost = (uint32_t)maybe(r, 50, 50, 2000);
    m->nameless = (uint32_t)maybe(r, 20, 1000, 5000);
    m->snapshots = (uint32_t)rng_range(r, 0, 8000);
    m->crash_every = maybe(r, 50, 2000, 15000);
    m->pause_every = maybe(r, 50, 2000, 15000);
    m->cut_every = maybe(r, 40, 2000, 15000);
    m->store_cut_every = maybe(r, 40, 2000, 10000);
}

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all)
{
    struct event heal = {.kind = EVENT_HEAL}, end = {.kind = EVENT_END};
    w->seed = seed;
    w->now = WORLD_START;
    rng_init(&w->rng, seed);
    trace_init(&w->trace, print, all);
    heap_init(&w->agenda);
    mix_draw(&w->mix, &w->rng);
    w->heal_at = w->now + w->mix.run_ms;
    w->calm_at = w->now + w->mix.calm_ms;
    w->processes_len = w->mix.nodes + w->mix.clients;
    for (uint32_t i = 0; i < SHARDS_MAX; i++)
        w->journals[i] = (struct journal){.owner = NONE};
    for (uint32_t i = 0; i < w->processes_len; i++) {
        struct event e = {.kind = EVENT_START, .process = i};
        w->processes[i] = (struct process){
            .index = i, .node = i < w->mix.nodes, .token_host = rng_chance(&w->rng, 5000)};
        world_after(w, rng_range(&w->rng, 0, rng_chance(&w->rng, 5000) ? 50 : 8000), &e);
    }
    every(w, w->mix.call_every, EVENT_CALL);
    every(w, w->mix.crash_every, EVENT_CRASH);
    every(w, w->mix.pause_every, EVENT_PAUSE);
    every(w, w->mix.cut_every, EVENT_CUT);
    every(w, w->mix.store_cut_every, EVENT_STORE_CUT);
    every(w, w->mix.focus_every, EVENT_FOCUS);
    if (w->mix.deletes) every(w, w->mix.run_ms / 2, EVENT_DELETE);
    world_after(w, w->mix.run_ms, &heal);
    world_after(w, w->mix.run_ms + TAKEN_MS + AFTER_MS, &end);
}

void world_done(struct world *w)
{
    heap_done(&w->agenda);
    memory_free(w->events);
}

static void call(struct world *w)
{
    struct process *p = &w->processes[rng_below(&w->rng, w->processes_len)];
    uint32_t shard = (uint32_t)rng_below(&w->rng, w->mix.shards);
    struct op op = {.used = true, .large = rng_chance(&w->rng, 200)};
    op.has_token = rng_chance(&w->rng, w->mix.tokens ? 7000 : 1000);
    op.lacks_token = p->node && w->mix.tokens && !op.has_token;
    every(w, w->mix.call_every, EVENT_CALL);
    if (process_runs(w, p) && !w->unused[p->index][shard]) owner_use(w, p, shard, &op);
}

static void focus(struct world *w)
{
    if (!w->healed) every(w, w->mix.focus_every, EVENT_FOCUS);
    for (uint32_t i = 0; i < w->processes_len; i++)
        for (uint32_t k = 0; k < w->mix.shards; k++)
            w->unused[i][k] = !w->healed && rng_chance(&w->rng, 7000);
}

static void later(int64_t *until, int64_t at)
{
    if (at > *until) *until = at;
}

static void crash(struct world *w, struct process *p, int64_t len)
{
    struct event e = {.kind = EVENT_START, .process = p->index};
    if (!p->up) return;
    p->up = false;
    world_after(w, len, &e);
}

static void fault(struct world *w, enum event_kind kind)
{
    static const char *const names[] = {"crashes", "is paused", "has no peers", "has no store"};
    const struct mix *m = &w->mix;
    int64_t means[] = {m->crash_every, m->pause_every, m->cut_every, m->store_cut_every};
    struct process *p = &w->processes[rng_below(&w->rng, w->processes_len)];
    int64_t len = rng_range(&w->rng, 1, rng_chance(&w->rng, 5000) ? 1500 : 9000);
    int which = (int)kind - (int)EVENT_CRASH;
    if (w->now >= w->calm_at) return;
    every(w, means[which], kind);
    trace_line(&w->trace, w->now, "! p%u %s for %" PRId64 " ms", p->index, names[which], len);
    if (kind == EVENT_CRASH) {
        crash(w, p, len);
        return;
    }
    if (kind == EVENT_PAUSE && process_runs(w, p)) p->ended_at = w->now;
    later(kind == EVENT_PAUSE ? &p->paused_until
          : kind == EVENT_CUT ? &p->cut_until
                              : &p->store_cut_until,
          w->now + len);
    if (kind != EVENT_STORE_CUT) later(&p->good_since, w->now + len);
}

// The faults end. In most worlds one node is down for good, or hangs.
static void heal(struct world *w)
{
    bool kills = w->mix.nodes > 1 && rng_chance(&w->rng, 7000), hangs = rng_chance(&w->rng, 5000);
    trace_line(&w->trace, w->now, "! healed");
    w->healed = true;
    focus(w);
    for (uint32_t i = 0; i < w->processes_len; i++) {
        struct process *p = &w->processes[i];
        p->cut_until = p->store_cut_until = p->paused_until = 0;
        later(&p->good_since, w->now);
        start(w, p);
        if (p->joined_at != TIME_NEVER) p->joined_at = w->now;
    }
    if (!kills) return;
    struct process *p = &w->processes[rng_below(&w->rng, w->mix.nodes)];
    trace_line(&w->trace, w->now, "! p%u %s for good", p->index, hangs ? "hangs" : "is down");
    p->up = hangs;
    p->ended_at = w->now;
    p->paused_until = p->good_since = TIME_NEVER;
}

// An event of one start of a process. A paused process gets it later.
static void process_event(struct world *w, const struct event *e)
{
    struct process *p = &w->processes[e->process];
    if (!p->up || p->life != e->life || p->paused_until == TIME_NEVER) return;
    if (w->now < p->paused_until) {
        world_after(w, p->paused_until - w->now, e);
        return;
    }
    uint32_t other = (uint32_t)e->number;
    enum ownership_answer answer = (enum ownership_answer)e->answer;
    if (e->kind == EVENT_READ) owner_read(w, p, e->shard);
    if (e->kind == EVENT_OWN) owner_owns(w, p, e->shard, e->number);
    if (e->kind == EVENT_HINT) owner_hint(w, p, e->shard);
    if (e->kind == EVENT_ANSWER) route_ends(w, p, e);
    if (e->kind == EVENT_PROBED) peer_ended(w, p, other, answer);
    if (e->kind == EVENT_FOUND) peer_found(w, p, e->shard, other, answer);
    if (e->kind == EVENT_ASKED) {
        peer_ended(w, p, other, answer);
        owner_asked(w, p, e->shard, answer, 0);
    }
}

static void happen(struct world *w, const struct event *e)
{
    switch (e->kind) {
    case EVENT_CALL:
        call(w);
        return;
    case EVENT_START:
        start(w, &w->processes[e->process]);
        return;
    case EVENT_REQUEST: // the owner gets it, whatever became of the caller
        route_arrives(w, e);
        return;
    case EVENT_CRASH:
    case EVENT_PAUSE:
    case EVENT_CUT:
    case EVENT_STORE_CUT:
        fault(w, e->kind);
        return;
    case EVENT_DELETE:
        w->journals[0].deleted = true;
        return;
    case EVENT_FOCUS:
        if (!w->healed) focus(w);
        return;
    case EVENT_HEAL:
        heal(w);
        return;
    case EVENT_END:
        w->ended = true;
        check_healed(w);
        return;
    default:
        process_event(w, e);
    }
}

void world_run(struct world *w)
{
    const struct heap_row *top;
    while (!w->ended && !w->findings.broken && (top = heap_top(&w->agenda))) {
        struct event e = w->events[top->ref];
        w->now = top->key;
        heap_remove(&w->agenda, top->ref);
        happen(w, &e);
        if (++w->steps > STEPS_MAX) findings_add(&w->findings, "steps", "the world does not end");
    }
}
