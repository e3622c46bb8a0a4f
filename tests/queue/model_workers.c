// SPDX-License-Identifier: Apache-2.0
// The plain model: registered workers and their tickets. The streams have no labels and no
// dispatch=affinity: tests of their own cover these.
#include "model_parts.h"

#include "base/check.h"

#include <string.h>

struct model_worker *model_worker(struct model *m, const char *name)
{
    for (size_t i = 0; i < m->workers_len; i++)
        if (m->workers[i].capacity > 0 && strcmp(m->workers[i].name, name) == 0)
            return &m->workers[i];
    return NULL;
}

uint32_t model_open_of(struct model *m, const char *worker)
{
    uint32_t open = 0;
    for (uint64_t seq = 1; seq <= m->sent; seq++)
        open += at(m, seq)->state == STATE_LOCKED && strcmp(at(m, seq)->worker, worker) == 0;
    return open;
}

enum reason model_mode(struct model *m, const char *worker)
{
    const struct model_worker *w = model_worker(m, worker);
    switch (w ? w->mode : WORKER_RUNNING) {
    case WORKER_IS_PAUSED:
        return REASON_WORKER_PAUSED;
    case WORKER_IS_DRAINING:
        return REASON_WORKER_DRAINING;
    case WORKER_IS_EVICTED:
        return REASON_WORKER_EVICTED;
    default:
        return REASON_NONE;
    }
}

static void give_ticket(struct model *m, uint64_t seq, struct model_worker *w,
                        const uint8_t seed[16], int64_t ticket_ms)
{
    model_grant(m, seq, w->name, seed, m->from + (ticket_ms ? ticket_ms : TICKET_DEFAULT_MS), true);
    w->served = at(m, seq)->order;
    say_worker(m, say(m, EVENT_TICKETS_PUBLISHED, seq), w->name);
}

enum reason model_publish(struct model *m, struct bytes payload)
{
    struct op_publish op;
    if (publish_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (model_refuses(m, "", op.count) || m->epoch == 0) return REASON_NOT_OWNER;
    if (m->paused) return REASON_PAUSED;
    struct reader rows = reader_of(op.rows);
    uint32_t count = 0, known = 0;
    uint64_t open = model_open(m), fence = m->fence, seq;
    bool overtakes = false;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, 0);
    for (uint32_t i = 0; i < op.count; i++) {
        struct ticket_row row;
        char worker[MODEL_NAME_MAX];
        CHECK(ticket_row_next(&rows, &row));
        name_of(row.worker, worker);
        struct model_worker *w = model_worker(m, worker);
        if (!w || w->expires_at <= m->now || w->mode != WORKER_RUNNING) continue;
        known++;
        for (uint32_t n = 0; n < row.max && model_open_of(m, worker) < w->capacity; n++) {
            if (!(seq = model_next(m))) break;
            give_ticket(m, seq, w, op.seed, op.ticket_ms);
            if (model_overtakes(m, seq, fence)) overtakes = true;
            model_put_grant(m, seq, i);
            count++;
        }
    }
    if (overtakes) say(m, EVENT_ORDERING_BEST_EFFORT, 0)->count = open;
    buf_set_u32(&m->body, 1, count);
    return known > 0 || op.count == 0 ? REASON_NONE : REASON_UNKNOWN_WORKER;
}

// The row that was served longest ago, of those that run, have room and use a mailbox.
static struct model_worker *next_row(struct model *m)
{
    struct model_worker *first = NULL;
    for (size_t i = 0; i < m->workers_len; i++) {
        struct model_worker *w = &m->workers[i];
        if (w->capacity == 0 || w->mode != WORKER_RUNNING || w->expires_at <= m->now) continue;
        if (!(w->flags & WORKER_MAILBOX) || model_open_of(m, w->name) >= w->capacity) continue;
        if (!first || w->served < first->served ||
            (w->served == first->served && w->serial < first->serial))
            first = w;
    }
    return first;
}

static uint32_t named_row(char names[][MODEL_NAME_MAX], uint32_t *len, const char *name)
{
    for (uint32_t i = 0; i < *len; i++)
        if (strcmp(names[i], name) == 0) return i;
    strcpy(names[*len], name);
    return (*len)++;
}

enum reason model_dispatch(struct model *m, struct bytes payload)
{
    struct op_dispatch op;
    if (dispatch_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    if (m->epoch == 0) return REASON_NOT_OWNER;
    if (m->paused) return REASON_PAUSED;
    char names[MODEL_WORKERS_MAX][MODEL_NAME_MAX];
    uint32_t count = 0, names_len = 0;
    uint64_t open = model_open(m), fence = m->fence, seq;
    bool overtakes = false;
    struct model_worker *w;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, 0);
    for (; count < op.max && (w = next_row(m)) && (seq = model_next(m)); count++) {
        give_ticket(m, seq, w, op.seed, op.ticket_ms);
        if (model_overtakes(m, seq, fence)) overtakes = true;
        model_put_grant(m, seq, named_row(names, &names_len, w->name));
    }
    if (overtakes) say(m, EVENT_ORDERING_BEST_EFFORT, 0)->count = open;
    buf_set_u32(&m->body, 1, count);
    buf_put_u32(&m->body, names_len);
    for (uint32_t i = 0; i < names_len; i++)
        buf_put_sized(&m->body, bytes_str(names[i]));
    return REASON_NONE;
}

static void unregister(struct model *m, struct model_worker *w)
{
    model_recover(m, w->name);
    w->capacity = 0;
}

static void put_facts(struct model *m, struct model_worker *w, const struct worker_change *c)
{
    w->capacity = c->capacity;
    w->ttl_ms = c->ttl_ms;
    w->flags = c->flags;
    w->expires_at = m->from + c->ttl_ms;
}

static enum reason join(struct model *m, struct model_worker *w, const struct worker_change *c,
                        const char *name)
{
    bool over = w && w->expires_at <= m->now, evicted = w && w->mode == WORKER_IS_EVICTED;
    if (w && w->instance == c->instance && !evicted) {
        put_facts(m, w, c);
        return REASON_NONE;
    }
    if (w && !over && w->instance == c->instance) return REASON_WORKER_EVICTED;
    if (w && !over && !evicted) return REASON_WORKER_NAME_TAKEN;
    if (w) unregister(m, w);
    size_t free = 0;
    while (free < m->workers_len && m->workers[free].capacity > 0)
        free++;
    CHECK(free < MODEL_WORKERS_MAX);
    if (free == m->workers_len) m->workers_len++;
    w = &m->workers[free];
    *w = (struct model_worker){.instance = c->instance, .serial = ++m->serial, .served = m->order};
    strcpy(w->name, name);
    put_facts(m, w, c);
    return REASON_NONE;
}

// All locks and tickets end, in the order in which they were given.
static void end_locks(struct model *m, const char *worker)
{
    for (;;) {
        uint64_t first = 0;
        for (uint64_t seq = 1; seq <= m->sent; seq++) {
            const struct model_message *x = at(m, seq);
            if (x->state != STATE_LOCKED || strcmp(x->worker, worker) != 0) continue;
            if (first == 0 || x->fence < at(m, first)->fence) first = seq;
        }
        if (first == 0) return;
        enum outcome_status status;
        if (model_interrupted(m, first, false, BYTES_EMPTY, &status)) continue;
        bool ticket = at(m, first)->ticket;
        struct event *e = say(m, ticket ? EVENT_TICKETS_RECOVERED : EVENT_MESSAGE_RELEASED, first);
        e->reason = REASON_WORKER_EVICTED;
        say_worker(m, e, worker);
        model_give_back(m, first, 0, false);
    }
}

static enum reason operate(struct model *m, struct model_worker *w, enum worker_act act)
{
    if (!w) return REASON_UNKNOWN_WORKER;
    if (w->mode == WORKER_IS_EVICTED)
        return act == WORKER_EVICT ? REASON_NONE : REASON_WORKER_EVICTED;
    w->mode = act == WORKER_PAUSE    ? WORKER_IS_PAUSED
              : act == WORKER_DRAIN  ? WORKER_IS_DRAINING
              : act == WORKER_RESUME ? WORKER_RUNNING
                                     : WORKER_IS_EVICTED;
    if (act != WORKER_EVICT) return REASON_NONE;
    w->expires_at = m->from + WORKER_EVICTED_KEEP_MS;
    end_locks(m, w->name);
    return REASON_NONE;
}

static enum reason change(struct model *m, const struct worker_change *c)
{
    char name[MODEL_NAME_MAX];
    name_of(c->name, name);
    struct model_worker *w = model_worker(m, name);
    if (c->act == WORKER_JOIN) return join(m, w, c, name);
    if (c->act >= WORKER_PAUSE) return operate(m, w, c->act);
    if (!w || w->instance != c->instance) return REASON_UNKNOWN_WORKER;
    if (w->mode == WORKER_IS_EVICTED) return REASON_WORKER_EVICTED;
    if (c->act == WORKER_LEAVE)
        unregister(m, w);
    else
        w->expires_at = m->from + w->ttl_ms;
    return REASON_NONE;
}

enum reason model_workers(struct model *m, struct bytes payload)
{
    struct op_workers op;
    if (workers_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    bool any = op.count == 0;
    enum reason first = REASON_NONE;
    buf_put_u8(&m->body, 0);
    buf_put_u32(&m->body, op.count);
    size_t rows_at = m->body.len;
    struct reader rows = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count; i++) {
        struct worker_change c;
        CHECK(worker_change_next(&rows, &c));
        enum reason reason = change(m, &c);
        any = any || reason == REASON_NONE;
        if (first == REASON_NONE) first = reason;
        worker_reason_put(&m->body, rows_at, reason);
    }
    return any ? REASON_NONE : first;
}
