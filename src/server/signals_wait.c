// SPDX-License-Identifier: Apache-2.0
// Long polls: of workers for signals to their locks, of senders for the end of a signal, and of
// readers for the outcomes of messages. They wait like receives, without a thread, and end when the
// client disconnects.
#include "ops/collect.h"
#include "protocol/wire.h"
#include "server/inside.h"

#include <string.h>

static struct json *signal_rows_json(const struct sluice_signals *list)
{
    struct json *rows = json_list_new();
    for (size_t i = 0; i < list->len; i++)
        json_list_take(rows, fields_json(&signal_answer, &list->rows[i]));
    return rows;
}

static struct json *signals_json(const struct sluice_signals *list)
{
    struct json *o = json_new();
    json_take(o, "signals", signal_rows_json(list));
    return o;
}

static void answer_signals(struct exchange *x, const struct sluice_signals *list)
{
    if (!x->wire_out) {
        answer_json(x, 200, signals_json(list));
        return;
    }
    struct buf body;
    buf_init(&body, SIZE_MAX);
    wire_put_signals(&body, list, NULL);
    answer_bytes(x, 200, WIRE_TYPE, &body);
}

static void answered(struct async_call *async, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)async;
    struct server *s = x->server;
    wait_end(x);
    bool polls = x->route->row == &route_table[ROUTE_SIGNALS_RECEIVE];
    bool unknown = !a->code && a->signals->len == 0 && !polls;
    if (a->code)
        answer_error(x, a->error);
    else if (unknown)
        (void)refuse_request(x, SLUICE_NOT_FOUND, "unknown-signal", "signal",
                             "no signal %s is known to this queue", x->signal);
    else
        answer_signals(x, a->signals);
    if (!a->code && polls) metrics_signals(&s->metrics, a->signals);
    call_end(s);
}

// Returns false if the request was answered.
static bool may_wait(struct exchange *x, int64_t *wait_ms)
{
    if (*wait_ms <= 0 || wait_begin(x, NULL)) return true;
    *wait_ms = 0;
    if (atomic_load(&x->server->stopping)) return true;
    struct sluice_error e = receive_too_many(x->server);
    answer_error(x, &e);
    return false;
}

// `start` begins the call.
static void wait_for(struct exchange *x, int64_t wait_ms,
                     void (*start)(struct exchange *x, int64_t wait_ms, const void *in),
                     const void *in)
{
    struct server *s = x->server;
    x->async.token = auth_secret(x);
    if (!may_wait(x, &wait_ms)) return;
    METRICS_ADD(&s->metrics, waits, x->waits);
    struct httpd_request *http = x->http;
    httpd_keep(http); // the call may answer before it returns
    bool waits = x->waits;
    if (waits) httpd_watch(http, receive_client_gone);
    call_begin(s);
    start(x, wait_ms, in); // it copies what it needs after its return
    if (waits) wait_begun(x);
    forget_body(x);
    httpd_drop(http);
}

static void start_poll(struct exchange *x, int64_t wait_ms, const void *in)
{
    struct signals_poll poll = *(const struct signals_poll *)in;
    poll.wait_ms = wait_ms;
    async_signals_poll(x->server->engine, x->queue, &poll, &x->async);
}

static void poll_signals(struct exchange *x, const struct signals_receive_in *in)
{
    struct signals_poll poll = {.tokens = in->tokens.rows, .len = in->tokens.len};
    if (in->after.rows && in->after.len != poll.len) {
        (void)refuse_request(x, SLUICE_INVALID, "", "after",
                             "after has %zu numbers; it should have one for each of the %zu tokens",
                             in->after.len, poll.len);
        return;
    }
    poll.after = in->after.rows;
    x->async.done = answered;
    wait_for(x, in->wait, start_poll, &poll);
}

static void poll_wire(struct exchange *x)
{
    struct signals_receive_in in;
    if (!read_query(x, &no_fields, NULL)) return;
    if (!wire_read_poll(httpd_body(x->http), &in)) {
        (void)refuse_request(x, SLUICE_INVALID, "malformed", "body",
                             "the body is not a poll for signals in the encoding %s", WIRE_TYPE);
        return;
    }
    if (check_fields(x, &in)) poll_signals(x, &in);
    wire_poll_done(&in);
}

void handle_signals_receive(struct exchange *x)
{
    struct signals_receive_in in = {0};
    if (x->wire_in)
        poll_wire(x);
    else if (read_request(x, &in))
        poll_signals(x, &in);
}

static void start_wait(struct exchange *x, int64_t wait_ms, const void *in)
{
    const struct signal_wait_in *w = in;
    const char *message = w->message && *w->message ? w->message : NULL;
    async_signal_wait(x->server->engine, x->queue, w->signal, message, wait_ms, &x->async);
}

void handle_signal_wait(struct exchange *x)
{
    struct signal_wait_in in = {0};
    if (!read_request(x, &in)) return;
    if (in.signal) x->signal = strcpy(kept_new(&x->kept, strlen(in.signal) + 1), in.signal);
    x->async.done = answered;
    wait_for(x, in.wait, start_wait, &in);
}

static struct json *ids_json(const struct collected_ids *ids)
{
    struct json *list = json_list_new();
    for (size_t i = 0; i < ids->len; i++)
        json_list_text(list, ids->rows[i]);
    return list;
}

static struct json *collected_json(const struct collected_list *c)
{
    struct json *o = json_new(), *rows = json_list_new();
    for (size_t i = 0; i < c->len; i++)
        json_list_take(rows, fields_json(&collected_answer, &c->rows[i]));
    json_take(o, "messages", rows);
    json_number(o, "missing", (int64_t)c->missing);
    json_bool(o, "more", c->more);
    if (c->position > 0) json_number(o, "position", c->position);
    if (c->left.len > 0) json_take(o, "left", ids_json(&c->left));
    if (c->asked.len > 0) json_take(o, "signals", ids_json(&c->signals));
    if (c->asked.len > 0) json_take(o, "asked", ids_json(&c->asked));
    if (c->answers && c->answers->len > 0) json_take(o, "answers", signal_rows_json(c->answers));
    return o;
}

static void collected(struct async_call *async, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)async;
    struct server *s = x->server;
    struct buf body;
    wait_end(x);
    if (!a->code) metrics_collected(x);
    if (a->code) {
        answer_error(x, a->error);
    } else if (x->wire_out) {
        buf_init(&body, SIZE_MAX);
        wire_put_collected(&body, a->collected);
        answer_bytes(x, 200, WIRE_TYPE, &body);
    } else {
        answer_json(x, 200, collected_json(a->collected));
    }
    collected_free(a->collected);
    call_end(s);
}

static void start_collect(struct exchange *x, int64_t wait_ms, const void *in)
{
    struct collect_poll poll = *(const struct collect_poll *)in;
    poll.wait_ms = wait_ms;
    async_collect(x->server->engine, x->queue, &poll, &x->async);
}

void handle_collect(struct exchange *x)
{
    struct collect_in in = {0};
    struct collected_list *asked = NULL;
    if (!read_request(x, &in)) return;
    struct collect_poll poll = {.ids = in.ids.rows,
                                .len = in.ids.len,
                                .workflow = in.workflow,
                                .all = in.all,
                                .position = in.position,
                                .running = in.running,
                                .ask = in.ask,
                                .signals = in.signals.rows,
                                .signals_len = in.signals.len,
                                .asked = in.asked.rows,
                                .asked_len = in.asked.len};
    if (poll.running && !collect_ask_running(x, &poll, &asked)) return;
    const char *accept = httpd_header(x->http, "Accept");
    x->async.done = collected;
    if (accept && strcmp(accept, "text/event-stream") == 0)
        collect_stream(x, &poll);
    else
        wait_for(x, in.wait, start_collect, &poll);
    collected_free(asked);
}
