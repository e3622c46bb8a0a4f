// SPDX-License-Identifier: Apache-2.0
// POST .../collect with Accept: text/event-stream: each outcome as it comes, as Server-Sent Events.
// The stream ends when all messages have ended.
#include "api/collector.h"
#include "os/clock.h"
#include "server/sse.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

struct collect_stream {
    struct event_stream stream; // first
    struct sluice_collector *collector;
};

static void stream_free(struct event_stream *e)
{
    struct collect_stream *c = (struct collect_stream *)e;
    sluice_collect_close(c->collector);
    memory_free(c);
}

static bool write_event(struct collect_stream *c, const char *name, struct json *data)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, SIZE_MAX);
    buf_put(&text, bytes_str("id: "));
    buf_put(&text, bytes_str(sluice_collect_position(c->collector)));
    buf_put(&text, bytes_str("\nevent: "));
    buf_put(&text, bytes_str(name));
    buf_put(&text, bytes_str("\ndata: "));
    json_write(data, &text);
    buf_put(&text, bytes_str("\n\n"));
    return sse_write(&c->stream, &text);
}

static bool write_beat(struct collect_stream *c)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 64);
    buf_put(&text, bytes_str(": \n\n"));
    return sse_write(&c->stream, &text);
}

static bool write_end(struct collect_stream *c)
{
    struct json *o = json_new();
    const char *const *missing;
    json_number(o, "missing", (int64_t)sluice_collect_missing(c->collector, &missing));
    return write_event(c, "end", o);
}

static struct json *event_json(const struct sluice_collected *one)
{
    if (strcmp(one->kind, "answer") == 0) return fields_json(&signal_answer, &one->answer);
    return fields_json(&collected_answer, &one->message);
}

static bool feed(struct event_stream *e)
{
    struct collect_stream *c = (struct collect_stream *)e;
    int64_t beat_at = clock_boot_ms() + SSE_BEAT_MS;
    bool open = true;
    while (open && !sse_is_over(e)) {
        const struct sluice_collected *one;
        struct sluice_error error = {.code = SLUICE_OK};
        enum sluice_code code = sluice_collect_next(c->collector, SSE_SLICE_MS, &one, &error);
        bool none = code == SLUICE_NOT_FOUND && !*error.field; // none has ended in this time
        if (code && !none)
            return write_event(c, "error", problem_json(err_http((enum err)code), &error));
        if (!code && !one) return write_end(c);
        if (!code) open = write_event(c, one->kind, event_json(one));
        if (clock_boot_ms() < beat_at) continue;
        open = open && write_beat(c);
        beat_at = clock_boot_ms() + SSE_BEAT_MS;
    }
    return open;
}

// Last-Event-ID is newer than the body.
static bool read_last(struct exchange *x, int64_t *position)
{
    struct sluice_error error;
    if (!x->last_event) return true;
    return answer_unless(x, collector_position(x->last_event, position, &error), &error);
}

void collect_stream(struct exchange *x, const struct collect_poll *poll)
{
    struct sluice_error error;
    struct collect_poll first = *poll;
    if (!read_last(x, &first.position)) return;
    struct collect_stream *c = NEW(struct collect_stream);
    c->stream.feed = feed;
    c->stream.free = stream_free;
    enum sluice_code code =
        collector_open(x->server->store, x->queue, &first, &c->collector, &error);
    if (code || !sse_begin(&c->stream, x)) {
        if (code) answer_error(x, &error);
        stream_free(&c->stream);
        return;
    }
    if (sse_run(&c->stream, &error)) return;
    answer_error(x, &error);
    sse_over(&c->stream);
}
