// SPDX-License-Identifier: Apache-2.0
// A process has one handle with a shard for every shard of the queue. Its shards start, end and
// crash together. What world.h says of nodes, for the shards of processes.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <string.h>

struct interval node_now(const struct node *n)
{
    int64_t now = n->world->now;
    return (struct interval){now - n->late_by, now + n->early_by};
}

bool node_can_act(const struct node *n)
{
    return n->up;
}

struct bucket *node_bucket(struct world *w, struct node *n)
{
    return &w->life->lanes[n->index % w->life->shards].bucket;
}

struct node *process_node(struct world *w, uint32_t process, uint32_t shard)
{
    CHECK(process < w->life->processes && shard < w->life->shards);
    return &w->nodes[process * w->life->shards + shard];
}

bool process_is_up(struct world *w, uint32_t process)
{
    return process_node(w, process, 0)->up;
}

static void configure(struct world *w, const struct node *n, struct shard_config *c)
{
    uint32_t shard = n->index % w->life->shards;
    *c = (struct shard_config){.birth = w->life->config, .keeps_events = true};
    journal_config_defaults(&c->journal);
    memcpy(c->journal.id.queue, w->life->queue.bytes, sizeof c->journal.id.queue);
    c->journal.id.shard = shard;
    (void)snprintf(c->journal.prefix, sizeof c->journal.prefix, "q/calls/%u", shard);
    (void)snprintf(c->queue, sizeof c->queue, "tasks");
    c->journal.writer = (struct hash128){rng_next(&w->rng), n->index + 1};
    c->journal.seed = rng_next(&w->rng);
    c->journal.rules = w->mix.rules;
    c->journal.high_latency = w->mix.high_latency;
    c->journal.courtesy_ms = w->mix.courtesy_ms;
    c->journal.courtesy_live_ms = w->mix.courtesy_live_ms;
    c->journal.read_bytes_max = (size_t)1 << 16;
}

static void start(struct world *w, struct node *n)
{
    struct shard_config config;
    n->life++;
    n->up = true;
    n->tick_at = TIME_NEVER;
    configure(w, n, &config);
    w->life->handles[n->index] = shard_new(&config);
    n->journal = shard_journal(w->life->handles[n->index]);
    shard_start(w->life->handles[n->index], node_now(n));
    node_settle(w, n);
}

void node_start(struct world *w, struct node *n)
{
    CHECK(!n->up);
    uint32_t process = n->index / w->life->shards;
    trace_line(&w->trace, w->now, "p%u opens its handle", process);
    w->life->process[process] = (struct sim_process){0};
    for (uint32_t i = 0; i < w->life->shards; i++)
        start(w, process_node(w, process, i));
    owner_started(w, process);
}

static void drop_shards(struct world *w, uint32_t process)
{
    for (uint32_t i = 0; i < w->life->shards; i++) {
        struct node *n = process_node(w, process, i);
        shard_free(w->life->handles[n->index]);
        w->life->handles[n->index] = NULL;
        w->life->announcements[n->index] = 0;
        n->journal = NULL;
        n->up = false;
        n->paused_until = 0;
    }
}

void node_crash(struct world *w, struct node *n)
{
    if (!n->up) return;
    uint32_t process = n->index / w->life->shards;
    trace_line(&w->trace, w->now, "p%u crashes", process);
    drop_shards(w, process);
    shell_lost(w, process);
    w->life->figures[FIGURE_CRASHED]++;
}

void process_close(struct world *w)
{
    uint32_t process = (uint32_t)rng_below(&w->rng, w->life->processes);
    struct sim_process *p = &w->life->process[process];
    if (!process_is_up(w, process) || p->closing) return;
    trace_line(&w->trace, w->now, "p%u closes its handle", process);
    p->closing = true;
    w->life->figures[FIGURE_CLOSED]++;
    for (uint32_t i = w->life->calls_open; i < w->life->calls_len && !w->findings.broken; i++)
        if (w->life->calls[i].process == process) shell_cancel(w, i);
    served_closes(w, process);
}

// The last effect of a call may be performed after its last event.
static bool calls_are_over(struct world *w, uint32_t process)
{
    for (uint32_t i = w->life->calls_open; i < w->life->calls_len; i++) {
        const struct sim_call *c = &w->life->calls[i];
        if (c->process == process && !c->lost && !call_is_over(&c->state)) return false;
    }
    for (uint32_t i = w->life->actions_open; i < w->life->actions_len; i++) {
        const struct action *a = &w->life->actions[i];
        const struct sim_call *c = &w->life->calls[a->call];
        if (c->process == process && !c->lost && a->state != ACTION_OVER) return false;
    }
    return !served_any(w, process);
}

void process_end_closed(struct world *w)
{
    for (uint32_t i = 0; i < w->life->processes; i++) {
        if (!w->life->process[i].closing || !process_is_up(w, i) || !calls_are_over(w, i)) continue;
        trace_line(&w->trace, w->now, "p%u has closed its handle", i);
        drop_shards(w, i);
        world_at(w, w->now + rng_range(&w->rng, 1, SECOND), EVENT_START,
                 process_node(w, i, 0)->index, 0);
    }
}

// When the time may have come, and again until it surely has.
static void plan_tick(struct world *w, struct node *n)
{
    int64_t wake = shard_wake_at(w->life->handles[n->index]);
    if (wake == TIME_NEVER) {
        n->tick_at = TIME_NEVER;
        return;
    }
    struct interval now = node_now(n);
    if (wake < now.lo) wake = now.lo; // at once
    int64_t delay = wake > now.hi ? wake - now.hi : (wake - now.lo) / 2;
    int64_t at = w->now + (delay > 0 ? delay : 1);
    if (at == n->tick_at) return;
    n->tick_at = at;
    world_at(w, at, EVENT_TICK, n->index, n->life);
}

void node_respond(struct world *w, struct node *n, const struct flight *f, const struct response *r)
{
    (void)f;
    shard_respond(w->life->handles[n->index], r, node_now(n));
}

void node_settle(struct world *w, struct node *n)
{
    struct shard *s = w->life->handles[n->index];
    struct request q;
    struct shard_reply r;
    while (shard_next_request(s, &q)) {
        if (q.kind == REQUEST_APPEND) truth_flown(w, q.body);
        wire_send(w, n, &q, false);
    }
    while (shard_next_reply(s, &r)) {
        idle_act(&n->idle);
        shell_heard(w, n, &r);
    }
    plan_tick(w, n);
}
