// SPDX-License-Identifier: Apache-2.0
// GET /metrics: the node's current metrics, and the queues' metrics of a few seconds ago.
#include "base/array.h"
#include "base/memory.h"
#include "queues/counters.h"
#include "queues/owner.h"
#include "server/hub.h"
#include "server/inside.h"
#include "server/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)16 << 20)
#define SECONDS  1e9 // nanoseconds in a second

static void show_requests(struct buf *to, const struct metrics *m)
{
    static const int statuses[METRICS_STATUSES_LEN] = METRICS_STATUSES;
    const char *name = "sluice_http_requests_total";
    metric_family(to, name, METRIC_COUNTER, "HTTP requests answered.");
    for (size_t i = 0; i < METRICS_ROUTES_MAX; i++) {
        const struct route *c = i < ROUTE_COUNT ? &route_table[i] : NULL;
        for (size_t k = 0; k < METRICS_STATUSES_LEN; k++) {
            uint64_t count = atomic_load(&m->routes[i].statuses[k]);
            char status[16] = "other";
            if (count == 0) continue;
            if (statuses[k] != 0) (void)snprintf(status, sizeof status, "%d", statuses[k]);
            metric_count(to, name,
                         LABELS("method", c ? c->method : "", "route", c ? c->pattern : "none",
                                "status", status),
                         count);
        }
    }
}

static void show_latency(struct buf *to, const struct metrics *m)
{
    const char *name = "sluice_http_request_duration_seconds";
    metric_family(to, name, METRIC_HISTOGRAM,
                  "From a request's head to the end of its answer, without receives that wait.");
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        const struct route *c = &route_table[i];
        struct histogram_view h;
        uint64_t any = 0;
        histogram_read(&m->routes[i].latency, &h);
        for (size_t k = 0; k <= HISTOGRAM_BOUNDS_MAX; k++)
            any |= h.counts[k];
        if (any) // omit routes without requests
            metric_histogram(to, name, LABELS("method", c->method, "route", c->pattern), &h,
                             &histogram_latency, SECONDS);
    }
}

static void show_counters(struct buf *to, const struct metrics *m)
{
#define SHOW(field, shown, help) metric_counter(to, shown, help, atomic_load(&m->field));
    METRICS_LIST(SHOW)
#undef SHOW
}

static void show_refused(struct buf *to, const struct metrics *m)
{
    static const char *const outcomes[METRICS_OUTCOMES] = {[SETTLE_ACK] = "ack",
                                                           [SETTLE_FAIL] = "fail",
                                                           [SETTLE_RELEASE] = "release",
                                                           [SETTLE_RENEW] = "renew"};
    const char *name = "sluice_settles_refused_total";
    metric_family(to, name, METRIC_COUNTER, "Acks, fails, releases and renewals refused.");
    for (size_t i = 0; i < METRICS_OUTCOMES; i++)
        for (enum reason r = 0; r < REASON_COUNT; r++) {
            uint64_t count = atomic_load(&m->refused[i][r]);
            if (count == 0) continue;
            metric_count(to, name, LABELS("outcome", outcomes[i], "reason", reason_name(r)), count);
        }
}

static void show_histogram(struct buf *to, const char *name, const char *help,
                           const struct histogram *h)
{
    struct histogram_view view;
    histogram_read(h, &view);
    metric_family(to, name, METRIC_HISTOGRAM, help);
    metric_histogram(to, name, NULL, &view, &histogram_latency, SECONDS);
}

static void show_store_latency(struct buf *to, const struct meter_snapshot *meter)
{
    const char *name = "sluice_store_request_duration_seconds";
    metric_family(to, name, METRIC_HISTOGRAM, "Calls of the store, by kind; append is a commit.");
    for (enum meter_kind i = 0; i < METER_KINDS; i++)
        if (i != METER_WAIT) // its duration is the caller's choice
            metric_histogram(to, name, LABELS("call", meter_kind_name(i)), &meter->kind[i].latency,
                             &histogram_latency, SECONDS);
}

static void show_store_counts(struct buf *to, const struct meter_snapshot *meter)
{
    static const struct {
        const char *name;
        const char *help;
        size_t at;
    } rows[] = {
        {"sluice_store_requests_total", "Calls of the store.",
         offsetof(struct meter_count, requests)},
        {"sluice_store_requests_refused_total",
         "Calls of the store that failed, including lost races and missing keys.",
         offsetof(struct meter_count, refused)},
        {"sluice_store_sent_bytes_total", "Bytes of bodies sent to the store.",
         offsetof(struct meter_count, bytes_in)},
        {"sluice_store_received_bytes_total", "Bytes of bodies received from the store.",
         offsetof(struct meter_count, bytes_out)},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        metric_family(to, rows[row].name, METRIC_COUNTER, rows[row].help);
        for (enum meter_kind i = 0; i < METER_KINDS; i++) {
            uint64_t value;
            memcpy(&value, (const char *)&meter->kind[i] + rows[row].at, sizeof value);
            metric_count(to, rows[row].name, LABELS("call", meter_kind_name(i)), value);
        }
    }
}

static void show_cost(struct buf *to, const struct meter_snapshot *meter)
{
    const char *name = "sluice_store_charged_requests_total";
    metric_family(to, name, METRIC_COUNTER,
                  "Requests a store charges for, by price: write (PUT, POST, LIST), read, delete.");
    metric_count(to, name, LABELS("class", "write"), meter->cost.writes);
    metric_count(to, name, LABELS("class", "read"), meter->cost.reads);
    metric_count(to, name, LABELS("class", "delete"), meter->cost.deletes);
}

// The counters of one shard, or of all shards of a queue.
struct shard_row {
    char queue[QUEUE_NAME_MAX + 1];
    uint64_t expired;
    struct signal_ends ends;
};

struct shards {
    struct shard_row *rows;
    size_t len;
    size_t cap;
    uint64_t waiting;
};

static void add_shard(void *ctx, const char *queue, const struct handle_counters *t)
{
    struct shards *s = ctx;
    struct shard_row *row = ARRAY_ADD(s->rows, s->len, s->cap);
    *row = (struct shard_row){.expired = t->shard.expired, .ends = t->ends};
    (void)snprintf(row->queue, sizeof row->queue, "%s", queue);
    s->waiting += t->waiting;
}

static int by_queue(const void *a, const void *b)
{
    return strcmp(((const struct shard_row *)a)->queue, ((const struct shard_row *)b)->queue);
}

static void add_row(struct shard_row *to, const struct shard_row *more)
{
    to->expired += more->expired;
    for (size_t kind = 0; kind < SIGNAL_KIND_COUNT; kind++)
        for (size_t end = 0; end < SIGNAL_STATE_COUNT; end++)
            to->ends.counts[kind][end] += more->ends.counts[kind][end];
}

// One row per name: a queue has several shards, and a name may have had several lives.
static void join_queues(struct shards *s)
{
    size_t len = 0;
    if (s->len > 0) qsort(s->rows, s->len, sizeof *s->rows, by_queue);
    for (size_t i = 0; i < s->len; i++) {
        if (len > 0 && by_queue(&s->rows[len - 1], &s->rows[i]) == 0)
            add_row(&s->rows[len - 1], &s->rows[i]);
        else
            s->rows[len++] = s->rows[i];
    }
    s->len = len;
}

static void show_expired(struct buf *to, const struct shards *s)
{
    const char *name = "sluice_locks_expired_total";
    metric_family(to, name, METRIC_COUNTER, "Locks whose expiry this node saw.");
    for (size_t i = 0; i < s->len; i++)
        metric_count(to, name, LABELS("queue", s->rows[i].queue), s->rows[i].expired);
}

static bool has_ends(const struct signal_ends *e)
{
    static const struct signal_ends none;
    return memcmp(e, &none, sizeof none) != 0;
}

// A sum over queues would fall when a queue is closed, which no counter may do. Most queues have no
// signals, so they have no samples.
static void show_signals(struct buf *to, const struct shards *s)
{
    const char *name = "sluice_signals_total";
    metric_family(to, name, METRIC_COUNTER,
                  "Signals whose end this node saw, by kind and by how they ended.");
    for (size_t i = 0; i < s->len; i++) {
        const struct shard_row *row = &s->rows[i];
        if (!has_ends(&row->ends)) continue;
        for (enum signal_kind kind = 0; kind < SIGNAL_KIND_COUNT; kind++)
            for (enum signal_state end = SIGNAL_PENDING + 1; end < SIGNAL_STATE_COUNT; end++)
                metric_count(to, name,
                             LABELS("queue", row->queue, "kind", signal_kind_name(kind), "end",
                                    signal_state_name(end)),
                             row->ends.counts[kind][end]);
    }
}

static void show_shards(struct buf *to, struct server *s)
{
    struct shards all = {0};
    struct counters_totals totals;
    counters_each(s->engine, add_shard, &all);
    counters_totals(s->engine, &totals);
    join_queues(&all);
    show_expired(to, &all);
    show_signals(to, &all);
    memory_free(all.rows);
    metric_family(to, "sluice_entry_ops", METRIC_HISTOGRAM,
                  "Ops in each journal entry this node committed: how well commits are shared.");
    metric_histogram(to, "sluice_entry_ops", NULL, &totals.ops, &histogram_sizes, 1);
    metric_counter(to, "sluice_entries_foreign_total",
                   "Journal entries that another process committed to queues of this node.",
                   totals.others);
    metric_gauge(to, "sluice_waiters", "Receives that wait for a message.", (double)all.waiting);
}

static void show_node(struct buf *to, struct server *s)
{
    (void)pthread_mutex_lock(&s->lock);
    size_t streams = s->streams;
    (void)pthread_mutex_unlock(&s->lock);
    metric_family(to, "sluice_build_info", METRIC_GAUGE, "Always 1; the labels say what runs.");
    metric_count(to, "sluice_build_info", LABELS("version", sluice_version(), "node", s->node), 1);
    metric_family(to, "sluice_flag", METRIC_GAUGE, "Always 1; how far a capability is rolled out.");
    for (int i = 0; i < CAPABILITY_COUNT; i++)
        metric_count(to, "sluice_flag",
                     LABELS("capability", capability_name(i), "state",
                            rollout_name(atomic_load(&s->flags[i]))),
                     1);
    metric_counter(to, "sluice_dispatch_withheld_total",
                   "How often the owner would have granted tickets, with flags.dispatch=shadow.",
                   engine_dispatch_withheld(s->engine));
    metric_gauge(to, "sluice_event_streams", "Event streams that are open.", (double)streams);
    metric_gauge(to, "sluice_stream_subscribers", "Clients of /v1/stream.",
                 (double)hub_subscribers(s->hub));
    metric_gauge(to, "sluice_http_body_memory_bytes",
                 "Memory that the bodies of requests take now.",
                 (double)httpd_body_memory(s->httpd));
    metric_gauge(to, "sluice_http_answer_memory_bytes",
                 "Memory that answers take now, until they are sent.",
                 (double)budget_used(&s->budget));
    metric_gauge(to, "sluice_store_up", "1 when the store takes writes.", store_is_up(s));
    struct sluice_error error;
    metric_gauge(to, "sluice_store_durable",
                 "0 when the store's URL accepts that a crash loses acknowledged messages.",
                 !liveness_concern(s->engine, STORE_NOT_DURABLE, &error));
}

// The library counts these.
static void copy_forwards(struct server *s)
{
    uint64_t done, failed;
    owner_asked(s->engine, &done, &failed);
    atomic_store(&s->metrics.forwarded, done);
    atomic_store(&s->metrics.forwards_failed, failed);
}

void handle_metrics(struct exchange *x)
{
    struct server *s = x->server;
    const struct metrics *m = &s->metrics;
    struct meter_snapshot meter;
    struct buf text;
    if (!read_request(x, NULL)) return;
    buf_init(&text, TEXT_MAX);
    show_node(&text, s);
    show_requests(&text, m);
    show_latency(&text, m);
    copy_forwards(s);
    show_counters(&text, m);
    show_refused(&text, m);
    show_histogram(
        &text, "sluice_commit_duration_seconds",
        "From the arrival of a send, ack, fail, release or renewal to its being durable.",
        &m->commits);
    show_histogram(&text, "sluice_event_lag_seconds",
                   "From an event until a waiting stream gets it, by the store's clock and "
                   "ours.",
                   &m->event_lag);
    show_histogram(&text, "sluice_signal_delivery_seconds",
                   "From the commit of a signal until a poll of its worker is answered, by the "
                   "store's clock and ours.",
                   &m->signals);
    show_histogram(&text, "sluice_collect_duration_seconds",
                   "From the arrival of a collect to its answer.", &m->collects);
    show_shards(&text, s);
    counters_store(s->engine, &meter);
    show_store_latency(&text, &meter);
    show_store_counts(&text, &meter);
    show_cost(&text, &meter);
    metrics_cluster(s, &text);
    metrics_bus(s, &text);
    metrics_queues(s, &text);
    metrics_process(&text);
    answer_bytes(x, 200, METRICS_TYPE, &text);
}
