// SPDX-License-Identifier: Apache-2.0
// Workers: they ask for messages, work for a while and say what came of it; or vanish, oversleep
// their deadline and say it all the same, or try again with tokens they should have forgotten.
#include "base/check.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>

void worker_soon(struct world *w, uint32_t worker, int64_t delay)
{
    life_after(w, delay, LIFE_WORK, worker, ++w->life->workers[worker].turn);
}

// Healthy workers ask again at once; others take their time.
static void rest(struct world *w, uint32_t worker)
{
    int64_t most = life_drains(w) ? 200 : 2 * SECOND;
    uint32_t lane = w->life->workers[worker].lane;
    if (w->life->lanes[lane].reference.deleted_slot != 0)
        most = MINUTE; // there is little to ask for
    worker_soon(w, worker, rng_range(&w->rng, 1, most));
}

void worker_wants(struct world *w, struct sim_call *a)
{
    a->max = 1 + (uint32_t)rng_below(&w->rng, HELD_LOCKS_MAX);
    bool short_lease = !life_is_crowd(w) && rng_chance(&w->rng, 2000);
    a->lease_ms = short_lease ? rng_range(&w->rng, 500, 10 * SECOND) : 0;
    a->wait_ms = rng_chance(&w->rng, 3000) ? 0 : rng_range(&w->rng, 1, 6 * SECOND);
}

static void ask_for_work(struct world *w, uint32_t worker)
{
    struct sim_worker *c = &w->life->workers[worker];
    if (!life_drains(w) && rng_chance(&w->rng, w->life->joins / 4)) {
        joined_ask(w, worker, OP_ACK); // of what it should have forgotten
        return;
    }
    bool takes = c->capacity > 0 && rng_chance(&w->rng, 2000);
    uint32_t ask = takes ? sim_call_new(w, SIM_CALL_OP, OP_TAKE, c->lane)
                         : sim_call_new(w, SIM_CALL_RECEIVE, OP_CLAIM, c->lane);
    w->life->calls[ask].worker = worker;
    worker_wants(w, &w->life->calls[ask]);
    c->busy = true;
    (void)sim_call_submit(w, ask);
}

void worker_forget(struct lane *l, struct sim_worker *c)
{
    for (uint32_t i = 0; i < c->held_len; i++)
        l->stale[l->stale_len++ % STALE_MAX] = c->held[i].ref;
    c->held_len = 0;
}

static void say(struct world *w, uint32_t worker, uint16_t kind)
{
    struct sim_worker *c = &w->life->workers[worker];
    bool ends = kind == OP_ACK || kind == OP_FAIL || kind == OP_RELEASE;
    uint32_t chance = kind == OP_ACK ? w->life->joins : w->life->joins / 8;
    if (ends && rng_chance(&w->rng, chance)) {
        joined_ask(w, worker, kind);
        return;
    }
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, kind, c->lane);
    struct sim_call *a = &w->life->calls[ask];
    a->worker = worker;
    a->refs_len = c->held_len;
    for (uint32_t i = 0; i < c->held_len; i++)
        a->refs[i] = c->held[i].ref;
    if (kind == OP_RENEW) a->wait_ms = rng_chance(&w->rng, 5000) ? rng_range(&w->rng, 1, 8000) : 0;
    if (kind == OP_RELEASE)
        a->wait_ms = rng_chance(&w->rng, 5000) ? rng_range(&w->rng, 1, 4000) : 0;
    c->busy = true;
    (void)sim_call_submit(w, ask);
}

static void vanish(struct world *w, uint32_t worker)
{
    struct sim_worker *c = &w->life->workers[worker];
    worker_forget(&w->life->lanes[c->lane], c);
    c->gone_until = w->now + rng_range(&w->rng, SECOND, 20 * SECOND);
    trace_line(&w->trace, w->now, "%s vanishes", c->name);
    rest(w, worker);
}

static void oversleep(struct world *w, uint32_t worker)
{
    struct sim_worker *c = &w->life->workers[worker];
    int64_t late = c->held[0].deadline - w->now + rng_range(&w->rng, -500, 4 * SECOND);
    trace_line(&w->trace, w->now, "%s oversleeps", c->name);
    worker_soon(w, worker, late > 0 ? late : 1);
}

static void finish(struct world *w, uint32_t worker)
{
    uint64_t r = life_drains(w) ? 0 : rng_below(&w->rng, 100);
    if (r < 44) {
        say(w, worker, OP_ACK);
    } else if (r < 70) {
        say(w, worker, OP_FAIL);
    } else if (r < 76) {
        say(w, worker, OP_RELEASE);
    } else if (r < 88) {
        say(w, worker, OP_RENEW);
    } else if (r < 94) {
        vanish(w, worker);
    } else {
        oversleep(w, worker);
    }
}

void worker_work(struct world *w, uint32_t worker, uint32_t turn)
{
    struct sim_worker *c = &w->life->workers[worker];
    if (turn != c->turn || c->busy) return;
    if (life_is_crowd(w) && (c->won || c->lost)) return; // it knows
    int64_t away = c->gone_until > c->stalls_until ? c->gone_until : c->stalls_until;
    if (w->now < away && !life_drains(w)) {
        worker_soon(w, worker, away - w->now);
    } else if (c->held_len > 0) {
        signals_listen(w, worker);
        if (!w->findings.broken) finish(w, worker);
    } else {
        ask_for_work(w, worker);
    }
}

static void hold(struct world *w, uint32_t worker, const struct grant *g)
{
    struct sim_worker *c = &w->life->workers[worker];
    CHECK(c->held_len < HELD_LOCKS_MAX);
    check_hold(w, &w->life->lanes[c->lane], worker, g);
    c->held[c->held_len++] =
        (struct held_lock){.ref = {.seq = g->seq, .token = g->token}, .deadline = g->deadline};
}

static void fetch_again(struct world *w, const struct sim_worker *c, const struct grant *g)
{
    uint32_t ask = sim_call_new(w, SIM_CALL_FETCH, 0, c->lane);
    w->life->calls[ask].place = g->place;
    w->life->calls[ask].place_seq = g->seq;
    int64_t late = rng_chance(&w->rng, 5000) ? 150 * SECOND : 40 * SECOND;
    world_at(w, w->now + rng_range(&w->rng, 1, late), EVENT_RETRY, ask, 0);
}

void worker_given(struct world *w, uint32_t worker, const struct shard_reply *r)
{
    struct sim_worker *c = &w->life->workers[worker];
    for (size_t i = 0; i < r->deliveries_len; i++) {
        const struct delivery *d = &r->deliveries[i];
        check_body(w, &w->life->lanes[c->lane], d->grant.seq, d);
        hold(w, worker, &d->grant);
        if (rng_chance(&w->rng, 1000)) fetch_again(w, c, &d->grant);
    }
    if (r->deliveries_len > 0) {
        c->won = true;
    } else {
        c->lost = true;
    }
}

static void take_heard(struct world *w, uint32_t worker, const struct shard_reply *r)
{
    struct result result;
    struct grant g;
    if (result_open(r->body, OP_TAKE, &result) || result.reason != REASON_NONE) return;
    while (grant_next(&result, &g)) {
        hold(w, worker, &g);
        fetch_again(w, &w->life->workers[worker], &g);
    }
}

static void renew_heard(struct world *w, struct sim_worker *c, const struct shard_reply *r)
{
    struct reference *g = &w->life->lanes[c->lane].reference;
    struct result result;
    struct outcome_row row;
    if (result_open(r->body, OP_RENEW, &result)) return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->held_len && outcome_row_next(&result, &row); i++) {
        if (row.reason != REASON_NONE) continue;
        struct held_lock held = {.ref = c->held[i].ref, .deadline = row.until};
        for (size_t k = 0; k < g->holds_len; k++)
            if (hash128_equal(g->holds[k].token, held.ref.token)) g->holds[k].deadline = row.until;
        c->held[kept++] = held;
    }
    c->held_len = kept;
}

// r is NULL when it gave up: it does not know what became of its words.
void worker_heard(struct world *w, uint32_t ask, const struct shard_reply *r, bool final)
{
    struct sim_call *a = &w->life->calls[ask];
    uint32_t worker = a->worker;
    struct sim_worker *c = &w->life->workers[worker];
    if (!final || !c->busy) return;
    c->busy = false;
    if (a->what == SIM_CALL_RECEIVE) {
        if (r) worker_given(w, worker, r);
    } else if (a->kind == OP_TAKE) {
        if (r) take_heard(w, worker, r);
    } else if (a->kind == OP_RENEW && r) {
        renew_heard(w, c, r);
    } else {
        worker_forget(&w->life->lanes[c->lane], c);
    }
    worker_goes_on(w, worker);
}

void worker_goes_on(struct world *w, uint32_t worker)
{
    const struct sim_worker *c = &w->life->workers[worker];
    if (c->held_len > 0) {
        int64_t most = life_drains(w) ? 50 : w->life->work_ms;
        worker_soon(w, worker, rng_range(&w->rng, 1, most));
    } else {
        rest(w, worker);
    }
}

void worker_beat(struct world *w, uint32_t worker)
{
    struct sim_worker *c = &w->life->workers[worker];
    if (w->life->fleet) {
        fleet_beat(w, worker);
        return;
    }
    life_after(w, rng_range(&w->rng, SECOND, 4 * SECOND), LIFE_BEAT, worker, 0);
    if (w->now < c->gone_until && !life_drains(w)) return;
    uint64_t r = life_drains(w) ? 99 : rng_below(&w->rng, 100);
    if (r < 3) c->gone_until = w->now + rng_range(&w->rng, SECOND, 20 * SECOND);
    if (r >= 3 && r < 8) c->stalls_until = w->now + rng_range(&w->rng, SECOND, 15 * SECOND);
    struct worker_change row = {.act = WORKER_JOIN,
                                .name = bytes_str(c->name),
                                .instance = worker + 1,
                                .capacity = c->capacity,
                                .ttl_ms = rng_range(&w->rng, 5 * SECOND, 10 * SECOND),
                                .flags = WORKER_MAILBOX};
    if (r == 8)
        row =
            (struct worker_change){.act = WORKER_LEAVE, .name = row.name, .instance = row.instance};
    fleet_submit(w, c->lane, &row, 1);
}

void worker_stale(struct world *w)
{
    static const uint16_t kinds[] = {OP_RENEW, OP_ACK, OP_FAIL, OP_RELEASE};
    struct lane *l = lane_pick(w);
    if (l->stale_len == 0 || w->now < w->quiet_until) return;
    uint32_t kept = l->stale_len < STALE_MAX ? l->stale_len : STALE_MAX;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, kinds[rng_below(&w->rng, 4)], l->index);
    struct sim_call *a = &w->life->calls[ask];
    a->refs[0] = l->stale[rng_below(&w->rng, kept)];
    a->refs_len = 1;
    if (rng_chance(&w->rng, 1500)) a->refs[0].token.lo ^= 1;
    a->foreign = rng_chance(&w->rng, 500);
    struct lock_ref ref = a->refs[0];
    (void)sim_call_submit(w, ask);
    if (!w->findings.broken) signals_stale(w, l, ref);
}
