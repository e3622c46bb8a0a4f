// SPDX-License-Identifier: Apache-2.0
// In an open queue of one shard, the acks and the receive go to its runner together. Otherwise
// (several shards, a token that cannot be parsed, a queue that is not open yet) the receive starts
// when the acks are answered: a receive that does not wait could run before the acks free their
// messages.
#include "local/receive_with_acks.h"

#include "base/memory.h"
#include "local/acks.h"
#include "local/async_runner.h"
#include "os/clock.h"

#include <stddef.h>
#include <stdio.h>

struct receive_with_acks {
    struct async_call acks;    // first; gets the answer of the acks
    struct async_call receive; // gets the answer of the receive
    struct async_call *async;  // the caller's
    struct sluice *handle;
    // Under the handle's lock, which is not held during a call:
    int holds;     // the acks and the receive until each has ended, and each other user
    int left;      // how many of acks and receive have not ended
    bool begun;    // the receive has started, and can be cancelled
    bool unwanted; // the receive is to be cancelled
    bool together; // acks and receive were submitted together

    char queue[QUEUE_NAME_MAX + 2]; // a name that is too long stays too long, and is refused
    char worker[WORKER_NAME_MAX + 2];
    struct sluice_receive then; // the receive without acks
    int64_t until;              // clock_boot_ms
    struct sluice_request request;
    struct sluice_outcome *outcomes;
    size_t len;
    enum sluice_code code; // of the receive
    struct sluice_error error;
    struct sluice_batch *batch;
};

// Drops a hold. part: the acks or the receive have ended; the last of them answers. `done` is
// called last, because the caller may close the handle then.
static void drop_hold(struct receive_with_acks *a, bool part)
{
    struct async_call *l = a->async;
    (void)pthread_mutex_lock(&a->handle->lock);
    bool over = part && --a->left == 0;
    bool last = --a->holds == 0;
    if (over) l->inside = NULL;
    struct sluice_outcome *outcomes = over ? a->outcomes : NULL; // taken
    struct sluice_error error = a->error;
    struct async_answer answer = {
        .code = a->code, .error = &error, .outcomes = outcomes, .len = a->len, .batch = a->batch};
    (void)pthread_mutex_unlock(&a->handle->lock);
    if (last) memory_free(a);
    if (over) l->done(l, &answer);
    memory_free(outcomes);
}

static void received(struct async_call *l, const struct async_answer *answer)
{
    struct receive_with_acks *a =
        (struct receive_with_acks *)((char *)l - offsetof(struct receive_with_acks, receive));
    (void)pthread_mutex_lock(&a->handle->lock);
    a->code = answer->code;
    if (answer->code) a->error = *answer->error;
    a->batch = answer->batch;
    (void)pthread_mutex_unlock(&a->handle->lock);
    drop_hold(a, true);
}

static void receive_nothing(struct receive_with_acks *a)
{
    (void)pthread_mutex_lock(&a->handle->lock);
    a->batch = batch_take(batch_new(0));
    (void)pthread_mutex_unlock(&a->handle->lock);
    drop_hold(a, true);
}

// Cancels the receive. The caller has a hold.
static void cancel_receive(struct receive_with_acks *a)
{
    if (async_cancel(a->handle, &a->receive)) receive_nothing(a);
}

// The receive is under way, or has ended. The caller has a hold, which it drops.
static void has_begun(struct receive_with_acks *a)
{
    (void)pthread_mutex_lock(&a->handle->lock);
    a->begun = true;
    bool unwanted = a->unwanted;
    (void)pthread_mutex_unlock(&a->handle->lock);
    if (unwanted) cancel_receive(a);
    drop_hold(a, false);
}

// Starts the receive after the acks. It runs before the acks' hold is dropped.
static void receive_next(struct receive_with_acks *a)
{
    (void)pthread_mutex_lock(&a->handle->lock);
    bool unwanted = a->unwanted;
    a->holds++;
    (void)pthread_mutex_unlock(&a->handle->lock);
    int64_t left = a->until - clock_boot_ms();
    a->then.wait_ms = left > 0 ? left : 0;
    if (unwanted)
        receive_nothing(a);
    else
        async_receive(a->handle, a->queue, &a->then, &a->receive);
    has_begun(a);
}

static void acked(struct async_call *l, const struct async_answer *answer)
{
    struct receive_with_acks *a = (struct receive_with_acks *)l;
    for (size_t i = 0; i < answer->len; i++)
        a->outcomes[i] = answer->outcomes[i];
    acks_fill(a->outcomes, a->len, answer->code);
    if (!a->together) receive_next(a);
    drop_hold(a, true);
}

static struct receive_with_acks *receive_with_acks_new(struct sluice *s, const char *queue,
                                                       const struct sluice_receive *o,
                                                       struct async_call *l)
{
    struct receive_with_acks *a = NEW(struct receive_with_acks);
    a->acks.done = acked;
    a->receive.done = received;
    a->receive.budget = l->budget;
    a->receive.unnamed = l->unnamed;
    a->async = l;
    a->handle = s;
    a->holds = 3; // the acks, the receive, and one for has_begun or leave
    a->left = 2;
    a->then = *o;
    a->then.acks = NULL;
    a->then.acks_len = 0;
    a->until = clock_boot_ms() + (o->wait_ms > 0 ? o->wait_ms : 0);
    (void)snprintf(a->queue, sizeof a->queue, "%s", queue);
    if (o->worker) (void)snprintf(a->worker, sizeof a->worker, "%s", o->worker);
    if (o->worker) a->then.worker = a->worker;
    if (o->request) a->request = *o->request;
    if (o->request) a->then.request = &a->request;
    a->len = o->acks_len;
    a->outcomes = memory_zeroed(a->len, sizeof *a->outcomes);
    l->inside = a;
    return a;
}

void receive_with_acks(struct sluice *s, const char *queue, const struct sluice_receive *options,
                       struct async_call *l)
{
    struct sluice_error error = {.code = SLUICE_OK};
    enum sluice_code code = receive_check(options, &error);
    if (code) {
        l->done(l, &(struct async_answer){.code = code, .error = &error});
        return;
    }
    struct sluice_request id;
    struct settle what = acks_of(options, &id);
    struct receive_with_acks *a = receive_with_acks_new(s, queue, options, l);
    a->together = true;
    if (async_runner_both(s, queue, &what, &a->acks, &a->then, &a->receive)) {
        has_begun(a);
        return;
    }
    a->together = false;
    async_settle(s, queue, &what, &a->acks);
    drop_hold(a, false);
}

void receive_with_acks_cancel(struct sluice *s, struct async_call *l)
{
    (void)pthread_mutex_lock(&s->lock);
    struct receive_with_acks *a = l->inside;
    if (a) a->holds++;
    if (a) a->unwanted = true;
    bool begun = a && a->begun;
    (void)pthread_mutex_unlock(&s->lock);
    if (begun) cancel_receive(a);
    if (a) drop_hold(a, false);
}
