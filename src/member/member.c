// SPDX-License-Identifier: Apache-2.0
// Makes and stops the membership, and runs the step function: one event at a time, and the effects
// of each on the member's threads.
#include "base/text.h"
#include "member/inside.h"

#include "base/list.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/thread.h"
#include "queue/core/rules.h"

#include <assert.h>
#include <string.h>
#include <time.h>

struct interval membership_now(const struct membership *m)
{
    int64_t now = clock_boot_ms() + m->offset_ms;
    return (struct interval){now, now};
}

static uint64_t key_of(const struct cluster_effect *e)
{
    switch (e->kind) {
    case CLUSTER_JOIN:
    case CLUSTER_HEARTBEAT:
    case CLUSTER_LEAVE:
        return 1;
    case CLUSTER_LIST:
        return 2;
    case CLUSTER_LEAD:
    case CLUSTER_RENEW:
    case CLUSTER_RESIGN:
    case CLUSTER_PUBLISH:
        return 3;
    default:
        return shard_key_hash(&e->shard) | 8;
    }
}

void membership_run(struct membership *m, uint64_t key, struct effect_job *job)
{
    job->job.run = effect_run;
    (void)pthread_mutex_lock(&m->lock); // the share is freed after `left` is set
    bool left = m->left;
    enum err err = left ? ERR_UNAVAILABLE : pool_share_run(m->share, key, &job->job);
    (void)pthread_mutex_unlock(&m->lock);
    if (err) effect_failed(job, ERR_UNAVAILABLE);
}

static void order(struct membership *m, const struct cluster_effect *e)
{
    if (e->kind == CLUSTER_NOTE) event_add(m, e);
    if (e->kind == CLUSTER_NOTE && e->note == NOTE_MEMBER && e->life == LIFE_UNHEALTHY)
        m->look = true;
    if (e->kind == CLUSTER_REPORT_PLAN) plan_copy(&m->reported, e->plan);
    if (e->kind == CLUSTER_TAKE || e->kind == CLUSTER_STOP_TAKING)
        (void)pthread_cond_broadcast(&m->changed);
}

static struct effect_job *job_of(struct membership *m, const struct cluster_effect *e)
{
    struct effect_job *job = NEW(struct effect_job);
    job->m = m;
    job->effect = *e;
    plan_init(&job->plan);
    if (e->plan) plan_copy(&job->plan, e->plan);
    job->effect.plan = NULL;
    return job;
}

// The lock is held. When the next tick comes, by clock_boot_ms.
static int64_t wake_at(const struct membership *m)
{
    int64_t wake = cluster_wake_at(m->cluster), soon = membership_now(m).hi + 1;
    if (wake == TIME_NEVER) return TASK_NEVER;
    return (wake > soon ? wake : soon) - m->offset_ms;
}

// The effects of a step are taken under the lock, and performed without it.
void membership_step(struct membership *m, const struct cluster_event *event)
{
    struct list jobs = {0};
    struct cluster_effect e;
    (void)pthread_mutex_lock(&m->lock);
    if (m->left || !m->begun) {
        (void)pthread_mutex_unlock(&m->lock);
        return;
    }
    bool was_degraded = cluster_degraded(m->cluster);
    cluster_step(m->cluster, event, membership_now(m));
    while (cluster_next_effect(m->cluster, &e)) {
        if (e.request == 0) {
            order(m, &e);
            continue;
        }
        list_add(&jobs, &job_of(m, &e)->job.link);
    }
    // A member fell silent: a LIST that waits for the next heartbeat is made at once.
    if (m->look && m->parked_list && cluster_awaits_end(m->cluster)) {
        struct cluster_effect list = {.kind = CLUSTER_LIST, .request = m->parked_list};
        m->parked_list = 0;
        list_add(&jobs, &job_of(m, &list)->job.link);
    }
    bool degraded = cluster_degraded(m->cluster);
    if (degraded && !was_degraded) m->degraded_since = clock_boot_ms();
    bool reads = cluster_leads(m->cluster) && !m->catalog_busy && clock_boot_ms() >= m->catalog_at;
    if (reads) m->catalog_busy = true;
    bool leads = cluster_leads(m->cluster);
    bool samples = leads && !m->sampling && m->catalog_read != 0 && clock_boot_ms() >= m->sample_at;
    if (samples) m->sampling = true;
    if (!leads) m->sample_at = m->unowned = 0, m->unowned_events = 0;
    if (event->kind == CLUSTER_ANSWER || cluster_stopped(m->cluster))
        (void)pthread_cond_broadcast(&m->changed);
    task_schedule_at(&m->timer, wake_at(m));
    (void)pthread_mutex_unlock(&m->lock);
    LIST_EACH(job, &jobs, struct effect_job, job.link) {
        list_remove(&jobs, &job->job.link);
        membership_run(m, key_of(&job->effect), job);
    }
    if (reads) catalog_run(m);
    if (samples) sample_run(m);
}

void membership_answer(struct membership *m, uint64_t request, enum err err, uint64_t number)
{
    struct cluster_event e = {
        .kind = CLUSTER_ANSWER, .request = request, .err = err, .number = number};
    membership_step(m, &e);
}

static int64_t timer_run(struct pool_task *task)
{
    struct membership *m = (struct membership *)((char *)task - offsetof(struct membership, timer));
    struct cluster_event e = {.kind = CLUSTER_TICK};
    task_may_block(task);
    int64_t again = m->begun ? 0 : start_again(m);
    if (again != 0) return again;
    membership_step(m, &e);
    LOCKED(&m->lock);
    return wake_at(m);
}

static enum sluice_code set_self(struct membership *m, struct sluice_error *error)
{
    struct owner_name name;
    if (!owner_identity(m->engine, &name))
        return refuse(error, ERR_INVALID, "node", "the handle is not a node's");
    struct coord_member *self = &m->self;
    uint32_t capacity = m->config.capacity ? m->config.capacity : 1;
    if (capacity > PLACEMENT_CAPACITY_MAX)
        return refuse(error, ERR_INVALID, "capacity", "%u is not from 1 to %d", capacity,
                      PLACEMENT_CAPACITY_MAX);
    if (strlen(name.node) > COORD_NAME_MAX || strlen(name.url) > COORD_URL_MAX)
        return refuse(error, ERR_INVALID, "node",
                      "the name of a member has at most %d characters, and its URL at most %d",
                      COORD_NAME_MAX, COORD_URL_MAX);
    *self = (struct coord_member){
        .capacity = capacity, .rules_lo = RULES_OLDEST, .rules_hi = rules_newest()};
    memcpy(self->name, name.node, strlen(name.node) + 1);
    memcpy(self->url, name.url, strlen(name.url) + 1);
    (void)text_copy(self->version, sizeof self->version, sluice_version());
    coord_incarnation(bytes_str(name.incarnation), self->incarnation);
    static_assert(COORD_STORE_LEN == STORE_ID_LEN, "a member's record has the id of its store");
    memcpy(self->store, m->engine->store_id, sizeof self->store);
    return SLUICE_OK;
}

static void release(struct membership *m)
{
    if (!m) return;
    coord_free(m->coord);
    cluster_free(m->cluster);
    plan_done(&m->plan);
    plan_done(&m->reported);
    coord_answer_done(&m->last);
    memory_free(m->followed);
    memory_free(m->samples);
    memory_free(m->queues);
    memory_free(m->events);
    memory_free(m->reach_rows);
    (void)pthread_cond_destroy(&m->changed);
    (void)pthread_mutex_destroy(&m->lock);
    memory_free(m);
}

static struct membership *membership_new(struct engine *e, const struct membership_config *config)
{
    struct membership *m = NEW(struct membership);
    m->engine = e;
    m->config = *config;
    m->offset_ms = clock_realtime_ms() - clock_boot_ms();
    m->lease_ms = COORD_LEASE_MS;
    m->events = memory_zeroed(MEMBER_EVENTS_MAX, sizeof *m->events);
    plan_init(&m->plan);
    plan_init(&m->reported);
    coord_answer_init(&m->last);
    (void)pthread_mutex_init(&m->lock, NULL);
    clock_cond_init(&m->changed);
    return m;
}

static void free_hooks(struct owner_cluster *hooks)
{
    struct membership *m = (struct membership *)hooks;
    membership_stop(m, 0);
    release(m);
}

enum sluice_code membership_start(struct engine *e, const struct membership_config *config,
                                  struct membership **out, struct sluice_error *error)
{
    struct membership *m = membership_new(e, config);
    enum sluice_code code = set_self(m, error);
    if (code) coord_free(config->take);
    if (!code) {
        m->share = pool_share_new(e->pool, MEMBER_THREADS, MEMBER_THREADS);
        bool added = pool_share_add(m->share, &m->timer, timer_run) == ERR_OK;
        if (added && pool_share_add(m->share, &m->reach_task, reach_run)) {
            task_remove(&m->timer);
            added = false;
        }
        code = added ? start_or_wait(m, error)
                     : refuse(error, ERR_UNAVAILABLE, "", "%s", THREAD_REFUSED);
        if (code && added) task_remove(&m->timer);
        if (code && added) task_remove(&m->reach_task);
        if (code) pool_share_free(m->share);
    }
    if (code) {
        release(m);
        return code;
    }
    shards_hooks(m);
    m->hooks.free = free_hooks;
    owner_join(e, &m->hooks);
    *out = m;
    if (m->begun) view_watch(m);
    task_schedule(&m->timer);
    task_schedule(&m->reach_task);
    return SLUICE_OK;
}

static void set_draining(struct membership *m, bool draining)
{
    struct cluster_event e = {.kind = draining ? CLUSTER_DRAIN : CLUSTER_UNDRAIN};
    (void)pthread_mutex_lock(&m->lock);
    m->draining = draining || m->stopping;
    (void)pthread_mutex_unlock(&m->lock);
    membership_step(m, &e);
    view_look(m);
}

void membership_drain(struct membership *m)
{
    set_draining(m, true);
}

void membership_undrain(struct membership *m)
{
    set_draining(m, false);
}

// The claims end with the session, so a node that is late leaves with shards.
void membership_stop(struct membership *m, int64_t wait_ms)
{
    if (!m || m->left) return;
    struct cluster_event e = {.kind = CLUSTER_STOP, .deadline = membership_now(m).hi + wait_ms};
    (void)pthread_mutex_lock(&m->lock);
    m->stopping = m->draining = true;
    (void)pthread_mutex_unlock(&m->lock);
    membership_step(m, &e);
    view_look(m);
    int64_t until = clock_boot_ms() + wait_ms + m->lease_ms;
    (void)pthread_mutex_lock(&m->lock);
    while (m->begun && !cluster_stopped(m->cluster) && clock_wait(&m->changed, &m->lock, until))
        ;
    m->left = true;
    m->left_at = clock_boot_ms();
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
    task_remove(&m->timer);
    task_remove(&m->reach_task);
    pool_share_free(m->share);
}
