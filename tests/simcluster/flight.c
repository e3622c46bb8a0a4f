// SPDX-License-Identifier: Apache-2.0
// Requests on their way: each has a fate, and the node gets one answer.
#include "base/check.h"
#include "base/memory.h"
#include "world.h"

#include <inttypes.h>
#include <string.h>

static uint32_t add(struct world *w, struct node *n, enum flight_kind kind)
{
    uint32_t number = 0;
    while (number < w->flights_len && w->flights[number]->used)
        number++;
    if (number == w->flights_len) {
        w->flights = memory_resize(w->flights, (w->flights_len + 1) * sizeof *w->flights);
        w->flights[w->flights_len++] = NEW(struct flight);
    }
    struct flight *f = w->flights[number];
    size_t head = offsetof(struct flight, members);
    memset(f, 0, head); // not the large list
    f->members_len = 0;
    f->plan = NULL;
    f->used = true;
    f->kind = kind;
    f->node = n->index;
    f->life = n->life;
    f->sent = w->now;
    f->pending = 1;
    return number;
}

struct flight *flight_new(struct world *w, struct node *n, enum flight_kind kind)
{
    uint32_t number = add(w, n, kind);
    world_at(w, w->now, EVENT_PERFORM, number, 1); // 1: draw its fate first
    return w->flights[number];
}

void flights_watch(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct node *n = &w->nodes[i];
        bool reached = n->up && w->now >= n->cut_until && w->now >= w->outage_until;
        if (!reached || rng_chance(&w->rng, 5000)) continue;
        uint32_t number = add(w, n, FLIGHT_WATCH);
        (void)service_list(w, w->flights[number]);
        int64_t delay = rng_range(&w->rng, 1, 2 * w->mix.latency_ms);
        if (!w->healed && rng_chance(&w->rng, 3000)) delay = rng_range(&w->rng, 1, w->mix.late_ms);
        world_at(w, w->now + delay, EVENT_ANSWER, number, 0);
    }
}

static bool is_read(const struct flight *f)
{
    return f->kind == FLIGHT_REQUEST && f->effect.kind == CLUSTER_LIST;
}

static bool to_service(const struct flight *f)
{
    return f->kind == FLIGHT_REQUEST && f->effect.kind <= CLUSTER_RELEASE;
}

static void later(struct world *w, uint32_t number, int64_t after, enum event_kind kind)
{
    w->flights[number]->pending++;
    world_at(w, w->now + (after > 0 ? after : 0), kind, number, 0);
}

static void fail(struct world *w, uint32_t number, enum err err, int64_t after)
{
    struct flight *f = w->flights[number];
    f->blind = true;
    f->err = is_read(f) ? ERR_UNAVAILABLE : err;
    later(w, number, after, EVENT_ANSWER);
}

static bool is_cut(const struct world *w, const struct flight *f)
{
    const struct node *n = &w->nodes[f->node];
    if (to_service(f)) return w->now < w->outage_until || w->now < n->cut_until;
    return w->now < n->store_cut_until;
}

static int64_t hop(struct world *w)
{
    return rng_range(&w->rng, 1, 2 * w->mix.latency_ms);
}

static void draw_hand_over(struct world *w, uint32_t number)
{
    later(w, number, rng_range(&w->rng, 0, w->mix.lease_ms / 2), EVENT_ANSWER);
    w->flights[number]->blind = true;
    w->flights[number]->err = ERR_OK;
}

// Draws what becomes of a request that leaves now.
void flight_send(struct world *w, uint32_t number)
{
    struct flight *f = w->flights[number];
    const struct mix *m = &w->mix;
    if (f->kind == FLIGHT_REQUEST && f->effect.kind == CLUSTER_HAND_OVER) {
        draw_hand_over(w, number);
        return;
    }
    int64_t luck = rng_range(&w->rng, 0, 9999);
    if (is_cut(w, f)) { // refused at once, lost, or only the reply is lost
        if (luck < 4000) {
            fail(w, number, ERR_UNAVAILABLE, hop(w));
            return;
        }
        if (luck >= 8000) later(w, number, hop(w), EVENT_PERFORM);
        fail(w, number, ERR_UNKNOWN, m->timeout_ms);
        return;
    }
    if (w->healed || w->now < w->calm_until) luck = 9999;
    if ((luck -= m->lost_request) < 0) {
        fail(w, number, ERR_UNKNOWN, m->timeout_ms);
    } else if ((luck -= m->lost_reply) < 0) {
        later(w, number, hop(w), EVENT_PERFORM);
        fail(w, number, ERR_UNKNOWN, m->timeout_ms);
    } else if ((luck -= m->late) < 0) {
        later(w, number, rng_range(&w->rng, m->timeout_ms, m->late_ms), EVENT_PERFORM);
        fail(w, number, ERR_UNKNOWN, m->timeout_ms);
    } else if ((luck -= m->unavailable) < 0) {
        fail(w, number, ERR_UNAVAILABLE, hop(w));
    } else if ((luck -= m->slow) < 0) {
        later(w, number, rng_range(&w->rng, 1, m->late_ms / 2), EVENT_PERFORM);
    } else {
        later(w, number, hop(w), EVENT_PERFORM);
    }
}

static void drop(struct world *w, uint32_t number)
{
    struct flight *f = w->flights[number];
    CHECK(f->pending > 0);
    if (--f->pending > 0) return;
    if (f->kind == FLIGHT_COMMIT) w->ops[f->op].open = false;
    if (f->plan && f->effect.kind == CLUSTER_PUBLISH && f->kind == FLIGHT_REQUEST) {
        plan_done(f->plan);
        memory_free(f->plan);
    }
    f->used = false;
}

void flight_perform(struct world *w, uint32_t number)
{
    struct flight *f = w->flights[number];
    enum err blind = f->err;
    if (to_service(f))
        service_perform(w, f);
    else
        log_perform(w, f);
    bool again = !to_service(f) && f->kind == FLIGHT_REQUEST && f->read && !f->performed;
    f->performed = f->performed || f->read;
    if (f->blind) f->err = blind;
    if (again)
        later(w, number, hop(w), EVENT_PERFORM);
    else if (!f->blind)
        later(w, number, hop(w), EVENT_ANSWER);
    drop(w, number);
}

static void answer_commit(struct world *w, struct node *n, struct flight *f)
{
    n->commits[f->shard]--;
    if (f->err != ERR_FENCED) return;
    struct cluster_event e = {
        .kind = CLUSTER_FENCED, .shard = w->keys[f->shard], .number = f->number};
    node_step(w, n, &e);
}

static void saw_plan(struct node *n, struct plan *plan)
{
    if (plan && (!n->plan || plan_compare_version(n->plan, plan) < 0)) n->plan = plan;
}

static struct cluster_view view_of(const struct flight *f)
{
    return (struct cluster_view){.at = f->at,
                                 .members = f->members,
                                 .members_len = f->members_len,
                                 .leader = f->leader,
                                 .plan = f->plan};
}

static void answer_watch(struct world *w, struct node *n, struct flight *f)
{
    struct cluster_event e = {.kind = CLUSTER_VIEW, .err = ERR_OK, .view = view_of(f)};
    if (n->viewed_at == TIME_UNKNOWN) n->viewed_at = w->now;
    saw_plan(n, f->plan);
    node_step(w, n, &e);
}

static void answer_request(struct world *w, struct node *n, struct flight *f)
{
    struct cluster_event e = {
        .kind = CLUSTER_ANSWER, .request = f->effect.request, .err = f->err, .number = f->number};
    bool definite = f->err != ERR_UNKNOWN && f->err != ERR_UNAVAILABLE;
    if (to_service(f) && definite && f->sent > n->contact_at) n->contact_at = f->sent;
    if (f->effect.kind == CLUSTER_CLAIM && f->err == ERR_UNKNOWN) n->doubt[f->shard] = true;
    if (f->effect.kind == CLUSTER_LIST) {
        e.kind = CLUSTER_VIEW;
        e.view = view_of(f);
        if (f->err == ERR_OK && n->viewed_at == TIME_UNKNOWN) n->viewed_at = w->now;
        if (f->err == ERR_OK) saw_plan(n, f->plan);
    }
    if (f->effect.kind == CLUSTER_PUBLISH && f->err == ERR_OK)
        saw_plan(n, service_plan(w, f->plan));
    node_step(w, n, &e);
}

void flight_answer(struct world *w, uint32_t number)
{
    struct flight *f = w->flights[number];
    struct node *n = &w->nodes[f->node];
    bool same = n->up && n->life == f->life;
    if (same && !node_acts(w, n)) { // it hears of it when it goes on
        world_at(w, n->paused_until, EVENT_ANSWER, number, 0);
        return;
    }
    if (same && f->kind == FLIGHT_WATCH) answer_watch(w, n, f);
    if (same && f->kind == FLIGHT_COMMIT) answer_commit(w, n, f);
    if (same && f->kind == FLIGHT_REQUEST) answer_request(w, n, f);
    drop(w, number);
}

void flights_done(struct world *w)
{
    for (size_t i = 0; i < w->flights_len; i++) {
        struct flight *f = w->flights[i];
        if (f->used && f->kind == FLIGHT_REQUEST && f->effect.kind == CLUSTER_PUBLISH) {
            plan_done(f->plan);
            memory_free(f->plan);
        }
        memory_free(f);
    }
    memory_free(w->flights);
}
