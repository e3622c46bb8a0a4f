// SPDX-License-Identifier: Apache-2.0
// Hints: a node that uses a shard tells the node that should own it, and a node that serves a shard
// that no plan has tells the leader. A hint that is lost is sent again with the next use.
#include "member/inside.h"

#include "base/memory.h"
#include "net/http.h"
#include "os/clock.h"
#include "peer/peer.h"

#include <stdio.h>
#include <string.h>

#define HINT_MS   1000
#define HINTS_MAX 100 // taken in a second: any process can send one

struct hint_job {
    struct pool_job job; // first
    struct membership *m;
    struct hint_job *next; // of the hints that wait
    char url[COORD_URL_MAX + 40];
    char body[MEMBER_HINT_MAX];
};

static void hint_do(const struct hint_job *job)
{
    static const char *const headers[] = {"Content-Type: application/json"};
    LOCAL(http_call, call, "POST", job->url);
    call.headers = headers;
    call.headers_len = 1;
    call.body = bytes_str(job->body);
    call.timeout_ms = HINT_MS;
    peers_send(job->m->engine->peers, &call);
}

// The lock is held.
static void hint_remove(struct membership *m, struct hint_job *job)
{
    struct hint_job **at = &m->hints;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    if (!*at) m->hints_end = at;
    m->hints_len--;
}

// A hint that is lost is sent again with the next use. A node that has left does not wait for all.
static void hint_run(struct pool_job *pool_job)
{
    struct hint_job *job = (struct hint_job *)pool_job;
    struct membership *m = job->m;
    (void)pthread_mutex_lock(&m->lock);
    hint_remove(m, job);
    bool late = m->left && clock_boot_ms() >= m->left_at + HINT_MS;
    m->counters.hints_sent += !late;
    m->counters.hints_dropped += late;
    (void)pthread_mutex_unlock(&m->lock);
    if (!late) hint_do(job);
    memory_free(job);
}

// The lock is held. Makes room for a hint: the oldest one that waits is the least useful.
static void hint_drop(struct membership *m)
{
    struct hint_job *oldest = m->hints;
    while (oldest && !pool_share_withdraw(m->share, &oldest->job)) // it has begun
        oldest = oldest->next;
    if (!oldest) return;
    hint_remove(m, oldest);
    memory_free(oldest);
    m->counters.hints_dropped++;
}

// The hints go one after another, and each waits up to HINT_MS for a node that is cut off.
void hint_post(struct membership *m, const char *url, const char *queue, uint32_t shard, bool holds)
{
    struct hint_job *job = NEW(struct hint_job);
    *job = (struct hint_job){.job = {.run = hint_run}, .m = m};
    (void)snprintf(job->url, sizeof job->url, "%s/v1/cluster/used", url);
    (void)snprintf(job->body, sizeof job->body, "{\"queue\":\"%s\",\"shard\":%u,\"node\":\"%s\"}",
                   queue, shard, holds ? m->self.name : "");
    (void)pthread_mutex_lock(&m->lock);
    if (m->hints_len >= MEMBER_HINTS_WAITING_MAX) hint_drop(m);
    bool goes = !m->left && !pool_share_run(m->share, 5, &job->job);
    if (goes) {
        if (!m->hints) m->hints_end = &m->hints;
        *m->hints_end = job;
        m->hints_end = &job->next;
        m->hints_len++;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (!goes) memory_free(job);
}

void hint_send(struct membership *m, const struct member_id *to, const char *queue, uint32_t shard,
               bool holds)
{
    char url[COORD_URL_MAX + 1] = "";
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->last.members_len; i++) {
        const struct coord_member *row = &m->last.members[i];
        if (strcmp(row->name, to->name) == 0) memcpy(url, row->url, sizeof url);
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (url[0]) hint_post(m, url, queue, shard, holds);
}

// The lock is held. Finds the next shard after *at that is used here and belongs to another node,
// or that this node serves and no plan has: the leader must know it.
static bool next_to_tell(const struct membership *m, size_t *queue, uint32_t *shard,
                         struct member_id *to, bool *holds)
{
    for (; *queue < m->queues_len; ++*queue, *shard = 0)
        for (; *shard < m->queues[*queue].shards; ++*shard) {
            struct shard_key key = {.shard = *shard};
            memcpy(key.queue, m->queues[*queue].id.bytes, sizeof key.queue);
            const struct member_id *owner = cluster_owner(m->cluster, &key);
            if (!cluster_used(m->cluster, &key) || !owner) continue;
            *holds = shard_is_unplanned(m, &key) && cluster_serves(m->cluster, &key) != 0;
            *to = *owner;
            if (*holds) leader_id(m, to);
            if (to->name[0] && strcmp(to->name, m->self.name) != 0) return true;
        }
    return false;
}

void hint_all(struct membership *m)
{
    size_t queue = 0;
    uint32_t shard = 0;
    for (;;) {
        struct member_id to;
        bool holds = false;
        char name[QUEUE_NAME_MAX + 1] = "";
        (void)pthread_mutex_lock(&m->lock);
        bool found = next_to_tell(m, &queue, &shard, &to, &holds);
        if (found) (void)snprintf(name, sizeof name, "%s", m->queues[queue].name);
        (void)pthread_mutex_unlock(&m->lock);
        if (!found) return;
        hint_send(m, &to, name, shard++, holds);
    }
}

// Another node serves a shard that no plan has.
static void note_held(struct membership *m, const struct shard_key *key, const char *node)
{
    struct cluster_event e = {.kind = CLUSTER_HELD, .shard = *key};
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->last.members_len; i++) {
        const struct coord_member *row = &m->last.members[i];
        if (strcmp(row->name, node) == 0) member_id_set(&e.member, row->name, row->incarnation);
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (e.member.name[0]) membership_step(m, &e);
}

void membership_hint(struct membership *m, const char *queue, uint32_t shard, const char *node)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_key key;
    (void)pthread_mutex_lock(&m->lock);
    int64_t second = clock_boot_ms() / 1000;
    if (m->hint_second != second) m->hint_second = second, m->hints_now = 0;
    bool takes = ++m->hints_now <= HINTS_MAX && !m->left;
    m->counters.hints_received += takes;
    (void)pthread_mutex_unlock(&m->lock);
    if (!takes) return;
    if (!queue[0]) {
        view_look(m);
        return;
    }
    if (queue_get(m->engine, queue, &q, NULL) || shard >= q->row.birth.shards) return;
    shard_key_of(q, shard, &key);
    queues_note(m, &q->row.id, q->row.name, q->row.birth.shards);
    (void)pthread_mutex_lock(&m->lock);
    const struct member_id *owner = cluster_owner(m->cluster, &key);
    bool mine = owner && strcmp(owner->name, m->self.name) == 0;
    // Perhaps there is a plan that this node has not seen.
    bool behind = catalog_wanted(m, &key) ? !cluster_leads(m->cluster) : !mine;
    (void)pthread_mutex_unlock(&m->lock);
    if (node[0]) note_held(m, &key, node);
    shard_event(m, CLUSTER_USED_AWAY, &key);
    shard_event(m, CLUSTER_FREE, &key);
    if (behind) view_look(m);
}
