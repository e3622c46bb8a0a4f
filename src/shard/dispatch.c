// SPDX-License-Identifier: Apache-2.0
// The owner's dispatch: it proposes that the fold grants ready messages, as tickets, to registered
// workers. The fold chooses the messages and the workers. A receive that waits here comes first: it
// is served in the commit of the send, and a ticket needs a second one.
#include "base/check.h"
#include "shard/inside.h"

#include <string.h>

static void commit(struct shard *s, uint16_t kind, struct buf *payload)
{
    struct call *c = call_new(s, 0, TIME_NEVER);
    CHECK(!payload->bad);
    CHECK(kind == OP_PUBLISH || kind == OP_DISPATCH);
    CHECK(journal_is_owner(s->journal)); // only its entries grant tickets
    c->silent = true;
    c->kind = kind;
    c->payload = buf_take(payload);
    call_commit(s, c);
}

// Before RULES_WORKERS: the owner chooses the workers.
static bool publish(struct shard *s, const uint8_t seed[16])
{
    if (!machine_claimable(s->machine, shard_now(s), BYTES_EMPTY)) return false;
    CLEANUP(buf_done) struct buf rows;
    buf_init(&rows, JOURNAL_OP_MAX);
    struct op_publish op = {0};
    struct worker_view w;
    for (size_t i = 0; op.count < PUBLISH_ROWS_MAX && machine_worker(s->machine, i, &w); i++) {
        if (w.capacity <= w.open || w.expires_at <= shard_now(s)) continue;
        ticket_row_put(&rows, &(struct ticket_row){.worker = w.name, .max = w.capacity - w.open});
        op.count++;
    }
    if (op.count == 0) return false;
    CHECK(!rows.bad);
    CHECK(op.count <= PUBLISH_ROWS_MAX);
    op.rows = buf_bytes(&rows);
    memcpy(op.seed, seed, sizeof op.seed);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, JOURNAL_OP_MAX);
    publish_encode(&payload, &op);
    commit(s, OP_PUBLISH, &payload);
    return true;
}

// How many ready messages receives leave. A receive that waits takes what is ready. A claim that is
// under way takes its most. If there are always claims under way, the rest is dispatched all the
// same: otherwise workers that live on tickets would starve.
static uint64_t left_by_receives(const struct shard *s)
{
    for (const struct call *c = s->calls[CALL_WAITING].head; c; c = c->next) {
        CHECK(c->receives && c->state == CALL_WAITING);
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
    if (s->dispatching || !journal_is_owner(s->journal)) return false;
    if (machine_rules(s->machine) < RULES_WORKERS) return false;
    return machine_dispatchable(s->machine) && left_by_receives(s) > 0;
}

static bool dispatch(struct shard *s, const uint8_t seed[16])
{
    if (!shard_may_dispatch(s)) return false;
    CHECK(!s->dispatching); // one at a time
    uint64_t left = left_by_receives(s);
    struct op_dispatch op = {.max = left < DISPATCH_MAX ? (uint32_t)left : DISPATCH_MAX};
    memcpy(op.seed, seed, sizeof op.seed);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, JOURNAL_OP_MAX);
    dispatch_encode(&payload, &op);
    s->dispatching = true;
    commit(s, OP_DISPATCH, &payload);
    return true;
}

bool tickets_publish(struct shard *s, const uint8_t seed[16])
{
    if (!journal_is_owner(s->journal)) return false;
    return machine_rules(s->machine) >= RULES_WORKERS ? dispatch(s, seed) : publish(s, seed);
}

void dispatch_result(struct shard *s, const struct call *c)
{
    CHECK(c->silent && c->kind == OP_DISPATCH && s->dispatching);
    s->dispatching = false;
}
