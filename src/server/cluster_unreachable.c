// SPDX-License-Identifier: Apache-2.0
// GET /v1/cluster/unreachable: the members that do not answer this node. The leader asks for it. It
// is not told, because a leader that is cut off could not be.
#include "member/member.h"
#include "server/inside.h"

static void add_name(void *ctx, const char *name)
{
    json_list_text(ctx, name);
}

void handle_cluster_unreachable(struct exchange *x)
{
    if (!read_request(x, NULL)) return;
    struct json *o = json_new(), *names = json_list_new();
    if (x->server->member) membership_unreached(x->server->member, add_name, names);
    json_take(o, "members", names);
    answer_json(x, 200, o);
}
