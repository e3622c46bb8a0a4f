// SPDX-License-Identifier: Apache-2.0
// Reads the counters of the open runners and of the store's meter.
#include "local/counters.h"

#include "local/inside.h"
#include "local/transport.h"

static void read_ends(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    machine_signal_ends(m, ctx);
}

static void report_shards(struct open_queue *q, counters_fn *each, void *ctx)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct handle_counters t = {0};
        struct shard_runner *d = runner_if_open(q, i);
        if (!d) continue;
        runner_counters(d, &t.shard);
        t.waiting = runner_waiting(d);
        runner_inspect(d, read_ends, &t.ends);
        each(ctx, q->row.name, &t);
    }
}

void counters_each(struct sluice *s, counters_fn *each, void *ctx)
{
    if (s->calls != &direct_transport) return;
    struct open_queue **queues; // with holds, not the lock: a call to a runner may run callbacks
    size_t len = queues_hold(s, &queues);
    for (size_t i = 0; i < len; i++)
        report_shards(queues[i], each, ctx);
    queues_let_go(queues, len);
}

void counters_totals(const struct sluice *s, struct counters_totals *to)
{
    *to = (struct counters_totals){0};
    if (s->calls != &direct_transport) return;
    to->others = atomic_load_explicit(&s->totals.others, memory_order_relaxed);
    histogram_read(&s->totals.ops, &to->ops);
}

void counters_store(const struct sluice *s, struct meter_snapshot *to)
{
    *to = (struct meter_snapshot){0};
    if (s->calls == &direct_transport) store_meter_read(s->store, to);
}

void counters_watch(struct sluice *s, int64_t slow_ms, meter_slow_fn *slow, void *ctx)
{
    if (s->calls == &direct_transport) store_meter_watch(s->store, slow_ms, slow, ctx);
}
