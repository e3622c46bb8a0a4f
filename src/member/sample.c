// SPDX-License-Identifier: Apache-2.0
// The leader asks the members now and then which shards they own. From their answers it measures
// the traffic of each shard, and finds shards without an owner. It reads the journal of such a
// shard: if events wait there for the bus, it tells the node that should own it.
#include "member/inside.h"

#include "base/memory.h"
#include "os/clock.h"
#include "queues/owner_shards.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_MS    10000
#define FORGET_MS    60000 // an older sample says nothing about the traffic now
#define READS_MAX    16    // journals that are read in one round
#define READ_IDLE_MS 600000
#define SMOOTHING    4 // a rate follows the traffic within some 40 s

struct shard_sample {
    struct shard_key shard;
    bool owned;
    uint64_t work;   // 0: not known
    uint32_t rate;   // a second
    uint64_t events; // without an owner: those that wait for the bus
    int64_t read_at; // clock_boot_ms; 0: the journal was not read since it has no owner
};

struct sample_job {
    struct pool_job job; // first
    struct membership *m;
    struct shard_sample *rows;
    size_t len;
    int64_t passed_ms; // since the last round; 0: too long ago
    bool complete;     // every member has answered
};

static int by_shard(const void *a, const void *b)
{
    return shard_key_compare(&((const struct shard_sample *)a)->shard,
                             &((const struct shard_sample *)b)->shard);
}

static struct shard_sample *find(const struct shard_sample *rows, size_t len,
                                 const struct shard_key *shard)
{
    struct shard_sample key = {.shard = *shard};
    return len > 0 ? bsearch(&key, rows, len, sizeof *rows, by_shard) : NULL;
}

static void begin(struct sample_job *j)
{
    struct membership *m = j->m;
    (void)pthread_mutex_lock(&m->lock);
    struct shard_key *keys = catalog_shards(m, &j->len);
    (void)pthread_mutex_unlock(&m->lock);
    j->rows = memory_zeroed(j->len + 1, sizeof *j->rows);
    for (size_t i = 0; i < j->len; i++) {
        const struct shard_sample *before = find(m->samples, m->samples_len, &keys[i]);
        if (before) j->rows[i] = *before;
        j->rows[i].shard = keys[i];
        j->rows[i].owned = false;
    }
    memory_free(keys);
    int64_t now = clock_boot_ms(), passed = now - m->sampled_at;
    j->passed_ms = m->sampled_at != 0 && passed < FORGET_MS ? passed : 0;
    m->sampled_at = now;
}

static void take(struct sample_job *j, const struct sluice_shard *from)
{
    struct shard_key key = {.shard = from->shard};
    (void)pthread_mutex_lock(&j->m->lock);
    const struct known_queue *q = catalog_queue(j->m, from->queue);
    if (q) memcpy(key.queue, q->id.bytes, sizeof key.queue);
    (void)pthread_mutex_unlock(&j->m->lock);
    struct shard_sample *row = q ? find(j->rows, j->len, &key) : NULL;
    if (!row || row->owned) return;
    bool rises = j->passed_ms > 0 && row->work > 0 && from->work >= row->work;
    uint64_t more = rises ? (from->work - row->work) * 1000 / (uint64_t)j->passed_ms : 0;
    if (more > UINT32_MAX) more = UINT32_MAX;
    row->rate = j->passed_ms > 0
                    ? (uint32_t)(((SMOOTHING - 1) * (uint64_t)row->rate + more) / SMOOTHING)
                    : 0;
    row->owned = true;
    row->work = from->work;
    row->events = 0;
    row->read_at = 0;
}

// Reads the journal of one shard of the member, so that it can prove its identity.
static void learn(struct sample_job *j, const char *node)
{
    struct membership *m = j->m;
    for (size_t i = 0; i < j->len; i++) {
        char queue[QUEUE_NAME_MAX + 1];
        (void)pthread_mutex_lock(&m->lock);
        const struct member_id *owner = cluster_owner(m->cluster, &j->rows[i].shard);
        bool its = owner && strcmp(owner->name, node) == 0 &&
                   queues_name(m, j->rows[i].shard.queue, queue);
        (void)pthread_mutex_unlock(&m->lock);
        if (!its) continue;
        owner_learn_shard(m->engine, queue, j->rows[i].shard.shard);
        return;
    }
}

static void ask(struct sample_job *j, const struct coord_member *member)
{
    struct engine *e = j->m->engine;
    struct sluice_shard *rows = NULL;
    size_t len = 0;
    bool self = strcmp(member->name, j->m->self.name) == 0;
    bool answered = self || owner_ask_shards(e, member->url, member->name, false, &rows, &len);
    if (self) rows = cluster_own_shards(e, false, &len);
    if (!answered) {
        learn(j, member->name);
        answered = owner_ask_shards(e, member->url, member->name, false, &rows, &len);
    }
    j->complete = j->complete && answered;
    for (size_t i = 0; i < len; i++)
        take(j, &rows[i]);
    memory_free(rows);
}

static void ask_all(struct sample_job *j)
{
    struct membership *m = j->m;
    (void)pthread_mutex_lock(&m->lock);
    size_t len = m->last.members_len;
    CLEANUP(memory_let_go) struct coord_member *members = memory_zeroed(len + 1, sizeof *members);
    if (len > 0) memcpy(members, m->last.members, len * sizeof *members);
    (void)pthread_mutex_unlock(&m->lock);
    j->complete = true;
    for (size_t i = 0; i < len; i++)
        ask(j, &members[i]);
}

static void count_waiting(void *ctx, const struct machine *machine, int64_t now)
{
    struct machine_publish_lag u;
    *(uint64_t *)ctx = machine_unpublished(machine, now, &u) ? u.events : 0;
}

static void read_journal(struct membership *m, struct shard_sample *row, const char *queue)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *r;
    row->read_at = clock_boot_ms();
    if (queue_get(m->engine, queue, &q, NULL) || row->shard.shard >= q->row.birth.shards) return;
    if (queue_synced_runner(q, row->shard.shard, &r, NULL)) return;
    runner_inspect(r, count_waiting, &row->events);
}

// A shard whose events wait needs an owner, which publishes them.
static void tell_owner(struct membership *m, const struct shard_sample *row, const char *queue)
{
    struct member_id to = {0};
    (void)pthread_mutex_lock(&m->lock);
    const struct member_id *owner = cluster_owner(m->cluster, &row->shard);
    if (owner) to = *owner;
    (void)pthread_mutex_unlock(&m->lock);
    if (strcmp(to.name, m->self.name) == 0)
        membership_hint(m, queue, row->shard.shard, "");
    else if (to.name[0])
        hint_send(m, &to, queue, row->shard.shard, false);
}

static void look_at_unowned(struct sample_job *j, uint32_t *unowned, uint64_t *events)
{
    uint32_t reads = 0;
    for (size_t i = 0; j->complete && i < j->len; i++) {
        struct shard_sample *row = &j->rows[i];
        char queue[QUEUE_NAME_MAX + 1];
        if (row->owned) continue;
        row->rate = 0;
        ++*unowned;
        (void)pthread_mutex_lock(&j->m->lock);
        bool known = queues_name(j->m, row->shard.queue, queue);
        (void)pthread_mutex_unlock(&j->m->lock);
        int64_t wait = row->events > 0 ? SAMPLE_MS / 2 : READ_IDLE_MS;
        bool due = row->read_at == 0 || clock_boot_ms() - row->read_at >= wait;
        if (known && due && reads++ < READS_MAX) read_journal(j->m, row, queue);
        if (known && row->events > 0) tell_owner(j->m, row, queue);
        *events += row->events;
    }
}

static void tell_traffic(struct sample_job *j)
{
    struct shard_key *keys = memory_zeroed(j->len + 1, sizeof *keys);
    CLEANUP(memory_let_go) uint32_t *traffic = memory_zeroed(j->len + 1, sizeof *traffic);
    for (size_t i = 0; i < j->len; i++) {
        keys[i] = j->rows[i].shard;
        traffic[i] = j->rows[i].rate;
    }
    struct cluster_event e = {
        .kind = CLUSTER_TRAFFIC, .shards = keys, .shards_len = j->len, .traffic = traffic};
    membership_step(j->m, &e);
    memory_free(keys);
}

static void job_run(struct pool_job *pool_job)
{
    struct sample_job *j = (struct sample_job *)pool_job;
    struct membership *m = j->m;
    uint32_t unowned = 0;
    uint64_t events = 0;
    begin(j);
    ask_all(j);
    look_at_unowned(j, &unowned, &events);
    memory_free(m->samples);
    m->samples = j->rows;
    m->samples_len = j->len;
    if (j->complete) tell_traffic(j);
    (void)pthread_mutex_lock(&m->lock);
    if (j->complete) m->unowned = unowned, m->unowned_events = events;
    m->sample_at = clock_boot_ms() + SAMPLE_MS;
    m->sampling = false;
    (void)pthread_mutex_unlock(&m->lock);
    memory_free(j);
}

void sample_run(struct membership *m)
{
    struct sample_job *j = NEW(struct sample_job);
    *j = (struct sample_job){.job = {.run = job_run}, .m = m};
    (void)pthread_mutex_lock(&m->lock);
    bool runs = !m->left && !pool_share_run(m->share, 8, &j->job);
    if (!runs) {
        m->sample_at = clock_boot_ms() + SAMPLE_MS;
        m->sampling = false;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (!runs) memory_free(j);
}
