// SPDX-License-Identifier: Apache-2.0
#include "ops/notices.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/thread_pool.h"

#define NOTICE_MS 100 // longer than a claim takes, in most cases

struct notice {
    struct notice *next;
    struct open_queue *queue; // with a hold
    uint32_t shard;
    int64_t at; // clock_boot_ms
};

struct notices {
    struct pool_task task; // first
    pthread_mutex_t lock;
    struct notice *first, *last; // the earliest first
};

// Takes the first notice if it is due. *next: when the first one is.
static struct notice *take_due(struct notices *n, int64_t now, int64_t *next)
{
    (void)pthread_mutex_lock(&n->lock);
    struct notice *first = n->first;
    bool due = first && first->at <= now;
    if (due) n->first = first->next;
    if (!n->first) n->last = NULL;
    *next = n->first ? n->first->at : TASK_NEVER;
    (void)pthread_mutex_unlock(&n->lock);
    return due ? first : NULL;
}

static void notice_free(struct notice *e)
{
    queue_let_go(&e->queue);
    memory_free(e);
}

static int64_t announce(struct pool_task *task)
{
    struct notices *n = (struct notices *)task;
    struct notice *e;
    int64_t next;
    while ((e = take_due(n, clock_boot_ms(), &next))) {
        struct shard_runner *r = runner_if_open(e->queue, e->shard);
        if (r) runner_notify_next(r);
        notice_free(e);
    }
    return next;
}

enum err notices_new(struct engine *e, struct notices **out)
{
    struct notices *n = NEW(struct notices);
    (void)pthread_mutex_init(&n->lock, NULL);
    enum err err = thread_pool_add(e->pool, &n->task, announce);
    *out = err ? NULL : n;
    if (err) memory_free(n);
    return err;
}

void notices_free(struct notices *n)
{
    if (!n) return;
    task_remove(&n->task);
    while (n->first) {
        struct notice *e = n->first;
        n->first = e->next;
        notice_free(e);
    }
    (void)pthread_mutex_destroy(&n->lock);
    memory_free(n);
}

void notices_add(struct notices *n, struct open_queue *q, uint32_t shard)
{
    struct notice *e = NEW(struct notice);
    int64_t at = clock_boot_ms() + NOTICE_MS;
    *e = (struct notice){.queue = q, .shard = shard, .at = at};
    queue_hold(q);
    (void)pthread_mutex_lock(&n->lock);
    if (n->last)
        n->last->next = e;
    else
        n->first = e;
    n->last = e;
    (void)pthread_mutex_unlock(&n->lock);
    task_schedule_at(&n->task, at); // e may be freed by now
}
