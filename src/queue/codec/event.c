// SPDX-License-Identifier: Apache-2.0
// The events of an entry, and their ids.
#include "queue/codec/event.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "base/text.h"
#include "queue/codec/layouts.h"
#include "queue/core/state.h"

#include <stdio.h>
#include <string.h>

static const char *const names[EVENT_COUNT] = {
#define EVENT_NAME(name, id) id,
    EVENT_LIST(EVENT_NAME)
#undef EVENT_NAME
};

#define LAYOUT_OF struct event_origin
static const struct layout_field event_origin_fields[] = {
    FIXED(id),
    U32(shard),
    U64(seq),
    U32(retries),
    I64(died_at),
    U32(deliveries),
    BYTES(queue, .max = QUEUE_NAME_MAX),
    BYTES(reason, .max = FAIL_REASON_MAX),
    BYTES(worker, .max = WORKER_NAME_MAX),
};
const struct layout event_origin_layout = LAYOUT(event_origin_fields);
#undef LAYOUT_OF

const char *event_name(enum event_kind kind)
{
    CHECK((unsigned)kind < EVENT_COUNT);
    return names[kind];
}

void events_init(struct events *e)
{
    *e = (struct events){0};
    buf_init(&e->text, UINT32_MAX);
}

void events_done(struct events *e)
{
    memory_free(e->rows);
    buf_done(&e->text);
    *e = (struct events){0};
}

void events_clear(struct events *e)
{
    e->len = 0;
    buf_clear(&e->text);
}

struct bytes event_worker(const struct events *list, const struct event *e)
{
    if (e->worker_len == 0) return BYTES_EMPTY;
    CHECK((size_t)e->worker_at + e->worker_len <= list->text.len);
    return bytes_of(list->text.data + e->worker_at, e->worker_len);
}

struct bytes event_failure_text(const struct events *list, const struct event *e)
{
    if (e->failure_len == 0) return BYTES_EMPTY;
    CHECK((size_t)e->failure_at + e->failure_len <= list->text.len);
    return bytes_of(list->text.data + e->failure_at, e->failure_len);
}

struct bytes event_workflow(const struct events *list, const struct event *e)
{
    if (e->workflow_len == 0) return BYTES_EMPTY;
    CHECK((size_t)e->workflow_at + e->workflow_len <= list->text.len);
    return bytes_of(list->text.data + e->workflow_at, e->workflow_len);
}

void event_ordering_key(const struct events *list, const struct event *e, const char *queue,
                        const struct queue_id *id, uint32_t shard, char out[EVENT_KEY_MAX])
{
    CHECK(strlen(queue) <= QUEUE_NAME_MAX);
    static_assert(EVENT_KEY_MAX > MESSAGE_ID_MAX + 8, "a message's id fits");
    char name[3 * QUEUE_NAME_MAX + 1], workflow[3 * MESSAGE_WORKFLOW_MAX + 1];
    *token_put(name, bytes_str(queue)) = '\0';
    switch (e->key) {
    case EVENT_KEY_MESSAGE:
        memcpy(out, "task:", 5);
        message_id_print(id, shard, e->seq, out + 5);
        break;
    case EVENT_KEY_GROUP:
        (void)snprintf(out, EVENT_KEY_MAX, "group:%s:%016llx", name, (unsigned long long)e->group);
        break;
    case EVENT_KEY_WORKFLOW:
        *token_put(workflow, event_workflow(list, e)) = '\0';
        (void)snprintf(out, EVENT_KEY_MAX, "workflow:%s:%s", name, workflow);
        break;
    default:
        (void)snprintf(out, EVENT_KEY_MAX, "queue:%s:%u", name, shard);
        break;
    }
}

bool event_origin(const struct events *list, const struct event *e, struct event_origin *out)
{
    if (e->origin_len == 0) return false;
    CHECK((size_t)e->origin_at + e->origin_len <= list->text.len);
    struct bytes text = bytes_of(list->text.data + e->origin_at, e->origin_len);
    CHECK(layout_read_all(&event_origin_layout, text, out)); // emit_origin wrote it
    return true;
}

void event_id(const struct event *e, const struct queue_id *queue, uint32_t shard,
              char out[EVENT_ID_MAX])
{
    char hex[33];
    for (size_t i = 0; i < sizeof queue->bytes; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", queue->bytes[i]);
    char op[12] = "t";
    if (e->op != EVENT_OP_TIME) (void)snprintf(op, sizeof op, "%u", e->op);
    int len = snprintf(out, EVENT_ID_MAX, "%s-%u-%llu-%s-%s-%u", hex, shard,
                       (unsigned long long)e->slot, op, event_name(e->kind), e->n);
    CHECK(len > 0 && len < EVENT_ID_MAX);
}

static void describe(const struct machine *m, uint32_t h, struct event *e)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(h < m->msgs_len && msg->seq > 0); // the record is not freed yet
    e->seq = msg->seq;
    e->place = (struct place){msg->slot, msg->skip};
    e->deliveries = msg->deliveries;
    e->retries = msg->retries;
    if (msg->state == STATE_DELAYED) e->until = heap_get(&m->timers, h)->key;
    if (msg->state != STATE_LOCKED) return;
    const struct lock *lock = lock_of(m, msg);
    e->fence = lock->fence;
    e->until = lock->deadline;
    e->order = lock->order;
}

// The key and the workflow of an event about this message. h: its record, or 0.
void emit_key(struct machine *m, struct event *e, uint64_t seq, uint32_t h)
{
    struct bytes workflow = workflow_of(m, seq);
    CHECK(seq > 0);
    e->key = EVENT_KEY_MESSAGE;
    if (is_strict(m)) {
        e->key = EVENT_KEY_GROUP;
        e->group = h ? m->scopes[msg_at(m, h)->scope].group : 0;
    }
    if (workflow.len == 0) return;
    if (m->config.workflow_order) e->key = EVENT_KEY_WORKFLOW;
    emit_workflow(m, e, workflow);
}

// h: the message of the event, or 0. The row is valid until the next call.
struct event *emit(struct machine *m, enum event_kind kind, uint32_t h)
{
    struct events *list = m->events;
    m->event_count += list || !MUTANT(EVENTS_UNHEARD);
    if (!list) return NULL;
    CHECK((unsigned)kind < EVENT_COUNT);
    struct event *e = ARRAY_ADD(list->rows, list->len, list->cap);
    bool time = m->op_index == EVENT_OP_TIME;
    *e = (struct event){.slot = m->slot,
                        .op = m->op_index,
                        .n = time ? m->time_n++ : m->event_n++,
                        .kind = kind,
                        .at = m->now,
                        .sequence = m->event_count};
    if (h) describe(m, h, e);
    if (h) emit_key(m, e, e->seq, h);
    return e;
}

// If two successive events have the same workflow, its id is stored once.
void emit_workflow(struct machine *m, struct event *e, struct bytes id)
{
    struct events *list = m->events;
    const struct event *before = e > list->rows ? e - 1 : NULL;
    CHECK(e == list->rows + list->len - 1 && id.len <= MESSAGE_WORKFLOW_MAX);
    e->workflow_at = (uint32_t)list->text.len;
    e->workflow_len = (uint32_t)id.len;
    if (before && bytes_equal(event_workflow(list, before), id))
        e->workflow_at = before->workflow_at;
    else
        buf_put(&list->text, id);
    if (list->text.bad) e->workflow_at = e->workflow_len = 0;
}

// The events of a batch often name the same worker: its name is stored once.
void emit_worker(struct machine *m, struct event *e, uint32_t w)
{
    CHECK(w > 0 && w < m->workers_len);
    emit_worker_name(m, e, worker_name(m, w));
}

void emit_worker_name(struct machine *m, struct event *e, struct bytes name)
{
    struct events *list = m->events;
    CHECK(name.len <= WORKER_NAME_MAX);
    struct bytes last = BYTES_EMPTY;
    if (name.len > 0 && list->text.len >= name.len)
        last = bytes_of(list->text.data + list->text.len - name.len, name.len);
    e->worker_len = (uint32_t)name.len;
    e->worker_at = (uint32_t)(list->text.len - name.len);
    if (bytes_equal(last, name)) return;
    e->worker_at = (uint32_t)list->text.len;
    buf_put(&list->text, name);
    if (list->text.bad) e->worker_at = e->worker_len = 0;
}

// If two successive events have the same reason, its text is stored once: it can be long.
void emit_failure_text(struct machine *m, struct event *e, struct bytes text)
{
    struct events *list = m->events;
    const struct event *before = e > list->rows ? e - 1 : NULL;
    CHECK(e == list->rows + list->len - 1); // its neighbour is the event before it
    if (text.len == 0) return;
    CHECK(text.len <= FAIL_REASON_MAX);
    e->failure_at = (uint32_t)list->text.len;
    e->failure_len = (uint32_t)text.len;
    if (before && bytes_equal(event_failure_text(list, before), text))
        e->failure_at = before->failure_at;
    else
        buf_put(&list->text, text);
    if (list->text.bad) e->failure_at = e->failure_len = 0;
}

// For the event that was emitted last.
void emit_origin(struct machine *m, const struct op_arrive *a)
{
    struct events *list = m->events;
    if (!list) return;
    CHECK(list->len > 0);
    struct event *e = &list->rows[list->len - 1];
    CHECK(e->kind == EVENT_MESSAGE_ENQUEUED);
    size_t at = list->text.len;
    layout_put(&event_origin_layout, &list->text,
               &(struct event_origin){.id = a->source,
                                      .shard = a->source_shard,
                                      .seq = a->origin_seq,
                                      .retries = a->retries,
                                      .died_at = a->died_at,
                                      .deliveries = a->deliveries,
                                      .queue = a->origin,
                                      .reason = arrive_reason(a),
                                      .worker = arrive_worker(a)});
    if (list->text.bad) return;
    e->origin_at = (uint32_t)at;
    e->origin_len = (uint32_t)(list->text.len - at);
}
