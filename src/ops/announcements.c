// SPDX-License-Identifier: Apache-2.0
#include "ops/announcements.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/thread_pool.h"

#define CLAIM_MS 100 // longer than a claim takes, in most cases

struct announcement {
    struct announcement *next;
    struct open_queue *queue; // with a hold
    uint32_t shard;
    int64_t at; // clock_boot_ms
};

struct announcements {
    struct pool_task task; // first
    pthread_mutex_t lock;
    struct announcement *first, *last; // the earliest first
};

// Takes the first announcement if it is due. *next: when the first one is.
static struct announcement *take_due(struct announcements *n, int64_t now, int64_t *next)
{
    LOCKED(&n->lock);
    struct announcement *first = n->first;
    bool due = first && first->at <= now;
    if (due) n->first = first->next;
    if (!n->first) n->last = NULL;
    *next = n->first ? n->first->at : TASK_NEVER;
    return due ? first : NULL;
}

static void announcement_free(struct announcement *e)
{
    queue_let_go(&e->queue);
    memory_free(e);
}

static int64_t announce(struct pool_task *task)
{
    struct announcements *n = (struct announcements *)task;
    struct announcement *e;
    int64_t next;
    while ((e = take_due(n, clock_boot_ms(), &next))) {
        struct shard_runner *r = runner_if_open(e->queue, e->shard);
        if (r) runner_notify_next(r);
        announcement_free(e);
    }
    return next;
}

enum err announcements_new(struct engine *e, struct announcements **out)
{
    struct announcements *n = NEW(struct announcements);
    (void)pthread_mutex_init(&n->lock, NULL);
    enum err err = thread_pool_add(e->pool, &n->task, announce);
    *out = err ? NULL : n;
    if (err) memory_free(n);
    return err;
}

void announcements_free(struct announcements *n)
{
    if (!n) return;
    task_remove(&n->task);
    while (n->first) {
        struct announcement *e = n->first;
        n->first = e->next;
        announcement_free(e);
    }
    (void)pthread_mutex_destroy(&n->lock);
    memory_free(n);
}

void announcements_add(struct announcements *n, struct open_queue *q, uint32_t shard)
{
    struct announcement *e = NEW(struct announcement);
    int64_t at = clock_boot_ms() + CLAIM_MS;
    *e = (struct announcement){.queue = q, .shard = shard, .at = at};
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
