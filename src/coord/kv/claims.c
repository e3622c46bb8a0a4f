// SPDX-License-Identifier: Apache-2.0
// Claims on a service with keys and sessions: a holder, which ends with its session, and the last
// token, which stays.
#include "coord/kv/inside.h"

#include "base/digits.h"

#include <stdio.h>
#include <string.h>

// A claim as it is stored.
struct claim {
    char holder_key[KV_KEY_MAX + 1], token_key[KV_KEY_MAX + 1];
    uint64_t holder_revision, token_revision; // 0: absent
    uint64_t last;                            // token; 0: none yet
    struct holder_record h;                   // zeros: no live holder
    char session[KV_SESSION_MAX + 1];         // of the holder, as the service says
};

static bool token_parse(struct bytes text, uint64_t *token)
{
    uint64_t n = 0;
    if (text.len == 0 || text.len > DIGITS_MAX) return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || n > COORD_TOKEN_MAX / 10) return false;
        n = n * 10 + (uint64_t)(text.data[i] - '0');
    }
    *token = n;
    return n > 0 && n <= COORD_TOKEN_MAX;
}

static enum err claim_load(struct kv *k, const char *what, struct claim *c, struct attempts *t,
                           struct coord_answer *a)
{
    char under[KV_KEY_MAX + 1];
    *c = (struct claim){0};
    (void)snprintf(under, sizeof under, "%s/", what);
    (void)snprintf(c->holder_key, sizeof c->holder_key, "%s" KV_HOLDER, what);
    (void)snprintf(c->token_key, sizeof c->token_key, "%s" KV_TOKEN, what);
    LOCAL(kv_items, items);
    enum err e = kv_read_under(k, under, &items, t, a);
    const struct kv_item *holder = e ? NULL : kv_items_find(&items, c->holder_key);
    const struct kv_item *token = e ? NULL : kv_items_find(&items, c->token_key);
    if (token) {
        c->token_revision = token->revision;
        if (!token_parse(kv_value(&items, token), &c->last))
            e = coord_refuse(a, ERR_CORRUPT, "the key %.150s holds no token", c->token_key);
    }
    if (holder) {
        c->holder_revision = holder->revision;
        if (holder->session[0] && !holder_parse(kv_value(&items, holder), &c->h))
            e = coord_refuse(a, ERR_CORRUPT, "the key %.150s holds no record of a holder",
                             c->holder_key);
        if (!e) memcpy(c->session, holder->session, sizeof c->session);
        if (c->h.holder.token > c->last) c->last = c->h.holder.token;
    }
    return e;
}

static enum err claim_write(struct kv *k, const struct claim *c, uint64_t token,
                            const char *session, struct attempts *t, struct coord_answer *a)
{
    struct holder_record h = {0};
    char digits[DIGITS_MAX];
    size_t digits_len = (size_t)(digits_put(digits, token) - digits);
    (void)pthread_mutex_lock(&k->base.self_lock);
    coord_holder_of(&h.holder, &k->base.self, token);
    (void)pthread_mutex_unlock(&k->base.self_lock);
    memcpy(h.session, session, strlen(session) + 1);
    LOCAL(buf, record, COORD_RECORD_MAX);
    holder_print(&h, &record);
    struct kv_write w[KV_WRITES_MAX] = {
        {.key = c->token_key, .revision = c->token_revision, .value = bytes_of(digits, digits_len)},
        {.key = c->holder_key,
         .revision = c->holder_revision,
         .value = buf_bytes(&record),
         .session = session},
    };
    enum err e = k->ops->write(k, w, 2, t->until_ms, a);
    t->doubt |= e == ERR_UNKNOWN;
    if (!e) {
        a->token = token;
        a->holder = h.holder;
    }
    return e;
}

// One round of a claim. *again: read and try again.
static enum err claim_round(struct kv *k, const char *what, uint64_t after, uint64_t *wrote,
                            struct attempts *t, struct coord_answer *a, bool *again)
{
    char session[KV_SESSION_MAX + 1];
    struct claim c;
    *again = false;
    if (!session_now(k, session, a)) return ERR_NOT_FOUND;
    enum err e = claim_load(k, what, &c, t, a);
    if (e) return e;
    bool held = c.session[0] != 0;
    bool own = held && strcmp(c.session, session) == 0;
    a->holder = c.h.holder;
    if (held && !own) return coord_refuse_held(a, what);
    bool mine = own && *wrote == c.h.holder.token; // an earlier round was applied
    if (mine || (own && c.h.holder.token > after && !k->base.release_doubt)) {
        a->token = c.h.holder.token;
        return ERR_OK;
    }
    uint64_t token = coord_token_after(c.last, after);
    if (token == 0) return coord_refuse(a, ERR_LIMIT, "no token is left for %.100s", what);
    *wrote = token;
    e = claim_write(k, &c, token, session, t, a);
    *again = e == ERR_CONFLICT || e == ERR_UNKNOWN || e == ERR_UNAVAILABLE;
    return e;
}

enum err kv_claim(struct coord *c, const char *what, uint64_t after, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    struct attempts t;
    uint64_t wrote = 0;
    bool again = false;
    enum err e = ERR_OK;
    attempts_begin(&t, k);
    do
        e = claim_round(k, what, after, &wrote, &t, a, &again);
    while (again && attempts_pause(&t));
    if (again && e == ERR_CONFLICT) // certainly not held: each round lost to another node
        return coord_refuse(a, ERR_UNAVAILABLE, "other nodes claim %.100s at the same time", what);
    return attempts_end(&t, e);
}

static enum err release_round(struct kv *k, const char *what, uint64_t token, struct attempts *t,
                              struct coord_answer *a, bool *again)
{
    char session[KV_SESSION_MAX + 1];
    struct claim c;
    *again = false;
    bool joined = session_now(k, session, a);
    a->why[0] = 0;
    enum err e = claim_load(k, what, &c, t, a);
    if (e) return e;
    a->holder = c.h.holder;
    if (c.last > token)
        return coord_refuse(a, ERR_FENCED, "token %llu was given after token %llu",
                            (unsigned long long)c.last, (unsigned long long)token);
    if (!c.session[0] || c.h.holder.token != token) return ERR_OK;
    if (!joined || strcmp(c.session, session) != 0)
        return coord_refuse(a, ERR_FENCED, "token %llu is held by node \"%.80s\"",
                            (unsigned long long)token, c.h.holder.name);
    struct kv_write w = {.key = c.holder_key, .revision = c.holder_revision, .remove = true};
    e = k->ops->write(k, &w, 1, t->until_ms, a);
    t->doubt |= e == ERR_UNKNOWN;
    *again = e == ERR_CONFLICT || e == ERR_UNKNOWN || e == ERR_UNAVAILABLE;
    return e;
}

enum err kv_release(struct coord *c, const char *what, uint64_t token, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    struct attempts t;
    bool again = false;
    enum err e = ERR_OK;
    attempts_begin(&t, k);
    do
        e = release_round(k, what, token, &t, a, &again);
    while (again && attempts_pause(&t));
    if (e == ERR_CONFLICT) e = ERR_UNAVAILABLE;
    return attempts_end(&t, e);
}

enum err kv_read_claim(struct coord *c, const char *what, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    struct attempts t;
    struct claim claim;
    attempts_begin(&t, k);
    enum err e = claim_load(k, what, &claim, &t, a);
    if (e) return e;
    a->token = claim.last;
    if (!claim.session[0]) return ERR_NOT_FOUND;
    a->holder = claim.h.holder;
    return ERR_OK;
}
