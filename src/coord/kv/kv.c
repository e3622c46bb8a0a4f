// SPDX-License-Identifier: Apache-2.0
// Members and their sessions on a service with keys and sessions. claims.c has the claims.
#include "coord/kv/inside.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>

#define PAUSE_MS 50 // before an exchange is repeated

void kv_items_init(struct kv_items *items)
{
    *items = (struct kv_items){0};
    buf_init(&items->values, KV_ANSWER_MAX);
}

void kv_items_done(struct kv_items *items)
{
    memory_free(items->all);
    buf_done(&items->values);
    *items = (struct kv_items){0};
}

void kv_items_clear(struct kv_items *items)
{
    items->len = 0;
    items->at = 0;
    buf_clear(&items->values);
}

struct kv_item *kv_items_add(struct kv_items *items, const char *key, struct bytes value)
{
    size_t len = strlen(key);
    if (len > KV_KEY_MAX || items->len == KV_ITEMS_MAX) return NULL;
    (void)ARRAY_ROOM(items->all, items->len, items->cap, 1);
    struct kv_item *item = &items->all[items->len];
    *item = (struct kv_item){.value_at = items->values.len, .value_len = value.len};
    memcpy(item->key, key, len + 1);
    buf_put(&items->values, value);
    if (items->values.bad) return NULL;
    items->len++;
    return item;
}

const struct kv_item *kv_items_find(const struct kv_items *items, const char *key)
{
    for (size_t i = 0; i < items->len; i++)
        if (strcmp(items->all[i].key, key) == 0) return &items->all[i];
    return NULL;
}

struct bytes kv_value(const struct kv_items *items, const struct kv_item *item)
{
    CHECK(item->value_at + item->value_len <= items->values.len);
    return bytes_of(item->value_len ? items->values.data + item->value_at : NULL, item->value_len);
}

struct kv *kv_of(struct coord *c)
{
    return (struct kv *)c;
}

void kv_init(struct kv *k, const struct kv_ops *ops, const struct coord_config *config)
{
    coord_init(&k->base, &ops->coord, config, COORD_LEASE_MS);
    k->ops = ops;
    k->granted_ms = k->base.lease_ms;
    (void)pthread_mutex_init(&k->lock, NULL);
}

enum err kv_opened(struct kv *k, enum err e, const struct coord_answer *a, struct coord **out,
                   char why[static COORD_WHY_MAX])
{
    if (!e) *out = &k->base;
    if (!e) return ERR_OK;
    (void)snprintf(why, COORD_WHY_MAX, "%s", a->why);
    coord_free(&k->base);
    return e;
}

static void kv_done(struct kv *k)
{
    (void)pthread_mutex_destroy(&k->lock);
}

void kv_free(struct coord *c)
{
    struct kv *k = kv_of(c);
    kv_done(k);
    k->ops->free(k);
}

void attempts_begin(struct attempts *t, const struct kv *k)
{
    *t = (struct attempts){.until_ms = clock_boot_ms() + k->base.timeout_ms};
}

// After an exchange: returns whether to repeat it, and pauses before.
static bool attempts_again(struct attempts *t, enum err e)
{
    if (e == ERR_UNKNOWN) t->doubt = true;
    if (e != ERR_UNKNOWN && e != ERR_UNAVAILABLE) return false;
    return attempts_pause(t);
}

bool attempts_pause(struct attempts *t)
{
    if (clock_boot_ms() + PAUSE_MS >= t->until_ms) return false;
    clock_sleep(PAUSE_MS);
    return true;
}

enum err attempts_end(const struct attempts *t, enum err e)
{
    // A refusal of the last attempt says nothing about an earlier one.
    bool refused = e == ERR_UNAVAILABLE || e == ERR_DENIED || e == ERR_LIMIT || e == ERR_INVALID;
    return t->doubt && refused ? ERR_UNKNOWN : e;
}

enum err kv_read_under(struct kv *k, const char *under, struct kv_items *items, struct attempts *t,
                       struct coord_answer *a)
{
    enum err e = ERR_OK;
    do {
        kv_items_clear(items);
        e = k->ops->read(k, under, items, t->until_ms, a);
    } while (attempts_again(t, e));
    CHECK(e != ERR_UNKNOWN);
    return e;
}

bool session_now(struct kv *k, char session[KV_SESSION_MAX + 1], struct coord_answer *a)
{
    (void)pthread_mutex_lock(&k->lock);
    bool joined = k->joined;
    memcpy(session, k->session, sizeof k->session);
    (void)pthread_mutex_unlock(&k->lock);
    if (!joined) (void)coord_refuse_session(a);
    return joined;
}

static void session_set(struct kv *k, const char *session, bool joined)
{
    LOCKED(&k->lock);
    if (session != k->session) (void)snprintf(k->session, sizeof k->session, "%s", session);
    k->joined = joined;
}

// Forgets the session, unless another thread has joined with a new one.
static void session_lost(struct kv *k, const char *session)
{
    LOCKED(&k->lock);
    if (strcmp(k->session, session) == 0) {
        k->session[0] = 0;
        k->joined = false;
    }
}

static void session_extended(struct kv *k, int64_t began_ms, struct coord_answer *a)
{
    LOCKED(&k->lock);
    k->until_ms = began_ms + k->granted_ms;
    a->until_ms = k->until_ms;
    a->lease_ms = k->granted_ms;
    a->next_ms = k->granted_ms / 3;
}

// Tells the old times: the session was not renewed.
static void session_told(struct kv *k, struct coord_answer *a)
{
    LOCKED(&k->lock);
    a->until_ms = k->until_ms;
    a->lease_ms = k->granted_ms;
    a->next_ms = k->granted_ms / 3;
}

static enum err renew_session(struct kv *k, const char *session, struct coord_answer *a)
{
    struct attempts t;
    enum err e = ERR_OK;
    int64_t began = 0;
    attempts_begin(&t, k);
    do {
        began = clock_boot_ms();
        e = k->ops->session_renew(k, session, t.until_ms, a);
    } while (attempts_again(&t, e));
    if (!e) session_extended(k, began, a);
    return attempts_end(&t, e);
}

// Returns with a session in k->session: the one it had, if that is alive, or a new one. A session
// whose join did not end well is kept for the next try.
static enum err need_session(struct kv *k, char session[KV_SESSION_MAX + 1], struct coord_answer *a)
{
    struct attempts t;
    struct coord_answer ignored = {0};
    int64_t lease_ms = 0, began = 0;
    (void)session_now(k, session, &ignored);
    enum err e = session[0] ? renew_session(k, session, a) : ERR_NOT_FOUND;
    if (e != ERR_NOT_FOUND) return e;
    session[0] = 0;
    attempts_begin(&t, k);
    do {
        began = clock_boot_ms();
        e = k->ops->session_new(k, session, &lease_ms, t.until_ms, a);
    } while (attempts_again(&t, e));
    if (e) return attempts_end(&t, e);
    CHECK(session[0] && lease_ms > 0);
    k->base.release_doubt = false; // the releases of another session
    session_set(k, session, false);
    (void)pthread_mutex_lock(&k->lock);
    k->granted_ms = lease_ms;
    (void)pthread_mutex_unlock(&k->lock);
    session_extended(k, began, a);
    return ERR_OK;
}

static enum err end_session(struct kv *k, const char *session, struct attempts *t,
                            struct coord_answer *a)
{
    enum err e = ERR_OK;
    do
        e = k->ops->session_end(k, session, t->until_ms, a);
    while (attempts_again(t, e));
    return e;
}

static void member_key(char key[KV_KEY_MAX + 1], const char *name)
{
    (void)snprintf(key, KV_KEY_MAX + 1, KV_MEMBER "%s", name);
}

// One round of a join. ERR_CONFLICT with *again: the keys changed meanwhile.
static enum err join_round(struct kv *k, const struct coord_member *m, bool replace,
                           const char *session, struct attempts *t, struct coord_answer *a,
                           bool *again)
{
    char key[KV_KEY_MAX + 1];
    struct coord_member other = {0};
    LOCAL(kv_items, items);
    LOCAL(buf, record, COORD_RECORD_MAX);
    member_print(m, &record);
    member_key(key, m->name);
    *again = false;
    enum err e = kv_read_under(k, KV_LIVE, &items, t, a);
    const struct kv_item *had = e ? NULL : kv_items_find(&items, key);
    bool taken = had && had->session[0] && strcmp(had->session, session) != 0;
    bool known = had && member_parse(kv_value(&items, had), &other);
    bool same = known && memcmp(other.incarnation, m->incarnation, sizeof m->incarnation) == 0;
    bool own =
        had && !taken && had->session[0] && bytes_equal(kv_value(&items, had), buf_bytes(&record));
    if (taken && !same && !replace) {
        if (known) coord_holder_of(&a->holder, &other, 0);
        e = coord_refuse_name(a, m->name, other.url);
    } else if (taken) {
        e = end_session(k, had->session, t, a); // its keys go with it
        *again = !e;
    } else if (!e && !own) {
        struct kv_write w = {.key = key,
                             .revision = had ? had->revision : 0,
                             .value = buf_bytes(&record),
                             .session = session};
        e = k->ops->write(k, &w, 1, t->until_ms, a);
        *again = e == ERR_CONFLICT || e == ERR_UNKNOWN || e == ERR_UNAVAILABLE;
        t->doubt |= e == ERR_UNKNOWN;
    }
    return e;
}

enum err kv_join(struct coord *c, const struct coord_member *m, bool replace,
                 struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    char session[KV_SESSION_MAX + 1] = "";
    struct attempts t;
    bool again = false;
    enum err e = need_session(k, session, a);
    if (e) return e;
    attempts_begin(&t, k);
    do
        e = join_round(k, m, replace, session, &t, a, &again);
    while (again && attempts_pause(&t));
    if (e == ERR_NOT_FOUND) session_lost(k, session); // it ended meanwhile: the caller joins again
    if (e == ERR_CONFLICT && again)
        e = coord_refuse(a, ERR_UNAVAILABLE, "other nodes join as \"%.80s\" at the same time",
                         m->name);
    if (e == ERR_CONFLICT) { // the name is in use: the session is not needed
        struct coord_answer ignored = {0};
        if (!end_session(k, session, &t, &ignored)) session_lost(k, session);
    }
    if (!e) session_set(k, session, true);
    return attempts_end(&t, e);
}

// Why a session has ended: another incarnation has the name, or it was not renewed.
static enum err explain_end(struct kv *k, struct coord_answer *a)
{
    struct attempts t;
    struct coord_member self, other;
    char key[KV_KEY_MAX + 1];
    (void)pthread_mutex_lock(&k->base.self_lock);
    self = k->base.self;
    (void)pthread_mutex_unlock(&k->base.self_lock);
    attempts_begin(&t, k);
    LOCAL(kv_items, items);
    member_key(key, self.name);
    enum err e = kv_read_under(k, KV_LIVE, &items, &t, a);
    const struct kv_item *had = e ? NULL : kv_items_find(&items, key);
    bool replaced = had && had->session[0] && member_parse(kv_value(&items, had), &other) &&
                    memcmp(other.incarnation, self.incarnation, sizeof self.incarnation) != 0;
    if (replaced) coord_holder_of(&a->holder, &other, 0);
    return replaced ? coord_refuse_replaced(a, self.name) : coord_refuse_lapsed(a, k->granted_ms);
}

enum err kv_heartbeat(struct coord *c, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    char session[KV_SESSION_MAX + 1];
    if (!session_now(k, session, a)) return ERR_NOT_FOUND;
    enum err e = renew_session(k, session, a);
    if (e == ERR_NOT_FOUND) {
        session_lost(k, session);
        return explain_end(k, a);
    }
    if (e) session_told(k, a);
    return e;
}

enum err kv_leave(struct coord *c, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    char session[KV_SESSION_MAX + 1];
    struct attempts t;
    (void)session_now(k, session, a);
    a->why[0] = 0;
    if (!session[0]) return ERR_OK;
    attempts_begin(&t, k);
    enum err e = end_session(k, session, &t, a);
    if (!e) session_lost(k, session);
    return attempts_end(&t, e);
}

static void tell_list(const struct kv_items *items, struct coord_answer *a)
{
    a->members_len = 0;
    a->leader = (struct coord_holder){0};
    a->plan_epoch = a->plan_number = 0;
    for (size_t i = 0; i < items->len && a->members_len < COORD_MEMBERS_MAX; i++) {
        const struct kv_item *item = &items->all[i];
        struct coord_member m;
        struct holder_record h;
        if (strcmp(item->key, KV_PLAN) == 0)
            (void)plan_version_parse(kv_value(items, item), &a->plan_epoch, &a->plan_number);
        if (!item->session[0]) continue;
        if (strncmp(item->key, KV_MEMBER, sizeof KV_MEMBER - 1) == 0) {
            if (member_parse(kv_value(items, item), &m) &&
                strcmp(m.name, item->key + sizeof KV_MEMBER - 1) == 0)
                *coord_answer_member(a) = m;
        } else if (strcmp(item->key, COORD_LEADER KV_HOLDER) == 0) {
            if (holder_parse(kv_value(items, item), &h)) a->leader = h.holder;
        }
    }
    coord_answer_sort(a);
    a->at = items->at ? items->at : 1;
}

enum err kv_list(struct coord *c, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    struct attempts t;
    attempts_begin(&t, k);
    LOCAL(kv_items, items);
    enum err e = kv_read_under(k, KV_LIVE, &items, &t, a);
    if (!e) tell_list(&items, a);
    return e;
}

enum err kv_watch(struct coord *c, uint64_t at, int64_t wait_ms, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    enum err e = k->ops->wait(k, at, clock_boot_ms() + wait_ms, a);
    if (e == ERR_NOT_FOUND) return e;
    // After a fault the list goes to the next server, and says whether the service is there.
    if (e == ERR_OK || e == ERR_UNAVAILABLE) return kv_list(c, a);
    return e;
}
