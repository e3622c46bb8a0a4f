// SPDX-License-Identifier: Apache-2.0
// The queues' metrics. They come from the journals, so every node of a store shows the same
// numbers. Reading them costs the store requests for each queue, so the text is cached for KEEP_MS.
#include "base/memory.h"
#include "os/clock.h"
#include "server/inside.h"
#include "server/metrics_text.h"
#include "server/presence.h"

#include <string.h>

#define KEEP_MS    5000
#define QUEUES_MAX 1000 // shown in detail; all are counted
#define AT_ONCE    64   // queues read per call
#define TEXT_MAX   ((size_t)16 << 20)

struct queues {
    char **names;
    struct sluice_stats *stats;
    size_t len;
};

static const struct {
    const char *state;
    size_t at;
} states[] = {
    {"ready", offsetof(struct sluice_stats, ready)},
    {"delayed", offsetof(struct sluice_stats, delayed)},
    {"locked", offsetof(struct sluice_stats, locked)},
    {"dead", offsetof(struct sluice_stats, dead)},
    {"outbound", offsetof(struct sluice_stats, outbound)},
};

static const struct {
    const char *name;
    enum metric_kind kind;
    const char *help;
    size_t at;
} rows[] = {
    {"sluice_queue_sent_total", METRIC_COUNTER, "Messages ever sent.",
     offsetof(struct sluice_stats, sent)},
    {"sluice_queue_processed_total", METRIC_COUNTER, "Messages acked.",
     offsetof(struct sluice_stats, processed)},
    {"sluice_queue_dead_lettered_total", METRIC_COUNTER,
     "Messages that arrived in the dead-letter queue.", offsetof(struct sluice_stats, moved)},
    {"sluice_queue_redriven_total", METRIC_COUNTER, "Dead messages sent again.",
     offsetof(struct sluice_stats, redriven)},
    {"sluice_queue_purged_total", METRIC_COUNTER, "Messages purged.",
     offsetof(struct sluice_stats, purged)},
    {"sluice_queue_cancelled_total", METRIC_COUNTER, "Messages cancelled.",
     offsetof(struct sluice_stats, cancelled)},
    {"sluice_queue_results", METRIC_GAUGE, "Results of finished messages that are kept.",
     offsetof(struct sluice_stats, results)},
    {"sluice_queue_result_bytes", METRIC_GAUGE, "The bytes of these results.",
     offsetof(struct sluice_stats, result_bytes)},
    {"sluice_queue_retained_bodies", METRIC_GAUGE, "Bodies of finished messages that are kept.",
     offsetof(struct sluice_stats, bodies)},
    {"sluice_signals_pending", METRIC_GAUGE, "Signals that no worker has answered yet.",
     offsetof(struct sluice_stats, signals)},
    {"sluice_queue_duplicates_total", METRIC_COUNTER, "Sends answered by their dedup key.",
     offsetof(struct sluice_stats, duplicates)},
    {"sluice_queue_entries_total", METRIC_COUNTER, "Journal entries committed.",
     offsetof(struct sluice_stats, entries)},
    {"sluice_queue_workers", METRIC_GAUGE, "Workers that hold locks, or are registered.",
     offsetof(struct sluice_stats, workers)},
};

static uint64_t number_at(const struct sluice_stats *s, size_t at)
{
    uint64_t value;
    memcpy(&value, (const char *)s + at, sizeof value);
    return value;
}

// Ends the labels, or adds one: dlq="true" marks a dead-letter queue, whose messages wait for an
// operator.
static const char *letters_label(const struct sluice_stats *s)
{
    return s->takes_letters ? "dlq" : NULL;
}

static void show_depth(struct buf *to, const struct queues *q)
{
    const char *name = "sluice_queue_messages";
    metric_family(to, name, METRIC_GAUGE, "Messages in the queue, by state.");
    for (size_t i = 0; i < q->len; i++)
        for (size_t k = 0; k < sizeof states / sizeof *states; k++)
            metric_count(to, name,
                         LABELS("queue", q->names[i], "state", states[k].state,
                                letters_label(&q->stats[i]), "true"),
                         number_at(&q->stats[i], states[k].at));
}

static void show_age(struct buf *to, const struct queues *q)
{
    const char *name = "sluice_queue_oldest_message_age_seconds";
    metric_family(to, name, METRIC_GAUGE,
                  "How long the oldest ready message is ready; 0: none is.");
    for (size_t i = 0; i < q->len; i++)
        metric_value(to, name, LABELS("queue", q->names[i], letters_label(&q->stats[i]), "true"),
                     (double)q->stats[i].oldest_age_ms / 1000);
}

static void show_paused(struct buf *to, const struct queues *q)
{
    const char *name = "sluice_queue_paused";
    metric_family(to, name, METRIC_GAUGE, "1 if the queue is paused and delivers nothing.");
    for (size_t i = 0; i < q->len; i++)
        metric_count(to, name, LABELS("queue", q->names[i]), q->stats[i].paused != 0);
}

static void show_spent(struct buf *to, const struct queues *q)
{
    const char *name = "sluice_queue_charged_requests_total";
    metric_family(to, name, METRIC_COUNTER,
                  "Requests the store charges for, made for the queue by all processes.");
    for (size_t i = 0; i < q->len; i++) {
        const struct sluice_requests *spent = &q->stats[i].spent;
        metric_count(to, name, LABELS("queue", q->names[i], "class", "write"), spent->writes);
        metric_count(to, name, LABELS("queue", q->names[i], "class", "read"), spent->reads);
        metric_count(to, name, LABELS("queue", q->names[i], "class", "delete"), spent->deletes);
    }
}

static void show_rows(struct buf *to, const struct queues *q)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        metric_family(to, rows[k].name, rows[k].kind, rows[k].help);
        for (size_t i = 0; i < q->len; i++)
            metric_count(to, rows[k].name, LABELS("queue", q->names[i]),
                         number_at(&q->stats[i], rows[k].at));
    }
}

// Unlike the others, this number differs between nodes: each counts the workers that it hears of.
static void show_waiting(struct server *s, struct buf *to, const struct queues *q)
{
    const char *name = "sluice_queue_waiting_workers";
    metric_family(to, name, METRIC_GAUGE,
                  "Workers that wait in a receive at this node, or did so in the last 30 s.");
    struct waiting_list list = {0};
    presence_list(s->presence, NULL, s->node, &list);
    waiting_list_tidy(&list);
    for (size_t i = 0; i < q->len; i++)
        metric_count(to, name, LABELS("queue", q->names[i]),
                     waiting_list_count(&list, q->names[i]));
    waiting_list_done(&list);
}

static void show_totals(struct buf *to, size_t all, size_t failed)
{
    metric_gauge(to, "sluice_queues", "Queues in the store.", (double)all);
    metric_gauge(to, "sluice_queues_unread",
                 "Queues whose numbers are missing here: too many, or the store did not answer.",
                 (double)failed);
}

// A queue whose journal is damaged, or of which the store lost something, is not among those that
// were read.
static void show_damaged(struct buf *to, const struct queues *q, const struct queues *damaged)
{
    const char *name = "sluice_queue_damaged";
    metric_family(to, name, METRIC_GAUGE,
                  "1 if the queue's journal is damaged, or if the store lost a part of it.");
    for (size_t i = 0; i < damaged->len; i++)
        metric_count(to, name, LABELS("queue", damaged->names[i]), 1);
    for (size_t i = 0; i < q->len; i++)
        metric_count(to, name, LABELS("queue", q->names[i]), 0);
}

// Writes nothing if the queues cannot be listed.
static void ask_all(struct server *s, struct buf *to)
{
    struct sluice_names *names = NULL;
    struct sluice_error error;
    enum sluice_code code = sluice_queue_list(s->store, &names, &error);
    if (code) return;
    size_t len = names->len < QUEUES_MAX ? names->len : QUEUES_MAX;
    struct queues q = {.names = memory_zeroed(len, sizeof(char *)),
                       .stats = memory_zeroed(len, sizeof *q.stats)};
    struct queues damaged = {.names = memory_zeroed(len, sizeof(char *))};
    struct sluice_queue_status seen[AT_ONCE];
    for (size_t at = 0; at < len && !code; at += AT_ONCE) { // stops if the store is unavailable
        size_t some = len - at < AT_ONCE ? len - at : AT_ONCE;
        char **these = names->names + at;
        sluice_queues_status(s->store, (const char *const *)these, some, SLUICE_STATUS_STATS, seen);
        for (size_t i = 0; i < some; i++) {
            enum sluice_code mine = seen[i].error.code;
            if (mine == SLUICE_UNAVAILABLE || mine == SLUICE_UNKNOWN) code = mine;
            if (mine == SLUICE_CORRUPT) damaged.names[damaged.len++] = these[i];
            if (mine) continue;
            q.stats[q.len] = seen[i].stats;
            q.names[q.len++] = these[i];
        }
    }
    show_totals(to, names->len, names->len - q.len);
    show_depth(to, &q);
    show_age(to, &q);
    show_paused(to, &q);
    show_rows(to, &q);
    show_waiting(s, to, &q);
    show_spent(to, &q);
    show_damaged(to, &q, &damaged);
    memory_free(damaged.names);
    memory_free(q.names);
    memory_free(q.stats);
    sluice_names_free(names);
}

void metrics_queues(struct server *s, struct buf *to)
{
    struct queue_metrics_cache *shown = &s->queues_shown;
    (void)pthread_mutex_lock(&shown->lock);
    bool fresh = shown->text.data && clock_boot_ms() - shown->at_ms < KEEP_MS;
    // While one thread reads them, which may take long, the others get the previous text.
    if (!fresh && !shown->asking) {
        shown->asking = true;
        (void)pthread_mutex_unlock(&shown->lock);
        struct buf text;
        buf_init(&text, TEXT_MAX);
        ask_all(s, &text);
        (void)pthread_mutex_lock(&shown->lock);
        bytes_free(shown->text);
        shown->text = buf_take(&text);
        shown->at_ms = clock_boot_ms();
        shown->asking = false;
    }
    buf_put(to, shown->text);
    (void)pthread_mutex_unlock(&shown->lock);
}
