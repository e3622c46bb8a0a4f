// SPDX-License-Identifier: Apache-2.0
#include "protocol/event_view.h"

#include "protocol/signal_list.h"

#include <string.h>

static const char *put(char *to, size_t to_len, struct bytes from)
{
    size_t len = from.len < to_len ? from.len : to_len - 1;
    if (len > 0) memcpy(to, from.data, len);
    to[len] = 0;
    return to;
}

static struct sluice_origin origin_of(struct queue_ref q, uint32_t shard, const struct events *list,
                                      const struct event *e, struct event_view *out)
{
    struct event_origin from;
    struct sluice_origin o = {.queue = "", .id = "", .reason = "", .worker = ""};
    if (event_origin(list, e, &from)) {
        message_id_print(&from.id, from.shard, from.seq, out->from_id);
        o.queue = put(out->from_queue, sizeof out->from_queue, from.queue);
        o.reason = put(out->from_reason, sizeof out->from_reason, from.reason);
        o.worker = put(out->from_worker, sizeof out->from_worker, from.worker);
        o.retries = from.retries;
        o.attempts = from.deliveries;
        o.died_at = from.died_at;
        o.id = out->from_id;
    } else if (e->from != 0) {
        message_id_print(&q.id, shard, e->from, out->from_id);
        o.queue = q.name;
        o.id = out->from_id;
    }
    return o;
}

static bool is_signal(const struct event *e)
{
    return e->kind == EVENT_SIGNAL_SENT || e->kind == EVENT_SIGNAL_DELIVERED ||
           e->kind == EVENT_SIGNAL_ACKED || e->kind == EVENT_SIGNAL_ENDED;
}

const char *event_status(const struct event *e)
{
    if (is_signal(e)) return signal_state_name(e->signal_state);
    return e->kind == EVENT_MESSAGE_OUTCOME ? outcome_status_name(e->status) : "";
}

const char *event_signal(const struct event *e, char out[static SLUICE_SIGNAL_ID_MAX])
{
    out[0] = '\0';
    if (is_signal(e)) signal_id_print(&e->signal, out);
    return out;
}

const char *event_signal_kind(const struct event *e)
{
    return is_signal(e) ? signal_kind_name(e->signal_kind) : "";
}

void event_view_fill(struct queue_ref q, uint32_t shard, const struct events *list,
                     const struct event *e, struct event_view *out)
{
    struct bytes failure = event_failure_text(list, e);
    const char *reason = e->reason != REASON_NONE ? reason_name(e->reason) : "";
    event_id(e, &q.id, shard, out->id);
    event_ordering_key(list, e, q.name, &q.id, shard, out->key);
    out->message[0] = 0;
    if (e->seq != 0) id_print(q, shard, e->seq, out->message);
    out->event = (struct sluice_event){
        .id = out->id,
        .type = event_name(e->kind),
        .message = out->message,
        .status = event_status(e),
        .signal = event_signal(e, out->signal),
        .signal_kind = event_signal_kind(e),
        .reason = failure.len > 0 ? put(out->reason, sizeof out->reason, failure) : reason,
        .worker = put(out->worker, sizeof out->worker, event_worker(list, e)),
        .attempt = e->deliveries,
        .fence = e->fence,
        .time = e->at,
        .until = e->until,
        .count = e->count,
        .order = e->order,
        .from = origin_of(q, shard, list, e, out),
        .position = e->slot,
        .shard = shard,
        .sequence = e->sequence,
        .workflow = put(out->workflow, sizeof out->workflow, event_workflow(list, e)),
        .ordering_key = out->key};
}
