// SPDX-License-Identifier: Apache-2.0
#include "queues/owner_shards.h"

#include "base/memory.h"
#include "os/parallel.h"
#include "peer/link.h"
#include "protocol/shards_answer.h"
#include "queues/owner_inside.h"

#include <stdio.h>

#define ASK_MS        1000
#define ASK_SYNCED_MS 3000
#define ANSWER_MAX    ((size_t)64 << 20) // PLACEMENT_SHARDS_MAX rows, with room

bool owner_ask_shards(struct engine *e, const char *url, const char *node, bool synced,
                      struct sluice_shard **out, size_t *len)
{
    struct peer_identity to;
    char target[JOURNAL_ADDRESS_MAX + 32] = "";
    bool good = owner_member_identity(e, url, node, &to);
    *out = NULL;
    *len = 0;
    (void)snprintf(target, sizeof target, "%s/v1/node/shards?synced=%d", to.url, synced);
    LOCAL(http_call, call, "GET", target);
    call.timeout_ms = synced ? ASK_SYNCED_MS : ASK_MS;
    call.body_max = ANSWER_MAX;
    return good && link_ask(e->links, &to, NULL, true, &call) && call.status == 200 &&
           shards_read(buf_bytes(&call.body_in), out, len);
}

void owner_learn_shard(struct engine *e, const char *queue, uint32_t shard)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *r;
    struct runner_owner o;
    struct owner_name name;
    if (queue_get(e, queue, &q, NULL) || shard >= q->row.birth.shards) return;
    if (queue_synced_runner(q, shard, &r, NULL)) return;
    runner_owner(r, &o);
    if (o.epoch != 0 && owner_parse(o.address, &name)) peers_learn(e->peers, &name);
}

void shard_count_messages(void *ctx, const struct machine *m, int64_t now)
{
    struct sluice_shard *row = ctx;
    struct machine_stats stats;
    machine_stats(m, now, &stats);
    row->counted = 1;
    row->ready = stats.counts[STATE_READY];
    row->open = stats.counts[STATE_LOCKED];
    row->refused = stats.refused;
    row->work = machine_slot(m) + stats.sent;
}

struct own_round {
    struct open_queue **queues; // by row
    struct sluice_shard *rows;
    bool synced;
};

// What another owner does is not known here: the journal was read some time ago. The own journals
// can have entries, too, that another process wrote directly.
static void count_own(void *ctx, size_t i)
{
    const struct own_round *r = ctx;
    struct sluice_shard *row = &r->rows[i];
    struct shard_runner *runner = runner_if_open(r->queues[i], row->shard);
    struct runner_owner o = {.mine = false};
    if (runner) runner_owner(runner, &o);
    if (!o.mine || (r->synced && runner_sync(runner))) return;
    runner_owner(runner, &o);
    if (!o.mine) return;
    runner_inspect(runner, shard_count_messages, row);
    row->epoch = o.epoch;
}

struct sluice_shard *cluster_own_shards(struct engine *e, bool synced, size_t *len)
{
    struct open_queue **queues;
    size_t queues_len = queues_hold(e, &queues), all = 0;
    for (size_t i = 0; i < queues_len; i++)
        all += queues[i]->row.birth.shards;
    struct own_round r = {.synced = synced};
    r.queues = memory_zeroed(all + 1, sizeof *r.queues);
    r.rows = memory_zeroed(all + 1, sizeof *r.rows);
    all = 0;
    for (size_t i = 0; i < queues_len; i++)
        for (uint32_t k = 0; k < queues[i]->row.birth.shards; k++) {
            r.queues[all] = queues[i];
            (void)snprintf(r.rows[all].queue, sizeof r.rows[all].queue, "%s", queues[i]->row.name);
            r.rows[all++].shard = k;
        }
    parallel_for(e->parallel, 0, all, count_own, &r);
    *len = 0;
    for (size_t i = 0; i < all; i++)
        if (r.rows[i].counted) r.rows[(*len)++] = r.rows[i];
    memory_free(r.queues);
    queues_let_go(queues, queues_len);
    return r.rows;
}
