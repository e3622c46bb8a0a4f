// SPDX-License-Identifier: Apache-2.0
// The place, the thread and the writing of an event stream.
#include "server/sse.h"

#include "os/clock.h"
#include "os/lock.h"

#include <stddef.h>

#define WRITE_MS 30000 // for a client that reads too slowly
#define CUT_MS   1000  // for sending the rest, when other clients need the stream's memory

// A stream outlives the check of its request. So its token is checked after each reload of the
// tokens, and again with each comment because it can expire.
static bool is_denied(struct event_stream *e)
{
    uint64_t changes = atomic_load(&e->server->token_changes);
    int64_t now = clock_boot_ms();
    if (e->denied || (changes == e->token_changes && now < e->token_at)) return e->denied;
    e->token_changes = changes;
    e->token_at = now + SSE_BEAT_MS;
    e->denied = !auth_still(e->exchange);
    return e->denied;
}

bool sse_is_over(struct event_stream *e)
{
    return atomic_load(&e->server->stopping) || atomic_load(&e->lost) ||
           httpd_stream_gone(e->http) || is_denied(e);
}

bool sse_write(struct event_stream *e, const struct buf *text)
{
    int64_t give_up = clock_boot_ms() + WRITE_MS;
    bool written;
    do
        written = httpd_stream_write(e->http, buf_bytes(text), SSE_SLICE_MS);
    while (!written && !sse_is_over(e) && clock_boot_ms() < give_up);
    return written;
}

void sse_over(struct event_stream *e)
{
    struct server *s = e->server;
    (void)pthread_mutex_lock(&s->lock);
    s->streams--;
    share_give(&s->streaming, &e->share);
    (void)pthread_mutex_unlock(&s->lock);
    e->free(e);
    call_end(s);
}

// A stream that loses its place ends soon. Its client may reconnect and continue. Streams that are
// ending are bounded too, because each has a thread.
static bool take_place(struct event_stream *e, uint64_t client)
{
    struct server *s = e->server;
    struct share *lost = NULL;
    LOCKED(&s->lock);
    bool budget = s->streams < 2 * (size_t)s->config.streams_max &&
                  share_take(&s->streaming, &e->share, client, &lost);
    if (budget) {
        s->streams++;
        s->calls++;
    }
    if (lost) atomic_store(&((struct event_stream *)lost)->lost, true);
    return budget;
}

bool sse_begin(struct event_stream *e, struct exchange *x)
{
    e->server = x->server;
    e->exchange = x;
    e->token_changes = atomic_load(&x->server->token_changes);
    e->token_at = clock_boot_ms() + SSE_BEAT_MS;
    if (take_place(e, x->client)) return true;
    return refuse_request(x, SLUICE_LIMIT, "too-many-streams", "",
                          "%u event streams are open already (limits.streams), and this client "
                          "has its share; close one, or try again later",
                          x->server->config.streams_max);
}

static void open_stream(struct event_stream *e)
{
    static const struct httpd_pair fresh = {"Cache-Control", "no-store"};
    struct httpd_answer a = {.status = 200,
                             .type = "text/event-stream",
                             .body = bytes_str("retry: 1000\n\n"),
                             .headers = &fresh,
                             .headers_len = 1};
    METRICS_ADD(&e->server->metrics, streams, 1);
    e->exchange->status = 200;
    e->http = httpd_stream_open(e->exchange->http, &a);
}

static void end_stream(struct event_stream *e, enum sse_end end)
{
    if (e->denied) (void)httpd_stream_write(e->http, bytes_str(SSE_TOKEN_END), 0);
    if (end == SSE_ENDED && !atomic_load(&e->lost))
        httpd_stream_end(e->http);
    else
        httpd_stream_cut(e->http, CUT_MS);
    sse_over(e);
}

static void run_stream(struct pool_job *job)
{
    struct event_stream *e =
        (struct event_stream *)((char *)job - offsetof(struct event_stream, job));
    if (!e->http) open_stream(e);
    enum sse_end end = e->feed(e);
    if (end != SSE_WAITS) end_stream(e, end); // else another thread may have it already
}

void sse_resume(struct event_stream *e)
{
    if (pool_share_run(e->server->stream_threads, e->exchange->client, &e->job) != ERR_OK)
        end_stream(e, SSE_CUT);
}

bool sse_run(struct event_stream *e, struct sluice_error *error)
{
    e->job.run = run_stream;
    if (pool_share_run(e->server->stream_threads, e->exchange->client, &e->job) == ERR_OK)
        return true;
    *error = no_thread_error();
    return false;
}
