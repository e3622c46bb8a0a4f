// SPDX-License-Identifier: Apache-2.0
// Reading the counters of the desks that are open, and of the store's meter.
#include "api/tally.h"

#include "api/inside.h"
#include "api/transport.h"

static void tell(struct open_queue *q, tally_fn *each, void *ctx)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct tally t = {0};
        if (!q->desks[i]) continue;
        desk_tally(q->desks[i], &t.shard);
        t.waiting = desk_waiting(q->desks[i]);
        each(ctx, q->row.name, &t);
    }
}

void tally_each(struct sluice *s, tally_fn *each, void *ctx)
{
    if (s->calls != &direct_transport) return;
    (void)pthread_mutex_lock(&s->lock);
    for (struct open_queue *q = s->queues; q; q = q->next)
        if (!q->stale) tell(q, each, ctx);
    (void)pthread_mutex_unlock(&s->lock);
}

void tally_store(const struct sluice *s, struct meter_snapshot *to)
{
    *to = (struct meter_snapshot){0};
    if (s->calls == &direct_transport) store_meter_read(s->store, to);
}
