// SPDX-License-Identifier: Apache-2.0
// A node: a journal handle, its machine behind a fold that the checkers listen to, perhaps a
// collector, and a clock that knows the store's time only to lie in an interval.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>
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

static void fold_reset(void *ctx)
{
    struct node *n = ctx;
    n->inner.reset(n->inner.ctx);
}

static void fold_apply(void *ctx, const struct fold_entry *e, struct op_result *results,
                       struct buf *text)
{
    struct node *n = ctx;
    n->inner.apply(n->inner.ctx, e, results, text);
    check_fold_entry(n->world, n, e);
}

static bool fold_recall(void *ctx, const struct op *op, struct op_result *result, struct buf *text)
{
    struct node *n = ctx;
    return n->inner.recall(n->inner.ctx, op, result, text);
}

static void fold_save(void *ctx, struct buf *out)
{
    struct node *n = ctx;
    n->inner.save(n->inner.ctx, out);
}

static enum err fold_load(void *ctx, struct bytes saved)
{
    struct node *n = ctx;
    n->jumped = true;
    return n->inner.load(n->inner.ctx, saved);
}

static uint64_t fold_digest(void *ctx)
{
    struct node *n = ctx;
    return n->inner.digest(n->inner.ctx);
}

static bool fold_needs(void *ctx, uint64_t first, uint64_t last)
{
    struct node *n = ctx;
    return n->inner.needs(n->inner.ctx, first, last);
}

static bool fold_ended(void *ctx)
{
    struct node *n = ctx;
    return n->inner.ended(n->inner.ctx);
}

static struct fold listening_fold(struct node *n)
{
    return (struct fold){.ctx = n,
                         .reset = fold_reset,
                         .apply = fold_apply,
                         .recall = fold_recall,
                         .save = fold_save,
                         .load = fold_load,
                         .digest = fold_digest,
                         .needs = fold_needs,
                         .ended = fold_ended};
}

static void configure(struct world *w, const struct node *n, struct journal_config *c)
{
    journal_config_defaults(c);
    memcpy(c->id.queue, "simulated queue.", sizeof c->id.queue);
    (void)snprintf(c->prefix, sizeof c->prefix, "%s", WORLD_PREFIX);
    c->writer.lo = rng_next(&w->rng);
    c->writer.hi = n->index + 1;
    c->seed = rng_next(&w->rng);
    c->rules = w->mix.rules;
    c->puts_per_second = w->mix.puts_per_second;
    c->high_latency = w->mix.high_latency;
    c->courtesy_ms = w->mix.courtesy_ms;
    c->courtesy_live_ms = w->mix.courtesy_live_ms;
    c->read_bytes_max = (size_t)1 << 16;
}

void node_start(struct world *w, struct node *n)
{
    CHECK(!n->up);
    struct journal_config config;
    n->life++;
    n->up = true;
    n->tick_at = TIME_NEVER;
    n->proved = 0;
    n->folded_len = 0;
    n->stands_from = 0;
    n->jumped = false;
    n->halt_seen = false;
    configure(w, n, &config);
    n->machine = registers_new(w->mix.memory_ms);
    n->inner = registers_fold(n->machine);
    struct fold fold = listening_fold(n);
    n->journal = journal_new(&config, &fold);
    if (n->index < w->mix.collectors) n->collector = collector_new(n->journal);
    trace_line(&w->trace, w->now, "n%u.%u starts", n->index, n->life);
    journal_start(n->journal, node_now(n));
    node_settle(w, n);
}

void node_crash(struct world *w, struct node *n)
{
    if (!n->up) return;
    if (w->phase == WORLD_FAULTY) client_orphans(w, n);
    n->up = false;
    collector_free(n->collector);
    journal_free(n->journal);
    registers_free(n->machine);
    n->collector = NULL;
    n->journal = NULL;
    n->machine = NULL;
}

struct bucket *node_bucket(struct world *w, struct node *n)
{
    (void)n;
    return &w->bucket;
}

void node_respond(struct world *w, struct node *n, const struct flight *f, const struct response *r)
{
    (void)w;
    if (f->collector) {
        collector_respond(n->collector, r, node_now(n));
    } else {
        journal_respond(n->journal, r, node_now(n));
    }
}

// Ticks come when the wake-up time may have passed, and again until it surely has: the store's time
// is only known to lie in an interval.
static void plan_tick(struct world *w, struct node *n)
{
    int64_t wake = journal_wake_at(n->journal);
    if (wake == TIME_NEVER) {
        n->tick_at = TIME_NEVER;
        return;
    }
    struct interval now = node_now(n);
    int64_t delay = wake > now.hi ? wake - now.hi : (wake - now.lo) / 2;
    int64_t at = w->now + (delay > 0 ? delay : 1);
    if (at == n->tick_at) return;
    n->tick_at = at;
    world_at(w, at, EVENT_TICK, n->index, n->life);
}

// The entry after the last, which a collector asks for when the machine has ended. No call waits
// for it.
static void pass_time(struct world *w, struct node *n)
{
    if (!n->collector || !collector_wants_time(n->collector)) return;
    client_touch(w, n);
}

static void take_requests(struct world *w, struct node *n)
{
    struct request q;
    while (journal_next_request(n->journal, &q))
        wire_send(w, n, &q, false);
    while (n->collector && collector_next_request(n->collector, &q)) {
        check_floor_sent(w, n, &q);
        wire_send(w, n, &q, true);
    }
}

void node_settle(struct world *w, struct node *n)
{
    struct journal_reply r;
    pass_time(w, n);
    take_requests(w, n);
    while (journal_next_reply(n->journal, &r))
        client_heard(w, n, &r);
    check_fold_state(w, n);
    plan_tick(w, n);
}
