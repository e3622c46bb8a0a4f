// SPDX-License-Identifier: Apache-2.0
// Each queue that has jobs has a struct queue_jobs. The queues are served in turns. A thread
// without work sleeps. One sleeping thread has a timeout, for the jobs that wait.
#include "local/async_pool.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/async.h"
#include "os/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX  64
#define WAITING_MAX  48 // receives that run at once; the other threads are for other jobs
#define WAITING_EACH 8  // receives of one queue that run at once
#define TRYING_EACH  8  // blocked sends of one queue that run at once, if it has much space
#define SLICE_MS     50
#define PAUSE_MIN_MS 5 // the pause before a full queue is tried again
#define PAUSE_MAX_MS 200

struct job_list {
    struct pooled *first, *last;
};

struct queue_jobs {
    struct queue_jobs *next;
    char queue[QUEUE_NAME_MAX + 2];
    struct job_list at[PLACE_BLOCKED + 1]; // the jobs that do not run, by place
    size_t runs[PLACE_BLOCKED + 1];        // the jobs that run, by place
    size_t running;                        // the sum of runs
    size_t blocked;                        // jobs of PLACE_BLOCKED, running or not
    size_t width;                          // how many blocked jobs may run at once
    int64_t pause_ms;                      // the present pause of blocked jobs
    int64_t try_at;                        // its end, clock_boot_ms
};

struct async_pool {
    pthread_mutex_t lock;
    pthread_cond_t work_added;
    struct queue_jobs *queues; // the one that was served last is last
    _Atomic size_t blocked;    // the sum over all queues
    size_t waiting;            // jobs of PLACE_WAITING that run
    size_t busy;               // threads that run a job
    size_t idle;               // threads that sleep
    int64_t watch_at;          // when the sleeping thread with a timeout wakes; INT64_MAX: none has
    size_t starting;           // threads that were created and have not run yet
    bool waking;               // a thread was woken; it wakes the next if there is more work
    _Atomic uint64_t number;   // of the last job
    size_t threads_len;
    pthread_t threads[THREADS_MAX];
    bool stopping;
};

// Jobs stay in the order of their submission, however often they return to the list.
static void insert(struct job_list *l, struct pooled *j)
{
    struct pooled **at = &l->first;
    if (l->last && l->last->number < j->number) at = &l->last->next;
    while (*at && (*at)->number < j->number)
        at = &(*at)->next;
    j->next = *at;
    *at = j;
    if (!j->next) l->last = j;
}

static bool remove_job(struct job_list *l, const struct pooled *j)
{
    struct pooled *before = NULL;
    for (struct pooled *at = l->first; at; before = at, at = at->next) {
        if (at != j) continue;
        *(before ? &before->next : &l->first) = at->next;
        if (l->last == at) l->last = before;
        return true;
    }
    return false;
}

static struct queue_jobs *queue_jobs_find(struct async_pool *p, const char *queue)
{
    struct queue_jobs *l = p->queues;
    while (l && strcmp(l->queue, queue) != 0)
        l = l->next;
    return l;
}

static void queue_jobs_append(struct async_pool *p, struct queue_jobs *l)
{
    struct queue_jobs **at = &p->queues;
    while (*at)
        at = &(*at)->next;
    l->next = NULL;
    *at = l;
}

static void queue_jobs_remove(struct async_pool *p, struct queue_jobs *l)
{
    struct queue_jobs **at = &p->queues;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
}

static struct queue_jobs *queue_jobs_of(struct async_pool *p, const char *queue)
{
    struct queue_jobs *l = queue_jobs_find(p, queue);
    if (l) return l;
    l = NEW(struct queue_jobs);
    (void)snprintf(l->queue, sizeof l->queue, "%s", queue);
    l->width = 1;
    queue_jobs_append(p, l);
    return l;
}

static void queue_jobs_end(struct async_pool *p, struct queue_jobs *l)
{
    for (int place = PLACE_READY; place <= PLACE_BLOCKED; place++)
        if (l->at[place].first) return;
    if (l->running > 0) return;
    queue_jobs_remove(p, l);
    memory_free(l);
}

static void add_job(struct async_pool *p, struct pooled *j)
{
    insert(&j->jobs->at[j->place], j);
    if (j->place != PLACE_BLOCKED) return;
    j->jobs->blocked++;
    atomic_fetch_add(&p->blocked, 1);
}

static void run_over(struct async_pool *p, struct queue_jobs *l, enum pool_place place)
{
    l->runs[place]--;
    if (place != PLACE_BLOCKED) return;
    l->blocked--;
    atomic_fetch_sub(&p->blocked, 1);
}

// How many threads one queue may use. It shrinks as the pool fills, so that the last threads serve
// many queues.
static size_t share_of(const struct async_pool *p)
{
    if (p->busy < THREADS_MAX / 2) return THREADS_MAX / 4;
    return p->busy < THREADS_MAX * 3 / 4 ? THREADS_MAX / 16 : 1;
}

static bool is_last(const struct async_pool *p, const struct pooled *j, int64_t now)
{
    return p->stopping || j->until <= now;
}

static bool may_try(const struct async_pool *p, const struct queue_jobs *l, const struct pooled *j,
                    int64_t now)
{
    if (j->place == PLACE_READY || is_last(p, j, now)) return true;
    if (j->place == PLACE_BLOCKED) return l->runs[PLACE_BLOCKED] < l->width && now >= l->try_at;
    return p->waiting < WAITING_MAX && l->runs[PLACE_WAITING] < WAITING_EACH;
}

static struct pooled *next_in(const struct async_pool *p, const struct queue_jobs *l, int64_t now)
{
    if (l->running >= share_of(p)) return NULL;
    for (int place = PLACE_READY; place <= PLACE_BLOCKED; place++)
        for (struct pooled *j = l->at[place].first; j; j = j->next) {
            if (may_try(p, l, j, now)) return j;
            if (place == PLACE_BLOCKED) break; // sends keep their order; later ones end later
        }
    return NULL;
}

static struct pooled *next_job(struct async_pool *p, bool *last)
{
    int64_t now = clock_boot_ms();
    for (struct queue_jobs *l = p->queues; l; l = l->next) {
        struct pooled *j = next_in(p, l, now);
        if (!j) continue;
        CHECK(remove_job(&l->at[j->place], j));
        *last = is_last(p, j, now);
        p->busy++;
        p->waiting += j->place == PLACE_WAITING;
        l->running++;
        l->runs[j->place]++;
        queue_jobs_remove(p, l);
        queue_jobs_append(p, l);
        return j;
    }
    return NULL;
}

// If the job has ended, j may be freed: do not read it then.
static void job_ended(struct async_pool *p, struct queue_jobs *l, enum pool_place place,
                      struct pooled *j, enum job_result run, bool last)
{
    p->busy--;
    p->waiting -= place == PLACE_WAITING;
    l->running--;
    run_over(p, l, place);
    if (run == JOB_FULL) {
        l->width = 1;
        l->pause_ms = l->pause_ms == 0 ? PAUSE_MIN_MS : l->pause_ms * 2;
        if (l->pause_ms > PAUSE_MAX_MS) l->pause_ms = PAUSE_MAX_MS;
        l->try_at = clock_boot_ms() + l->pause_ms;
    } else if (place == PLACE_BLOCKED && !last) {
        size_t wider = l->width * 2 < TRYING_EACH ? l->width * 2 : TRYING_EACH;
        l->width = run == JOB_SPACE ? wider : 1;
        l->pause_ms = l->try_at = 0;
    }
    if (run == JOB_OVER || run == JOB_SPACE) {
        queue_jobs_end(p, l);
        return;
    }
    j->place = run == JOB_FULL ? PLACE_BLOCKED : PLACE_WAITING;
    add_job(p, j);
}

static int64_t wake_at(const struct async_pool *p, int64_t now)
{
    int64_t at = INT64_MAX;
    for (const struct queue_jobs *l = p->queues; l; l = l->next) {
        if (l->running >= share_of(p)) continue; // a thread that ends a job takes the next
        const struct pooled *blocked = l->at[PLACE_BLOCKED].first;
        bool tries = blocked && l->runs[PLACE_BLOCKED] < l->width;
        if (l->at[PLACE_WAITING].first && now + SLICE_MS < at) at = now + SLICE_MS;
        if (tries && l->try_at < at) at = l->try_at;
        if (blocked && blocked->until < at) at = blocked->until;
    }
    return at;
}

static void *run_jobs(void *arg);

static void start_thread(struct async_pool *p)
{
    bool may = !p->stopping && p->threads_len < THREADS_MAX;
    if (!may || pthread_create(&p->threads[p->threads_len], NULL, run_jobs, p) != 0) return;
    p->threads_len++;
    p->starting++;
}

static bool has_more(const struct async_pool *p)
{
    int64_t now = clock_boot_ms();
    for (const struct queue_jobs *l = p->queues; l; l = l->next)
        if (next_in(p, l, now)) return true;
    return wake_at(p, now) < p->watch_at;
}

static void wake_thread(struct async_pool *p)
{
    if (p->waking || p->starting > 0 || !has_more(p)) return;
    p->waking = p->idle > 0;
    if (p->waking)
        (void)pthread_cond_signal(&p->work_added);
    else
        start_thread(p);
}

static void sleep_until(struct async_pool *p, int64_t at, int64_t now)
{
    struct timespec until;
    int64_t left = at > now ? at - now : 1;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += left / 1000;
    until.tv_nsec += left % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    p->watch_at = at;
    (void)pthread_cond_timedwait(&p->work_added, &p->lock, &until);
    p->watch_at = INT64_MAX;
}

static void wait_for_work(struct async_pool *p)
{
    int64_t now = clock_boot_ms(), at = wake_at(p, now);
    p->idle++;
    if (at < p->watch_at)
        sleep_until(p, at, now);
    else
        (void)pthread_cond_wait(&p->work_added, &p->lock);
    p->idle--;
}

static void *run_jobs(void *arg)
{
    struct async_pool *p = arg;
    (void)pthread_mutex_lock(&p->lock);
    p->starting--;
    for (;;) {
        bool last;
        p->waking = false;
        struct pooled *j = next_job(p, &last);
        if (!j && p->stopping) break;
        if (!j) {
            wait_for_work(p);
            continue;
        }
        struct queue_jobs *l = j->jobs;
        enum pool_place place = j->place;
        wake_thread(p);
        (void)pthread_mutex_unlock(&p->lock);
        enum job_result run = j->run(j, last);
        (void)pthread_mutex_lock(&p->lock);
        job_ended(p, l, place, j, run, last);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct thread_pool *async_thread_pool(struct sluice *s)
{
    return s->pool;
}

static struct async_pool *pool_of(struct sluice *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct async_pool *p = s->async;
    if (!p) {
        p = s->async = NEW(struct async_pool);
        p->watch_at = INT64_MAX;
        (void)pthread_mutex_init(&p->lock, NULL);
        pthread_condattr_t steady;
        (void)pthread_condattr_init(&steady);
        (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&p->work_added, &steady);
        (void)pthread_condattr_destroy(&steady);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return p;
}

void pool_submit(struct sluice *s, const char *queue, struct pooled *job, bool sends)
{
    struct async_pool *p = s->async;
    struct queue_jobs *l = queue_jobs_of(p, queue);
    job->jobs = l;
    if (job->number == 0) job->number = atomic_fetch_add(&p->number, 1) + 1;
    if (sends && l->blocked > 0) job->place = PLACE_BLOCKED;
    add_job(p, job);
    wake_thread(p);
    CHECK(p->threads_len > 0);
}

uint64_t pool_number(struct sluice *s)
{
    return atomic_fetch_add(&pool_of(s)->number, 1) + 1;
}

size_t pool_blocked(struct sluice *s, const char *queue)
{
    struct async_pool *p = pool_of(s);
    if (atomic_load(&p->blocked) == 0) return 0;
    (void)pthread_mutex_lock(&p->lock);
    const struct queue_jobs *l = queue_jobs_find(p, queue);
    size_t blocked = l ? l->blocked : 0;
    (void)pthread_mutex_unlock(&p->lock);
    return blocked;
}

bool pool_withdraw(struct sluice *s, struct pooled *job)
{
    CHECK(job->place != PLACE_BLOCKED); // only receives are withdrawn
    if (!remove_job(&job->jobs->at[job->place], job)) return false;
    queue_jobs_end(s->async, job->jobs);
    return true;
}

void pool_lock(struct sluice *s)
{
    (void)pthread_mutex_lock(&pool_of(s)->lock);
}

void pool_unlock(struct sluice *s)
{
    (void)pthread_mutex_unlock(&pool_of(s)->lock);
}

bool pool_stopping(struct sluice *s)
{
    return s->async->stopping;
}

void async_stop(struct sluice *s)
{
    struct async_pool *p = s->async;
    if (!p) return;
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    (void)pthread_cond_broadcast(&p->work_added);
    (void)pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->threads_len; i++)
        (void)pthread_join(p->threads[i], NULL);
    CHECK(!p->queues);
    (void)pthread_cond_destroy(&p->work_added);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
    s->async = NULL;
}
