// SPDX-License-Identifier: Apache-2.0
#include "ops/same_request.h"
#include "ops/ops.h"

#include "ops/call.h"

#include <string.h>

static struct local_call **bucket_of(struct local_call *c)
{
    return &c->queue->calls->turns[c->turn.id.bytes[0] % TURN_BUCKETS];
}

static bool has_id(const struct local_call *c, const struct request_id *id)
{
    return memcmp(&c->turn.id, id, sizeof *id) == 0;
}

// With a reference, so that it can be notified without the lock.
static struct local_call *with_reference(struct local_call *c)
{
    if (c) atomic_fetch_add(&c->refs, 1);
    return c;
}

bool turn_begin(struct local_call *c, const struct request_id *id)
{
    struct local_call *before = NULL;
    (void)pthread_mutex_lock(&c->engine->lock);
    c->turn = (struct request_turn){.id = *id, .listed = true};
    struct local_call **at = bucket_of(c);
    for (; *at; at = &(*at)->turn.next)
        if (has_id(*at, id)) before = *at;
    *at = c;
    before = with_reference(before);
    (void)pthread_mutex_unlock(&c->engine->lock);
    if (!before) return true;
    call_note_cancel(before);
    call_release(before);
    return false;
}

void turn_end(struct local_call *c)
{
    struct local_call *next = NULL;
    bool first = true;
    if (!c->turn.listed) return;
    (void)pthread_mutex_lock(&c->engine->lock);
    struct local_call **at = bucket_of(c);
    for (; *at != c; at = &(*at)->turn.next)
        first = first && !has_id(*at, &c->turn.id);
    *at = c->turn.next;
    for (next = c->turn.next; next && !has_id(next, &c->turn.id);)
        next = next->turn.next;
    c->turn.listed = false;
    next = with_reference(first ? next : NULL);
    (void)pthread_mutex_unlock(&c->engine->lock);
    if (!next) return;
    call_note_turn(next);
    call_release(next);
}
