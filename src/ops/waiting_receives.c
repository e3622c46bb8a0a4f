// SPDX-License-Identifier: Apache-2.0
#include "ops/waiting_receives.h"

#include "base/memory.h"
#include "ops/queue_calls.h"
#include "os/lock.h"

void waiting_begin(struct local_call *c)
{
    struct open_queue *q = c->queue;
    if (c->state.kind == STEP_SERVED) return; // it stays here
    if (!c->caller || c->is_waiting || !c->engine->links || receive_left_ms(c) == 0) return;
    LOCKED(&c->engine->lock);
    c->next_waiting = q->calls->waiting;
    if (q->calls->waiting) q->calls->waiting->previous_waiting = c;
    q->calls->waiting = c;
    c->is_waiting = true;
}

void waiting_end(struct local_call *c)
{
    if (!c->is_waiting) return;
    LOCKED(&c->engine->lock);
    if (c->next_waiting) c->next_waiting->previous_waiting = c->previous_waiting;
    if (c->previous_waiting)
        c->previous_waiting->next_waiting = c->next_waiting;
    else
        c->queue->calls->waiting = c->next_waiting;
    c->is_waiting = false;
}

void queue_reroute(struct open_queue *q)
{
    struct local_call **all = NULL;
    size_t len = 0, max = 0;
    (void)pthread_mutex_lock(&q->engine->lock);
    for (struct local_call *c = q->calls->waiting; c; c = c->next_waiting)
        max++;
    all = memory_zeroed(max + 1, sizeof(struct local_call *));
    for (struct local_call *c = q->calls->waiting; c; c = c->next_waiting) {
        atomic_fetch_add(&c->refs, 1);
        all[len++] = c;
    }
    (void)pthread_mutex_unlock(&q->engine->lock);
    for (size_t i = 0; i < len; i++) {
        call_note_reroute(all[i]);
        call_release(all[i]);
    }
    memory_free(all);
}
