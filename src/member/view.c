// SPDX-License-Identifier: Apache-2.0
// What the coordination service shows: members, leader and plan. On the store each request counts,
// so a heartbeat there also answers the next LIST, and a lone node makes neither of them until a
// minute has passed.
#include "member/inside.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define LATENCY_WINDOW_MS 60000
#define EARLY_MS          50   // timers are not exact
#define WATCH_MS          1000 // a node that stops waits for the end of a watch
#define WATCH_PAUSE_MS    500  // after a watch that failed

void coord_noted(struct membership *m, enum err err, int64_t began_ms, const struct coord_answer *a)
{
    int64_t now = clock_boot_ms(), took = now - began_ms;
    bool failed = err && err != ERR_CONFLICT && err != ERR_NOT_FOUND && err != ERR_FENCED;
    LOCKED(&m->lock);
    struct membership_counters *c = &m->counters;
    c->requests++;
    c->errors += failed;
    c->latency_ms_sum += (uint64_t)took;
    c->latency_ms_last = took;
    if (now - m->latency_window > LATENCY_WINDOW_MS) {
        m->latency_window = now;
        c->latency_ms_max = 0;
    }
    if (took > c->latency_ms_max) c->latency_ms_max = took;
    if (failed) memcpy(m->why, a->why, sizeof m->why);
}

// Reads the plan if the service has a newer one than this node.
static enum err read_plan(struct membership *m, const struct coord_answer *listed)
{
    struct plan plan;
    (void)pthread_mutex_lock(&m->lock);
    struct plan version = {.epoch = listed->plan_epoch, .number = listed->plan_number};
    bool newer = plan_compare_version(&version, &m->plan) > 0;
    (void)pthread_mutex_unlock(&m->lock);
    LOCAL(buf, bytes, PLAN_BYTES_MAX);
    if (!newer) return ERR_OK;
    LOCAL(coord_answer, a);
    plan_init(&plan);
    int64_t began = clock_boot_ms();
    enum err err = coord_plan_read(m->coord, &bytes, &a);
    if (!err && !plan_decode(buf_bytes(&bytes), &plan)) {
        (void)snprintf(a.why, sizeof a.why, "the plan in the service cannot be read");
        err = ERR_CORRUPT;
    }
    coord_noted(m, err, began, &a);
    (void)pthread_mutex_lock(&m->lock);
    if (!err && plan_compare_version(&plan, &m->plan) > 0) plan_copy(&m->plan, &plan);
    (void)pthread_mutex_unlock(&m->lock);
    plan_done(&plan);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void copy_answer(struct coord_answer *to, const struct coord_answer *from)
{
    to->members_len = 0;
    if (to->members_cap < from->members_len) {
        to->members_cap = from->members_len;
        to->members = memory_resize(to->members, to->members_cap * sizeof *to->members);
    }
    if (from->members_len)
        memcpy(to->members, from->members, from->members_len * sizeof *to->members);
    to->members_len = from->members_len;
    to->leader = from->leader;
    to->at = from->at;
}

// The lock is held. Returns true if the leader is another one.
static bool see_leader(struct membership *m, const struct coord_holder *leader)
{
    if (leader->token > m->leader_epoch) m->leader_epoch = leader->token;
    if (!leader->name[0] || leader->token <= m->leader_told) return false;
    m->leader_told = leader->token;
    if (strcmp(leader->name, m->self.name) != 0) event_add_leader(m, leader->name, leader->token);
    return true;
}

// Tells nodes that this node sees for the first time to look: a lone node lists once a minute.
// After a session that ended, it tells all of them.
static void greet(struct membership *m, const struct coord_answer *a)
{
    (void)pthread_mutex_lock(&m->lock);
    bool all = m->greets;
    m->greets = false;
    (void)pthread_mutex_unlock(&m->lock);
    for (size_t i = 0; m->on_store && i < a->members_len; i++) {
        const struct coord_member *row = &a->members[i];
        bool known = strcmp(row->name, m->self.name) == 0;
        (void)pthread_mutex_lock(&m->lock);
        for (size_t k = 0; !all && k < m->last.members_len && !known; k++)
            known = memcmp(m->last.members[k].incarnation, row->incarnation,
                           sizeof row->incarnation) == 0;
        (void)pthread_mutex_unlock(&m->lock);
        if (known) continue;
        hint_post(m, row->url, "", 0, false);
    }
}

// Passes the newest list to the step function. quiet: the list is old, because the node is lone.
static void show(struct membership *m, uint64_t request, enum err err, bool quiet)
{
    LOCAL(plan, plan);
    struct cluster_event e = {.kind = CLUSTER_VIEW, .request = request, .err = err};
    (void)pthread_mutex_lock(&m->lock);
    const struct coord_answer *a = &m->last;
    struct member_report *seen = memory_zeroed(a->members_len + 1, sizeof *seen);
    int64_t at = (quiet ? clock_boot_ms() : m->last_at) + m->offset_ms;
    for (size_t i = 0; i < a->members_len; i++) {
        const struct coord_member *row = &a->members[i];
        int64_t beat = at - (quiet ? 0 : row->age_ms);
        seen[i] = (struct member_report){
            .joined = 1, .capacity = row->capacity, .beat = {beat, beat}, .leaving = row->leaving};
        member_id_set(&seen[i].id, row->name, row->incarnation);
    }
    e.view = (struct cluster_view){.at = 1, .members = seen, .members_len = a->members_len};
    bool newer = see_leader(m, &a->leader);
    e.view.leader.held = a->leader.name[0] != 0;
    e.view.leader.epoch = e.view.leader.held ? a->leader.token : m->leader_epoch;
    if (e.view.leader.held) member_id_set(&e.view.leader.id, a->leader.name, a->leader.incarnation);
    if (m->plan.epoch > 0) {
        plan_copy(&plan, &m->plan);
        e.view.plan = &plan;
    }
    newer = newer || m->plan_shown_epoch != m->plan.epoch || m->plan_shown_number != m->plan.number;
    m->plan_shown_epoch = m->plan.epoch;
    m->plan_shown_number = m->plan.number;
    (void)pthread_mutex_unlock(&m->lock);
    membership_step(m, &e);
    if (newer) hint_all(m);
    memory_free(seen);
}

// Keeps the list and shows it, as the answer to the LIST of `request` if that is not 0.
static void listed(struct membership *m, uint64_t request, enum err err,
                   const struct coord_answer *a, int64_t began_ms)
{
    if (!err) {
        greet(m, a);
        members_challenge(m, a);
        settings_compare(m, a);
        err = read_plan(m, a);
    }
    (void)pthread_mutex_lock(&m->lock);
    if (!err) {
        copy_answer(&m->last, a);
        m->last_at = began_ms;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (request || !err) show(m, request, err, false);
}

// The lock is held. The node needs no heartbeat yet, and the service shows no other member.
static bool rests(const struct membership *m)
{
    return m->on_store && !m->look && clock_boot_ms() + EARLY_MS < m->next_beat_at &&
           m->last.members_len == 1 && cluster_lone(m->cluster);
}

// Whether a list shows this node as the leader of this epoch.
static enum err leads(const struct membership *m, const struct coord_answer *a, uint64_t epoch)
{
    if (a->leader.token > epoch) return ERR_FENCED;
    bool own = a->leader.token == epoch && strcmp(a->leader.name, m->self.name) == 0;
    return own ? ERR_OK : ERR_CONFLICT;
}

// The lead ends with the session. On the store, the next heartbeat renews it and shows it.
void view_renew(struct membership *m, const struct cluster_effect *e)
{
    LOCKED(&m->lock);
    m->parked_renew = e->request;
    m->renew_epoch = e->number;
}

static enum err beat(struct membership *m, struct coord_answer *a)
{
    int64_t began = clock_boot_ms();
    enum err err = coord_heartbeat(m->coord, a);
    coord_noted(m, err, began, a);
    (void)pthread_mutex_lock(&m->lock);
    bool answers = (a->at != 0 || err) && m->parked_at <= began; // the list is not older
    uint64_t parked = answers ? m->parked_list : 0;
    if (parked) m->parked_list = 0;
    uint64_t renew = m->parked_renew, epoch = m->renew_epoch;
    m->parked_renew = 0;
    if (!err) m->next_beat_at = began + a->next_ms;
    (void)pthread_mutex_unlock(&m->lock);
    if (renew) membership_answer(m, renew, err ? err : leads(m, a, epoch), epoch);
    if (a->at != 0 || parked) listed(m, parked, a->at != 0 ? ERR_OK : err, a, began);
    return err;
}

void view_heartbeat(struct membership *m, const struct cluster_effect *e)
{
    struct coord_answer a;
    (void)pthread_mutex_lock(&m->lock);
    bool needless = rests(m) && m->self.leaving == e->leaving;
    bool changes = m->self.leaving != e->leaving;
    m->self.leaving = e->leaving;
    struct coord_member self = m->self;
    (void)pthread_mutex_unlock(&m->lock);
    enum err err = ERR_OK;
    coord_answer_init(&a);
    if (changes) {
        int64_t began = clock_boot_ms();
        err = coord_join(m->coord, &self, false, &a);
        coord_noted(m, err, began, &a);
        if (err) {
            LOCKED(&m->lock);
            m->self.leaving = !e->leaving;
        }
        if (err == ERR_CONFLICT) err = ERR_FENCED;
    } else if (!needless) {
        err = beat(m, &a);
    }
    bool definite = !err || err == ERR_NOT_FOUND || err == ERR_FENCED || err == ERR_UNKNOWN;
    coord_answer_done(&a);
    membership_answer(m, e->request, definite ? err : ERR_UNAVAILABLE, 0);
    if (changes && !err) {
        tell_members(m);
        view_look(m);
    }
}

void view_list(struct membership *m, const struct cluster_effect *e)
{
    (void)pthread_mutex_lock(&m->lock);
    bool quiet = rests(m);
    bool recent = clock_boot_ms() - m->last_at < 2 * m->lease_ms / 3;
    bool parks = !quiet && m->on_store && !m->look && m->last_at != 0 &&
                 (recent || cluster_lone(m->cluster)) && !cluster_degraded(m->cluster) &&
                 !cluster_awaits_end(m->cluster);
    if (parks) {
        m->parked_list = e->request;
        m->parked_at = clock_boot_ms();
    }
    if (!quiet && !parks) m->look = false;
    (void)pthread_mutex_unlock(&m->lock);
    if (quiet) show(m, e->request, ERR_OK, true);
    if (quiet || parks) return;
    LOCAL(coord_answer, a);
    int64_t began = clock_boot_ms();
    enum err err = coord_list(m->coord, &a);
    coord_noted(m, err, began, &a);
    listed(m, e->request, err, &a, began);
}

void view_look(struct membership *m)
{
    struct cluster_event e = {.kind = CLUSTER_LOOK};
    (void)pthread_mutex_lock(&m->lock);
    m->look = true;
    m->next_beat_at = 0;
    uint64_t parked = m->parked_list;
    m->parked_list = 0;
    (void)pthread_mutex_unlock(&m->lock);
    if (parked) {
        struct effect_job *job = NEW(struct effect_job);
        *job = (struct effect_job){.m = m, .effect = {.kind = CLUSTER_LIST, .request = parked}};
        plan_init(&job->plan);
        membership_run(m, 2, job);
    }
    membership_step(m, &e);
}

struct watch_job {
    struct pool_job job; // first
    struct membership *m;
};

static bool has_left(struct membership *m)
{
    LOCKED(&m->lock);
    return m->left;
}

// A service that tells of changes is watched, so that a session that ended is seen at once.
static void watch_run(struct pool_job *pool_job)
{
    struct watch_job *job = (struct watch_job *)pool_job;
    struct membership *m = job->m;
    struct coord_answer a;
    uint64_t at = 0;
    coord_answer_init(&a);
    while (!has_left(m)) {
        enum err err = coord_watch(m->coord, at, WATCH_MS, &a);
        bool changed = !err && a.at != at;
        if (changed && at != 0) view_look(m);
        if (changed) at = a.at;
        if (err && err != ERR_NOT_FOUND) clock_sleep(WATCH_PAUSE_MS);
    }
    coord_answer_done(&a);
    memory_free(job);
}

void view_watch(struct membership *m)
{
    if (m->on_store) return; // its heartbeats list anyway
    struct watch_job *job = NEW(struct watch_job);
    *job = (struct watch_job){.job = {.run = watch_run}, .m = m};
    if (pool_share_run(m->share, 6, &job->job)) memory_free(job); // the lists suffice
}
