// SPDX-License-Identifier: Apache-2.0
// A call of ops/async.h whose answer can be waited for. Header only: three test programs share
// it.
#pragma once

#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "ops/async.h"
#include "os/clock.h"
#include "queues/queues.h"

#include <pthread.h>
#include <time.h>

// A handle whose patience is short, for the one call that is to outlast it, may lose it with any
// other on a busy machine. Makes such a call until it is answered: one that may be made again.
#define SURELY(call)                                                                               \
    do {                                                                                           \
        int64_t give_up_ = clock_boot_ms() + DEADLINE_MS;                                          \
        enum sluice_code code_;                                                                    \
        do                                                                                         \
            code_ = (call);                                                                        \
        while ((code_ == SLUICE_UNAVAILABLE || code_ == SLUICE_UNKNOWN) &&                         \
               clock_boot_ms() < give_up_);                                                        \
        assert_int_equal(code_, SLUICE_OK);                                                        \
    } while (0)

struct call {
    struct async_call async; // first
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int answers;
    enum sluice_code code;
    struct sluice_error error;
    struct sluice_sent sent[4];
    struct sluice_outcome outcomes[4];
    size_t len;
    struct sluice_batch *batch;
};

static inline void call_answered(struct async_call *async, const struct async_answer *a)
{
    struct call *c = (struct call *)async;
    (void)pthread_mutex_lock(&c->lock);
    c->answers++;
    c->code = a->code;
    if (a->error) c->error = *a->error;
    c->len = a->len;
    for (size_t i = 0; i < a->len && i < 4; i++) {
        if (a->sent) c->sent[i] = a->sent[i];
        if (a->outcomes) c->outcomes[i] = a->outcomes[i];
    }
    c->batch = a->batch;
    (void)pthread_cond_broadcast(&c->changed);
    (void)pthread_mutex_unlock(&c->lock);
}

static inline void call_init(struct call *c)
{
    *c = (struct call){.async.done = call_answered};
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->changed, NULL);
}

static inline void call_done(struct call *c)
{
    sluice_batch_free(c->batch);
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
}

static inline void call_wait(struct call *c)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_MS / 1000;
    (void)pthread_mutex_lock(&c->lock);
    int late = 0;
    while (c->answers == 0 && !late)
        late = pthread_cond_timedwait(&c->changed, &c->lock, &until);
    assert_int_equal(c->answers, 1);
    (void)pthread_mutex_unlock(&c->lock);
}
