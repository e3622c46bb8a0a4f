// SPDX-License-Identifier: Apache-2.0
// Performs the effects of the step function: calls of the coordination service, and `own` in the
// journals. Each effect is answered exactly once.
#include "member/inside.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define FOLLOW_MS       5000 // how long a former owner looks for its successor
#define FOLLOW_LAST_MS  1000
#define FOLLOW_EVERY_MS 5

static enum err known_error(enum err e)
{
    switch (e) {
    case ERR_OK:
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
    case ERR_FENCED:
    case ERR_UNKNOWN:
        return e;
    default:
        return ERR_UNAVAILABLE;
    }
}

static bool is_lone_and_stops(struct membership *m)
{
    LOCKED(&m->lock);
    return m->stopping && cluster_lone(m->cluster);
}

// The member's record says whether the node leaves, so a change is a repeated join.
static enum err join(struct membership *m, const struct cluster_effect *e, struct coord_answer *a)
{
    (void)pthread_mutex_lock(&m->lock);
    bool done = m->join_done && m->self.leaving == e->leaving;
    m->join_done = false;
    m->self.leaving = e->leaving;
    struct coord_member self = m->self;
    m->look = true;
    (void)pthread_mutex_unlock(&m->lock);
    if (done) return ERR_OK;
    int64_t began = clock_boot_ms();
    enum err err = coord_join(m->coord, &self, false, a);
    coord_noted(m, err, began, a);
    if (!err) {
        LOCKED(&m->lock);
        m->next_beat_at = began + a->next_ms;
        m->greets = true; // a member may have seen that the former session ended, and rest
    }
    // Another incarnation has the name and is alive: this one has been replaced.
    return err == ERR_CONFLICT ? ERR_FENCED : err;
}

static enum err publish(struct effect_job *job, struct coord_answer *a)
{
    LOCAL(buf, bytes, PLAN_BYTES_MAX);
    plan_encode(&job->plan, &bytes);
    if (bytes.bad) return ERR_UNAVAILABLE;
    return coord_plan_write(job->m->coord, job->plan.epoch, job->plan.number, buf_bytes(&bytes), a);
}

// One call of the service. *number: the token or the epoch.
static enum err call_service(struct effect_job *job, struct coord_answer *a, uint64_t *number)
{
    struct membership *m = job->m;
    const struct cluster_effect *e = &job->effect;
    char shard[COORD_SHARD_MAX + 1];
    enum err err = ERR_OK;
    switch (e->kind) {
    case CLUSTER_LEAVE:
        return coord_leave(m->coord, a);
    case CLUSTER_LEAD:
        err = coord_lead(m->coord, e->number, a);
        break;
    case CLUSTER_RENEW:
        err = coord_lead_renew(m->coord, e->number, a);
        break;
    case CLUSTER_RESIGN:
        err = coord_resign(m->coord, e->number, a);
        break;
    case CLUSTER_PUBLISH:
        err = publish(job, a);
        break;
    case CLUSTER_CLAIM:
        shard_name(&e->shard, shard);
        err = coord_claim(m->coord, shard, e->number, a);
        break;
    default:
        CHECK(e->kind == CLUSTER_RELEASE);
        shard_name(&e->shard, shard);
        err = coord_release(m->coord, shard, e->number, a);
    }
    *number = a->token;
    return err;
}

// Opens the queue by its id, under the name that is known for it.
static enum err open_shard(struct membership *m, const struct shard_key *key, struct open_queue **q)
{
    char name[QUEUE_NAME_MAX + 1];
    (void)pthread_mutex_lock(&m->lock);
    bool known = queues_name(m, key->queue, name);
    (void)pthread_mutex_unlock(&m->lock);
    if (!known || queue_get(m->engine, name, q, NULL)) return ERR_UNAVAILABLE;
    bool same = memcmp((*q)->row.id.bytes, key->queue, sizeof key->queue) == 0;
    if (!same || key->shard >= (*q)->row.birth.shards) return ERR_NOT_FOUND;
    return ERR_OK;
}

static void own(struct effect_job *job)
{
    struct membership *m = job->m;
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    uint64_t token = job->effect.number, epoch = 0;
    enum err err = open_shard(m, &job->effect.shard, &q);
    if (!err) err = owner_take(q, job->effect.shard.shard, m->coord_id, &token, &epoch);
    (void)pthread_mutex_lock(&m->lock);
    // If the node serves the shard, it loses it now, which counts.
    bool serves = cluster_serves(m->cluster, &job->effect.shard) != 0;
    if (err == ERR_FENCED && !serves) m->counters.fenced++;
    if (err == ERR_DENIED)
        (void)snprintf(m->why, sizeof m->why,
                       "the journals of this store take tokens of another coordination service: "
                       "run sluice cluster coord-switch");
    (void)pthread_mutex_unlock(&m->lock);
    // A deleted queue has no journal any more. The claim stays until the session ends.
    if (err == ERR_NOT_FOUND || err == ERR_CONFLICT) err = ERR_UNAVAILABLE;
    membership_answer(m, job->effect.request, known_error(err), err == ERR_FENCED ? token : epoch);
}

// The journal cuts over when the new owner's `own` commits. Until then this node goes on serving.
// So there is nothing to hand over: the next owner only has to know that the shard is used.
static void hand_over(struct effect_job *job)
{
    struct membership *m = job->m;
    char name[QUEUE_NAME_MAX + 1];
    (void)pthread_mutex_lock(&m->lock);
    bool known = queues_name(m, job->effect.shard.queue, name);
    (void)pthread_mutex_unlock(&m->lock);
    if (known && job->effect.to.name[0])
        hint_send(m, &job->effect.to, name, job->effect.shard.shard, false);
    membership_answer(m, job->effect.request, ERR_OK, 0);
}

static bool has_moved(struct membership *m, const struct shard_key *key)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct runner_owner o;
    if (open_shard(m, key, &q)) return true;
    struct shard_runner *r = runner_if_open(q, key->shard);
    if (!r || runner_sync(r)) return true;
    runner_owner(r, &o);
    if (!o.mine) owner_moved(q, key->shard);
    return !o.mine;
}

// The lock is held. A node that stops waits for this, but not long.
static bool is_over(struct membership *m, size_t i)
{
    int64_t now = clock_boot_ms();
    if (m->stopping && m->followed[i].end_ms > now + FOLLOW_LAST_MS)
        m->followed[i].end_ms = now + FOLLOW_LAST_MS;
    return m->followed[i].end_ms <= now;
}

// Folds the journals of released shards until they name another owner, so that calls go there at
// once. One thread does it for all: the next owners need the other threads of this node, which
// tell them and renew its session.
static void follow_run(struct pool_job *pool_job)
{
    struct effect_job *job = (struct effect_job *)pool_job;
    struct membership *m = job->m;
    (void)pthread_mutex_lock(&m->lock);
    while (m->followed_len > 0) {
        for (size_t i = m->followed_len; i-- > 0;) {
            struct shard_key key = m->followed[i].shard;
            bool over = is_over(m, i);
            (void)pthread_mutex_unlock(&m->lock);
            over = over || has_moved(m, &key);
            (void)pthread_mutex_lock(&m->lock);
            if (over) m->followed[i] = m->followed[--m->followed_len]; // others only add rows
        }
        (void)pthread_mutex_unlock(&m->lock);
        clock_sleep(FOLLOW_EVERY_MS);
        (void)pthread_mutex_lock(&m->lock);
    }
    m->follows = false;
    (void)pthread_mutex_unlock(&m->lock);
    memory_free(job);
}

static void follow(struct membership *m, const struct shard_key *key)
{
    struct effect_job *job = NEW(struct effect_job);
    *job = (struct effect_job){.job = {.run = follow_run}, .m = m};
    (void)pthread_mutex_lock(&m->lock);
    *ARRAY_ADD(m->followed, m->followed_len, m->followed_cap) =
        (struct followed_shard){.shard = *key, .end_ms = clock_boot_ms() + FOLLOW_MS};
    bool starts = !m->follows && !m->left && !pool_share_run(m->share, 7, &job->job);
    m->follows = m->follows || starts;
    (void)pthread_mutex_unlock(&m->lock);
    if (!starts) memory_free(job);
}

static void tell_next_owner(struct membership *m, const struct shard_key *key)
{
    char name[QUEUE_NAME_MAX + 1];
    struct member_id to = {0};
    (void)pthread_mutex_lock(&m->lock);
    const struct member_id *owner = cluster_owner(m->cluster, key);
    if (owner) to = *owner;
    bool known = queues_name(m, key->queue, name);
    (void)pthread_mutex_unlock(&m->lock);
    if (known && to.name[0] && strcmp(to.name, m->self.name) != 0)
        hint_send(m, &to, name, key->shard, false);
}

void tell_members(struct membership *m)
{
    char(*urls)[COORD_URL_MAX + 1] = NULL;
    (void)pthread_mutex_lock(&m->lock);
    size_t len = m->last.members_len;
    urls = memory_zeroed(len + 1, sizeof *urls);
    for (size_t i = 0; i < len; i++)
        if (strcmp(m->last.members[i].name, m->self.name) != 0)
            memcpy(urls[i], m->last.members[i].url, sizeof urls[i]);
    (void)pthread_mutex_unlock(&m->lock);
    for (size_t i = 0; i < len; i++)
        if (urls[i][0]) hint_post(m, urls[i], "", 0, false);
    memory_free(urls);
    hint_all(m);
}

static void service(struct effect_job *job)
{
    struct membership *m = job->m;
    struct coord_answer a;
    uint64_t number = 0;
    coord_answer_init(&a);
    int64_t began = clock_boot_ms();
    bool skips = job->effect.kind == CLUSTER_RELEASE && is_lone_and_stops(m);
    enum err err = skips ? ERR_OK : call_service(job, &a, &number);
    if (!skips) coord_noted(m, err, began, &a);
    (void)pthread_mutex_lock(&m->lock);
    if (!err && job->effect.kind == CLUSTER_LEAD) m->look = true;
    (void)pthread_mutex_unlock(&m->lock);
    coord_answer_done(&a);
    membership_answer(m, job->effect.request, known_error(err), number);
    if (!err && job->effect.kind == CLUSTER_PUBLISH) tell_members(m);
    if (!err && !skips && job->effect.kind == CLUSTER_RELEASE) {
        tell_next_owner(m, &job->effect.shard);
        follow(m, &job->effect.shard);
    }
}

static void join_and_answer(struct effect_job *job)
{
    struct coord_answer a;
    coord_answer_init(&a);
    enum err err = join(job->m, &job->effect, &a);
    coord_answer_done(&a);
    membership_answer(job->m, job->effect.request, known_error(err), 0);
}

static void job_done(struct effect_job *job)
{
    plan_done(&job->plan);
    memory_free(job);
}

void effect_run(struct pool_job *pool_job)
{
    struct effect_job *job = (struct effect_job *)pool_job;
    switch (job->effect.kind) {
    case CLUSTER_JOIN:
        join_and_answer(job);
        break;
    case CLUSTER_HEARTBEAT:
        view_heartbeat(job->m, &job->effect);
        break;
    case CLUSTER_LIST:
        view_list(job->m, &job->effect);
        break;
    case CLUSTER_RENEW:
        if (job->m->on_store)
            view_renew(job->m, &job->effect);
        else
            service(job);
        break;
    case CLUSTER_OWN:
        own(job);
        break;
    case CLUSTER_HAND_OVER:
        hand_over(job);
        break;
    default:
        service(job);
    }
    job_done(job);
}

void effect_failed(struct effect_job *job, enum err err)
{
    if (job->effect.kind == CLUSTER_LIST) {
        struct cluster_event e = {.kind = CLUSTER_VIEW, .request = job->effect.request, .err = err};
        membership_step(job->m, &e);
    } else {
        membership_answer(job->m, job->effect.request, err, 0);
    }
    job_done(job);
}
