// SPDX-License-Identifier: Apache-2.0
// Starts and stops the membership, and runs the step function: one event at a time, and the effects
// of each on the member's threads.
#include "member/inside.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "coord/credentials.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/thread.h"
#include "queue/rules.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHECKED_QUEUES 3 // whose journals are read at the start

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
    struct effect_job *first = NULL, **last = &first;
    struct cluster_effect e;
    (void)pthread_mutex_lock(&m->lock);
    if (m->left) {
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
        *last = job_of(m, &e);
        last = (struct effect_job **)&(*last)->job.next;
    }
    // A member fell silent: a LIST that waits for the next heartbeat is made at once.
    if (m->look && m->parked_list && cluster_awaits_end(m->cluster)) {
        struct cluster_effect list = {.kind = CLUSTER_LIST, .request = m->parked_list};
        m->parked_list = 0;
        *last = job_of(m, &list);
        last = (struct effect_job **)&(*last)->job.next;
    }
    bool degraded = cluster_degraded(m->cluster);
    if (degraded && !was_degraded) m->degraded_since = clock_boot_ms();
    bool reads = cluster_leads(m->cluster) && !m->catalog_busy && clock_boot_ms() >= m->catalog_at;
    if (reads) m->catalog_busy = true;
    if (event->kind == CLUSTER_ANSWER || cluster_stopped(m->cluster))
        (void)pthread_cond_broadcast(&m->changed);
    task_schedule_at(&m->timer, wake_at(m));
    (void)pthread_mutex_unlock(&m->lock);
    while (first) {
        struct effect_job *job = first;
        first = (struct effect_job *)job->job.next;
        job->job.next = NULL;
        membership_run(m, key_of(&job->effect), job);
    }
    if (reads) catalog_run(m);
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
    membership_step(m, &e);
    (void)pthread_mutex_lock(&m->lock);
    int64_t wake = wake_at(m);
    (void)pthread_mutex_unlock(&m->lock);
    return wake;
}

// A node that was killed leaves its record, and its successor must not wait for the end of the
// lease.
static bool holder_is_dead(struct membership *m)
{
    struct coord_answer a;
    bool dead = true;
    coord_answer_init(&a);
    enum err e = coord_list(m->coord, &a);
    for (size_t i = 0; !e && i < a.members_len; i++) {
        const struct coord_member *row = &a.members[i];
        if (strcmp(row->name, m->self.name) != 0) continue;
        dead = strcmp(row->url, m->self.url) == 0 || !member_answers(row->url, row->name);
    }
    coord_answer_done(&a);
    return dead;
}

static enum sluice_code refuse_coord(struct sluice_error *error, enum err e, const char *why)
{
    return refuse(error, e == ERR_UNKNOWN ? ERR_UNAVAILABLE : e, "coord", "%s", why);
}

static enum sluice_code join(struct membership *m, struct sluice_error *error)
{
    struct coord_answer a;
    coord_answer_init(&a);
    int64_t began = clock_boot_ms();
    enum err e = coord_join(m->coord, &m->self, false, &a);
    if (e == ERR_CONFLICT && holder_is_dead(m)) e = coord_join(m->coord, &m->self, true, &a);
    enum sluice_code code = e ? refuse_coord(error, e, a.why) : SLUICE_OK;
    if (!e) {
        m->join_done = true;
        m->lease_ms = a.lease_ms;
        m->next_beat_at = began + a.next_ms;
    }
    coord_answer_done(&a);
    return code;
}

static enum sluice_code open_service(struct membership *m, struct sluice_error *error)
{
    const char *url = m->config.coord ? m->config.coord : "store:";
    struct coord_credentials secrets;
    struct coord_config config = {
        .store = m->handle->store, .lease_ms = m->config.lease_ms, .lone_ms = m->config.lone_ms};
    char why[COORD_WHY_MAX] = "";
    m->coord = m->config.take;
    if (!m->coord) {
        enum err e = coord_credentials_read(&secrets, why);
        if (!e) coord_credentials_use(&secrets, &config);
        if (!e) e = coord_open(url, &config, &m->coord, why);
        coord_credentials_done(&secrets);
        if (e) return refuse_coord(error, e, why);
    }
    (void)snprintf(m->service, sizeof m->service, "%s", coord_backend(m->coord));
    m->on_store = strcmp(m->service, "store") == 0;
    coord_id(m->coord, m->coord_id);
    return SLUICE_OK;
}

struct first_names {
    char names[CHECKED_QUEUES][QUEUE_NAME_MAX + 1];
    size_t len;
};

static void add_first(void *ctx, const char *name)
{
    struct first_names *f = ctx;
    if (f->len < CHECKED_QUEUES) (void)snprintf(f->names[f->len++], sizeof *f->names, "%s", name);
}

static enum sluice_code check_journal(struct membership *m, const char *queue,
                                      struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *d;
    struct runner_owner o;
    char has[2 * COORD_ID_LEN + 1], own[2 * COORD_ID_LEN + 1];
    if (queue_get(m->handle, queue, &q, NULL) || queue_synced_runner(q, 0, &d, NULL))
        return SLUICE_OK; // the first call reports it
    runner_owner(d, &o);
    if (o.epoch == 0 || memcmp(o.coord, m->coord_id, sizeof o.coord) == 0) return SLUICE_OK;
    *digits_put_hex(has, o.coord, sizeof o.coord) = 0;
    *digits_put_hex(own, m->coord_id, sizeof m->coord_id) = 0;
    return refuse(error, ERR_CORRUPT, "coord",
                  "queue %s follows the coordination service %s, and this node would use %s (%s): "
                  "correct the service, or run sluice cluster coord-switch",
                  queue, has, own, m->service);
}

// The journals decide which service numbers their owners. A node that uses another one could own
// nothing.
static enum sluice_code check_journals(struct membership *m, struct sluice_error *error)
{
    struct first_names first = {.len = 0};
    struct store_answer answer CLEANUP(store_answer_done);
    enum sluice_code code = SLUICE_OK;
    store_answer_init(&answer);
    enum err err = catalog_names(m->handle->store, add_first, &first, &answer);
    for (size_t i = 0; !err && !code && i < first.len; i++)
        code = check_journal(m, first.names[i], error);
    return code;
}

static enum sluice_code set_self(struct membership *m, struct sluice_error *error)
{
    struct owner_name name;
    if (!owner_identity(m->handle, &name))
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
    (void)snprintf(self->version, sizeof self->version, "%s", sluice_version());
    coord_incarnation(bytes_str(name.incarnation), self->incarnation);
    return SLUICE_OK;
}

static struct cluster *cluster_of(const struct membership *m)
{
    struct cluster_config config;
    struct member_id id;
    member_id_set(&id, m->self.name, m->self.incarnation);
    cluster_config_defaults(&config, &id, m->lease_ms);
    config.observe_only = m->config.observe_only;
    config.lazy = true;
    config.seed = entropy_u64();
    return cluster_new(&config);
}

static int64_t wall_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
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
    memory_free(m->queues);
    memory_free(m->events);
    (void)pthread_cond_destroy(&m->changed);
    (void)pthread_mutex_destroy(&m->lock);
    memory_free(m);
}

static struct membership *membership_new(struct sluice *s, const struct membership_config *config)
{
    struct membership *m = NEW(struct membership);
    pthread_condattr_t attr;
    m->handle = s;
    m->config = *config;
    m->offset_ms = wall_ms() - clock_boot_ms();
    m->lease_ms = COORD_LEASE_MS;
    m->events = memory_zeroed(MEMBER_EVENTS_MAX, sizeof *m->events);
    plan_init(&m->plan);
    plan_init(&m->reported);
    coord_answer_init(&m->last);
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&m->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    return m;
}

static void free_hooks(struct owner_cluster *hooks)
{
    struct membership *m = (struct membership *)hooks;
    membership_stop(m, 0);
    release(m);
}

enum sluice_code membership_start(struct sluice *s, const struct membership_config *config,
                                  struct membership **out, struct sluice_error *error)
{
    struct membership *m = membership_new(s, config);
    enum sluice_code code = set_self(m, error);
    if (!code) code = open_service(m, error);
    if (code && config->take) coord_free(config->take), m->coord = NULL;
    if (!code) code = check_journals(m, error);
    if (!code) code = join(m, error);
    if (!code) {
        m->share = pool_share_new(s->pool, MEMBER_THREADS, MEMBER_THREADS);
        m->cluster = cluster_of(m);
        if (pool_share_add(m->share, &m->timer, timer_run)) {
            pool_share_free(m->share);
            code = refuse(error, ERR_UNAVAILABLE, "", "%s", THREAD_REFUSED);
        }
    }
    if (code) {
        release(m);
        return code;
    }
    shards_hooks(m);
    m->hooks.free = free_hooks;
    owner_join(s, &m->hooks);
    *out = m;
    task_schedule(&m->timer);
    view_watch(m);
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

static struct timespec time_after(int64_t ms)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
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
    struct timespec until = time_after(wait_ms + m->lease_ms);
    (void)pthread_mutex_lock(&m->lock);
    while (!cluster_stopped(m->cluster))
        if (pthread_cond_timedwait(&m->changed, &m->lock, &until) != 0) break;
    m->left = true;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
    task_remove(&m->timer);
    pool_share_free(m->share);
}
