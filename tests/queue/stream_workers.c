// SPDX-License-Identifier: Apache-2.0
// A random stream: changes of the registry of workers, and the owner's dispatch.
#include "model_parts.h"
#include "stream_parts.h"

#include <stdio.h>
#include <string.h>

#define NAMES 4

// Some tickets last longer than the registration of their worker.
int64_t stream_ticket_ms(struct stream *s)
{
    return chance(s, 80) ? (int64_t)below(s, 50) : 4 * WORKER_TTL_MIN_MS;
}

static void random_change(struct stream *s, struct buf *rows)
{
    static const struct {
        enum worker_act act;
        uint32_t weight;
    } table[] = {{WORKER_JOIN, 60},   {WORKER_BEAT, 10}, {WORKER_LEAVE, 10}, {WORKER_PAUSE, 4},
                 {WORKER_RESUME, 10}, {WORKER_DRAIN, 3}, {WORKER_EVICT, 3}};
    char name[16];
    (void)snprintf(name, sizeof name, "w%llu", (unsigned long long)below(s, NAMES));
    uint64_t pick = below(s, 100);
    size_t i = 0;
    for (; pick >= table[i].weight; i++)
        pick -= table[i].weight;
    struct worker_change c = {.act = table[i].act, .name = bytes_str(name)};
    if (c.act < WORKER_PAUSE) c.instance = chance(s, 85) ? 1 : 2;
    if (c.act == WORKER_JOIN) {
        c.capacity = 1 + (uint32_t)below(s, 4);
        c.ttl_ms = WORKER_TTL_MIN_MS + (int64_t)below(s, WORKER_TTL_MIN_MS);
        c.flags = chance(s, 75) ? WORKER_MAILBOX : 0;
    }
    worker_change_put(rows, &c);
}

void stream_ask_workers(struct stream *s, struct buf *b)
{
    struct buf rows = payload();
    struct op_workers op = {.request = stream_request(s), .count = (uint32_t)below(s, 4)};
    for (uint32_t i = 0; i < op.count; i++)
        random_change(s, &rows);
    op.rows = buf_bytes(&rows);
    workers_encode(b, &op);
    buf_done(&rows);
}

void stream_ask_dispatch(struct stream *s, struct buf *b)
{
    struct op_dispatch op = {.request = stream_request(s),
                             .ticket_ms = stream_ticket_ms(s),
                             .max = (uint32_t)below(s, 6)};
    uint64_t seed = rng_next(&s->rng);
    memcpy(op.seed, &seed, sizeof seed);
    dispatch_encode(b, &op);
}

bool stream_same_workers(struct stream *s)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        char name[16];
        struct worker_view v = {0};
        (void)snprintf(name, sizeof name, "w%u", i);
        (void)machine_worker_find(s->rig.m, bytes_str(name), &v);
        const struct model_worker *w = model_worker(s->model, name);
        if (v.open != model_open_of(s->model, name))
            return stream_differs(s, "what %s holds", name);
        if ((v.capacity > 0) != (w != NULL))
            return stream_differs(s, "%s is%s registered", name, w ? " not" : "");
        if (w && (v.capacity != w->capacity || v.expires_at != w->expires_at ||
                  v.instance != w->instance || v.flags != w->flags || v.mode != w->mode))
            return stream_differs(s, "the row of %s", name);
    }
    return true;
}
