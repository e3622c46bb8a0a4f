// SPDX-License-Identifier: Apache-2.0
// POST .../collect with Accept: text/event-stream: each outcome as it comes, as Server-Sent Events.
// The stream ends when all messages have ended. It has a thread only while it writes.
#include "api/collector.h"
#include "os/clock.h"
#include "server/sse.h"

#include "base/memory.h"

#include <string.h>

#define POLL_MS     5000 // delay until a disconnect is noticed
#define UNPLACED_MS 1000 // ... if the stream has no place among those that wait

struct collect_stream {
    struct event_stream stream; // first
    struct sluice_collector *collector;
    int64_t beat_at;
    enum sluice_code code; // of the last poll
    struct sluice_error error;
    _Atomic int arrived; // see arrive
};

static void stream_free(struct event_stream *e)
{
    struct collect_stream *c = (struct collect_stream *)e;
    sluice_collect_close(c->collector);
    memory_free(c);
}

static bool write_event(struct collect_stream *c, const char *name, struct json *data)
{
    LOCAL(buf, text, SIZE_MAX);
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
    LOCAL(buf, text, 64);
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

// The poll has ended, and the thread that began it has left: the stream goes on.
static void arrive(struct collect_stream *c)
{
    if (atomic_fetch_add(&c->arrived, 1) == 1) sse_resume(&c->stream);
}

static void polled(struct async_call *async, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)async;
    struct collect_stream *c = (struct collect_stream *)x->stream;
    wait_end(x);
    c->code = a->code;
    if (a->code) c->error = *a->error;
    if (!a->code) collector_take(c->collector, a->collected);
    arrive(c);
}

// Waits for outcomes like a long poll, without a thread.
static void wait_for_more(struct collect_stream *c)
{
    struct exchange *x = c->stream.exchange;
    struct httpd_request *http = x->http;
    struct collect_poll poll;
    clock_sleep(collector_pause_ms(c->collector));
    collector_poll(c->collector, &poll);
    httpd_keep(http); // the stream may end before the poll has returned
    bool waits = wait_begin(x, NULL);
    poll.wait_ms = waits ? POLL_MS : UNPLACED_MS;
    atomic_store(&c->arrived, 0);
    x->async.done = polled;
    async_collect(x->server->engine, x->queue, &poll, &x->async);
    if (waits) wait_begun(x);
    arrive(c);
    httpd_drop(http);
}

static enum sse_end feed(struct event_stream *e)
{
    struct collect_stream *c = (struct collect_stream *)e;
    const struct sluice_collected *one = NULL;
    const char *const *missing;
    bool open = true;
    if (c->code) {
        struct json *why = problem_json(err_http((enum err)c->code), &c->error);
        return write_event(c, "error", why) ? SSE_ENDED : SSE_CUT;
    }
    while (open && !sse_is_over(e) && (one = collector_tell(c->collector)))
        open = write_event(c, one->kind, event_json(one));
    bool over = sse_is_over(e), all = sluice_collect_missing(c->collector, &missing) == 0;
    if (open && !over && all) open = write_end(c);
    if (open && !over && !all && clock_boot_ms() >= c->beat_at) {
        open = write_beat(c);
        c->beat_at = clock_boot_ms() + SSE_BEAT_MS;
    }
    if (!open || over || all) return open ? SSE_ENDED : SSE_CUT;
    wait_for_more(c);
    return SSE_WAITS;
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
    c->beat_at = clock_boot_ms() + SSE_BEAT_MS;
    x->stream = &c->stream;
    enum sluice_code code =
        collector_open(x->server->store, x->queue, &first, &c->collector, &error);
    if (code || !sse_begin(&c->stream, x)) {
        if (code) answer_error(x, &error);
        stream_free(&c->stream);
        return;
    }
    forget_body(x); // the collector has copied the ids
    if (sse_run(&c->stream, &error)) return;
    answer_error(x, &error);
    sse_over(&c->stream);
}
