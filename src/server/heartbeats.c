// SPDX-License-Identifier: Apache-2.0
#include "server/heartbeats.h"

#include "base/memory.h"
#include "ops/beats.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/thread_pool.h"
#include "server/inside.h"
#include "server/presence.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_MS 5000 // between two looks for queues with new workers

struct beat_queue {
    struct beat_queue *next;
    char name[QUEUE_NAME_MAX + 1];
    int64_t due_ms; // clock_boot_ms
};

struct heartbeats {
    struct pool_task task; // first
    struct server *server;
    pthread_mutex_t lock;
    struct beat_queue *queues;
    struct pool_job job;
    bool runs; // the job waits or runs
    bool ends;
    pthread_cond_t idle;
};

// Call it with the lock.
static struct beat_queue *queue_of(struct heartbeats *h, const char *name)
{
    struct beat_queue *q = h->queues;
    while (q && strcmp(q->name, name) != 0)
        q = q->next;
    if (q) return q;
    q = NEW(struct beat_queue);
    memcpy(q->name, name, strlen(name) + 1);
    q->next = h->queues;
    h->queues = q;
    return q;
}

// The rows of one queue, from the sorted list of all.
static void write_queue(struct heartbeats *h, const struct waiting_list *rows)
{
    const char *name = rows->rows[0].queue;
    int64_t again;
    (void)pthread_mutex_lock(&h->lock);
    bool due = clock_boot_ms() >= queue_of(h, name)->due_ms;
    (void)pthread_mutex_unlock(&h->lock);
    if (!due) return;
    (void)beats_write(h->server->engine, name, rows, &again);
    int64_t next = clock_boot_ms() + again;
    (void)pthread_mutex_lock(&h->lock);
    queue_of(h, name)->due_ms = next;
    (void)pthread_mutex_unlock(&h->lock);
    task_schedule_at(&h->task, next);
}

// Forgets queues that no worker uses any more.
static void forget_unused(struct heartbeats *h, const struct waiting_list *all)
{
    LOCKED(&h->lock);
    for (struct beat_queue **at = &h->queues; *at;) {
        struct beat_queue *q = *at;
        if (waiting_list_count(all, q->name) > 0) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        memory_free(q);
    }
}

static int compare_row(const void *left, const void *right)
{
    const struct waiting_row *a = left, *b = right;
    int order = strcmp(a->queue, b->queue);
    return order ? order : beats_compare(a, b);
}

// Leaves the processes that say which worker they registered. A receive that another node passed on
// is a sign of life there.
static void keep_joined(struct waiting_list *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->len; i++)
        if (all->rows[i].instance != 0 && !all->rows[i].relayed) all->rows[kept++] = all->rows[i];
    all->len = kept;
    if (kept > 0) qsort(all->rows, kept, sizeof *all->rows, compare_row);
}

static void run(struct pool_job *job)
{
    struct heartbeats *h = (struct heartbeats *)((char *)job - offsetof(struct heartbeats, job));
    struct waiting_list all = {0};
    presence_list(h->server->presence, NULL, h->server->node, &all);
    keep_joined(&all);
    for (size_t from = 0, to; from < all.len; from = to) {
        for (to = from + 1; to < all.len && strcmp(all.rows[to].queue, all.rows[from].queue) == 0;)
            to++;
        struct waiting_list part = {.rows = all.rows + from, .len = to - from};
        write_queue(h, &part);
    }
    forget_unused(h, &all);
    waiting_list_done(&all);
    LOCKED(&h->lock);
    h->runs = false;
    (void)pthread_cond_broadcast(&h->idle);
}

// A round may block in the store, so it is a job. The task only starts it.
static int64_t tick(struct pool_task *task)
{
    struct heartbeats *h = (struct heartbeats *)task;
    int64_t now = clock_boot_ms(), next = now + ROUND_MS;
    (void)pthread_mutex_lock(&h->lock);
    bool starts = !h->runs && !h->ends;
    for (const struct beat_queue *q = h->queues; q; q = q->next)
        if (q->due_ms > now && q->due_ms < next) next = q->due_ms;
    h->runs = h->runs || starts;
    (void)pthread_mutex_unlock(&h->lock);
    if (starts) {
        h->job = (struct pool_job){.run = run};
        if (!engine_run_job(h->server->engine, "", &h->job)) run(&h->job);
    }
    return next;
}

struct heartbeats *heartbeats_new(struct server *s)
{
    struct heartbeats *h = NEW(struct heartbeats);
    h->server = s;
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->idle, NULL);
    if (thread_pool_add(s->engine->pool, &h->task, tick) == ERR_OK) {
        task_schedule_at(&h->task, clock_boot_ms() + ROUND_MS);
        return h;
    }
    memory_free(h);
    return NULL;
}

void heartbeats_free(struct heartbeats *h)
{
    if (!h) return;
    (void)pthread_mutex_lock(&h->lock);
    h->ends = true;
    while (h->runs)
        (void)pthread_cond_wait(&h->idle, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    task_remove(&h->task); // after the job, which schedules it
    while (h->queues) {
        struct beat_queue *q = h->queues;
        h->queues = q->next;
        memory_free(q);
    }
    (void)pthread_cond_destroy(&h->idle);
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h);
}

void heartbeats_joined(struct heartbeats *h, const char *queue, int64_t ttl_ms)
{
    if (!h) return;
    int64_t due = clock_boot_ms() + ttl_ms / 3;
    (void)pthread_mutex_lock(&h->lock);
    struct beat_queue *q = queue_of(h, queue);
    if (q->due_ms == 0 || due < q->due_ms) q->due_ms = due;
    (void)pthread_mutex_unlock(&h->lock);
    task_schedule_at(&h->task, due);
}
