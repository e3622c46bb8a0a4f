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

#define SHIFTED(name, kind, key_of, bytes_in, params, ...)                                         \
    static enum err shift_##name params                                                            \
    {                                                                                              \
        int64_t start = clock_realtime_ms();                                                       \
        return note(s, start, a, store_##name(shift_of(s)->inner, __VA_ARGS__, a));                \
    }
STORE_WRITES(SHIFTED)
STORE_READS(SHIFTED)

static void shift_free(struct store *s)
{
    struct shift *f = shift_of(s);
    store_free(f->inner);
    (void)pthread_mutex_destroy(&f->lock);
    memory_free(f);
}

static const struct store_ops shift_ops = {
#define SHIFT_OP(name, ...) .name = shift_##name,
    STORE_WRITES(SHIFT_OP) STORE_READS(SHIFT_OP)
#undef SHIFT_OP
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
