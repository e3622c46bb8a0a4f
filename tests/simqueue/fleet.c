// SPDX-License-Identifier: Apache-2.0
// Registered workers, in every third world. They join, beat and leave; they die and begin again as
// another process under the same name, stall while they beat, and state a capacity that is not
// true. An operator pauses, drains and evicts them. Messages may require labels. All of it is drawn
// from numbers of its own, so that the other worlds are what they were.
#include "life.h"

#include "base/hash.h"
#include "queue/codec/labels.h"

#include <string.h>

// Bit 1: kind=a, bit 2: zone=z. All texts are canonical.
static const char *const texts[4] = {"", "kind=a", "zone=z", "kind=a,zone=z"};
#define LABELS_ALL 3

uint32_t fleet_labels(struct bytes text)
{
    for (uint32_t i = 0; i < 4; i++)
        if (bytes_equal(text, bytes_str(texts[i]))) return i;
    return 0;
}

enum dispatch fleet_dispatch(struct world *w, bool strict)
{
    uint64_t r = rng_below(&w->life->fleet_rng, 100);
    if (strict && r < 55) return DISPATCH_AFFINITY;
    return r < 85 ? DISPATCH_TICKETS : DISPATCH_AUTO;
}

void fleet_draw(struct world *w)
{
    struct life *life = w->life;
    struct rng *rng = &life->fleet_rng;
    rng_init(rng, hash64_mix(w->seed, 0x666c656574));
    life->fleet = !life_is_crowd(w) && rng_chance(rng, 3333) && !life->raises;
    if (!life->fleet) return;
    for (uint32_t i = 0; i < life->lanes_len; i++) {
        struct lane *l = &life->lanes[i];
        enum dispatch d = fleet_dispatch(w, l->birth.ordering_guarantee);
        l->birth.dispatch =
            d == DISPATCH_AUTO ? DISPATCH_TICKETS : d; // so it begins with version 4
        if (l->shard > 0) l->birth.dispatch = l[-1].birth.dispatch;
    }
    for (uint32_t i = 0; i < life->thread_pool_len; i++) {
        struct sim_worker *c = &life->workers[i];
        if (i < life->lanes_len || rng_chance(rng, 6000))
            c->capacity = (uint32_t)rng_range(rng, 1, HELD_LOCKS_MAX);
        c->instance = rng_next(rng) | 1;
        c->labels = (uint32_t)rng_below(rng, 4);
        c->states = rng_chance(rng, 2000) ? 50 : c->capacity; // a false capacity
    }
    if (w->mix.own_every_ms == 0) w->mix.own_every_ms = 5 * SECOND;
    life->dispatch_every_ms = rng_range(rng, 50, SECOND);
    life_after(w, rng_range(rng, SECOND, 10 * SECOND), LIFE_EVICT, 0, 0);
}

const char *fleet_requires(struct world *w)
{
    struct rng *rng = &w->life->fleet_rng;
    if (!w->life->fleet) return "";
    return rng_chance(rng, 2500) ? texts[rng_range(rng, 1, 3)] : "";
}

void fleet_submit(struct world *w, uint32_t lane, const struct worker_change *rows, uint32_t count)
{
    struct buf *out = &w->life->scratch;
    CLEANUP(buf_done) struct buf encoded;
    buf_init(&encoded, 1 << 12);
    for (uint32_t i = 0; i < count; i++)
        worker_change_put(&encoded, &rows[i]);
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_WORKERS, lane);
    struct sim_call *a = &w->life->calls[ask];
    buf_clear(out);
    workers_encode(out, &(struct op_workers){a->request, count, buf_bytes(&encoded)});
    a->payload = bytes_copy(buf_bytes(out));
    (void)sim_call_submit(w, ask);
}

// A process that ended is begun again: what it held is lost with it.
static void begin_again(struct world *w, struct sim_worker *c)
{
    worker_forget(&w->life->lanes[c->lane], c);
    c->instance = rng_next(&w->life->fleet_rng) | 1;
    trace_line(&w->trace, w->now, "%s begins again", c->name);
}

void fleet_beat(struct world *w, uint32_t worker)
{
    struct rng *rng = &w->life->fleet_rng;
    struct sim_worker *c = &w->life->workers[worker];
    bool drains = life_drains(w);
    life_after(w, rng_range(rng, SECOND, 4 * SECOND), LIFE_BEAT, worker, 0);
    if (w->now < c->gone_until && !drains) return;
    uint64_t r = drains ? 99 : rng_below(rng, 100);
    if (r < 3) c->gone_until = w->now + rng_range(rng, SECOND, 25 * SECOND);
    if (r >= 3 && r < 8) c->stalls_until = w->now + rng_range(rng, SECOND, 15 * SECOND);
    const struct fleet_row *row = &w->life->lanes[c->lane].reference.fleet[worker];
    bool out = row->live && row->mode == WORKER_IS_EVICTED && row->instance == c->instance;
    if (!c->busy && ((r >= 8 && r < 12) || (out && rng_chance(rng, 3000)))) begin_again(w, c);
    struct worker_change rows[2] = {{.act = WORKER_JOIN,
                                     .name = bytes_str(c->name),
                                     .instance = c->instance,
                                     .capacity = drains ? c->capacity : c->states,
                                     .ttl_ms = rng_range(rng, 5 * SECOND, 12 * SECOND),
                                     .flags = rng_chance(rng, 7000) ? WORKER_MAILBOX : 0,
                                     .labels = bytes_str(texts[drains ? LABELS_ALL : c->labels])},
                                    {.act = WORKER_RESUME, .name = bytes_str(c->name)}};
    if (r >= 12 && r < 55) // it does not know whether its row is there
        rows[0] = (struct worker_change){WORKER_BEAT, bytes_str(c->name), c->instance, 0, 0,
                                         0,           BYTES_EMPTY};
    if (r >= 55 && r < 58)
        rows[0] = (struct worker_change){WORKER_LEAVE, bytes_str(c->name), c->instance, 0, 0, 0,
                                         BYTES_EMPTY};
    if (r >= 58 && r < 62) c->labels = (uint32_t)rng_below(rng, 4);
    fleet_submit(w, c->lane, rows, drains ? 2 : 1);
}

// A dispatch through any handle: only the owner's counts.
static void stray_dispatch(struct world *w)
{
    struct rng *rng = &w->life->fleet_rng;
    struct buf *out = &w->life->scratch;
    uint32_t ask =
        sim_call_new(w, SIM_CALL_OP, OP_DISPATCH, (uint32_t)rng_below(rng, w->life->lanes_len));
    struct sim_call *a = &w->life->calls[ask];
    struct op_dispatch op = {.request = a->request, .max = (uint32_t)rng_range(rng, 1, 4)};
    uint64_t seed = rng_next(rng);
    memcpy(op.seed, &seed, sizeof seed);
    buf_clear(out);
    dispatch_encode(out, &op);
    a->payload = bytes_copy(buf_bytes(out));
    (void)sim_call_submit(w, ask);
}

void fleet_operate(struct world *w)
{
    struct rng *rng = &w->life->fleet_rng;
    if (life_drains(w)) return;
    life_after(w, rng_range(rng, SECOND, 8 * SECOND), LIFE_EVICT, 0, 0);
    if (rng_chance(rng, 3000)) {
        stray_dispatch(w);
        return;
    }
    const struct sim_worker *c = &w->life->workers[rng_below(rng, w->life->thread_pool_len)];
    static const enum worker_act acts[] = {WORKER_PAUSE, WORKER_RESUME, WORKER_RESUME,
                                           WORKER_DRAIN, WORKER_EVICT,  WORKER_EVICT};
    struct worker_change row = {.act = acts[rng_below(rng, 6)], .name = bytes_str(c->name)};
    fleet_submit(w, c->lane, &row, 1);
}
