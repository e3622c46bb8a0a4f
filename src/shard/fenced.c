// SPDX-License-Identifier: Apache-2.0
// Ops of an owner who was replaced. What it proposed in its old epoch is void as a whole: it had no
// effect and never will have one. A caller's op is an intent that the fold judges, so it is
// proposed once more, directly, as the same op with the same request id. What the owner had decided
// by itself is not: that is the next owner's to decide. Whoever is fenced a second time hears
// "not applied", never "fenced", which is a word about locks.
#include "base/check.h"
#include "shard/inside.h"

bool fenced_again(struct shard *s, struct call *c, struct journal_reply *r)
{
    bool is_void = r->err == ERR_FENCED && r->body.len == 0; // the fold's own refusals have a body
    if (!is_void || c->kind == 0 || c->silent) return false;
    if (c->fenced) {
        r->err = ERR_UNAVAILABLE;
        return false;
    }
    c->fenced = true;
    if (c->receives) {
        CHECK(s->offered >= c->max);
        s->offered -= c->max;
    }
    call_commit(s, c);
    return true;
}
