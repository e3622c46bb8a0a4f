// SPDX-License-Identifier: Apache-2.0
// A buffer between two threads, of which only the writer may block.
#include "net/feed.h"

#include "os/clock.h"
#include "os/lock.h"

#include <string.h>

void feed_init(struct feed *f, size_t limit)
{
    *f = (struct feed){.sent = 0};
    buf_init(&f->text, limit);
    (void)pthread_mutex_init(&f->lock, NULL);
    clock_cond_init(&f->less);
}

void feed_done(struct feed *f)
{
    buf_done(&f->text);
    (void)pthread_cond_destroy(&f->less);
    (void)pthread_mutex_destroy(&f->lock);
}

static void wake(struct feed *f)
{
    if (f->asleep) f->wake(f->reader);
    f->asleep = false;
}

static size_t take(struct feed *f, void *to, size_t max)
{
    size_t len = f->text.len - f->sent;
    if (len > max) len = max;
    memcpy(to, f->text.data + f->sent, len);
    f->sent += len;
    if (f->sent < f->text.len) return len;
    buf_clear(&f->text);
    f->sent = 0;
    (void)pthread_cond_broadcast(&f->less);
    return len;
}

ssize_t feed_read(struct feed *f, void *to, size_t max)
{
    ssize_t result = 0;
    LOCKED(&f->lock);
    if (f->gone) {
        result = FEED_GONE;
    } else if (f->text.len > 0) {
        result = (ssize_t)take(f, to, max);
    } else if (f->ended) {
        result = FEED_END;
    } else {
        f->sleep(f->reader);
        f->asleep = true;
    }
    return result;
}

bool feed_write(struct feed *f, struct bytes some, int64_t wait_ms)
{
    int64_t until = clock_boot_ms() + wait_ms;
    LOCKED(&f->lock);
    while (!f->gone && f->text.len + some.len > f->text.limit &&
           clock_wait(&f->less, &f->lock, until))
        ;
    bool taken = !f->gone && f->text.len + some.len <= f->text.limit;
    if (taken) {
        buf_put(&f->text, some);
        wake(f);
    }
    return taken;
}

void feed_end(struct feed *f)
{
    LOCKED(&f->lock);
    f->ended = true;
    wake(f);
}

void feed_lost(struct feed *f)
{
    LOCKED(&f->lock);
    f->gone = true;
    wake(f);
    (void)pthread_cond_broadcast(&f->less);
}

bool feed_gone(struct feed *f)
{
    LOCKED(&f->lock);
    return f->gone;
}

size_t feed_pending(struct feed *f)
{
    LOCKED(&f->lock);
    return f->text.len - f->sent;
}
