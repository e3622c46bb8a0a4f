// SPDX-License-Identifier: Apache-2.0
// The bus wakes the sources of the hub. A node publishes the events of its shards, and a message of
// the bus names one. A source that sleeps then reads the journal of that shard. What a client is
// told is always read from the journal: a message of the bus is input, and any client of the bus
// can write one (events/bus_progress.h).
#include "bus/bus.h"
#include "os/lock.h"
#include "server/hub_inside.h"

#include <stdio.h>

#define SUBJECTS "sluice.v1.>"

static void on_message(void *ctx, const struct bus_message *m)
{
    struct hub *h = ctx;
    struct event_ref e;
    if (!event_ref_read(bus_message_header(m, "ce-id"), bus_message_header(m, "ce-sequence"), &e))
        return;
    LOCKED(&h->lock);
    struct source *s = source_find_shared(h, e.life);
    bool news = s && s->live && bus_progress_named(&s->bus, e.shard, e.sequence);
    if (news && s->sleeps) {
        METRICS_ADD(&h->server->metrics, stream_wakes, 1);
        task_schedule(&s->task);
    }
}

static void changed(void *ctx, bool up)
{
    struct hub *h = ctx;
    LOCKED(&h->lock);
    h->bus_up = up;
    LIST_EACH(s, &h->sources, struct source, link) {
        bus_progress_begin(&s->bus, up);
        if (s->added && !s->over) task_schedule(&s->task);
    }
}

static bool is_wanted(struct hub *h)
{
    bool on = atomic_load(&h->server->flags[CAPABILITY_STREAM]) == ROLLOUT_ON;
    LOCKED(&h->lock);
    return on && h->sources.first && h->server->config.bus;
}

void hub_bus_close(struct hub *h)
{
    if (!h->bus) return;
    bus_close(h->bus);
    h->bus = NULL;
    changed(h, false);
}

void hub_bus_look(struct hub *h)
{
    char why[BUS_WHY_MAX], name[NODE_NAME_MAX + 32];
    bool wanted = is_wanted(h);
    if (!wanted) hub_bus_close(h);
    if (!wanted || h->bus) return;
    (void)snprintf(name, sizeof name, "sluice %s stream", h->server->node);
    struct bus_config config = {.url = h->server->config.bus,
                                .name = name,
                                .changed = changed,
                                .listen = SUBJECTS,
                                .on_message = on_message,
                                .ctx = h};
    if (bus_open(&config, &h->bus, why)) h->bus = NULL; // the next look tries again
}
