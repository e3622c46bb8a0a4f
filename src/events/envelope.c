// SPDX-License-Identifier: Apache-2.0
// Makes envelopes of events, and tells how they travel: subject, headers, message id, versions.
#include "events/envelope.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/moment.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define QUEUE_HEX  32 // digits of a queue's id
#define HEADER_MAX (3 * 1024)
#define CLUSTER    "cluster" // begins the ordering key of a cluster event

static char *put_text(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len);
    return at + len;
}

static void key_put(char out[ENVELOPE_KEY_MAX], const char *kind, const char *queue,
                    struct bytes name)
{
    CHECK(strlen(queue) <= SUBJECT_NAME_MAX);
    char *at = put_text(out, kind);
    *at++ = ':';
    at = token_put(at, bytes_str(queue));
    if (name.len > 0) {
        *at++ = ':';
        at = token_put(at, name);
    }
    *at = '\0';
    CHECK(at < out + ENVELOPE_KEY_MAX);
}

static struct envelope_origin origin_of(const struct sluice_origin *from)
{
    return (struct envelope_origin){.queue = from->queue ? from->queue : "",
                                    .task_id = from->id ? from->id : "",
                                    .reason = from->reason ? from->reason : "",
                                    .worker = from->worker ? from->worker : "",
                                    .retries = from->retries,
                                    .attempts = from->attempts,
                                    .died_at = from->died_at};
}

static struct envelope_payload empty_payload(void)
{
    return (struct envelope_payload){
        .status = "",
        .reason = "",
        .worker = "",
        .node = "",
        .signal = "",
        .signal_kind = "",
        .from = {.queue = "", .task_id = "", .reason = "", .worker = ""}};
}

struct envelope envelope_empty(void)
{
    return (struct envelope){.event_id = "",
                             .event_type = "",
                             .schema_version = ENVELOPE_VERSION,
                             .node_id = "",
                             .queue = "",
                             .task_id = "",
                             .workflow_id = "",
                             .ordering_key = "",
                             .payload = empty_payload()};
}

struct envelope envelope_of(const struct sluice_event *e, const struct envelope_place *place)
{
    struct envelope out = envelope_empty();
    CHECK(e->id[0] && e->type[0]);
    out.event_id = e->id;
    out.event_type = e->type;
    out.timestamp = e->time;
    out.node_id = place->node;
    out.queue = place->queue;
    out.shard = e->shard;
    out.task_id = e->message;
    out.workflow_id = e->workflow ? e->workflow : "";
    out.ordering_key = e->ordering_key ? e->ordering_key : "";
    out.sequence = e->sequence;
    out.attempt = e->attempt;
    out.payload.status = e->status;
    out.payload.reason = e->reason;
    out.payload.worker = e->worker;
    out.payload.fence = e->fence;
    out.payload.until = e->until;
    out.payload.order = e->order;
    out.payload.count = e->count;
    out.payload.signal = e->signal ? e->signal : "";
    out.payload.signal_kind = e->signal_kind ? e->signal_kind : "";
    out.payload.from = origin_of(&e->from);
    return out;
}

struct envelope envelope_gap(const char *queue_id, const struct envelope_place *place,
                             uint32_t shard, uint64_t first, uint64_t last, int64_t now,
                             struct envelope_room *room, char id[ENVELOPE_ID_MAX])
{
    char shard_text[DIGITS_MAX + 1];
    struct envelope out = envelope_empty();
    CHECK(first > 0 && first <= last);
    CHECK(strlen(queue_id) == QUEUE_HEX);
    (void)snprintf(id, ENVELOPE_ID_MAX, "%s-%u-gap-%llu-%llu", queue_id, shard,
                   (unsigned long long)first, (unsigned long long)last);
    (void)snprintf(shard_text, sizeof shard_text, "%u", shard);
    key_put(room->key, "queue", place->queue, bytes_str(shard_text));
    out.event_id = id;
    out.event_type = ENVELOPE_GAP;
    out.timestamp = now;
    out.node_id = place->node;
    out.queue = place->queue;
    out.shard = shard;
    out.ordering_key = room->key;
    out.sequence = last; // the next event has the sequence after it
    out.payload.first = first;
    out.payload.last = last;
    return out;
}

// Cluster events of one node are in order, so the node is the key.
struct envelope envelope_cluster(const struct sluice_cluster_event *e, const char *node,
                                 struct envelope_room *room, char id[ENVELOPE_ID_MAX])
{
    struct envelope out = envelope_empty();
    (void)snprintf(id, ENVELOPE_ID_MAX, CLUSTER "-%.80s-%.60s", node, e->id);
    key_put(room->key, CLUSTER, node, BYTES_EMPTY);
    out.event_id = id;
    out.event_type = e->type;
    out.timestamp = e->time;
    out.node_id = node;
    out.queue = e->queue;
    out.shard = e->shard;
    out.ordering_key = room->key;
    out.payload.status = e->status;
    out.payload.node = e->node;
    out.payload.epoch = e->epoch;
    return out;
}

struct subject envelope_subject(const struct envelope *e)
{
    bool cluster = strncmp(e->ordering_key, CLUSTER ":", sizeof CLUSTER) == 0;
    bool workflow = strncmp(e->event_type, "workflow-", 9) == 0 && *e->workflow_id;
    if (cluster)
        return (struct subject){.kind = SUBJECT_CLUSTER,
                                .version = e->schema_version,
                                .event = bytes_str(e->event_type)};
    struct subject s = {.version = e->schema_version,
                        .queue = bytes_str(e->queue),
                        .shard = e->shard,
                        .event = bytes_str(e->event_type)};
    s.kind = workflow ? SUBJECT_WORKFLOW : SUBJECT_TASK;
    if (workflow) s.workflow = bytes_str(e->workflow_id);
    return s;
}

void envelope_message_id(const struct envelope *e, char out[ENVELOPE_ID_MAX])
{
    if (e->schema_version <= 1)
        (void)snprintf(out, ENVELOPE_ID_MAX, "%s", e->event_id);
    else
        (void)snprintf(out, ENVELOPE_ID_MAX, "%s.v%u", e->event_id, e->schema_version);
}

// HTTP's rule: a space, a quote, a percent sign, and every byte that is not printable ASCII.
static void put_header(envelope_header *put, void *ctx, const char *name, const char *value)
{
    char text[HEADER_MAX], *at = text;
    for (const char *from = value; *from && at < text + sizeof text - 4; from++) {
        uint8_t c = (uint8_t)*from;
        if (c > ' ' && c < 0x7f && c != '"' && c != '%')
            *at++ = (char)c;
        else
            at += snprintf(at, 4, "%%%02X", c);
    }
    *at = '\0';
    put(ctx, name, text);
}

static void put_source(const struct envelope *e, envelope_header *put, void *ctx)
{
    char text[SUBJECT_TOKEN_MAX + 64], *at = text;
    at = put_text(at, "/sluice");
    if (*e->queue) {
        at = put_text(at, "/queues/");
        at = token_put(at, bytes_str(e->queue));
        at = put_text(at, "/shards/");
        at = digits_put(at, e->shard);
    } else {
        at = put_text(at, "/cluster");
    }
    *at = '\0';
    put_header(put, ctx, "ce-source", text);
}

void envelope_headers(const struct envelope *e, envelope_header *put, void *ctx)
{
    char text[SUBJECT_NAME_MAX + 64];
    uint32_t version = e->schema_version ? e->schema_version : ENVELOPE_VERSION;
    CHECK(strlen(e->event_type) <= SUBJECT_NAME_MAX);
    put_header(put, ctx, "ce-specversion", "1.0");
    put_header(put, ctx, "ce-id", e->event_id);
    put_source(e, put, ctx);
    (void)snprintf(text, sizeof text, "sluice.v%u.%s", version, e->event_type);
    put_header(put, ctx, "ce-type", text);
    *moment_put(text, e->timestamp) = '\0';
    put_header(put, ctx, "ce-time", text);
    if (*e->task_id) put_header(put, ctx, "ce-subject", e->task_id);
    put_header(put, ctx, "ce-datacontenttype", "application/json");
    (void)snprintf(text, sizeof text, "urn:sluice:schema:v%u:%s", version, e->event_type);
    put_header(put, ctx, "ce-dataschema", text);
    if (*e->ordering_key) put_header(put, ctx, "ce-partitionkey", e->ordering_key);
    *digits_put(text, e->sequence) = '\0';
    if (e->sequence > 0) put_header(put, ctx, "ce-sequence", text);
}

size_t envelope_versions(const struct envelope_window *w, int64_t now, uint32_t out[2])
{
    uint32_t newest = w->newest > 0 ? w->newest : ENVELOPE_VERSION;
    size_t len = 0;
    CHECK(w->also == 0 || w->also < newest);
    if (w->also > 0 && now < w->until) out[len++] = w->also;
    out[len++] = newest;
    return len;
}
