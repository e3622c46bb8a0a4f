// SPDX-License-Identifier: Apache-2.0
// The entry point of every coordination call: checks what holds for all backends, then calls the
// backend. The rules of renewals and checks are here, so that they are the same everywhere.
#include "coord/coord.h"

#include "base/array.h"
#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "coord/backend.h"
#include "coord/record.h"
#include "net/digest.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 5000

static_assert(COORD_INCARNATION_LEN == SHA256_LEN, "an incarnation is known by its SHA-256");

void coord_incarnation(struct bytes secret, uint8_t out[static COORD_INCARNATION_LEN])
{
    sha256(secret, out);
}

void coord_answer_init(struct coord_answer *a)
{
    *a = (struct coord_answer){0};
}

void coord_answer_done(struct coord_answer *a)
{
    memory_free(a->members);
    *a = (struct coord_answer){0};
}

static void answer_clear(struct coord_answer *a)
{
    struct coord_answer kept = {.members = a->members, .members_cap = a->members_cap};
    *a = kept;
}

enum err coord_refuse(struct coord_answer *a, enum err e, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(a->why, sizeof a->why, format, values);
    va_end(values);
    return e;
}

enum err coord_refuse_session(struct coord_answer *a)
{
    return coord_refuse(a, ERR_NOT_FOUND, "this node has no session: it must join first");
}

enum err coord_refuse_lapsed(struct coord_answer *a, int64_t lease_ms)
{
    return coord_refuse(a, ERR_NOT_FOUND,
                        "the session was not renewed within its lease of %lld ms: join again",
                        (long long)lease_ms);
}

enum err coord_refuse_name(struct coord_answer *a, const char *name, const char *url)
{
    return coord_refuse(a, ERR_CONFLICT,
                        "the name \"%.80s\" is in use by a live node at %.90s: give this node "
                        "another name, or stop that one",
                        name, url[0] ? url : "an unknown URL");
}

enum err coord_refuse_held(struct coord_answer *a, const char *what)
{
    bool leader = strcmp(what, COORD_LEADER) == 0;
    return coord_refuse(a, ERR_CONFLICT, "%s%.90s is held by node \"%.80s\" with token %llu",
                        leader ? "the leader's lease" : "shard ",
                        leader ? "" : what + sizeof COORD_OWN - 1, a->holder.name,
                        (unsigned long long)a->holder.token);
}

enum err coord_refuse_replaced(struct coord_answer *a, const char *name)
{
    return coord_refuse(a, ERR_FENCED,
                        "another incarnation of node \"%.80s\" has joined: this one must stop",
                        name);
}

struct coord_member *coord_answer_member(struct coord_answer *a)
{
    struct coord_member *m = ARRAY_ADD(a->members, a->members_len, a->members_cap);
    *m = (struct coord_member){0};
    return m;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct coord_member *)a)->name, ((const struct coord_member *)b)->name);
}

void coord_answer_sort(struct coord_answer *a)
{
    if (a->members_len > 1) qsort(a->members, a->members_len, sizeof *a->members, by_name);
}

void coord_holder_of(struct coord_holder *h, const struct coord_member *m, uint64_t token)
{
    *h = (struct coord_holder){.token = token};
    memcpy(h->name, m->name, sizeof h->name);
    memcpy(h->incarnation, m->incarnation, sizeof h->incarnation);
}

bool coord_same_node(const struct coord_holder *h, const struct coord_member *m)
{
    return strcmp(h->name, m->name) == 0 &&
           memcmp(h->incarnation, m->incarnation, sizeof h->incarnation) == 0;
}

uint64_t coord_token_after(uint64_t last, uint64_t after)
{
    uint64_t top = last > after ? last : after;
    return top < COORD_TOKEN_MAX ? top + 1 : 0;
}

enum err coord_refuse_id(char why[static COORD_WHY_MAX], const char *service,
                         const uint8_t found[static COORD_ID_LEN],
                         const uint8_t want[static COORD_ID_LEN])
{
    char has[2 * COORD_ID_LEN + 1], wants[2 * COORD_ID_LEN + 1];
    *digits_put_hex(has, found, COORD_ID_LEN) = 0;
    *digits_put_hex(wants, want, COORD_ID_LEN) = 0;
    (void)snprintf(why, COORD_WHY_MAX,
                   "%s has the coordination id %s, not %s: it is another service; correct the URL, "
                   "or let an operator switch the journals to it",
                   service, has, wants);
    return ERR_CORRUPT;
}

void coord_init(struct coord *c, const struct coord_ops *ops, const struct coord_config *config,
                int64_t lease_ms)
{
    c->ops = ops;
    c->lease_ms = config && config->lease_ms ? config->lease_ms : lease_ms;
    c->timeout_ms = config && config->timeout_ms ? config->timeout_ms
                    : c->lease_ms < TIMEOUT_MS   ? c->lease_ms
                                                 : TIMEOUT_MS;
    CHECK(c->lease_ms > 0);
    (void)pthread_mutex_init(&c->self_lock, NULL);
    fork_guard_init(&c->guard);
}

static enum err check_handle(struct coord *c, struct coord_answer *a)
{
    answer_clear(a);
    if (fork_guard_same(&c->guard)) return ERR_OK;
    return coord_refuse(a, ERR_INVALID,
                        "this coordination handle was opened before a fork; open it again");
}

static enum err check_token(uint64_t token, struct coord_answer *a)
{
    if (token > 0 && token <= COORD_TOKEN_MAX) return ERR_OK;
    return coord_refuse(a, ERR_INVALID, "%llu is no token: tokens count from 1 to %llu",
                        (unsigned long long)token, (unsigned long long)COORD_TOKEN_MAX);
}

static enum err check_shard(struct coord *c, const char *shard, char what[COORD_WHAT_MAX],
                            struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    if (e) return e;
    if (!coord_shard_is_good(shard))
        return coord_refuse(a, ERR_INVALID,
                            "shard \"%.80s\" is not parts of A-Z a-z 0-9 _ . - joined by / (at "
                            "most %d bytes)",
                            shard, COORD_SHARD_MAX);
    (void)snprintf(what, COORD_WHAT_MAX, COORD_OWN "%s", shard);
    return ERR_OK;
}

enum err coord_join(struct coord *c, const struct coord_member *member, bool replace,
                    struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    if (e) return e;
    if (!member_is_good(member, a->why)) return ERR_INVALID;
    (void)pthread_mutex_lock(&c->self_lock);
    c->self = *member;
    (void)pthread_mutex_unlock(&c->self_lock);
    return c->ops->join(c, member, replace, a);
}

enum err coord_heartbeat(struct coord *c, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    return e ? e : c->ops->heartbeat(c, a);
}

enum err coord_leave(struct coord *c, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    return e ? e : c->ops->leave(c, a);
}

enum err coord_list(struct coord *c, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    return e ? e : c->ops->list(c, a);
}

void coord_answers(struct coord *c, const struct coord_member *member, bool answers)
{
    if (c->ops->answers && fork_guard_same(&c->guard)) c->ops->answers(c, member, answers);
}

enum err coord_watch(struct coord *c, uint64_t at, int64_t wait_ms, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    if (e) return e;
    return at == 0 ? c->ops->list(c, a) : c->ops->watch(c, at, wait_ms > 0 ? wait_ms : 0, a);
}

static enum err claim(struct coord *c, const char *what, uint64_t after, struct coord_answer *a)
{
    if (after >= COORD_TOKEN_MAX) return check_token(UINT64_MAX, a);
    enum err e = c->ops->claim(c, what, after, a);
    CHECK(e != ERR_OK || a->token > after);
    return e;
}

// A read that a newer token explains is FENCED. `token` was held if no newer one was given.
static enum err validate(struct coord *c, const char *what, uint64_t token, struct coord_answer *a)
{
    enum err e = c->ops->read(c, what, a);
    if (e && e != ERR_NOT_FOUND) return e;
    uint64_t last = e ? a->token : a->holder.token;
    if (last > token)
        return coord_refuse(a, ERR_FENCED, "token %llu was given after token %llu",
                            (unsigned long long)last, (unsigned long long)token);
    if (e || last < token)
        return coord_refuse(a, ERR_NOT_FOUND, "token %llu is held by no live node",
                            (unsigned long long)token);
    a->token = token;
    return ERR_OK;
}

static enum err renew(struct coord *c, const char *what, uint64_t token, struct coord_answer *a)
{
    enum err e = check_token(token, a);
    if (!e) e = c->ops->heartbeat(c, a);
    if (!e) e = validate(c, what, token, a);
    if (e) return e;
    (void)pthread_mutex_lock(&c->self_lock);
    bool own = coord_same_node(&a->holder, &c->self);
    (void)pthread_mutex_unlock(&c->self_lock);
    if (own) return ERR_OK;
    return coord_refuse(a, ERR_FENCED, "token %llu is held by node \"%.80s\"",
                        (unsigned long long)token, a->holder.name);
}

static enum err release(struct coord *c, const char *what, uint64_t token, struct coord_answer *a)
{
    enum err e = check_token(token, a);
    if (!e) e = c->ops->release(c, what, token, a);
    if (e == ERR_UNKNOWN) c->release_doubt = true;
    return e;
}

enum err coord_lead(struct coord *c, uint64_t after, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    return e ? e : claim(c, COORD_LEADER, after, a);
}

enum err coord_lead_renew(struct coord *c, uint64_t epoch, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    return e ? e : renew(c, COORD_LEADER, epoch, a);
}

enum err coord_resign(struct coord *c, uint64_t epoch, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    return e ? e : release(c, COORD_LEADER, epoch, a);
}

enum err coord_observe(struct coord *c, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    if (!e) e = c->ops->read(c, COORD_LEADER, a);
    if (e == ERR_NOT_FOUND) return coord_refuse(a, e, "no node holds the leader's lease");
    return e;
}

enum err coord_claim(struct coord *c, const char *shard, uint64_t after, struct coord_answer *a)
{
    char what[COORD_WHAT_MAX];
    enum err e = check_shard(c, shard, what, a);
    return e ? e : claim(c, what, after, a);
}

enum err coord_claim_renew(struct coord *c, const char *shard, uint64_t token,
                           struct coord_answer *a)
{
    char what[COORD_WHAT_MAX];
    enum err e = check_shard(c, shard, what, a);
    return e ? e : renew(c, what, token, a);
}

enum err coord_release(struct coord *c, const char *shard, uint64_t token, struct coord_answer *a)
{
    char what[COORD_WHAT_MAX];
    enum err e = check_shard(c, shard, what, a);
    return e ? e : release(c, what, token, a);
}

enum err coord_validate(struct coord *c, const char *shard, uint64_t token, struct coord_answer *a)
{
    char what[COORD_WHAT_MAX];
    enum err e = check_shard(c, shard, what, a);
    if (!e) e = check_token(token, a);
    return e ? e : validate(c, what, token, a);
}

int coord_plan_compare(uint64_t epoch, uint64_t number, uint64_t epoch2, uint64_t number2)
{
    if (epoch != epoch2) return epoch < epoch2 ? -1 : 1;
    return number < number2 ? -1 : number > number2;
}

enum err coord_refuse_plan(struct coord_answer *a, uint64_t epoch, uint64_t number)
{
    return coord_refuse(a, ERR_CONFLICT,
                        "the service has plan %llu of epoch %llu, which is not older than plan "
                        "%llu of epoch %llu",
                        (unsigned long long)a->plan_number, (unsigned long long)a->plan_epoch,
                        (unsigned long long)number, (unsigned long long)epoch);
}

enum err coord_plan_write(struct coord *c, uint64_t epoch, uint64_t number, struct bytes plan,
                          struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    if (!e) e = check_token(epoch, a);
    if (!e) e = check_token(number, a);
    if (e) return e;
    if (plan.len > COORD_PLAN_MAX)
        return coord_refuse(a, ERR_LIMIT, "a plan of %zu bytes is longer than %zu", plan.len,
                            COORD_PLAN_MAX);
    return c->ops->plan_write(c, epoch, number, plan, a);
}

enum err coord_plan_read(struct coord *c, struct buf *out, struct coord_answer *a)
{
    enum err e = check_handle(c, a);
    buf_clear(out);
    if (!e) e = c->ops->plan_read(c, out, a);
    if (!e && out->bad)
        return coord_refuse(a, ERR_CORRUPT, "the plan in the service is longer than a plan");
    if (e == ERR_NOT_FOUND) return coord_refuse(a, e, "no leader has published a plan");
    return e;
}

void coord_id(const struct coord *c, uint8_t out[static COORD_ID_LEN])
{
    memcpy(out, c->id, COORD_ID_LEN);
}

int64_t coord_lease_ms(const struct coord *c)
{
    return c->lease_ms;
}

const char *coord_backend(const struct coord *c)
{
    return c->ops->name;
}

void coord_free(struct coord *c)
{
    if (!c) return;
    fork_guard_done(&c->guard);
    (void)pthread_mutex_destroy(&c->self_lock);
    c->ops->free(c);
}
