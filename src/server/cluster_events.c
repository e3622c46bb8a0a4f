// SPDX-License-Identifier: Apache-2.0
// /v1/cluster/events: what happens in the cluster, as this node sees it. The id of an event is the
// node's incarnation and a counter: "9f86d081884c7d65-17". A client that reconnects to the same
// start of the node continues after that event. If events are missing in between, or if another
// node or a later start answers, the stream begins with an event "gap".
#include "base/memory.h"
#include "member/member.h"
#include "os/clock.h"
#include "server/inside.h"
#include "server/sse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOME        64 // events that are copied at once
#define EVENT_BYTES ((size_t)16 << 10)
#define LIFE_MAX    17
#define ID_MAX      48

struct cluster_stream {
    struct event_stream stream; // first
    char life[LIFE_MAX];        // the node's incarnation
    uint64_t at;                // the counter of the last event that was sent
    bool gap;                   // events were missed before the first one
};

static void free_stream(struct event_stream *e)
{
    memory_free(e);
}

static void put_id(struct buf *to, const struct cluster_stream *c)
{
    char id[ID_MAX];
    (void)snprintf(id, sizeof id, "id: %s-%" PRIu64 "\n", c->life, c->at);
    buf_put(to, bytes_str(id));
}

static bool write_row(struct cluster_stream *c, const char *type, struct json *o)
{
    LOCAL(buf, text, EVENT_BYTES);
    put_id(&text, c);
    buf_put(&text, bytes_str("event: "));
    buf_put(&text, bytes_str(type));
    buf_put(&text, bytes_str("\ndata: "));
    json_write(o, &text);
    buf_put(&text, bytes_str("\n\n"));
    return !text.bad && sse_write(&c->stream, &text);
}

// A token hears of the queues that it may read. Events without a queue are for every reader.
static bool may_hear(const struct cluster_stream *c, const struct membership_event *e)
{
    return !*e->queue || auth_may(c->stream.exchange, SCOPE_READ, e->queue);
}

static bool write_event(struct cluster_stream *c, const struct membership_event *from)
{
    char id[ID_MAX];
    c->at = from->counter;
    if (!may_hear(c, from)) return true;
    (void)snprintf(id, sizeof id, "%s-%" PRIu64, c->life, from->counter);
    struct sluice_cluster_event e = {.id = id,
                                     .type = cluster_note_name(from->note),
                                     .time = from->at_ms,
                                     .node = from->node,
                                     .queue = from->queue,
                                     .shard = from->shard,
                                     .epoch = from->epoch};
    if (from->note == NOTE_MEMBER) e.status = life_name(from->life);
    METRICS_ADD(&c->stream.server->metrics, events, 1);
    return write_row(c, e.type, fields_json(&cluster_event_answer, &e));
}

static bool write_gap(struct cluster_stream *c)
{
    char id[ID_MAX];
    (void)snprintf(id, sizeof id, "%s-%" PRIu64, c->life, c->at);
    struct sluice_cluster_event e = {
        .id = id, .type = "gap", .time = clock_realtime_ms(), .node = c->stream.server->node};
    c->gap = false;
    return write_row(c, "gap", fields_json(&cluster_event_answer, &e));
}

static bool write_beat(struct cluster_stream *c)
{
    LOCAL(buf, text, EVENT_BYTES);
    buf_put(&text, bytes_str(": \n"));
    put_id(&text, c);
    buf_put_u8(&text, '\n');
    return sse_write(&c->stream, &text);
}

// Writes the events that are there. Returns false if a write failed.
static bool write_some(struct cluster_stream *c, size_t *len)
{
    CLEANUP(memory_let_go) struct membership_event *rows = memory_zeroed(SOME, sizeof *rows);
    bool lost, open = true;
    *len = membership_events(c->stream.server->member, c->at, rows, SOME, &lost);
    if (lost && *len > 0) c->at = rows[0].counter - 1;
    if (c->gap || lost) open = write_gap(c);
    for (size_t i = 0; open && i < *len; i++)
        open = write_event(c, &rows[i]);
    return open;
}

static enum sse_end feed(struct event_stream *stream)
{
    struct cluster_stream *c = (struct cluster_stream *)stream;
    struct membership *m = stream->server->member;
    int64_t beat_at = 0; // the first comment says that all existing events were sent
    bool open = true;
    while (open && !sse_is_over(stream)) {
        size_t len;
        open = write_some(c, &len);
        if (!open || len > 0) continue;
        if (clock_boot_ms() >= beat_at) {
            open = write_beat(c);
            beat_at = clock_boot_ms() + SSE_BEAT_MS;
        }
        (void)membership_events_wait(m, c->at, SSE_SLICE_MS);
    }
    return open ? SSE_ENDED : SSE_CUT;
}

static bool take_place(struct cluster_stream *c, struct exchange *x, const char *from)
{
    struct membership *m = x->server->member;
    membership_incarnation(m, c->life);
    if (!from) return true;
    if (strcmp(from, "now") == 0) {
        struct membership_event newest;
        bool lost;
        while (membership_events(m, c->at, &newest, 1, &lost) > 0)
            c->at = newest.counter;
        return true;
    }
    size_t life = strspn(from, "0123456789abcdef");
    size_t digits = from[life] == '-' ? strspn(from + life + 1, "0123456789") : 0;
    if (life != LIFE_MAX - 1 || digits == 0 || digits > 19 || from[life + 1 + digits])
        return refuse_request(x, SLUICE_INVALID, "", "from",
                              "\"%.60s\" is not a place in the cluster's events: an id of one, or "
                              "now",
                              from);
    c->gap = strncmp(from, c->life, life) != 0;
    if (!c->gap) c->at = strtoull(from + life + 1, NULL, 10);
    return true;
}

void handle_cluster_events(struct exchange *x)
{
    struct cluster_events_in in = {0};
    struct sluice_error error;
    if (!read_request(x, &in)) return;
    if (!x->server->member) {
        (void)refuse_request(x, SLUICE_CONFLICT, "no-cluster", "coord",
                             "this node is no member of a cluster (coord = none)");
        return;
    }
    struct cluster_stream *c = NEW(struct cluster_stream);
    c->stream.feed = feed;
    c->stream.free = free_stream;
    if (!take_place(c, x, x->last_event ? x->last_event : in.from) || !sse_begin(&c->stream, x)) {
        memory_free(c);
        return;
    }
    if (!x->head && sse_run(&c->stream, &error)) return;
    if (x->head)
        answer_bytes(x, 200, "text/event-stream", NULL);
    else
        answer_error(x, &error);
    sse_over(&c->stream);
}
