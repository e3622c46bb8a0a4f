// SPDX-License-Identifier: Apache-2.0
// The store's operations, and what it says about the server: memory, clock, durability.
#include "store/redis/redis.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "store/redis/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HIGH_LATENCY_NS 2000000 // a bare round trip from here on is high latency
#define CLOCK_OFF_MS    5000

static bool is_full(int64_t used, int64_t limit, uint64_t bytes, char *why)
{
    if (limit <= 0 || used < 0) return false;
    int64_t left = limit - redis_reserve_of(limit) - used;
    if (left > 0 && bytes <= (uint64_t)left) return false;
    (void)snprintf(why, STORE_WHY_MAX,
                   "the Redis server uses %lld of %lld bytes of memory; new messages wait until "
                   "messages are processed or maxmemory is raised",
                   (long long)used, (long long)limit);
    return true;
}

static enum err redis_check_space(struct store *s, uint64_t bytes, struct store_answer *a)
{
    int64_t used, limit;
    enum err e = redis_memory(&redis_of(s)->client, &used, &limit, a);
    if (e || !is_full(used, limit, bytes, a->why)) return e;
    a->tight = true;
    return ERR_LIMIT;
}

// From what is known: a health check must not wait for the server.
static bool nearly_full(struct redis *me, char *why)
{
    struct redis_facts f = redis_fullest(&me->client);
    return is_full(f.used_memory, f.maxmemory, 1, why);
}

// How far the server's clock is from this machine's; of a cluster, the one that is farthest.
static int64_t clock_off_ms(struct redis_client *c)
{
    int64_t off = 0;
    LOCKED(&c->lock);
    for (size_t i = 0; i < c->servers_len; i++)
        if (llabs(c->servers[i]->clock_off_ms) > llabs(off)) off = c->servers[i]->clock_off_ms;
    return off;
}

static bool clock_off(struct redis *me, char *why)
{
    int64_t off = clock_off_ms(&me->client), told = atomic_load(&me->client.last_ms);
    if (told - (clock_realtime_ms() + off) > CLOCK_OFF_MS) {
        (void)snprintf(why, STORE_WHY_MAX,
                       "the Redis server's clock went back; time stands still until it has passed "
                       "the time that was already used: correct the server's clock");
        return true;
    }
    if (off <= CLOCK_OFF_MS && off >= -CLOCK_OFF_MS) return false;
    (void)snprintf(
        why, STORE_WHY_MAX,
        "the Redis server's clock is %lld ms from this machine's: correct the clock that "
        "is wrong",
        (long long)off);
    return true;
}

static bool not_durable(const struct redis *me, char *why)
{
    const struct redis_url *url = &me->client.url;
    char chosen[REDIS_DURABILITY_MAX];
    if (url->durability == REDIS_ALWAYS && url->form == REDIS_ONE) return false;
    redis_durability_text(url, chosen);
    if (url->durability == REDIS_ALWAYS)
        (void)snprintf(why, STORE_WHY_MAX,
                       "another server can take over, and then messages that it did not have are "
                       "lost, acknowledged or not: durability=replicas:N in the URL makes that "
                       "less likely");
    else if (url->durability == REDIS_REPLICAS)
        (void)snprintf(
            why, STORE_WHY_MAX,
            "the store's URL says durability=%s: WAIT is no consensus, so a failover can "
            "lose acknowledged messages; one server with appendfsync always does not",
            chosen);
    else
        (void)snprintf(why, STORE_WHY_MAX,
                       "the store's URL says durability=%s: a crash of the server can lose "
                       "acknowledged messages; remove it, with appendfsync always on the server",
                       chosen);
    return true;
}

static bool redis_concern(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX])
{
    if (what == STORE_NEARLY_FULL) return nearly_full(redis_of(s), why);
    if (what == STORE_CLOCK_OFF) return clock_off(redis_of(s), why);
    if (what == STORE_LOST_SLOTS) return redis_lost_slots(redis_of(s), why);
    return what == STORE_NOT_DURABLE && not_durable(redis_of(s), why);
}

static void redis_free(struct store *s)
{
    struct redis *me = redis_of(s);
    bool ours = me->pid == getpid();
    for (size_t i = 0; i < WAIT_GROUPS; i++)
        redis_waits_done(&me->waits[i], ours);
    redis_client_done(&me->client, ours);
    redis_logs_done(&me->logs);
    map_done(&me->tags);
    (void)pthread_mutex_destroy(&me->tags_lock);
    memory_free(me);
}

static const struct store_ops redis_ops = {
    .put_new = redis_put_new,
    .put = redis_put,
    .get = redis_get,
    .list = redis_list,
    .delete = redis_delete,
    .append = redis_append,
    .read_log = redis_read_log,
    .extents = redis_extents,
    .drop = redis_drop,
    .wait = redis_wait,
    .free = redis_free,
    .rest = redis_rest,
    .distrust = redis_distrust,
    .concern = redis_concern,
    .check_space = redis_check_space,
};

bool store_is_redis(const struct store *s)
{
    return s->ops == &redis_ops;
}

void store_redis_status(struct store *s, struct redis_status *out)
{
    struct redis_client *c = &redis_of(s)->client;
    *out = (struct redis_status){0};
    struct redis_facts f = redis_fullest(c);
    memcpy(out->version, f.version, sizeof out->version);
    out->used_memory = f.used_memory;
    out->startup_memory = f.startup_memory > 0 ? f.startup_memory : 0;
    out->maxmemory = f.maxmemory;
    out->reserve = f.maxmemory > 0 ? redis_reserve_of(f.maxmemory) : 0;
    (void)pthread_mutex_lock(&c->lock);
    const struct redis_place *at = &c->servers[0]->at;
    if (c->url.path[0])
        (void)snprintf(out->place, sizeof out->place, "%s", c->url.path);
    else
        (void)snprintf(out->place, sizeof out->place, "%s:%s", at->host, at->port);
    out->servers = c->servers_len;
    (void)pthread_mutex_unlock(&c->lock);
    (void)snprintf(out->primary, sizeof out->primary, "%s", c->url.name);
    out->cluster = c->slots != NULL;
    redis_durability_text(&c->url, out->durability);
}

// A user of the server's access list may lack a command: the first one that is missing is named
// here, not at the first call that needs it.
static enum err check_access(struct redis *me, char *why, size_t why_len)
{
    static const char *const kinds[] = {"access/string", "access/set", "access/hash",
                                        "access/stream"};
    if (!me->client.user[0]) return ERR_OK;
    LOCAL(store_answer, a);
    struct redis_key keys[4];
    struct bytes args[4];
    for (size_t i = 0; i < 4; i++) {
        redis_key_of(&keys[i], me->client.url.prefix, 'a', kinds[i]);
        args[i] = bytes_str(keys[i].text);
    }
    struct redis_call call = {
        .script = SCRIPT_ACCESS, .keys = 4, .args = args, .args_len = 4, .writes = true};
    struct resp *reply;
    enum err e = redis_run(&me->client, &call, &reply, &a);
    if (e == ERR_LIMIT) return ERR_OK; // a full server can still be drained
    (void)snprintf(why, why_len, "%s", a.why);
    if (e) return e == ERR_UNKNOWN ? ERR_UNAVAILABLE : e;
    const struct resp *missing = resp_item(reply, 0);
    if (missing->kind == RESP_TEXT) {
        (void)snprintf(
            why, why_len,
            "user \"%.60s\" may not run %.40s on the Redis server: allow it (docs/redis.md "
            "lists the commands)",
            me->client.user, missing->text);
        e = ERR_DENIED;
    }
    resp_free(reply);
    return e;
}

enum err store_redis_check(const char *url, char *why, size_t why_len)
{
    struct redis_url parsed;
    return redis_url_parse(url, &parsed, why, why_len);
}

enum err store_redis_open(const char *url, struct store **out, char *why, size_t why_len)
{
    struct redis_url parsed;
    int64_t round_trip_ns = 0;
    enum err e = redis_url_parse(url, &parsed, why, why_len);
    if (e) return e;
    struct redis *me = NEW(struct redis);
    redis_logs_init(&me->logs);
    for (size_t i = 0; i < WAIT_GROUPS; i++)
        redis_waits_init(&me->waits[i]);
    map_init(&me->tags);
    (void)pthread_mutex_init(&me->tags_lock, NULL);
    store_init(&me->base, &redis_ops);
    me->pid = getpid();
    e = redis_client_init(&me->client, &parsed, why, why_len);
    if (!e) e = redis_client_open(&me->client, &round_trip_ns, why, why_len);
    if (!e) e = check_access(me, why, why_len);
    if (e) {
        store_free(&me->base);
        return e;
    }
    me->client.store = &me->base;
    me->base.high_latency = round_trip_ns >= HIGH_LATENCY_NS;
    *out = &me->base;
    return ERR_OK;
}
