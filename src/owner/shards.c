// SPDX-License-Identifier: Apache-2.0
#include "owner/shards.h"

#include "owner/inside.h"
#include "owner/link.h"
#include "remote/shards.h"

#include <stdio.h>

#define ASK_MS        1000
#define ASK_SYNCED_MS 3000
#define ANSWER_MAX    ((size_t)64 << 20) // PLACEMENT_SHARDS_MAX rows, with room

bool owner_ask_shards(struct sluice *s, const char *url, const char *node, bool synced,
                      struct sluice_shard **out, size_t *len)
{
    CLEANUP(http_call_done) struct http_call call;
    struct peer_identity to;
    char target[JOURNAL_ADDRESS_MAX + 32] = "";
    bool good = owner_member_identity(s, url, node, &to);
    *out = NULL;
    *len = 0;
    (void)snprintf(target, sizeof target, "%s/v1/node/shards?synced=%d", to.url, synced);
    http_call_init(&call, "GET", target);
    call.timeout_ms = synced ? ASK_SYNCED_MS : ASK_MS;
    call.body_max = ANSWER_MAX;
    return good && link_ask(s->links, &to, NULL, true, &call) &&
           remote_shards_read(&call, out, len);
}

void owner_learn_shard(struct sluice *s, const char *queue, uint32_t shard)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *d;
    struct runner_owner o;
    struct owner_name name;
    if (queue_get(s, queue, &q, NULL) || shard >= q->row.birth.shards) return;
    if (queue_synced_runner(q, shard, &d, NULL)) return;
    runner_owner(d, &o);
    if (o.epoch != 0 && owner_parse(o.address, &name)) peers_learn(s->peers, &name);
}
