// SPDX-License-Identifier: Apache-2.0
// POST /v1/cluster/used: another node says that a shard is used. It needs no token, because it can
// only make this node claim what the plan gives it anyway.
#include "member/member.h"
#include "server/inside.h"

void handle_cluster_used(struct exchange *x)
{
    struct cluster_used_in in = {0};
    if (!read_request(x, &in)) return;
    if (x->server->member)
        membership_hint(x->server->member, in.queue ? in.queue : "", (uint32_t)in.shard,
                        in.node ? in.node : "");
    struct json *o = json_new();
    json_text(o, "status", "alive");
    answer_json(x, 200, o);
}
