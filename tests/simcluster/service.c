// SPDX-License-Identifier: Apache-2.0
// The coordination service and the journals. A session carries the name, the lead and the claims of
// a node. The journals accept an own with a higher token, and entries of the current epoch.
#include "world.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"

#include <inttypes.h>
#include <string.h>

void service_init(struct service *s)
{
    *s = (struct service){.leader = NONE};
    for (uint32_t i = 0; i < SHARDS_MAX; i++)
        s->claims[i].life = NONE;
}

void service_done(struct service *s)
{
    for (size_t i = 0; i < s->plans_len; i++) {
        plan_done(s->plans[i]);
        memory_free(s->plans[i]);
    }
    memory_free(s->plans);
}

bool session_lives(const struct world *w, uint32_t life)
{
    if (life == NONE) return false;
    const struct session *s = &w->service.sessions[life];
    return s->used && s->alive && w->now < s->expires;
}

static void end_session(struct session *s)
{
    s->alive = false;
}

static enum err join(struct world *w, struct flight *f)
{
    struct session *me = &w->service.sessions[f->life];
    for (uint32_t i = 0; i < w->lives; i++) {
        struct session *other = &w->service.sessions[i];
        if (i == f->life || !other->used || other->node != f->node) continue;
        if (i > f->life) return ERR_CONFLICT; // a request of a process that is gone
        end_session(other);
        other->replaced = true;
    }
    if (!session_lives(w, f->life)) {
        *me = (struct session){.id = w->nodes[f->node].id, .node = f->node, .used = true};
        me->id.incarnation[0] = (uint8_t)(f->life + 1);
        me->joined = ++w->service.joins;
        me->alive = true;
    }
    me->beat_at = w->now;
    me->expires = w->now + w->mix.lease_ms;
    me->leaving = f->effect.leaving;
    return ERR_OK;
}

static enum err heartbeat(struct world *w, struct flight *f)
{
    struct session *me = &w->service.sessions[f->life];
    if (me->replaced) return ERR_FENCED;
    if (!session_lives(w, f->life)) return ERR_NOT_FOUND;
    me->beat_at = w->now;
    me->expires = w->now + w->mix.lease_ms;
    me->leaving = f->effect.leaving;
    return ERR_OK;
}

enum err service_list(struct world *w, struct flight *f)
{
    f->members_len = 0;
    f->at = (uint64_t)w->now;
    for (uint32_t i = 0; i < w->lives; i++) {
        const struct session *s = &w->service.sessions[i];
        bool kept = w->mix.lists_dead && s->alive && w->now < s->expires + 8 * w->mix.lease_ms;
        if (!s->used || (!session_lives(w, i) && !kept)) continue;
        struct interval beat = {.lo = s->beat_at - rng_range(&w->rng, 0, 20),
                                .hi = s->beat_at + rng_range(&w->rng, 0, 20)};
        f->members[f->members_len++] = (struct member_report){.id = s->id,
                                                              .joined = s->joined,
                                                              .capacity = node_capacity(s->node),
                                                              .beat = beat,
                                                              .leaving = s->leaving};
    }
    const struct service *s = &w->service;
    f->leader = (struct leader_report){.held = session_lives(w, s->leader), .epoch = s->epoch};
    if (s->leader != NONE) f->leader.id = s->sessions[s->leader].id;
    f->plan = s->plans_len > 0 ? s->plans[s->plans_len - 1] : NULL;
    return ERR_OK;
}

static enum err lead(struct world *w, struct flight *f)
{
    struct service *s = &w->service;
    if (!session_lives(w, f->life)) return ERR_NOT_FOUND;
    if (s->leader != f->life && session_lives(w, s->leader)) return ERR_CONFLICT;
    bool mine = s->leader == f->life && s->epoch > f->effect.number;
    if (!mine) {
        uint64_t above = f->effect.number > s->epoch ? f->effect.number : s->epoch;
        s->epoch = MUTANT(LEAD_EPOCH_STAYS) && above > 0 ? above : above + 1;
        s->leader = f->life;
        check_granted(w, f->life, s->epoch);
    }
    f->number = s->epoch;
    return ERR_OK;
}

static enum err renew(struct world *w, struct flight *f)
{
    struct service *s = &w->service;
    if (!session_lives(w, f->life)) return ERR_NOT_FOUND;
    if (s->leader != f->life || s->epoch != f->effect.number) return ERR_FENCED;
    s->sessions[f->life].expires = w->now + w->mix.lease_ms;
    s->sessions[f->life].beat_at = w->now;
    return ERR_OK;
}

static enum err resign(struct world *w, struct flight *f)
{
    struct service *s = &w->service;
    if (s->leader != f->life || s->epoch != f->effect.number) return ERR_FENCED;
    s->leader = NONE;
    return ERR_OK;
}

static enum err publish(struct world *w, struct flight *f)
{
    struct service *s = &w->service;
    struct plan *last = s->plans_len > 0 ? s->plans[s->plans_len - 1] : NULL;
    if (last && plan_compare_version(f->plan, last) <= 0) return ERR_CONFLICT;
    if (s->plans_len == s->plans_cap) {
        s->plans_cap = s->plans_cap ? s->plans_cap * 2 : 16;
        s->plans = memory_resize(s->plans, s->plans_cap * sizeof *s->plans);
    }
    struct plan *copy = NEW(struct plan);
    plan_init(copy);
    plan_copy(copy, f->plan);
    s->plans[s->plans_len++] = copy;
    s->planned_at = w->now;
    w->moves += copy->moves;
    w->plans++;
    flights_watch(w);
    return ERR_OK;
}

struct plan *service_plan(const struct world *w, const struct plan *version)
{
    for (size_t i = w->service.plans_len; i-- > 0;) {
        if (plan_compare_version(w->service.plans[i], version) == 0) return w->service.plans[i];
    }
    return NULL;
}

static enum err claim(struct world *w, struct flight *f)
{
    struct claim *c = &w->service.claims[f->shard];
    if (!session_lives(w, f->life)) return ERR_NOT_FOUND;
    if (c->life != f->life && session_lives(w, c->life)) {
        uint32_t holder = w->service.sessions[c->life].node;
        if (rng_chance(&w->rng, 7000))
            world_at(w, w->now + w->mix.latency_ms, EVENT_HINT_IN_WAY, holder, f->shard);
        return ERR_CONFLICT;
    }
    if (c->life != f->life || c->token <= f->effect.number) {
        c->token = (c->token > f->effect.number ? c->token : f->effect.number) + 1;
        c->life = f->life;
    }
    f->number = c->token;
    return ERR_OK;
}

static enum err release(struct world *w, struct flight *f)
{
    struct claim *c = &w->service.claims[f->shard];
    if (!session_lives(w, f->life)) return ERR_NOT_FOUND;
    if (c->life != f->life || c->token != f->effect.number) return ERR_FENCED;
    c->life = NONE;
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        if (rng_chance(&w->rng, 5000))
            world_at(w, w->now + w->mix.latency_ms, EVENT_HINT_FREE, i, f->shard);
    }
    return ERR_OK;
}

static enum err leave(struct world *w, struct flight *f)
{
    if (!session_lives(w, f->life)) return ERR_NOT_FOUND;
    end_session(&w->service.sessions[f->life]);
    return ERR_OK;
}

void service_perform(struct world *w, struct flight *f)
{
    static enum err (*const calls[])(struct world *, struct flight *) = {
        [CLUSTER_JOIN] = join,         [CLUSTER_HEARTBEAT] = heartbeat, [CLUSTER_LEAVE] = leave,
        [CLUSTER_LIST] = service_list, [CLUSTER_LEAD] = lead,           [CLUSTER_RENEW] = renew,
        [CLUSTER_RESIGN] = resign,     [CLUSTER_PUBLISH] = publish,     [CLUSTER_CLAIM] = claim,
        [CLUSTER_RELEASE] = release,
    };
    CHECK((size_t)f->effect.kind < sizeof calls / sizeof *calls);
    f->err = calls[f->effect.kind](w, f);
    trace_line(&w->trace, w->now, "service: %s of n%u.%u s%u: %s %" PRIu64,
               effect_name(f->effect.kind), f->node, f->life, f->shard == NONE ? 0 : f->shard,
               err_name(f->err), f->number);
}

static enum err own(struct world *w, struct flight *f)
{
    struct register_log *log = &w->logs[f->shard];
    bool mine = log->epoch > 0 && log->owners[log->epoch] == f->life;
    f->number = log->epoch;
    if (mine && log->token == f->effect.number) return ERR_OK;
    if (f->expected != log->epoch) return ERR_CONFLICT;
    if (f->effect.number <= log->token && !MUTANT(OWN_TOKEN_OFF)) {
        f->number = log->token;
        return ERR_FENCED;
    }
    check_own(w, f->shard, f->life, f->effect.number);
    CHECK(log->epoch + 1 < EPOCHS_MAX);
    log->token = f->effect.number;
    log->owners[++log->epoch] = f->life;
    f->number = log->epoch;
    w->owns++;
    return ERR_OK;
}

static enum err commit(struct world *w, struct flight *f)
{
    struct register_log *log = &w->logs[f->shard];
    bool stale = f->effect.number != log->epoch && !MUTANT(OWNER_EPOCH_OFF);
    f->number = log->epoch;
    if (stale) {
        w->fenced++;
        return ERR_FENCED;
    }
    check_commit(w, f->shard, f->life);
    w->ops[f->op].applied = true;
    log->commits++;
    return ERR_OK;
}

// An own reads the epoch first. Another own may come between.
void log_perform(struct world *w, struct flight *f)
{
    if (f->kind == FLIGHT_REQUEST && !f->read) {
        f->read = true;
        f->expected = w->logs[f->shard].epoch;
        return;
    }
    f->err = f->kind == FLIGHT_COMMIT ? commit(w, f) : own(w, f);
    trace_line(&w->trace, w->now, "journal s%u: %s of n%u.%u with %" PRIu64 ": %s, epoch %" PRIu64,
               f->shard, f->kind == FLIGHT_COMMIT ? "entry" : "own", f->node, f->life,
               f->effect.number, err_name(f->err), w->logs[f->shard].epoch);
}
