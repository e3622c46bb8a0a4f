// SPDX-License-Identifier: Apache-2.0
#include "ops/waiting_receives.h"

#include "base/array.h"
#include "ops/queue_calls.h"
#include "os/lock.h"

void waiting_begin(struct local_call *c)
{
    struct open_queue *q = c->queue;
    if (c->state.kind == STEP_SERVED) return; // it stays here
    if (!c->caller || c->is_waiting || !c->engine->links || receive_left_ms(c) == 0) return;
    LOCKED(&c->engine->lock);
    list_add_first(&q->calls->waiting, &c->waiting);
    c->is_waiting = true;
}

void waiting_end(struct local_call *c)
{
    if (!c->is_waiting) return;
    LOCKED(&c->engine->lock);
    list_remove(&c->queue->calls->waiting, &c->waiting);
    c->is_waiting = false;
}

void queue_reroute(struct open_queue *q)
{
    struct local_call **all = NULL;
    size_t len = 0, room = 0;
    (void)pthread_mutex_lock(&q->engine->lock);
    LIST_EACH(c, &q->calls->waiting, struct local_call, waiting) {
        atomic_fetch_add(&c->refs, 1);
        *ARRAY_ADD(all, len, room) = c;
    }
    (void)pthread_mutex_unlock(&q->engine->lock);
    for (size_t i = 0; i < len; i++) {
        call_note_reroute(all[i]);
        call_release(all[i]);
    }
    memory_free(all);
}
