// SPDX-License-Identifier: Apache-2.0
// Counts what the handlers report.
#include "server/metrics.h"

#include "os/clock.h"
#include "server/inside.h"

#include <string.h>

#define NS_PER_MS 1000000

static size_t status_place(int status)
{
    static const int statuses[METRICS_STATUSES_LEN] = METRICS_STATUSES;
    size_t i = 0;
    while (i < METRICS_STATUSES_LEN - 1 && statuses[i] != status)
        i++;
    return i;
}

static uint64_t elapsed_ns(const struct exchange *x)
{
    return (uint64_t)(clock_boot_ns() - x->began_ns);
}

void metrics_request(const struct exchange *x)
{
    struct metrics *m = &x->server->metrics;
    size_t at = x->route ? (size_t)(x->route->row - route_table) : METRICS_ROUTES_MAX - 1;
    METRICS_ADD(&m->routes[at], statuses[status_place(x->status)], 1);
    // The duration of a waiting receive or a stream is the client's choice.
    bool waits = x->waits || (x->route && x->route->handle == handle_events);
    if (!waits) histogram_add(&m->routes[at].latency, &histogram_latency, elapsed_ns(x));
}

void metrics_committed(const struct exchange *x)
{
    histogram_add(&x->server->metrics.commits, &histogram_latency, elapsed_ns(x));
}

static enum reason reason_called(const char *name)
{
    enum reason r = 0;
    while (r < REASON_COUNT - 1 && strcmp(reason_name(r), name) != 0)
        r++;
    return r;
}

static void count_refused(struct metrics *m, enum settle_kind kind, const struct sluice_outcome *o)
{
    enum reason reason = reason_called(o->reason);
    bool late = reason == REASON_TOKEN_MISMATCH || reason == REASON_TERMINAL;
    if (*o->reason) METRICS_ADD(m, refused[kind][reason], 1);
    METRICS_ADD(m, fenced, o->code == SLUICE_FENCED);
    METRICS_ADD(m, late_acks, kind == SETTLE_ACK && *o->reason && late);
}

void metrics_settled(const struct exchange *x, const struct async_answer *a)
{
    struct metrics *m = &x->server->metrics;
    uint64_t done = 0;
    for (size_t i = 0; i < a->len; i++) {
        if (a->forwarded && a->forwarded[i]) continue; // the owner counts it
        if (a->outcomes[i].code == SLUICE_OK)
            done++;
        else
            count_refused(m, x->outcome, &a->outcomes[i]);
    }
    METRICS_ADD(m, acked, x->outcome == SETTLE_ACK ? done : 0);
    METRICS_ADD(m, failed, x->outcome == SETTLE_FAIL ? done : 0);
    METRICS_ADD(m, released, x->outcome == SETTLE_RELEASE ? done : 0);
    METRICS_ADD(m, renewed, x->outcome == SETTLE_RENEW ? done : 0);
    if (done > 0 && !x->waits) metrics_committed(x); // a waiting receive's time says nothing
}

void metrics_collected(const struct exchange *x)
{
    histogram_add(&x->server->metrics.collects, &histogram_latency, elapsed_ns(x));
}

// A signal that waited for a holder has not been on its way that long.
void metrics_signals(struct metrics *m, const struct sluice_signals *list)
{
    int64_t now = clock_realtime_ms();
    for (size_t i = 0; i < list->len; i++) {
        const struct sluice_signal_state *row = &list->rows[i];
        if (row->number == 0 || row->deliveries > 1) continue;
        int64_t lag = now - row->sent_at; // negative if the store's clock is ahead
        histogram_add(&m->signals, &histogram_latency, lag > 0 ? (uint64_t)lag * NS_PER_MS : 0);
    }
}

void metrics_event_lag(struct metrics *m, int64_t event_ms)
{
    int64_t lag = clock_realtime_ms() - event_ms; // negative if the store's clock is ahead
    histogram_add(&m->event_lag, &histogram_latency, lag > 0 ? (uint64_t)lag * NS_PER_MS : 0);
}
