// SPDX-License-Identifier: Apache-2.0
// Counts the messages of a queue.
#include "base/array.h"
#include "base/hash.h"
#include "base/memory.h"
#include "ops/look.h"
#include "ops/ops.h"
#include "queues/waiting_workers.h"
#include "store/meter.h"

#include <stdlib.h>

#define WAITING_MAX 8 // messages that are read to find the oldest

struct stats_read {
    struct look look; // first
    struct sluice_stats *out;
    struct message_view waiting[WAITING_MAX]; // the first that are ready
    size_t waiting_len;
    int64_t now;
    uint64_t *workers; // hashes of names: a worker is registered in every shard, and counts once
    size_t workers_len, workers_cap;
    const char *queue;
};

static void add_requests(struct sluice_requests *to, const struct cost *c)
{
    to->writes += c->writes;
    to->reads += c->reads;
    to->deletes += c->deletes;
}

static void add_spent(struct sluice_stats *out, const struct machine *m, int64_t now)
{
    struct machine_cost spent;
    machine_spent(m, now, &spent);
    add_requests(&out->spent, &spent.total);
    add_requests(&out->spent_this_hour, &spent.this_hour);
    add_requests(&out->spent_last_hour, &spent.last_hour);
    out->hour_ms = spent.hour_ms;
}

static void add_worker(struct stats_read *l, struct bytes name)
{
    *ARRAY_ADD(l->workers, l->workers_len, l->workers_cap) = hash64_of(name, 0);
}

static int compare_hash(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static uint64_t count_workers(const struct stats_read *l)
{
    uint64_t count = 0;
    if (l->workers_len > 0) qsort(l->workers, l->workers_len, sizeof *l->workers, compare_hash);
    for (size_t i = 0; i < l->workers_len; i++)
        count += i == 0 || l->workers[i] != l->workers[i - 1];
    return count;
}

static void add_stats(void *ctx, const struct machine *m, int64_t now)
{
    struct stats_read *l = ctx;
    struct machine_stats stats;
    machine_stats(m, now, &stats);
    l->now = now;
    l->out->ready += stats.counts[STATE_READY];
    l->out->delayed += stats.counts[STATE_DELAYED];
    l->out->locked += stats.counts[STATE_LOCKED];
    l->out->processed += stats.counts[STATE_PROCESSED];
    l->out->dead += stats.counts[STATE_DEAD];
    l->out->outbound += stats.counts[STATE_OUTBOUND];
    l->out->moved += stats.counts[STATE_MOVED];
    l->out->redriven += stats.counts[STATE_REDRIVEN];
    l->out->purged += stats.counts[STATE_PURGED];
    l->out->cancelled += stats.counts[STATE_CANCELLED];
    l->out->signals += stats.signals;
    l->out->results += stats.results;
    l->out->result_bytes += stats.result_bytes;
    l->out->bodies += stats.retained;
    l->out->sent += stats.sent;
    l->out->duplicates += stats.duplicates;
    l->out->entries += machine_slot(m);
    l->out->paused |= machine_paused(m);
    l->out->takes_letters |= stats.takes_letters;
    int64_t outbound = stats.outbound_since ? now - stats.outbound_since : 0;
    if (outbound > l->out->outbound_age_ms) l->out->outbound_age_ms = outbound;
    add_spent(l->out, m, now);
    struct worker_view w;
    for (size_t i = 0; machine_worker(m, i, &w); i++)
        if (w.open > 0 || (w.capacity > 0 && w.expires_at > now)) add_worker(l, w.name);
    l->waiting_len = machine_list(m, STATE_READY, 0, now, l->waiting, WAITING_MAX);
}

// When the message was ready for the first time, store time.
static int64_t due_at(const struct delivery *d)
{
    const struct message *m = &d->message;
    if (m->when == WHEN_DUE && m->when_ms > d->sent_at) return m->when_ms;
    return m->when == WHEN_DELAY ? d->sent_at + m->when_ms : d->sent_at;
}

// machine_list has the messages in the order they were sent. So the first one without a delay is
// older than all that follow it, and the search ends there.
static void note_age(struct shard_runner *r, const struct stats_read *l)
{
    bool delayed = true;
    for (size_t i = 0; delayed && i < l->waiting_len; i++) {
        LOCAL(kept_reply, answer);
        if (!runner_fetch(r, &l->waiting[i].place, 1, &answer)) {
            int64_t age = l->now - due_at(&answer.deliveries[0]);
            if (age > l->out->oldest_age_ms) l->out->oldest_age_ms = age;
            delayed = answer.deliveries[0].message.when != WHEN_NOW;
        }
    }
}

static uint64_t requests_made(const struct engine *e)
{
    struct meter_snapshot meter;
    uint64_t sum = 0;
    store_meter_read(e->store, &meter);
    for (int kind = 0; kind < METER_KINDS; kind++)
        sum += meter.kind[kind].requests;
    return sum;
}

void ops_requests(struct engine *e, struct sluice_requests *out)
{
    struct meter_snapshot meter;
    store_meter_read(e->store, &meter);
    *out = (struct sluice_requests){0};
    add_requests(out, &meter.cost);
}

static enum sluice_code stats_shard(struct look *l, struct sluice_error *error)
{
    (void)error;
    note_age(l->runner, (const struct stats_read *)l);
    return SLUICE_OK;
}

static void end(struct look *look, struct local_call *c)
{
    const struct stats_read *l = (const struct stats_read *)look;
    struct waiting_list waiting = {0};
    l->out->workers = count_workers(l);
    l->out->requests = requests_made(c->engine);
    if (call_code(c)) return;
    owner_waiting(c->engine, l->queue, &waiting);
    l->out->waiting = waiting_list_count(&waiting, l->queue);
    waiting_list_done(&waiting);
}

static void release(struct look *l)
{
    memory_free(((struct stats_read *)l)->workers);
}

enum sluice_code start_stats(const struct request_origin *as, const char *queue,
                             struct sluice_stats *out, struct sluice_error *error)
{
    struct stats_read *read = NEW(struct stats_read);
    read->look = (struct look){
        .inspect = add_stats, .shard = stats_shard, .end = end, .release = release, .owned = true};
    read->out = out;
    read->queue = queue;
    *out = (struct sluice_stats){0};
    return look_at_queue(as, queue, &read->look, error);
}
