// SPDX-License-Identifier: Apache-2.0
// The owner's dispatch: it proposes that the fold grants ready messages, as tickets, to registered
// workers. The fold chooses the messages and the workers. A receive that waits here comes first: it
// is served in the commit of the send, and a ticket needs a second one.
#include "base/check.h"
#include "shard/inside.h"

#include <string.h>

// How many ready messages receives leave. A receive that waits takes what is ready. A claim that is
// under way takes its most. If there are always claims under way, the rest is dispatched all the
// same: otherwise workers that live on tickets would starve.
static uint64_t left_by_receives(const struct shard *s)
{
    for (const struct shard_call *c = s->calls[SHARD_CALL_WAITING].head; c; c = c->next) {
        CHECK(c->receives && c->state == SHARD_CALL_WAITING);
        if (machine_claimable(s->machine, shard_now(s), c->worker)) return 0;
    }
    if (s->offered == 0) return DISPATCH_MAX;
    struct machine_stats stats;
    machine_stats(s->machine, shard_now(s), &stats);
    uint64_t ready = stats.counts[STATE_READY];
    return ready > s->offered ? ready - s->offered : 0;
}

bool shard_may_dispatch(const struct shard *s)
{
    if (s->dispatching || !s->view->is_owner) return false;
    return machine_dispatchable(s->machine) && left_by_receives(s) > 0;
}

bool tickets_dispatch(struct shard *s, const uint8_t seed[16])
{
    if (!shard_may_dispatch(s)) return false;
    CHECK(!s->dispatching); // one at a time
    uint64_t left = left_by_receives(s);
    struct op_dispatch op = {.max = left < DISPATCH_MAX ? (uint32_t)left : DISPATCH_MAX};
    memcpy(op.seed, seed, sizeof op.seed);
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    dispatch_encode(&payload, &op);
    CHECK(!payload.bad);
    struct shard_call *c = call_new(s, 0, TIME_NEVER);
    c->silent = true;
    c->kind = OP_DISPATCH;
    c->payload = buf_take(&payload);
    s->dispatching = true;
    call_commit(s, c);
    return true;
}

void dispatch_result(struct shard *s, const struct shard_call *c)
{
    CHECK(c->silent && c->kind == OP_DISPATCH && s->dispatching);
    s->dispatching = false;
}
