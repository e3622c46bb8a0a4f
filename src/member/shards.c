// SPDX-License-Identifier: Apache-2.0
// Which shards exist, and which are used: the catalog for the leader's plan, the calls of this
// node, and the hints that nodes send each other.
#include "member/inside.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "net/http.h"
#include "os/clock.h"
#include "peer/peer.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAKE_MS          2000  // how long the first use of a shard waits for its ownership
#define CATALOG_EVERY_MS 60000 // the leader reads the catalog so often,
#define CATALOG_LEAST_MS 2000  // ... and at most so often when it hears of another queue
#define HINT_MS          1000
#define HINTS_MAX        100 // taken in a second: any process can send one

void shard_name(const struct shard_key *key, char out[COORD_SHARD_MAX + 1])
{
    char id[2 * sizeof key->queue + 1];
    *digits_put_hex(id, key->queue, sizeof key->queue) = 0;
    (void)snprintf(out, COORD_SHARD_MAX + 1, "%s/%u", id, key->shard);
}

void shard_key_of(const struct open_queue *q, uint32_t shard, struct shard_key *out)
{
    *out = (struct shard_key){.shard = shard};
    memcpy(out->queue, q->row.id.bytes, sizeof out->queue);
}

static struct known_queue *find(const struct membership *m, const uint8_t id[16])
{
    for (size_t i = 0; i < m->queues_len; i++)
        if (memcmp(m->queues[i].id.bytes, id, 16) == 0) return &m->queues[i];
    return NULL;
}

bool queues_name(const struct membership *m, const uint8_t id[16], char out[QUEUE_NAME_MAX + 1])
{
    const struct known_queue *q = find(m, id);
    out[0] = 0;
    if (q) (void)snprintf(out, QUEUE_NAME_MAX + 1, "%s", q->name);
    return q != NULL;
}

// The lock is held.
static struct known_queue *note(struct membership *m, const struct queue_id *id, const char *name,
                                uint32_t shards)
{
    struct known_queue *q = find(m, id->bytes);
    if (q) return q;
    if (m->queues_len == m->queues_cap) {
        m->queues_cap = m->queues_cap ? 2 * m->queues_cap : 16;
        m->queues = memory_resize(m->queues, m->queues_cap * sizeof *m->queues);
    }
    q = &m->queues[m->queues_len++];
    *q = (struct known_queue){.id = *id, .shards = shards};
    (void)snprintf(q->name, sizeof q->name, "%s", name);
    return q;
}

void queues_note(struct membership *m, const struct queue_id *id, const char *name, uint32_t shards)
{
    (void)pthread_mutex_lock(&m->lock);
    (void)note(m, id, name, shards);
    (void)pthread_mutex_unlock(&m->lock);
}

struct names {
    char (*all)[QUEUE_NAME_MAX + 1];
    size_t len, cap;
};

static void add_name(void *ctx, const char *name)
{
    struct names *n = ctx;
    if (n->len == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 64;
        n->all = memory_resize(n->all, n->cap * sizeof *n->all);
    }
    (void)snprintf(n->all[n->len++], sizeof *n->all, "%s", name);
}

static int by_shard(const void *a, const void *b)
{
    return shard_key_compare(a, b);
}

// The lock is held. Marks the queue with this name, if exactly one life of it is known.
static bool mark_listed(struct membership *m, const char *name)
{
    struct known_queue *found = NULL;
    size_t lives = 0;
    for (size_t i = 0; i < m->queues_len; i++)
        if (strcmp(m->queues[i].name, name) == 0) found = &m->queues[i], lives++;
    if (lives == 1) found->listed = true;
    return lives == 1;
}

// A name with several lives, or with none that is known, is read from the catalog.
static enum err mark_names(struct membership *m, const struct names *names)
{
    struct store_answer answer CLEANUP(store_answer_done);
    store_answer_init(&answer);
    for (size_t i = 0; i < names->len; i++) {
        struct catalog_row row;
        (void)pthread_mutex_lock(&m->lock);
        bool known = mark_listed(m, names->all[i]);
        (void)pthread_mutex_unlock(&m->lock);
        if (known) continue;
        enum err err = catalog_find(m->engine->store, names->all[i], &row, &answer);
        if (err == ERR_NOT_FOUND || (err && catalog_is_newer(&answer))) continue;
        if (err) return err;
        (void)pthread_mutex_lock(&m->lock);
        note(m, &row.id, row.name, row.birth.shards)->listed = true;
        (void)pthread_mutex_unlock(&m->lock);
    }
    return ERR_OK;
}

const struct known_queue *catalog_queue(const struct membership *m, const char *name)
{
    for (size_t i = 0; i < m->queues_len; i++)
        if (m->queues[i].listed && strcmp(m->queues[i].name, name) == 0) return &m->queues[i];
    return NULL;
}

struct shard_key *catalog_shards(const struct membership *m, size_t *len)
{
    size_t count = 0;
    for (size_t i = 0; i < m->queues_len; i++)
        if (m->queues[i].listed) count += m->queues[i].shards;
    if (count > PLACEMENT_SHARDS_MAX) count = PLACEMENT_SHARDS_MAX;
    struct shard_key *keys = memory_zeroed(count + 1, sizeof *keys);
    *len = 0;
    for (size_t i = 0; i < m->queues_len; i++) {
        const struct known_queue *q = &m->queues[i];
        for (uint32_t s = 0; q->listed && s < q->shards && *len < count; s++) {
            memcpy(keys[*len].queue, q->id.bytes, sizeof keys->queue);
            keys[(*len)++].shard = s;
        }
    }
    if (*len > 1) qsort(keys, *len, sizeof *keys, by_shard);
    return keys;
}

enum err catalog_load(struct membership *m, struct shard_key **out, size_t *len)
{
    struct store_answer answer CLEANUP(store_answer_done);
    struct names names = {0};
    store_answer_init(&answer);
    *out = NULL;
    enum err err = catalog_names(m->engine->store, add_name, &names, &answer);
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; !err && i < m->queues_len; i++)
        m->queues[i].listed = false;
    (void)pthread_mutex_unlock(&m->lock);
    if (!err) err = mark_names(m, &names);
    (void)pthread_mutex_lock(&m->lock);
    if (!err) *out = catalog_shards(m, len);
    (void)pthread_mutex_unlock(&m->lock);
    memory_free(names.all);
    return err;
}

struct catalog_job {
    struct pool_job job; // first
    struct membership *m;
};

static void catalog_job_run(struct pool_job *pool_job)
{
    struct catalog_job *job = (struct catalog_job *)pool_job;
    struct membership *m = job->m;
    struct shard_key *keys = NULL;
    size_t len = 0;
    enum err err = catalog_load(m, &keys, &len);
    (void)pthread_mutex_lock(&m->lock);
    m->catalog_read = clock_boot_ms();
    m->catalog_at = m->catalog_read + (err ? CATALOG_LEAST_MS : CATALOG_EVERY_MS);
    m->catalog_busy = false;
    (void)pthread_mutex_unlock(&m->lock);
    if (!err) {
        struct cluster_event e = {.kind = CLUSTER_SHARDS, .shards = keys, .shards_len = len};
        membership_step(m, &e);
    }
    memory_free(keys);
    memory_free(job);
}

void catalog_run(struct membership *m)
{
    struct catalog_job *job = NEW(struct catalog_job);
    *job = (struct catalog_job){.job = {.run = catalog_job_run}, .m = m};
    (void)pthread_mutex_lock(&m->lock);
    bool runs = !m->left && !pool_share_run(m->share, 4, &job->job);
    if (runs) {
        (void)pthread_mutex_unlock(&m->lock);
        return;
    }
    memory_free(job);
    m->catalog_busy = false;
    m->catalog_at = clock_boot_ms() + CATALOG_LEAST_MS;
    (void)pthread_mutex_unlock(&m->lock);
}

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
    struct http_call call;
    http_call_init(&call, "POST", job->url);
    call.headers = headers;
    call.headers_len = 1;
    call.body = bytes_str(job->body);
    call.timeout_ms = HINT_MS;
    peers_send(job->m->engine->peers, &call);
    http_call_done(&call);
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

// The lock is held. The name is empty if there is no leader.
static void set_leader(const struct membership *m, struct member_id *out)
{
    const struct coord_holder *leader = &m->last.leader;
    *out = (struct member_id){0};
    if (leader->name[0]) member_id_set(out, leader->name, leader->incarnation);
}

// The lock is held.
static bool is_unplanned(const struct membership *m, const struct shard_key *key)
{
    return !cluster_lone(m->cluster) && !plan_find(cluster_plan(m->cluster), key);
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
            *holds = is_unplanned(m, &key) && cluster_serves(m->cluster, &key) != 0;
            *to = *owner;
            if (*holds) set_leader(m, to);
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

static void tell_decisions(struct membership *m, enum cluster_event_kind kind,
                           const struct shard_key *key)
{
    struct cluster_event e = {.kind = kind, .shard = *key};
    membership_step(m, &e);
}

// The lock is held. The plan does not have the shard: the leader must read the catalog again.
static bool wants_catalog(struct membership *m, const struct shard_key *key)
{
    bool unknown = is_unplanned(m, key);
    int64_t soon = m->catalog_read + CATALOG_LEAST_MS;
    if (unknown && soon < m->catalog_at) m->catalog_at = soon;
    return unknown;
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
    bool behind = wants_catalog(m, &key) ? !cluster_leads(m->cluster) : !mine;
    (void)pthread_mutex_unlock(&m->lock);
    if (node[0]) note_held(m, &key, node);
    tell_decisions(m, CLUSTER_USED_AWAY, &key);
    tell_decisions(m, CLUSTER_FREE, &key);
    if (behind) view_look(m);
}

// A claim that another node's claim refuses is made again later: the call does not wait for it. It
// writes directly.
static void wait_served(struct membership *m, const struct shard_key *key)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += TAKE_MS / 1000;
    (void)pthread_mutex_lock(&m->lock);
    while (cluster_serves(m->cluster, key) == 0 && cluster_moving(m->cluster, key)) {
        if (m->stopping || m->left || m->draining || cluster_degraded(m->cluster)) break;
        if (pthread_cond_timedwait(&m->changed, &m->lock, &until) != 0) break;
    }
    (void)pthread_mutex_unlock(&m->lock);
}

static void on_used(struct owner_cluster *hooks, struct open_queue *q, uint32_t shard)
{
    struct membership *m = (struct membership *)hooks;
    struct shard_key key;
    struct member_id to = {0};
    shard_key_of(q, shard, &key);
    queues_note(m, &q->row.id, q->row.name, q->row.birth.shards);
    tell_decisions(m, CLUSTER_USED, &key);
    (void)pthread_mutex_lock(&m->lock);
    const struct member_id *owner = cluster_owner(m->cluster, &key);
    bool unplanned = wants_catalog(m, &key);
    if (owner) to = *owner;
    (void)pthread_mutex_unlock(&m->lock);
    bool mine = strcmp(to.name, m->self.name) == 0;
    if (mine) wait_served(m, &key);
    (void)pthread_mutex_lock(&m->lock);
    bool holds = unplanned && cluster_serves(m->cluster, &key) != 0;
    if (unplanned) set_leader(m, &to);
    (void)pthread_mutex_unlock(&m->lock);
    if (to.name[0] && strcmp(to.name, m->self.name) != 0)
        hint_send(m, &to, q->row.name, shard, holds);
}

static bool on_serves(struct owner_cluster *hooks, struct open_queue *q, uint32_t shard)
{
    struct membership *m = (struct membership *)hooks;
    struct shard_key key;
    shard_key_of(q, shard, &key);
    (void)pthread_mutex_lock(&m->lock);
    bool serves = cluster_serves(m->cluster, &key) != 0;
    (void)pthread_mutex_unlock(&m->lock);
    return serves;
}

static void on_seen(struct owner_cluster *hooks, struct open_queue *q, uint32_t shard,
                    uint64_t epoch)
{
    struct membership *m = (struct membership *)hooks;
    struct cluster_event e = {.kind = CLUSTER_FENCED, .number = epoch};
    shard_key_of(q, shard, &e.shard);
    (void)pthread_mutex_lock(&m->lock);
    uint64_t served = cluster_serves(m->cluster, &e.shard);
    (void)pthread_mutex_unlock(&m->lock);
    if (served != 0 && served < epoch) membership_step(m, &e);
}

static void on_members(struct owner_cluster *hooks,
                       void (*each)(void *ctx, const char *name, uint32_t rules_newest), void *ctx)
{
    struct membership *m = (struct membership *)hooks;
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->last.members_len; i++)
        each(ctx, m->last.members[i].name, m->last.members[i].rules_hi);
    (void)pthread_mutex_unlock(&m->lock);
}

void shards_hooks(struct membership *m)
{
    m->hooks = (struct owner_cluster){
        .used = on_used, .serves = on_serves, .seen = on_seen, .members = on_members};
}
