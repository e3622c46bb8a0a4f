// SPDX-License-Identifier: Apache-2.0
// A node of this world runs one shard of one lane. What world.h says of nodes, for shards.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct interval node_now(const struct node *n)
{
    int64_t now = n->world->now;
    return (struct interval){now - n->late_by, now + n->early_by};
}

bool node_can_act(const struct node *n)
{
    return n->up && n->world->now >= n->paused_until;
}

struct node *node_pick(struct world *w, uint32_t lane)
{
    uint32_t first = (uint32_t)rng_below(&w->rng, w->mix.nodes);
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[(first + i) % w->mix.nodes];
        if (w->life->handles[n->index].lane == lane && node_can_act(n)) return n;
    }
    return NULL;
}

struct node *node_owner(struct world *w, uint32_t lane)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        bool here = w->life->handles[i].lane == lane && node_can_act(n);
        if (here && journal_is_owner(n->journal)) return n;
    }
    return node_pick(w, lane);
}

struct bucket *node_bucket(struct world *w, struct node *n)
{
    return &lane_of(w, n)->bucket;
}

static void new_pen(struct world *w, const struct node *n, struct handle *h,
                    struct journal_config *c)
{
    struct life *life = w->life;
    c->writer = (struct hash128){rng_next(&w->rng), n->index + 1};
    journal_writer_mark(&c->writer, h->rules_newest);
    if (life->pens_len % 16 == 0)
        life->pens = memory_resize(life->pens, (life->pens_len + 16) * sizeof *life->pens);
    h->pen = life->pens_len;
    life->pens[life->pens_len++] =
        (struct pen){.writer = c->writer, .node = n->index, .life = n->life};
}

static void configure(struct world *w, struct node *n, struct shard_config *c)
{
    struct lane *l = lane_of(w, n);
    struct handle *h = &w->life->handles[n->index];
    h->rules_newest = releases_start(w, h);
    *c = (struct shard_config){
        .birth = l->birth, .keeps_events = true, .rules_newest = h->rules_newest};
    journal_config_defaults(&c->journal);
    memcpy(c->journal.id.queue, l->id.bytes, sizeof l->id.bytes);
    c->journal.id.shard = l->shard;
    (void)snprintf(c->journal.prefix, sizeof c->journal.prefix, "%s", l->prefix);
    (void)snprintf(c->queue, sizeof c->queue, "%s", l->name);
    new_pen(w, n, h, &c->journal);
    c->journal.seed = rng_next(&w->rng);
    c->journal.rules = w->mix.rules;
    c->journal.puts_per_second = w->mix.puts_per_second;
    c->journal.high_latency = w->mix.high_latency;
    c->journal.courtesy_ms = w->mix.courtesy_ms;
    c->journal.courtesy_live_ms = w->mix.courtesy_live_ms;
    c->journal.read_bytes_max = (size_t)1 << 16;
    c->cache_bytes = w->life->cache_bytes;
    c->from_oldest = rng_chance(&w->rng, 1000);
    c->keeps_time = rng_chance(&w->rng, 3000);
    c->moves_dead_letters = n->index / w->life->lanes_len < w->life->carriers;
}

void node_start(struct world *w, struct node *n)
{
    CHECK(!n->up);
    struct shard_config config;
    struct handle *h = &w->life->handles[n->index];
    n->life++;
    n->up = true;
    n->tick_at = TIME_NEVER;
    configure(w, n, &config);
    h->shard = shard_new(&config);
    h->events_at = 0;
    h->passes_on = h->finishes = false;
    n->journal = shard_journal(h->shard);
    if (n->index < w->mix.collectors) n->collector = collector_new(n->journal);
    trace_line(&w->trace, w->now, "n%u.%u starts on lane %u", n->index, n->life, h->lane);
    shard_start(h->shard, node_now(n));
    node_settle(w, n);
}

void node_crash(struct world *w, struct node *n)
{
    if (!n->up) return;
    struct handle *h = &w->life->handles[n->index];
    n->up = false;
    collector_free(n->collector);
    shard_free(h->shard);
    n->collector = NULL;
    n->journal = NULL;
    h->shard = NULL;
    sim_call_orphans(w, n);
}

// As in the journal's world: when the time may have come, and again until it surely has.
static void plan_tick(struct world *w, struct node *n)
{
    int64_t wake = shard_wake_at(w->life->handles[n->index].shard);
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

// Loading a snapshot skips the events before it.
static void note_snapshot(struct world *w, struct node *n, const struct flight *f)
{
    const char *snap = strstr(f->request.key, "/snap/");
    if (f->collector || f->request.kind != REQUEST_GET || !snap) return;
    uint64_t slot = strtoull(snap + strlen("/snap/"), NULL, 10);
    const struct reference_slot *s = reference_at(&lane_of(w, n)->reference, slot);
    if (s && journal_slot(n->journal) == slot) w->life->handles[n->index].events_at = s->events_end;
}

void node_respond(struct world *w, struct node *n, const struct flight *f, const struct response *r)
{
    if (f->collector) {
        collector_respond(n->collector, r, node_now(n));
        if (collector_wants_time(n->collector))
            shard_pass_time(w->life->handles[n->index].shard, node_now(n));
    } else {
        struct response charged = *r;
        if (w->seed % 2) charged.cost.reads = 1; // half of the worlds keep books
        shard_respond(w->life->handles[n->index].shard, &charged, node_now(n));
        if (r->err == ERR_OK) note_snapshot(w, n, f);
    }
}

void node_settle(struct world *w, struct node *n)
{
    struct shard *s = w->life->handles[n->index].shard;
    struct request q;
    struct shard_reply r;
    check_state(w, n);
    if (w->findings.broken) return;
    check_events_heard(w, n);
    while (shard_next_request(s, &q))
        wire_send(w, n, &q, false);
    while (n->collector && collector_next_request(n->collector, &q))
        wire_send(w, n, &q, true);
    while (!w->findings.broken && shard_next_reply(s, &r))
        sim_call_heard(w, n, &r);
    bool passes_on = w->life->handles[n->index].passes_on;
    w->life->handles[n->index].passes_on = false;
    if (passes_on && !w->findings.broken) {
        shard_notify_next(s, node_now(n));
        node_settle(w, n);
        return;
    }
    carrier_take(w, n);
    plan_tick(w, n);
}
