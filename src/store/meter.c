// SPDX-License-Identifier: Apache-2.0
// Each counter is one atomic. A snapshot can fall between two counters of a call, but no count is
// lost.
#include "store/meter.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <pthread.h>
#include <stdatomic.h>

#define NS_PER_MS 1000000

struct counter {
    _Atomic uint64_t requests, refused, bytes_in, bytes_out, time_ns;
    struct histogram latency;
};

struct meter {
    struct store base;
    struct store *inner;
    struct counter count[METER_KINDS];
    _Atomic uint64_t writes, reads, deletes;
    _Atomic int64_t written_ns, failed_ns;
    _Atomic int64_t slow_ns; // calls of at least this time are reported
    pthread_mutex_t lock;    // guards the fields below
    meter_slow_fn *report;
    void *ctx;
};

static struct meter *meter_of(struct store *s)
{
    return (struct meter *)s;
}

// Reports a slow call; waits are slow by intent.
static void report_slow(struct meter *m, enum meter_kind kind, const char *key, uint64_t time_ns,
                        enum err e)
{
    int64_t took = (int64_t)time_ns;
    if (took < atomic_load_explicit(&m->slow_ns, memory_order_relaxed) || kind == METER_WAIT)
        return;
    struct meter_call call = {.kind = kind, .key = key, .took_ms = took / NS_PER_MS, .err = e};
    LOCKED(&m->lock);
    if (m->report) m->report(m->ctx, &call);
}

static enum err meter_note(struct store *s, enum meter_kind kind, const char *key, int64_t start_ns,
                           size_t bytes_in, const struct store_answer *a, enum err e)
{
    struct counter *c = &meter_of(s)->count[kind];
    atomic_fetch_add(&c->requests, 1);
    if (e) atomic_fetch_add(&c->refused, 1);
    atomic_fetch_add(&c->bytes_in, bytes_in);
    atomic_fetch_add(&c->bytes_out, a->body.len);
    uint64_t time_ns = (uint64_t)(clock_boot_ns() - start_ns);
    atomic_fetch_add(&c->time_ns, time_ns);
    histogram_add(&c->latency, &histogram_latency, time_ns);
    struct meter *m = meter_of(s);
    bool writes = kind == METER_PUT_NEW || kind == METER_PUT || kind == METER_APPEND;
    if (writes && !e) atomic_store(&m->written_ns, start_ns + (int64_t)time_ns);
    if (e == ERR_UNAVAILABLE || e == ERR_UNKNOWN)
        atomic_store(&m->failed_ns, start_ns + (int64_t)time_ns);
    if (a->cost.writes) atomic_fetch_add(&m->writes, a->cost.writes);
    if (a->cost.reads) atomic_fetch_add(&m->reads, a->cost.reads);
    if (a->cost.deletes) atomic_fetch_add(&m->deletes, a->cost.deletes);
    report_slow(m, kind, key, time_ns, e);
    return e;
}

static enum err meter_put_new(struct store *s, const char *key, struct bytes body,
                              struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_put_new(meter_of(s)->inner, key, body, a);
    return meter_note(s, METER_PUT_NEW, key, start, body.len, a, e);
}

static enum err meter_put(struct store *s, const char *key, struct bytes body,
                          struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_put(meter_of(s)->inner, key, body, a);
    return meter_note(s, METER_PUT, key, start, body.len, a, e);
}

static enum err meter_get(struct store *s, const char *key, size_t from, size_t len,
                          struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_get(meter_of(s)->inner, key, from, len, a);
    return meter_note(s, METER_GET, key, start, 0, a, e);
}

static enum err meter_list(struct store *s, const char *prefix, const char *after, size_t limit,
                           struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_list(meter_of(s)->inner, prefix, after, limit, a);
    return meter_note(s, METER_LIST, prefix, start, 0, a, e);
}

static enum err meter_delete(struct store *s, const char *const *keys, size_t count,
                             struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_delete(meter_of(s)->inner, keys, count, a);
    return meter_note(s, METER_DELETE, count > 0 ? keys[0] : "", start, 0, a, e);
}

static enum err meter_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                             struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_append(meter_of(s)->inner, log, slot, body, a);
    return meter_note(s, METER_APPEND, log, start, body.len, a, e);
}

static enum err meter_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                               struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_read_log(meter_of(s)->inner, log, slot, bytes_max, a);
    return meter_note(s, METER_READ_LOG, log, start, 0, a, e);
}

static enum err meter_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                              struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_extents(meter_of(s)->inner, log, from, limit, a);
    return meter_note(s, METER_EXTENTS, log, start, 0, a, e);
}

static enum err meter_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                           struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_drop(meter_of(s)->inner, log, first, last, a);
    return meter_note(s, METER_DROP, log, start, 0, a, e);
}

static enum err meter_seal(struct store *s, const char *log, struct store_answer *a)
{
    return store_seal(meter_of(s)->inner, log, a); // no store charges for it
}

static enum err meter_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                           struct store_answer *a)
{
    int64_t start = clock_boot_ns();
    enum err e = store_wait(meter_of(s)->inner, log, slot, wait_ms, a);
    return meter_note(s, METER_WAIT, log, start, 0, a, e);
}

static void meter_free(struct store *s)
{
    store_free(meter_of(s)->inner);
    (void)pthread_mutex_destroy(&meter_of(s)->lock);
    memory_free(meter_of(s));
}

static void meter_rest(struct store *s, const char *log)
{
    store_rest(meter_of(s)->inner, log);
}

static void meter_distrust(struct store *s, const char *log)
{
    store_distrust(meter_of(s)->inner, log);
}

static bool meter_is_dead(struct store *s, char why[static STORE_WHY_MAX])
{
    return store_is_dead(meter_of(s)->inner, why);
}

static bool meter_concern(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX])
{
    return store_concern(meter_of(s)->inner, what, why);
}

static bool meter_read_clock(struct store *s, int64_t *now_ms)
{
    return store_read_clock(meter_of(s)->inner, now_ms);
}

static enum err meter_check_space(struct store *s, uint64_t bytes, struct store_answer *a)
{
    return store_check_space(meter_of(s)->inner, bytes, a);
}

static const struct store_ops meter_ops = {
    .put_new = meter_put_new,
    .put = meter_put,
    .get = meter_get,
    .list = meter_list,
    .delete = meter_delete,
    .append = meter_append,
    .read_log = meter_read_log,
    .extents = meter_extents,
    .drop = meter_drop,
    .seal = meter_seal,
    .wait = meter_wait,
    .free = meter_free,
    .rest = meter_rest,
    .distrust = meter_distrust,
    .is_dead = meter_is_dead,
    .concern = meter_concern,
    .check_space = meter_check_space,
    .read_clock = meter_read_clock,
};

struct store *store_meter_take(struct store *inner)
{
    struct meter *m = NEW(struct meter);
    store_init_around(&m->base, &meter_ops, inner);
    m->inner = inner;
    m->slow_ns = INT64_MAX;
    (void)pthread_mutex_init(&m->lock, NULL);
    return &m->base;
}

void store_meter_watch(struct store *meter, int64_t slow_ms, meter_slow_fn *report, void *ctx)
{
    CHECK(meter->ops == &meter_ops);
    struct meter *m = meter_of(meter);
    LOCKED(&m->lock);
    m->report = report;
    m->ctx = ctx;
    atomic_store(&m->slow_ns, report ? slow_ms * NS_PER_MS : INT64_MAX);
}

void store_meter_read(const struct store *meter, struct meter_snapshot *to)
{
    CHECK(meter->ops == &meter_ops);
    const struct meter *m = (const struct meter *)meter;
    to->cost = (struct cost){.writes = atomic_load(&m->writes),
                             .reads = atomic_load(&m->reads),
                             .deletes = atomic_load(&m->deletes)};
    for (size_t i = 0; i < METER_KINDS; i++) {
        const struct counter *c = &m->count[i];
        to->kind[i] = (struct meter_count){
            .requests = atomic_load(&c->requests),
            .refused = atomic_load(&c->refused),
            .bytes_in = atomic_load(&c->bytes_in),
            .bytes_out = atomic_load(&c->bytes_out),
            .time_ns = atomic_load(&c->time_ns),
        };
        histogram_read(&c->latency, &to->kind[i].latency);
    }
}

int64_t store_meter_written_ms(const struct store *meter)
{
    CHECK(meter->ops == &meter_ops);
    return atomic_load(&((const struct meter *)meter)->written_ns) / NS_PER_MS;
}

int64_t store_meter_failed_ms(const struct store *meter)
{
    CHECK(meter->ops == &meter_ops);
    return atomic_load(&((const struct meter *)meter)->failed_ns) / NS_PER_MS;
}

const char *meter_kind_name(enum meter_kind kind)
{
    static const char *const names[METER_KINDS] = {
#define METER_NAME(name, text) text,
        METER_LIST(METER_NAME)
#undef METER_NAME
    };
    CHECK((unsigned)kind < METER_KINDS);
    return names[kind];
}
