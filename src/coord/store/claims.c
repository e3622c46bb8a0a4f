// SPDX-License-Identifier: Apache-2.0
// Claims on the store: numbered objects, each created once. The highest one counts while its
// holder's session is alive.
#include "coord/store/inside.h"
#include "coord/store_coord.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"

#include <stdio.h>
#include <string.h>

// The newest object of a claim.
struct newest_claim {
    uint64_t token; // 0: there is none
    bool released;
    struct holder_record h; // zeros: it is released, or cannot be read
    uint64_t lower[16];     // tokens under it
    size_t lower_len;
};

static void claim_key(char key[STORE_KEY_MAX + 1], const char *what, uint64_t token)
{
    (void)snprintf(key, STORE_KEY_MAX + 1, COORD_KEYS "%s/%020llu", what,
                   (unsigned long long)token);
}

static void top_row(struct newest_claim *t, const char *rest, uint64_t size)
{
    uint64_t token = 0;
    if (!number_parse(rest, &token)) return; // the shard "a/b" below the shard "a"
    if (t->token && t->lower_len < sizeof t->lower / sizeof *t->lower)
        t->lower[t->lower_len++] = t->token;
    t->token = token;
    t->released = size == 0;
}

static enum err top_list(struct store_coord *s, const char *what, struct newest_claim *t,
                         struct coord_answer *a)
{
    char prefix[STORE_KEY_MAX + 1], after[STORE_KEY_MAX + 1] = "";
    enum err e = ERR_OK;
    *t = (struct newest_claim){0};
    LOCAL(store_answer, sa);
    (void)snprintf(prefix, sizeof prefix, COORD_KEYS "%s/", what);
    for (bool more = true; more && !e;) {
        e = store_list(s->store, prefix, after[0] ? after : NULL, STORE_LIST_MAX, &sa);
        cost_add(&a->cost, &sa.cost);
        for (size_t i = 0; i < sa.rows_len && !e; i++)
            top_row(t, store_row_key(&sa, i) + strlen(prefix), sa.rows[i].size);
        more = !e && sa.more && sa.rows_len > 0;
        if (more) (void)snprintf(after, sizeof after, "%s", store_row_key(&sa, sa.rows_len - 1));
    }
    if (e) e = store_said(a, &sa, e);
    return e;
}

static enum err top_read(struct store_coord *s, const char *what, struct newest_claim *t,
                         struct coord_answer *a)
{
    char key[STORE_KEY_MAX + 1];
    enum err e = top_list(s, what, t, a);
    if (e || t->token == 0 || t->released) return e;
    LOCAL(store_answer, sa);
    claim_key(key, what, t->token);
    e = store_get(s->store, key, 0, COORD_RECORD_MAX, &sa);
    cost_add(&a->cost, &sa.cost);
    if (e && e != ERR_NOT_FOUND) {
        e = store_said(a, &sa, e);
    } else {
        t->released =
            e || !holder_parse(buf_bytes(&sa.body), &t->h) || t->h.holder.token != t->token;
        if (t->released) t->h = (struct holder_record){0};
        e = ERR_OK;
    }
    return e;
}

// Reads the claim first and the members after it. In the other order a holder that joined in
// between would be taken for dead.
static enum err top_holder(struct store_coord *s, const char *what, struct newest_claim *t,
                           bool *live, struct coord_answer *a)
{
    *live = false;
    enum err e = top_read(s, what, t, a);
    if (e || t->token == 0 || t->released) return e;
    LOCAL(view, v);
    e = view_read(s, &v, a);
    *live = !e && view_holds(&v, &t->h);
    return e;
}

static enum err store_coord_read(struct coord *c, const char *what, struct coord_answer *a)
{
    struct newest_claim t;
    bool live = false;
    enum err e = top_holder(store_coord_of(c), what, &t, &live, a);
    if (e) return e;
    a->token = t.token;
    if (!live) return ERR_NOT_FOUND;
    a->holder = t.h.holder;
    return ERR_OK;
}

static void delete_lower(struct store_coord *s, const char *what, const struct newest_claim *t,
                         struct coord_answer *a)
{
    char keys[sizeof t->lower / sizeof *t->lower][STORE_KEY_MAX + 1];
    const char *list[sizeof t->lower / sizeof *t->lower];
    if (t->lower_len == 0) return;
    for (size_t i = 0; i < t->lower_len; i++) {
        claim_key(keys[i], what, t->lower[i]);
        list[i] = keys[i];
    }
    LOCAL(store_answer, sa);
    enum err e = store_delete(s->store, list, t->lower_len, &sa);
    (void)e; // the next claim tries again
    cost_add(&a->cost, &sa.cost);
}

// Creates the token, and checks with a list that it is the highest.
static enum err claim_new(struct store_coord *s, const char *what, const struct holder_record *h,
                          struct coord_answer *a)
{
    char key[STORE_KEY_MAX + 1];
    struct buf body;
    struct newest_claim t;
    buf_init(&body, COORD_RECORD_MAX);
    holder_print(h, &body);
    claim_key(key, what, h->holder.token);
    enum err e = create_once(s, key, buf_bytes(&body), a);
    buf_done(&body);
    if (e) return e;
    e = top_list(s, what, &t, a);
    if (e == ERR_UNAVAILABLE) // it is created, and may not be the highest
        return coord_refuse(a, ERR_UNKNOWN, "the claim was written, but cannot be checked");
    if (e) return e;
    if (t.token != h->holder.token || t.released) return ERR_CONFLICT;
    delete_lower(s, what, &t, a);
    return ERR_OK;
}

static enum err claim_try(struct store_coord *s, const char *what, uint64_t after,
                          struct coord_answer *a, bool *again)
{
    struct holder_record h = {0};
    struct coord_member self;
    struct newest_claim t;
    bool live = false;
    *again = false;
    uint64_t number = session_of(s, &self, a);
    if (!number) return ERR_NOT_FOUND;
    enum err e = top_holder(s, what, &t, &live, a);
    if (e) return e;
    (void)snprintf(h.session, sizeof h.session, "%020llu", (unsigned long long)number);
    bool own = live && coord_same_node(&t.h.holder, &self) && !strcmp(t.h.session, h.session);
    a->holder = t.h.holder;
    if (live && !own) return coord_refuse_held(a, what);
    if (own && t.token > after && !s->base.release_doubt) {
        a->token = t.token;
        return ERR_OK;
    }
    uint64_t token = coord_token_after(t.token, after);
    if (token == 0) return coord_refuse(a, ERR_LIMIT, "no token is left for %.100s", what);
    coord_holder_of(&h.holder, &self, token);
    e = claim_new(s, what, &h, a);
    *again = e == ERR_CONFLICT;
    if (e) return e;
    if (!session_of(s, &self, a)) return ERR_NOT_FOUND; // it ended meanwhile: the token is void
    a->holder = h.holder;
    a->token = token;
    return ERR_OK;
}

static enum err store_coord_claim(struct coord *c, const char *what, uint64_t after,
                                  struct coord_answer *a)
{
    enum err e = ERR_OK;
    bool again = true;
    for (int tries = 0; tries < TRIES && again; tries++)
        e = claim_try(store_coord_of(c), what, after, a, &again);
    if (again) // certainly not held: each try lost to another node
        return coord_refuse(a, ERR_UNAVAILABLE, "other nodes claim %.100s at the same time", what);
    return e;
}

static enum err store_coord_release(struct coord *c, const char *what, uint64_t token,
                                    struct coord_answer *a)
{
    struct store_coord *s = store_coord_of(c);
    struct coord_member self;
    char key[STORE_KEY_MAX + 1], session[NUMBER_DIGITS + 1];
    struct newest_claim t;
    uint64_t number = session_of(s, &self, a);
    a->why[0] = 0;
    enum err e = top_read(s, what, &t, a);
    if (e) return e;
    a->holder = t.h.holder;
    if (t.token > token)
        return coord_refuse(a, ERR_FENCED, "token %llu was given after token %llu",
                            (unsigned long long)t.token, (unsigned long long)token);
    if (t.token < token || t.released || !number) return ERR_OK;
    (void)snprintf(session, sizeof session, "%020llu", (unsigned long long)number);
    if (!coord_same_node(&t.h.holder, &self) || strcmp(t.h.session, session) != 0)
        return coord_refuse(a, ERR_FENCED, "token %llu is held by node \"%.80s\"",
                            (unsigned long long)token, t.h.holder.name);
    LOCAL(store_answer, sa);
    claim_key(key, what, token);
    e = store_put(s->store, key, BYTES_EMPTY, &sa);
    cost_add(&a->cost, &sa.cost);
    if (e) e = store_said(a, &sa, e);
    return e;
}

static enum err store_list_members(struct coord *c, struct coord_answer *a)
{
    LOCAL(view, v);
    enum err e = view_read(store_coord_of(c), &v, a);
    if (!e) view_tell(&v, a);
    return e;
}

static void copy_last(const struct coord_answer *from, struct coord_answer *to)
{
    to->members_len = 0;
    for (size_t i = 0; i < from->members_len; i++)
        *coord_answer_member(to) = from->members[i];
    to->leader = from->leader;
    to->plan_epoch = from->plan_epoch;
    to->plan_number = from->plan_number;
    to->at = from->at;
}

// The heartbeats of a member list anyway. A watch lists only if they are late, or if there are
// none.
static enum err store_watch(struct coord *c, uint64_t at, int64_t wait_ms, struct coord_answer *a)
{
    struct store_coord *s = store_coord_of(c);
    int64_t end = clock_boot_ms() + wait_ms;
    for (;;) {
        int64_t now = clock_boot_ms();
        (void)pthread_mutex_lock(&s->lock);
        bool changed = s->last.at != 0 && s->last.at != at;
        int64_t list_at = s->last_began_ms + (s->number ? 2 : 1) * pace_ms(s);
        if (s->last_began_ms == 0) list_at = now;
        int64_t wait = (list_at < end ? list_at : end) - now;
        if (changed) copy_last(&s->last, a);
        if (!changed && wait > 0) clock_wait(&s->changed, &s->lock, now + wait);
        (void)pthread_mutex_unlock(&s->lock);
        if (changed) return ERR_OK;
        if (wait > 0) continue;
        if (now >= end) return ERR_NOT_FOUND;
        enum err e = store_list_members(c, a);
        if (e) return e;
    }
}

static void store_coord_free(struct coord *c)
{
    struct store_coord *s = store_coord_of(c);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->changed);
    memory_free(s->records);
    coord_answer_done(&s->last);
    memory_free(s);
}

struct store_coord *store_coord_of(struct coord *c)
{
    return (struct store_coord *)c;
}

static const struct coord_ops store_ops = {
    .name = "store",
    .join = store_coord_join,
    .heartbeat = store_coord_heartbeat,
    .leave = store_coord_leave,
    .list = store_list_members,
    .answers = store_coord_answers,
    .watch = store_watch,
    .claim = store_coord_claim,
    .release = store_coord_release,
    .read = store_coord_read,
    .plan_write = store_coord_plan_write,
    .plan_read = store_coord_plan_read,
    .free = store_coord_free,
};

struct coord *coord_store_new(const struct coord_config *config)
{
    struct store_coord *s = NEW(struct store_coord);
    CHECK(config->store != NULL);
    coord_init(&s->base, &store_ops, config,
               store_is_high_latency(config->store) ? COORD_LEASE_HIGH_MS : COORD_LEASE_MS);
    s->store = config->store;
    s->last_time = TIME_NEVER;
    s->lone_ms = config->lone_ms ? config->lone_ms : COORD_LONE_MS;
    coord_answer_init(&s->last);
    (void)pthread_mutex_init(&s->lock, NULL);
    clock_cond_init(&s->changed);
    return &s->base;
}
