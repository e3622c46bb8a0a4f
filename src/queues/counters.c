// SPDX-License-Identifier: Apache-2.0
// Reads the counters of the open runners and of the store's meter.
#include "queues/counters.h"

#include "queues/queues.h"

static void read_ends(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    machine_signal_ends(m, ctx);
}

static void report_shards(struct open_queue *q, counters_fn *each, void *ctx)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct handle_counters t = {0};
        struct shard_runner *r = runner_if_open(q, i);
        if (!r) continue;
        runner_counters(r, &t.shard);
        t.waiting = runner_waiting(r);
        runner_inspect(r, read_ends, &t.ends);
        each(ctx, q->row.name, &t);
    }
}

void counters_each(struct engine *e, counters_fn *each, void *ctx)
{
    struct open_queue **queues; // with holds, not the lock: a call to a runner may run callbacks
    size_t len = queues_hold(e, &queues);
    for (size_t i = 0; i < len; i++)
        report_shards(queues[i], each, ctx);
    queues_let_go(queues, len);
}

void counters_totals(const struct engine *e, struct counters_totals *to)
{
    *to = (struct counters_totals){0};
    to->others = atomic_load_explicit(&e->totals.others, memory_order_relaxed);
    histogram_read(&e->totals.ops, &to->ops);
}

void counters_store(const struct engine *e, struct meter_snapshot *to)
{
    *to = (struct meter_snapshot){0};
    store_meter_read(e->store, to);
}

void counters_watch(struct engine *e, int64_t slow_ms, meter_slow_fn *slow, void *ctx)
{
    store_meter_watch(e->store, slow_ms, slow, ctx);
}
