// SPDX-License-Identifier: Apache-2.0
// Ops of an owner that was replaced. The entry that it proposed in its old epoch is void as a
// whole: it has no effect and never will. A caller's op is a request that the fold checks, so it is
// proposed once more, directly: the same op with the same request id. An op that the owner decided
// on by itself is not proposed again; the next owner decides. An op that is fenced twice is
// answered "not applied". It is never answered "fenced", which is about locks. If only the owner
// may hand out messages, a claim is not proposed again either: the caller asks the next owner.
#include "base/check.h"
#include "shard/inside.h"

bool fenced_again(struct shard *s, struct shard_call *c, struct journal_reply *r)
{
    bool is_void = r->err == ERR_FENCED && r->body.len == 0; // the fold's own refusals have a body
    if (!is_void || c->kind == 0 || c->silent) return false;
    if (c->fenced) {
        r->err = ERR_UNAVAILABLE;
        return false;
    }
    CHECK(c->state == SHARD_CALL_JOURNAL);
    c->fenced = true;
    if (c->receives) {
        CHECK(s->offered >= c->max);
        s->offered -= c->max;
    }
    if (call_certain_refusal(s, c) == REASON_NOT_OWNER) {
        c->state = SHARD_CALL_SYNCING; // it is in no list
        receive_try(s, c);
    } else {
        call_commit(s, c);
    }
    return true;
}
