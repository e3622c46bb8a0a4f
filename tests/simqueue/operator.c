// SPDX-License-Identifier: Apache-2.0
// Operators: pause and resume, purge, redrive, configure, delete. When the faults cease they resume
// every queue (again, if a pause was still on its way) and redrive what is dead.
#include "base/check.h"
#include "life.h"

static void submit(struct world *w, uint32_t ask, struct buf *payload)
{
    w->life->calls[ask].payload = bytes_copy(buf_bytes(payload));
    (void)sim_call_submit(w, ask);
}

static void plain(struct world *w, struct lane *l, uint16_t kind)
{
    struct buf *out = &w->life->scratch;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, kind, l->index);
    buf_clear(out);
    plain_encode(out, &(struct op_plain){.request = w->life->calls[ask].request});
    submit(w, ask, out);
}

static void purge(struct world *w, struct lane *l, bool dead)
{
    struct buf *out = &w->life->scratch;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_PURGE, l->index);
    buf_clear(out);
    purge_encode(out, &(struct op_purge){.request = w->life->calls[ask].request, .dead = dead});
    submit(w, ask, out);
}

static void redrive(struct world *w, struct lane *l, uint32_t max)
{
    struct buf *out = &w->life->scratch;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_REDRIVE, l->index);
    buf_clear(out);
    redrive_encode(out, &(struct op_redrive){.request = w->life->calls[ask].request, .max = max});
    submit(w, ask, out);
}

static void configure(struct world *w, struct lane *l)
{
    struct buf *out = &w->life->scratch;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_CONFIGURE, l->index);
    struct op_configure op = {.request = w->life->calls[ask].request,
                              .expected = rng_chance(&w->rng, 1000) ? 1 : 0};
    draw_config(w, l, &op.config);
    // The order changes only while nothing is held, so mostly it is left as it is.
    if (rng_chance(&w->rng, 8000))
        op.config.ordering_guarantee = l->reference.config.ordering_guarantee;
    if (rng_chance(&w->life->consume, 6000)) op.config.consume = CONSUME_OWNER;
    op.config.retention_ms = draw_retention(w);
    if (w->life->fleet) op.config.dispatch = fleet_dispatch(w, op.config.ordering_guarantee);
    workflows_configure(w, l, &op.config);
    signals_configure(w, &op.config);
    buf_clear(out);
    configure_encode(out, &op);
    submit(w, ask, out);
}

// Through any handle: one of the older program refuses it.
void operator_raise(struct world *w, struct lane *l)
{
    struct buf *out = &w->life->scratch;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_RAISE, l->index);
    buf_clear(out);
    uint16_t to = RULES_KNOWN + 1;
    raise_encode(out, &(struct op_raise){.request = w->life->calls[ask].request, .to = to});
    submit(w, ask, out);
}

void operator_operate(struct world *w)
{
    struct lane *l = lane_pick(w);
    switch (rng_below(&w->rng, 8)) {
    case 0:
    case 1:
        plain(w, l, OP_PAUSE);
        life_after(w, rng_range(&w->rng, 500, 10 * SECOND), LIFE_RESUME, l->index, 0);
        break;
    case 2:
        purge(w, l, false);
        break;
    case 3:
        purge(w, l, true);
        break;
    case 4:
    case 5:
        redrive(w, l, (uint32_t)rng_range(&w->rng, 1, 5));
        break;
    default:
        configure(w, l);
        break;
    }
}

// Every shard, one after the other; in every third world by two processes at once.
void operator_delete(struct world *w, uint32_t queue)
{
    uint32_t times = rng_chance(&w->rng, 3000) ? 2 : 1;
    for (uint32_t i = 0; i < w->life->lanes_len; i++) {
        struct lane *l = &w->life->lanes[i];
        for (uint32_t k = 0; l->queue == queue && k < times && !w->findings.broken; k++)
            plain(w, l, OP_DELETE);
    }
}

void operator_resume(struct world *w, struct lane *l)
{
    plain(w, l, OP_RESUME);
}

void operator_heal(struct world *w)
{
    for (uint32_t i = 0; i < w->life->lanes_len && !w->findings.broken; i++) {
        plain(w, &w->life->lanes[i], OP_RESUME);
        redrive(w, &w->life->lanes[i], 1000);
    }
}
