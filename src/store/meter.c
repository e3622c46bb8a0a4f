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

// No store charges for a seal, and it is not counted.
#define METERED(name, kind, key_of, bytes_in, params, ...)                                         \
    static enum err meter_##name params                                                            \
    {                                                                                              \
        int64_t start = clock_boot_ns();                                                           \
        enum err e = store_##name(s->inner, __VA_ARGS__, a);                                       \
        return meter_note(s, METER_##kind, key_of, start, bytes_in, a, e);                         \
    }
STORE_WRITES(METERED)
STORE_READS(METERED)

static void meter_free(struct store *s)
{
    store_free(s->inner);
    (void)pthread_mutex_destroy(&meter_of(s)->lock);
    memory_free(meter_of(s));
}

static const struct store_ops meter_ops = {
#define METER_OP(name, ...) .name = meter_##name,
    STORE_WRITES(METER_OP) STORE_READS(METER_OP)
#undef METER_OP
        .free = meter_free,
};

struct store *store_meter_take(struct store *inner)
{
    struct meter *m = NEW(struct meter);
    store_init_around(&m->base, &meter_ops, inner);
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
