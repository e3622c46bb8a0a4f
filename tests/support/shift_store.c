// SPDX-License-Identifier: Apache-2.0
// The shift is a staircase over real time: an object that was written before a step stays on its
// side of it, however late it is read.
#include "shift_store.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"

#include <pthread.h>

#define STEPS_MAX 4096
#define COARSE_MS 1000

struct step {
    int64_t at; // real time
    int64_t passed;
};

struct shift {
    struct store base;
    struct store *inner;
    pthread_mutex_t lock;
    struct step steps[STEPS_MAX];
    size_t steps_len;
};

static struct shift *shift_of(struct store *s)
{
    return (struct shift *)s;
}

static int64_t shifted(const struct shift *f, int64_t real)
{
    if (real == TIME_UNKNOWN || real == TIME_NEVER) return real;
    size_t i = f->steps_len;
    while (i > 0 && f->steps[i - 1].at > real)
        i--;
    return real + (i > 0 ? f->steps[i - 1].passed : 0);
}

static struct interval shift_interval(const struct shift *f, struct interval t)
{
    return (struct interval){shifted(f, t.lo), shifted(f, t.hi)};
}

// The server's clock is ours: a moment during the call is one between its start and its end. It may
// tell the second a little late: Ceph reads the kernel's coarse clock, which stands still as long
// as the processor that moves it has no time.
static struct interval narrowed(struct interval told, int64_t start, int64_t end)
{
    if (told.lo == TIME_UNKNOWN) return told;
    CHECK(told.lo <= end);
    CHECK(told.hi + COARSE_MS >= start);
    return (struct interval){told.lo < start ? start : told.lo,
                             told.hi > end || told.hi < start ? end : told.hi};
}

static enum err note(struct store *s, int64_t start, struct store_answer *a, enum err e)
{
    struct shift *f = shift_of(s);
    int64_t end = clock_realtime_ms();
    (void)pthread_mutex_lock(&f->lock);
    a->time = shift_interval(f, narrowed(a->time, start, end));
    a->modified = shift_interval(f, a->modified);
    for (size_t i = 0; i < a->rows_len; i++)
        a->rows[i].modified = shift_interval(f, a->rows[i].modified);
    (void)pthread_mutex_unlock(&f->lock);
    return e;
}

static enum err shift_put_new(struct store *s, const char *key, struct bytes body,
                              struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_put_new(shift_of(s)->inner, key, body, a));
}

static enum err shift_put(struct store *s, const char *key, struct bytes body,
                          struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_put(shift_of(s)->inner, key, body, a));
}

static enum err shift_get(struct store *s, const char *key, size_t from, size_t len,
                          struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_get(shift_of(s)->inner, key, from, len, a));
}

static enum err shift_list(struct store *s, const char *prefix, const char *after, size_t limit,
                           struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_list(shift_of(s)->inner, prefix, after, limit, a));
}

static enum err shift_delete(struct store *s, const char *const *keys, size_t count,
                             struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_delete(shift_of(s)->inner, keys, count, a));
}

static enum err shift_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                             struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_append(shift_of(s)->inner, log, slot, body, a));
}

static enum err shift_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                               struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_read_log(shift_of(s)->inner, log, slot, bytes_max, a));
}

static enum err shift_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                              struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_extents(shift_of(s)->inner, log, from, limit, a));
}

static enum err shift_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                           struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_drop(shift_of(s)->inner, log, first, last, a));
}

static enum err shift_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                           struct store_answer *a)
{
    int64_t start = clock_realtime_ms();
    return note(s, start, a, store_wait(shift_of(s)->inner, log, slot, wait_ms, a));
}

static void shift_free(struct store *s)
{
    struct shift *f = shift_of(s);
    store_free(f->inner);
    (void)pthread_mutex_destroy(&f->lock);
    memory_free(f);
}

static const struct store_ops shift_ops = {
    .put_new = shift_put_new,
    .put = shift_put,
    .get = shift_get,
    .list = shift_list,
    .delete = shift_delete,
    .append = shift_append,
    .read_log = shift_read_log,
    .extents = shift_extents,
    .drop = shift_drop,
    .wait = shift_wait,
    .free = shift_free,
};

struct store *store_shift_take(struct store *inner)
{
    struct shift *f = NEW(struct shift);
    store_init(&f->base, &shift_ops);
    f->base.puts_per_second = inner->puts_per_second;
    f->base.high_latency = inner->high_latency;
    f->inner = inner;
    (void)pthread_mutex_init(&f->lock, NULL);
    return &f->base;
}

void store_shift_pass(struct store *shift, int64_t ms)
{
    CHECK(shift->ops == &shift_ops);
    struct shift *f = shift_of(shift);
    (void)pthread_mutex_lock(&f->lock);
    CHECK(f->steps_len < STEPS_MAX);
    int64_t passed = f->steps_len > 0 ? f->steps[f->steps_len - 1].passed : 0;
    f->steps[f->steps_len++] = (struct step){.at = clock_realtime_ms(), .passed = passed + ms};
    (void)pthread_mutex_unlock(&f->lock);
}
