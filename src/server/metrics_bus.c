// SPDX-License-Identifier: Apache-2.0
// The numbers of the message bus. A node without one shows none.
#include "publish/publish.h"
#include "server/inside.h"
#include "server/metrics_text.h"

void metrics_bus(struct server *s, struct buf *to)
{
    struct publishing_status p;
    if (!s->publishing) return;
    publishing_status(s->publishing, &p);
    metric_gauge(to, "sluice_bus_degraded", "1 while events do not reach the bus.", p.degraded);
    metric_gauge(to, "sluice_bus_degraded_seconds", "How long they have not. 0: they do.",
                 (double)p.degraded_ms / 1e3);
    metric_gauge(to, "sluice_bus_overdue", "1 while events wait for longer than publishKeep.",
                 p.overdue);
    metric_gauge(to, "sluice_bus_shards", "Shards that this node publishes.", p.shards);
    metric_gauge(to, "sluice_bus_lag_events", "Events that the bus has not acknowledged.",
                 (double)p.lag_events);
    metric_gauge(to, "sluice_bus_lag_seconds", "The age of the oldest of them.",
                 (double)p.lag_ms / 1e3);
    metric_counter(to, "sluice_bus_published_total", "Events that the bus has stored.",
                   p.published);
    metric_counter(to, "sluice_bus_repeated_total", "Events that the bus had already.", p.repeated);
    metric_counter(to, "sluice_bus_dropped_total",
                   "Events that were skipped and are named in a gap event.", p.dropped);
    metric_counter(to, "sluice_bus_schema_total",
                   "Events that do not fit their schema. They were published.", p.unfit);
    metric_counter(to, "sluice_bus_healed_total",
                   "Times that a stream had lost its newest events, which were published again.",
                   p.healed);
    metric_counter(to, "sluice_bus_retries_total", "Times that a shard had to ask the bus again.",
                   p.retries);
}
