// SPDX-License-Identifier: Apache-2.0
// In each shard, the ops of one attempt of a send are committed in the order of its messages. A
// shard that is full reads its tail before it commits an op, and other ops may overtake that one.
// So in a queue that can be full, only ops that are submitted one at a time keep their order. Nor
// do ops that are asked of an owner: requests overtake each other, and one can be late.
#include "check.h"

void check_send_made(struct world *w, const struct sim_op *op)
{
    struct sim_call *c = call_at(w, op->call);
    bool overtakes = c->at_once > 1 && w->life->config.capacity < SIM_CAPACITY_MAX;
    if (op->attempt != c->attempt || overtakes || c->went_away) return;
    if (op->index < c->last_op[op->shard])
        findings_add(&w->findings, "order", "call %u: op %u is committed after op %u", op->call,
                     op->index, c->last_op[op->shard] - 1);
    c->last_op[op->shard] = op->index + 1;
}
