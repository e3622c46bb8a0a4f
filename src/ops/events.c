// SPDX-License-Identifier: Apache-2.0
// The event stream: it folds the journal again, from the oldest entry that is kept, and returns the
// events of that fold.
#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "ops/call.h"
#include "ops/ops.h"
#include "os/clock.h"
#include "protocol/event_view.h"

#include <stdio.h>
#include <string.h>

// The origin of a dead letter, or the message that a redriven one continues.
struct origin_copy {
    char queue[QUEUE_NAME_MAX + 1];
    char id[MESSAGE_ID_MAX];
    char reason[FAIL_REASON_MAX + 1];
    char worker[WORKER_NAME_MAX + 1];
    uint32_t retries;
    uint32_t attempts;
    int64_t died_at;
};

// The texts are allocated: there may be very many events, and few have them.
struct kept_event {
    struct event event;
    uint32_t shard;
    char *worker;               // may be NULL
    char *reason;               // the reason that a worker gave; may be NULL
    struct origin_copy *origin; // may be NULL
    char *workflow;             // may be NULL
    char *key;                  // its ordering key
};

struct ops_events {
    struct sluice_events base; // first
    struct open_queue *queue;  // with a hold
    uint64_t position;         // events of earlier slots are skipped
    struct shard_runner **runners;
    uint32_t shard;          // whose events were taken last
    struct kept_event *rows; // taken from it
    size_t len;
    size_t cap;
    size_t next;           // the row that is returned next
    uint32_t first;        // the shard that the next call asks first: the one behind the last
    bool had_events;       // the last call took events, perhaps only ones that are skipped
    bool was_deleted;      // ... began when all shards were deleted
    char id[EVENT_ID_MAX]; // of the event that was returned last
    char message[SLUICE_ID_MAX];
    char signal[SLUICE_SIGNAL_ID_MAX];
};

static void rows_clear(struct ops_events *e)
{
    for (size_t i = 0; i < e->len; i++) {
        memory_free(e->rows[i].worker);
        memory_free(e->rows[i].reason);
        memory_free(e->rows[i].origin);
        memory_free(e->rows[i].workflow);
        memory_free(e->rows[i].key);
    }
    e->len = e->next = 0;
}

enum sluice_code ops_events_open(struct engine *s, const char *queue, uint64_t position,
                                 struct sluice_events **out, struct sluice_error *error)
{
    struct open_queue *q = NULL;
    enum sluice_code code = queue_get(s, queue, &q, error);
    if (code) return code;
    struct ops_events *e = NEW(struct ops_events);
    e->queue = q;
    e->position = position;
    e->runners = memory_zeroed(q->row.birth.shards, sizeof(struct shard_runner *));
    for (uint32_t shard = 0; !code && shard < q->row.birth.shards; shard++)
        code = queue_event_runner(q, shard, &e->runners[shard], error);
    if (code) {
        ops_events_close(&e->base);
        return code;
    }
    *out = &e->base;
    return SLUICE_OK;
}

void ops_events_close(struct sluice_events *base)
{
    struct ops_events *e = (struct ops_events *)base;
    for (uint32_t shard = 0; shard < e->queue->row.birth.shards; shard++)
        runner_close(e->runners[shard]);
    queue_let_go(&e->queue);
    rows_clear(e);
    memory_free(e->runners);
    memory_free(e->rows);
    memory_free(e);
}

static void copy_text(char *to, size_t to_len, struct bytes from)
{
    (void)snprintf(to, to_len, "%.*s", (int)from.len, (const char *)from.data);
}

static char *copied(struct bytes text)
{
    char *copy = text.len > 0 ? memory_new(text.len + 1) : NULL;
    if (copy) copy_text(copy, text.len + 1, text);
    return copy;
}

static const char *reason_of(const struct kept_event *row)
{
    if (row->reason) return row->reason;
    return row->event.reason != REASON_NONE ? reason_name(row->event.reason) : "";
}

static struct origin_copy *origin_of(const struct ops_events *e, const struct events *list,
                                     const struct event *event)
{
    struct event_origin from;
    bool letter = event_origin(list, event, &from);
    if (!letter && event->from == 0) return NULL;
    struct origin_copy *o = NEW(struct origin_copy);
    if (!letter) {
        (void)snprintf(o->queue, sizeof o->queue, "%s", e->queue->row.name);
        message_id_print(&e->queue->row.id, e->shard, event->from, o->id);
        return o;
    }
    message_id_print(&from.id, from.shard, from.seq, o->id);
    copy_text(o->queue, sizeof o->queue, from.queue);
    copy_text(o->reason, sizeof o->reason, from.reason);
    copy_text(o->worker, sizeof o->worker, from.worker);
    o->retries = from.retries;
    o->attempts = from.deliveries;
    o->died_at = from.died_at;
    return o;
}

static void keep_event(void *ctx, const struct events *list, const struct event *event)
{
    struct ops_events *e = ctx;
    e->had_events = true;
    if (event->slot < e->position) return;
    struct kept_event *row = ARRAY_ADD(e->rows, e->len, e->cap);
    row->event = *event;
    row->shard = e->shard;
    row->origin = origin_of(e, list, event);
    row->worker = copied(event_worker(list, event));
    row->reason = copied(event_failure_text(list, event));
    row->workflow = copied(event_workflow(list, event));
    char key[EVENT_KEY_MAX];
    event_ordering_key(list, event, e->queue->row.name, &e->queue->row.id, e->shard, key);
    row->key = copied(bytes_str(key));
}

// The call for the next events of a stream. It waits in all shards at once, or looks at one.
struct follow_call {
    struct local_call call; // first
    struct ops_events *events;
    uint32_t first; // the shard that it looks at; 0 if it waits in all
    bool one;
};

static struct ops_events *events_of(struct local_call *c)
{
    return ((struct follow_call *)c)->events;
}

static enum call_built build_follow(struct local_call *c, bool may_block, struct call_plan *plan)
{
    bool one = ((struct follow_call *)c)->one;
    (void)may_block;
    *plan = (struct call_plan){.shards = one ? 1 : c->queue->row.birth.shards,
                               .first_shard = one ? 0 : events_of(c)->first};
    return CALL_BUILT;
}

// index: of the call's plan.
static uint32_t shard_at(struct local_call *c, uint32_t index)
{
    return ((struct follow_call *)c)->first + index;
}

static struct shard_runner *event_runner(struct local_call *c, uint32_t index)
{
    return events_of(c)->runners[shard_at(c, index)];
}

// Takes the events of the shard that has some.
static bool take_events(struct local_call *c, bool may_block)
{
    struct ops_events *e = events_of(c);
    const struct call_result *r = &c->state.result;
    (void)may_block;
    if (r->from == STEP_FROM_NOTHING) return true;
    uint32_t shard = shard_at(c, r->shard);
    struct shard_runner *runner = e->runners[shard];
    if (r->failed) {
        char why[STORE_WHY_MAX];
        enum err err = call_slot_of(c, STEP_AWAIT, r->shard)->err;
        runner_why(runner, err, why);
        (void)refuse_why(call_error(c), err, c->queue->row.name, why);
        return true;
    }
    e->shard = shard;
    e->first = (shard + 1) % c->queue->row.birth.shards;
    runner_events(runner, keep_event, e);
    return true;
}

static void release_follow(struct local_call *c)
{
    memory_free(c);
}

static void answer_follow(struct local_call *c, struct async_answer *out)
{
    (void)c; // the events are the stream's
    (void)out;
}

static const struct call_type follow_type = {.kind = STEP_FOLLOW,
                                             .build = build_follow,
                                             .runner = event_runner,
                                             .deliver = take_events,
                                             .answer = answer_follow,
                                             .release = release_follow};

// The stream ends when all shards are deleted. A queue that has the name now is another one.
static bool is_deleted(struct ops_events *e)
{
    bool deleted = true;
    for (uint32_t shard = 0; deleted && shard < e->queue->row.birth.shards; shard++)
        deleted = runner_saw(e->runners[shard], RUNNER_DELETED);
    return deleted;
}

// The call that takes the next events. It waits for them until then, clock_boot_ms.
static struct follow_call *follow_new(struct ops_events *e, int64_t until,
                                      struct async_call *caller)
{
    struct follow_call *f = NEW(struct follow_call);
    rows_clear(e);
    e->had_events = false;
    e->was_deleted = is_deleted(e); // asked first: the last events may come with this call
    f->events = e;
    call_prepare(&f->call, &follow_type, e->queue->engine, e->queue->row.name, caller);
    queue_hold(e->queue);
    f->call.queue = e->queue;
    f->call.until = until;
    return f;
}

static struct sluice_origin origin_shown(const struct origin_copy *o)
{
    if (!o) return (struct sluice_origin){.queue = "", .id = "", .reason = "", .worker = ""};
    return (struct sluice_origin){.queue = o->queue,
                                  .id = o->id,
                                  .reason = o->reason,
                                  .retries = o->retries,
                                  .died_at = o->died_at,
                                  .attempts = o->attempts,
                                  .worker = o->worker};
}

static void fill_event(struct ops_events *e, const struct kept_event *row, struct sluice_event *out)
{
    const struct event *v = &row->event;
    event_id(v, &e->queue->row.id, row->shard, e->id);
    e->message[0] = 0;
    if (v->seq != 0) id_print(queue_ref(e->queue), row->shard, v->seq, e->message);
    *out = (struct sluice_event){.id = e->id,
                                 .type = event_name(v->kind),
                                 .message = e->message,
                                 .status = event_status(v),
                                 .signal = event_signal(v, e->signal),
                                 .signal_kind = event_signal_kind(v),
                                 .reason = reason_of(row),
                                 .worker = row->worker ? row->worker : "",
                                 .attempt = v->deliveries,
                                 .fence = v->fence,
                                 .time = v->at,
                                 .until = v->until,
                                 .count = v->count,
                                 .order = v->order,
                                 .from = origin_shown(row->origin),
                                 .position = v->slot,
                                 .shard = row->shard,
                                 .sequence = v->sequence,
                                 .workflow = row->workflow ? row->workflow : "",
                                 .ordering_key = row->key};
}

enum sluice_code ops_events_next(struct sluice_events *base, int64_t wait_ms,
                                 struct sluice_event *out, struct sluice_error *error)
{
    struct ops_events *e = (struct ops_events *)base;
    int64_t until = clock_boot_ms() + wait_ms;
    while (e->next == e->len) {
        enum sluice_code code = call_blocking(&follow_new(e, until, NULL)->call, error);
        if (code) return code;
        if (e->had_events) continue; // skipped events are not the end
        if (e->was_deleted) return refuse_ended(error, e->queue->row.name);
        if (clock_boot_ms() >= until) return refuse(error, ERR_NOT_FOUND, "", "no event came");
    }
    fill_event(e, &e->rows[e->next++], out);
    return SLUICE_OK;
}

void async_events_wait(struct sluice_events *base, int64_t wait_ms, struct async_call *a)
{
    struct ops_events *e = (struct ops_events *)base;
    CHECK(e->next == e->len);
    call_start(&follow_new(e, clock_boot_ms() + wait_ms, a)->call);
}

void async_events_look(struct sluice_events *base, uint32_t shard, struct async_call *a)
{
    struct ops_events *e = (struct ops_events *)base;
    CHECK(e->next == e->len && shard < e->queue->row.birth.shards);
    struct follow_call *f = follow_new(e, clock_boot_ms(), a);
    f->one = true;
    f->first = shard;
    call_start(&f->call);
}

bool async_events_take(struct sluice_events *base, struct sluice_event *out)
{
    struct ops_events *e = (struct ops_events *)base;
    if (e->next == e->len) return false;
    fill_event(e, &e->rows[e->next++], out);
    return true;
}

enum events_end async_events_end(const struct sluice_events *base)
{
    const struct ops_events *e = (const struct ops_events *)base;
    if (e->had_events) return EVENTS_CAME;
    return e->was_deleted ? EVENTS_DELETED : EVENTS_NONE;
}
