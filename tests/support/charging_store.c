// SPDX-License-Identifier: Apache-2.0
// One call, one request: a wait too, for a bucket has nothing to wait on.
#include "charging_store.h"

#include "base/memory.h"
#include "store/backend.h"

#include <pthread.h>
#include <stdio.h>

struct refusal {
    enum err err;
    char why[STORE_WHY_MAX];
};

struct charging {
    struct store base;
    struct store *inner;
    pthread_mutex_t lock;
    struct cost charged;
    struct refusal writes, reads;
};

static struct charging *of(struct store *s)
{
    return (struct charging *)s;
}

static void charge(struct store *s, struct store_answer *a, struct cost cost)
{
    struct charging *c = of(s);
    a->cost = cost;
    (void)pthread_mutex_lock(&c->lock);
    c->charged.writes += cost.writes;
    c->charged.reads += cost.reads;
    c->charged.deletes += cost.deletes;
    (void)pthread_mutex_unlock(&c->lock);
}

// Is this call to fail? The inner store is not asked then.
static enum err refused(struct store *s, bool writes, struct store_answer *a)
{
    struct charging *c = of(s);
    (void)pthread_mutex_lock(&c->lock);
    const struct refusal *r = writes ? &c->writes : &c->reads;
    enum err err = r->err;
    if (err) (void)answer_refuse(a, err, "%s", r->why);
    (void)pthread_mutex_unlock(&c->lock);
    return err;
}

#define CHARGE(s, a, writes, price, call)                                                          \
    do {                                                                                           \
        enum err err = refused(s, writes, a);                                                      \
        if (!err) err = call;                                                                      \
        charge(s, a, (struct cost)price);                                                          \
        return err;                                                                                \
    } while (0)
#define WRITE                                                                                      \
    {                                                                                              \
        .writes = 1                                                                                \
    }
#define READ                                                                                       \
    {                                                                                              \
        .reads = 1                                                                                 \
    }
#define DELETE                                                                                     \
    {                                                                                              \
        .deletes = 1                                                                               \
    }

static enum err charging_put_new(struct store *s, const char *key, struct bytes body,
                                 struct store_answer *a)
{
    CHARGE(s, a, true, WRITE, store_put_new(of(s)->inner, key, body, a));
}

static enum err charging_put(struct store *s, const char *key, struct bytes body,
                             struct store_answer *a)
{
    CHARGE(s, a, true, WRITE, store_put(of(s)->inner, key, body, a));
}

static enum err charging_get(struct store *s, const char *key, size_t from, size_t len,
                             struct store_answer *a)
{
    CHARGE(s, a, false, READ, store_get(of(s)->inner, key, from, len, a));
}

static enum err charging_list(struct store *s, const char *prefix, const char *after, size_t limit,
                              struct store_answer *a)
{
    CHARGE(s, a, false, WRITE, store_list(of(s)->inner, prefix, after, limit, a));
}

static enum err charging_delete(struct store *s, const char *const *keys, size_t count,
                                struct store_answer *a)
{
    CHARGE(s, a, true, DELETE, store_delete(of(s)->inner, keys, count, a));
}

static enum err charging_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                                struct store_answer *a)
{
    CHARGE(s, a, true, WRITE, store_append(of(s)->inner, log, slot, body, a));
}

static enum err charging_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                                  struct store_answer *a)
{
    CHARGE(s, a, false, READ, store_read_log(of(s)->inner, log, slot, bytes_max, a));
}

static enum err charging_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                                 struct store_answer *a)
{
    CHARGE(s, a, false, WRITE, store_extents(of(s)->inner, log, from, limit, a));
}

static enum err charging_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                              struct store_answer *a)
{
    CHARGE(s, a, true, DELETE, store_drop(of(s)->inner, log, first, last, a));
}

static enum err charging_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                              struct store_answer *a)
{
    CHARGE(s, a, false, READ, store_wait(of(s)->inner, log, slot, wait_ms, a));
}

static void charging_free(struct store *s)
{
    struct charging *c = of(s);
    store_free(c->inner);
    (void)pthread_mutex_destroy(&c->lock);
    memory_free(c);
}

static const struct store_ops charging_ops = {
    .put_new = charging_put_new,
    .put = charging_put,
    .get = charging_get,
    .list = charging_list,
    .delete = charging_delete,
    .append = charging_append,
    .read_log = charging_read_log,
    .extents = charging_extents,
    .drop = charging_drop,
    .wait = charging_wait,
    .free = charging_free,
};

struct store *store_charging_take(struct store *inner)
{
    struct charging *c = NEW(struct charging);
    store_init(&c->base, &charging_ops);
    c->inner = inner;
    (void)pthread_mutex_init(&c->lock, NULL);
    return &c->base;
}

static void set(struct store *s, struct refusal *r, enum err err, const char *why)
{
    (void)pthread_mutex_lock(&of(s)->lock);
    r->err = err;
    (void)snprintf(r->why, sizeof r->why, "%s", why);
    (void)pthread_mutex_unlock(&of(s)->lock);
}

void store_charging_refuse(struct store *s, enum err err, const char *why)
{
    set(s, &of(s)->writes, err, why);
}

void store_charging_refuse_reads(struct store *s, enum err err, const char *why)
{
    set(s, &of(s)->reads, err, why);
}

struct cost store_charging_charged(struct store *s)
{
    (void)pthread_mutex_lock(&of(s)->lock);
    struct cost charged = of(s)->charged;
    (void)pthread_mutex_unlock(&of(s)->lock);
    return charged;
}
