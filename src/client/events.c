// SPDX-License-Identifier: Apache-2.0
// Reads the event stream of a node (Server-Sent Events) as far as the caller asks. A stream that
// breaks is opened again at the position of the last event. So no event is missed or delivered
// twice.
//
// The node sends an id without an event when it has sent all events so far. Until that id arrives,
// a caller that does not want to wait still waits, because existing events are on their way.
#include "client/client.h"
#include "protocol/library_calls.h"

#include "base/memory.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STREAM_MS (INT64_C(24) * 3600 * 1000) // then the stream is opened again
// three of the node's heartbeats; then the connection counts as lost
#define SILENT_MS 45000
#define ID_MAX    2048
#define BODY_MAX  ((size_t)16 << 20) // of unread bytes
#define SLICE_MS  250
#define OTHERS_MS 5000 // for a node's first answer, if there are other nodes

struct client_events {
    struct sluice_events base; // must be first
    struct node_client *remote;
    enum route_id call; // the events of a queue, or of the cluster
    size_t node;        // that the stream comes from
    char from[64];      // the position that the stream starts at
    char queue[QUEUE_NAME_MAX + 1];
    char id[ID_MAX];      // the position of the last event; "" before the first
    struct ask_head head; // call_http.url points into it, also after the stream broke
    struct http_call call_http;
    struct http_stream *stream; // NULL if broken, to be opened again
    size_t read;                // how many bytes of call_http.body_in are read
    bool caught_up;             // all events that existed at the start have arrived
    bool ended;                 // the queue is deleted
    int64_t received_at;
    unsigned tries;     // failed attempts to open the stream
    int64_t lost_at;    // when the stream broke, by clock_boot_ms
    struct json *event; // the event that the caller has now
};

static void drop_stream(struct client_events *e)
{
    if (e->stream) e->lost_at = clock_boot_ms();
    http_stream_close(e->stream);
    e->stream = NULL;
    e->caught_up = false;
}

static void start_stream(struct client_events *e)
{
    char last[ID_MAX + 32];
    struct events_in in = {.from = e->from};
    struct cluster_events_in cluster = {.from = e->from[0] ? e->from : NULL};
    bool of_queue = e->call == ROUTE_EVENTS;
    struct ask ask = {.call = e->call,
                      .queue = of_queue ? e->queue : NULL,
                      .in = of_queue ? (const void *)&in : &cluster};
    struct nodes_walk walk = nodes_walk(&e->remote->nodes);
    e->node = nodes_next(&e->remote->nodes, &walk, NODES_ANY);
    ask_head_make(e->remote, e->node, &ask, &e->head);
    if (e->id[0]) {
        (void)snprintf(last, sizeof last, "Last-Event-ID: %s", e->id);
        e->head.lines[e->head.lines_len++] = last;
    }
    e->call_http.url = e->head.url;
    e->call_http.headers = e->head.lines;
    e->call_http.headers_len = e->head.lines_len;
    e->call_http.timeout_ms = STREAM_MS;
    e->call_http.body_max = BODY_MAX;
    e->read = 0;
    e->received_at = clock_boot_ms();
    e->stream = http_stream_open(e->remote->http, &e->call_http);
    (void)http_stream_read(e->stream, 0);
    int64_t patience = e->remote->timeout_ms;
    if (e->remote->nodes.len > 1 && patience > OTHERS_MS) patience = OTHERS_MS;
    while (e->call_http.status == 0 && clock_boot_ms() < e->received_at + patience)
        if (!http_stream_read(e->stream, SLICE_MS)) break;
    nodes_report(&e->remote->nodes, e->node, e->call_http.status != 0);
    e->call_http.headers = NULL; // no longer needed
    e->call_http.headers_len = 0;
}

// An answer other than 200 has a body with the error. Waits for it.
static enum sluice_code refused(struct client_events *e, struct sluice_error *error)
{
    struct sluice_error why;
    int64_t until = client_until(e->remote);
    while (clock_boot_ms() < until && http_stream_read(e->stream, SLICE_MS)) {
    }
    enum sluice_code code = ask_read_error(&e->call_http, &why);
    if (code == SLUICE_UNKNOWN) code = why.code = SLUICE_UNAVAILABLE; // reading changes nothing
    if (error) *error = why;
    return code;
}

// SLUICE_UNAVAILABLE means that another attempt can succeed.
static enum sluice_code open_stream(struct client_events *e, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    start_stream(e);
    if (e->call_http.status == 0)
        code = refuse(error, ERR_UNAVAILABLE, "store", "%s",
                      e->call_http.why[0] ? e->call_http.why : "the node does not answer");
    else if (e->call_http.status != 200)
        code = refused(e, error);
    if (!code) {
        e->tries = 0;
        return SLUICE_OK;
    }
    int64_t lost_at = e->lost_at;
    drop_stream(e);
    e->lost_at = lost_at;
    e->tries++;
    return code;
}

enum sluice_code client_stream_open(struct node_client *r, enum route_id call, const char *queue,
                                    const char *from, struct client_events **out,
                                    struct sluice_error *error)
{
    enum sluice_code code = client_check(r, queue, error);
    if (code) return code;
    struct client_events *e = NEW(struct client_events);
    (void)snprintf(e->from, sizeof e->from, "%s", from ? from : "");
    e->base.at_node = true;
    e->remote = r;
    e->call = call;
    (void)snprintf(e->queue, sizeof e->queue, "%s", queue ? queue : "");
    http_call_init(&e->call_http, "GET", NULL);
    e->lost_at = clock_boot_ms();
    int64_t until = client_until(r);
    for (;;) {
        code = open_stream(e, error);
        if (code != SLUICE_UNAVAILABLE || clock_boot_ms() >= until) break;
        client_pause(e->tries, until);
    }
    if (code)
        client_events_close(&e->base);
    else
        *out = e;
    return code;
}

enum sluice_code client_events_open(struct node_client *s, const char *queue, uint64_t position,
                                    struct sluice_events **out, struct sluice_error *error)
{
    char from[24];
    struct client_events *e = NULL;
    (void)snprintf(from, sizeof from, "%" PRIu64, position);
    enum sluice_code code = client_stream_open(s, ROUTE_EVENTS, queue, from, &e, error);
    if (!code) *out = &e->base;
    return code;
}

void client_events_close(struct sluice_events *base)
{
    struct client_events *e = (struct client_events *)base;
    http_stream_close(e->stream);
    http_call_done(&e->call_http);
    json_free(e->event);
    memory_free(e);
}

// Returns the next complete line without its newline. Returns false if no line is complete.
static bool next_line(struct client_events *e, size_t *at, struct bytes *line)
{
    const struct buf *in = &e->call_http.body_in;
    if (*at >= in->len) return false;
    const uint8_t *from = in->data + *at;
    const uint8_t *end = memchr(from, '\n', in->len - *at);
    if (!end) return false;
    *at += (size_t)(end - from) + 1;
    size_t len = (size_t)(end - from);
    if (len > 0 && from[len - 1] == '\r') len--;
    *line = bytes_of(from, len);
    return true;
}

static bool field(struct bytes line, const char *name, struct bytes *value)
{
    size_t len = strlen(name);
    if (line.len < len || memcmp(line.data, name, len) != 0) return false;
    if (line.len > len && line.data[len] == ' ') len++;
    *value = bytes_of(line.data + len, line.len - len);
    return true;
}

struct block {
    struct bytes id;
    struct bytes word; // the type of the event
    struct bytes data;
};

// Drops the bytes that are read, to make room for more.
static void forget_read(struct client_events *e)
{
    struct buf *in = &e->call_http.body_in;
    if (e->read == 0 || (e->read < in->len / 2 && e->read < BODY_MAX / 2)) return;
    memmove(in->data, in->data + e->read, in->len - e->read);
    in->len -= e->read;
    e->read = 0;
}

// Reads lines up to an empty line. Returns false if the rest has not arrived yet.
static bool next_block(struct client_events *e, struct block *out)
{
    size_t at = e->read;
    struct bytes line;
    *out = (struct block){0};
    while (next_line(e, &at, &line)) {
        if (line.len == 0) {
            e->read = at;
            return true;
        }
        if (field(line, "id:", &out->id) || field(line, "event:", &out->word)) continue;
        (void)field(line, "data:", &out->data);
    }
    return false;
}

// Parses an event, which stays until the next one.
static enum sluice_code read_event(struct client_events *e, struct bytes data, struct json **out,
                                   struct sluice_error *error)
{
    char why[128];
    json_free(e->event);
    struct json *o = e->event = json_parse((const char *)data.data, data.len, why, sizeof why);
    if (!o || json_kind(o) != JSON_KIND_OBJECT)
        return refuse(error, ERR_CORRUPT, "store", "cannot read an event of the node");
    *out = o;
    return SLUICE_OK;
}

static void keep_id(struct client_events *e, struct bytes id)
{
    if (id.len == 0 || id.len >= sizeof e->id || memchr(id.data, 0, id.len)) return;
    memcpy(e->id, id.data, id.len);
    e->id[id.len] = 0;
}

// True if the stream has ended. The node reports a gap only to a client that resumes too late, when
// a new queue has the name. In the events of the cluster, a gap is an event like others.
static bool is_end(const struct client_events *e, struct bytes word)
{
    if (e->call != ROUTE_EVENTS) return false;
    return bytes_equal(word, bytes_str("end")) || bytes_equal(word, bytes_str("gap"));
}

// Returns the next event that has arrived. Returns false if there is none.
static bool take_event(struct client_events *e, struct bytes *data)
{
    struct block block;
    while (!e->ended && next_block(e, &block)) {
        e->ended = is_end(e, block.word);
        if (e->ended) return false;
        keep_id(e, block.id);
        if (block.id.len > 0) e->caught_up = block.data.len == 0;
        *data = block.data;
        if (block.data.len > 0) return true;
    }
    return false;
}

// Reads more for up to wait_ms. A stream that broke is opened again.
static enum sluice_code read_more(struct client_events *e, int64_t wait_ms,
                                  struct sluice_error *error)
{
    if (!e->stream) {
        int64_t until = e->lost_at + e->remote->timeout_ms;
        if (e->tries > 0) client_pause(e->tries, until);
        enum sluice_code code = open_stream(e, error);
        bool again = code == SLUICE_UNAVAILABLE && clock_boot_ms() < until;
        e->ended = code == SLUICE_NOT_FOUND; // the queue existed when the stream was opened
        return again || e->ended ? SLUICE_OK : code;
    }
    forget_read(e);
    size_t had = e->call_http.body_in.len;
    bool open = http_stream_read(e->stream, wait_ms);
    int64_t now = clock_boot_ms();
    if (e->call_http.body_in.len > had) {
        e->received_at = now;
    } else if (!open || now > e->received_at + SILENT_MS) {
        drop_stream(e);
    }
    return SLUICE_OK;
}

enum sluice_code client_stream_next(struct client_events *e, int64_t wait_ms, struct json **out,
                                    struct sluice_error *error)
{
    int64_t until = clock_boot_ms() + (wait_ms > 0 ? wait_ms : 0);
    struct bytes data;
    enum sluice_code code = client_check(e->remote, NULL, error);
    bool looked = false;
    while (!code) {
        if (take_event(e, &data)) return read_event(e, data, out, error);
        if (e->ended) return refuse_ended(error, e->queue);
        int64_t left = until - clock_boot_ms();
        bool waits = wait_ms <= 0 && !e->caught_up; // for events that exist already
        if (looked && left <= 0 && !waits) return refuse(error, ERR_NOT_FOUND, "", "no event came");
        code = read_more(e, waits || left > SLICE_MS ? SLICE_MS : left > 0 ? left : 0, error);
        looked = true;
    }
    return code;
}

enum sluice_code client_events_next(struct sluice_events *base, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error)
{
    struct json *o = NULL;
    enum sluice_code code = client_stream_next((struct client_events *)base, wait_ms, &o, error);
    if (code) return code;
    *out = (struct sluice_event){0};
    fields_view(o, &event_answer, out);
    return SLUICE_OK;
}
