// SPDX-License-Identifier: Apache-2.0
// Which shards this node publishes: the open ones that it owns. A task looks at them twice a
// second. Now and then a job opens the queues of the catalog: an owner that died may have left
// events that no call brings back to a node.
#include "publish/publish.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "publish/inside.h"

#include <stdio.h>

#define THREADS_MAX   8
#define OPEN_EVERY_MS 60000
#define START_MS      3000 // for the first connection

struct bus *publishing_bus(struct publish_engine *p)
{
    return p->bus;
}

void publishing_say(struct publish_engine *p, enum publishing_note note, const char *queue,
                    uint32_t shard, const char *why)
{
    if (p->config.note) p->config.note(p->config.ctx, note, queue, shard, why);
}

// The connection came up or went down.
static void changed(void *ctx, bool up)
{
    struct publish_engine *p = ctx;
    atomic_store(&p->up, up);
    LOCKED(&p->lock);
    for (struct published_shard *s = p->shards; s; s = s->next)
        task_schedule(&s->task);
}

static struct published_shard *find(struct publish_engine *p, const struct open_queue *q,
                                    uint32_t shard)
{
    for (struct published_shard *s = p->shards; s; s = s->next)
        if (s->queue == q && s->shard == shard) return s;
    return NULL;
}

static void add(struct publish_engine *p, struct open_queue *q, uint32_t shard,
                struct shard_runner *r)
{
    struct published_shard *s = published_shard_new(p, q, shard, r);
    if (!s) return; // no thread: the next look tries again
    (void)pthread_mutex_lock(&p->lock);
    s->next = p->shards;
    p->shards = s;
    (void)pthread_mutex_unlock(&p->lock);
    published_shard_want(s, true);
}

static void look_at_queue(struct publish_engine *p, struct open_queue *q)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *r = runner_if_open(q, i);
        struct runner_owner o;
        if (!r) continue;
        runner_owner(r, &o);
        struct published_shard *s = find(p, q, i);
        if (s)
            published_shard_want(s, o.mine);
        else if (o.mine && !runner_saw(r, RUNNER_DELETED))
            add(p, q, i, r);
    }
}

static void count_past(struct publish_engine *p, struct published_shard *s)
{
    const struct publisher_status *of = &s->status;
    p->past.published += of->published;
    p->past.repeated += of->repeated;
    p->past.dropped += of->dropped;
    p->past.unfit += s->unfit;
    p->past.healed += of->healed;
    p->past.retries += of->retries;
}

// Removes the shards of deleted queues, once their last events are out.
static void remove_deleted(struct publish_engine *p, bool all)
{
    struct published_shard *gone = NULL;
    (void)pthread_mutex_lock(&p->lock);
    for (struct published_shard **at = &p->shards; *at;) {
        struct published_shard *s = *at;
        bool over = runner_saw(s->own, RUNNER_DELETED) && published_shard_is_done(s);
        if (!all && !over) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->next = gone;
        gone = s;
    }
    (void)pthread_mutex_unlock(&p->lock);
    while (gone) {
        struct published_shard *s = gone;
        gone = s->next;
        (void)pthread_mutex_lock(&p->lock);
        count_past(p, s);
        (void)pthread_mutex_unlock(&p->lock);
        published_shard_free(s);
    }
}

static void open_queue_of(struct engine *e, const char *name)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *r;
    if (queue_get(e, name, &q, NULL)) return;
    struct owner_cluster *cluster = atomic_load(&e->cluster);
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct runner_owner o;
        if (queue_work_runner(q, i, &r, NULL)) continue;
        runner_owner(r, &o);
        if (cluster && !o.mine) cluster->used(cluster, q, i);
    }
}

// Makes sure that each queue has an owner.
static void open_all(struct publish_engine *p)
{
    struct sluice_names *list = NULL;
    if (queues_list(p->engine, &list, NULL)) return;
    for (size_t i = 0; i < list->len && !p->stopping; i++)
        open_queue_of(p->engine, list->names[i]);
    sluice_names_free(list);
}

static void note_degraded(struct publish_engine *p)
{
    struct publishing_status now;
    publishing_status(p, &now);
    (void)pthread_mutex_lock(&p->lock);
    bool was = p->down_since != 0;
    if (now.degraded && !was) p->down_since = clock_boot_ms();
    if (!now.degraded) p->down_since = 0;
    (void)pthread_mutex_unlock(&p->lock);
    if (now.degraded && !was) publishing_say(p, PUBLISHING_DEGRADED, "", 0, now.why);
    if (!now.degraded && was) publishing_say(p, PUBLISHING_RECOVERED, "", 0, "");
}

static int64_t look(struct pool_task *task)
{
    struct publish_engine *p = (struct publish_engine *)task;
    struct open_queue **queues;
    task_may_block(task);
    // Before the node has joined its cluster, this could not make it an owner.
    if (engine_takes_shards(p->engine) && clock_boot_ms() - p->opened_at >= OPEN_EVERY_MS) {
        open_all(p);
        p->opened_at = clock_boot_ms();
    }
    size_t len = queues_hold(p->engine, &queues);
    for (size_t i = 0; i < len; i++)
        look_at_queue(p, queues[i]);
    queues_let_go(queues, len);
    remove_deleted(p, false);
    note_degraded(p);
    return clock_boot_ms() + PUBLISH_LOOK_MS;
}

enum sluice_code publishing_start(struct engine *e, const struct publishing_config *config,
                                  struct publish_engine **out, struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "", name[300];
    struct publish_engine *p = NEW(struct publish_engine);
    p->engine = e;
    p->config = *config;
    (void)snprintf(p->node, sizeof p->node, "%s", config->node);
    (void)snprintf(name, sizeof name, "sluice %s", config->node);
    (void)pthread_mutex_init(&p->lock, NULL);
    p->own_schemas = config->schemas ? NULL : schema_set_new();
    p->schemas = config->schemas ? config->schemas : p->own_schemas;
    p->started_at = clock_boot_ms();
    p->opened_at = p->started_at - OPEN_EVERY_MS;
    enum err err = bus_open(
        &(struct bus_config){.url = config->bus, .name = name, .changed = changed, .ctx = p},
        &p->bus, why);
    if (!err) p->share = pool_share_new(e->pool, THREADS_MAX, THREADS_MAX);
    if (!err && (err = pool_share_add(p->share, &p->task, look)) != ERR_OK)
        (void)snprintf(why, sizeof why, "%s", err_text(err));
    if (err) {
        enum sluice_code code = refuse(error, err, "bus", "%s", why);
        pool_share_free(p->share);
        bus_close(p->bus);
        schema_set_free(p->own_schemas);
        (void)pthread_mutex_destroy(&p->lock);
        memory_free(p);
        return code;
    }
    task_schedule(&p->task);
    *out = p;
    return SLUICE_OK;
}

void publishing_stop(struct publish_engine *p)
{
    if (!p) return;
    p->stopping = true;
    task_remove(&p->task);
    remove_deleted(p, true);
    bus_close(p->bus);
    pool_share_free(p->share);
    schema_set_free(p->own_schemas);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

static void add_shard(struct published_shard *s, struct publishing_status *out)
{
    LOCKED(&s->lock);
    const struct publisher_status *of = &s->status;
    uint64_t lag = of->owns && s->events > of->acked ? s->events - of->acked : 0;
    int64_t age = of->oldest_at > 0 ? s->now - of->oldest_at : 0;
    out->shards += of->owns;
    out->lag_events += lag;
    if (lag > 0 && age > out->lag_ms) out->lag_ms = age;
    out->published += of->published;
    out->repeated += of->repeated;
    out->dropped += of->dropped;
    out->unfit += s->unfit;
    out->healed += of->healed;
    out->retries += of->retries;
    out->overdue = out->overdue || (of->owns && s->overdue);
    if (of->owns && s->refused && !out->degraded) {
        out->degraded = true;
        (void)snprintf(out->why, sizeof out->why, "%s", s->why);
    }
}

void publishing_status(struct publish_engine *p, struct publishing_status *out)
{
    LOCKED(&p->lock);
    *out = p->past;
    out->degraded = !atomic_load(&p->up) && clock_boot_ms() - p->started_at >= START_MS;
    if (out->degraded) bus_why(p->bus, out->why);
    for (struct published_shard *s = p->shards; s; s = s->next)
        add_shard(s, out);
    if (out->degraded && !out->why[0])
        (void)snprintf(out->why, sizeof out->why, "the bus does not answer yet");
    out->degraded_ms = p->down_since != 0 ? clock_boot_ms() - p->down_since : 0;
    // Events that were not read yet are as old as the outage, at least.
    if (out->lag_events > 0 && out->degraded_ms > out->lag_ms) out->lag_ms = out->degraded_ms;
}
