// SPDX-License-Identifier: Apache-2.0
// Sending: one message or many as JSON, one as the raw body of the request, many in the compact
// encoding.
#include "protocol/message.h"
#include "protocol/wire.h"
#include "server/inside.h"
#include "json/raw.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEADERS_MAX 256 // of a message that is the raw body of a request

static struct json *sent_json(const struct sluice_sent *sent)
{
    return fields_json(sent->code ? &(struct fields){sent_row_answer.rows, 1} : &sent_row_answer,
                       sent);
}

// Returns whether all messages failed with one error that concerns none of them in particular. It
// is then the answer of the whole request.
static bool failed_whole(const struct exchange *x, const struct async_answer *a)
{
    if (x->single || a->len == 0) return a->code != SLUICE_OK;
    if (a->code == SLUICE_OK || a->code == SLUICE_LIMIT || a->code == SLUICE_CONFLICT) return false;
    for (size_t i = 0; i < a->len; i++)
        if (a->sent[i].code != a->code) return false;
    return true;
}

static void answer_sent(struct exchange *x, const struct async_answer *a)
{
    if (x->wire_out) {
        struct buf body;
        buf_init(&body, SIZE_MAX);
        wire_put_sent(&body, a->sent, a->len, a->error);
        answer_bytes(x, 200, WIRE_TYPE, &body);
        return;
    }
    if (x->single) {
        answer_json(x, 201, fields_json(&sent_answer, &a->sent[0]));
        return;
    }
    struct json *o = json_new(), *list = json_list_new();
    for (size_t i = 0; i < a->len; i++)
        json_list_take(list, sent_json(&a->sent[i]));
    json_take(o, "sent", list);
    answer_json(x, 200, o);
}

static void sent(struct async_call *async, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)async;
    struct server *s = x->server;
    for (size_t i = 0; i < a->len; i++)
        METRICS_ADD(&s->metrics, sent,
                    a->sent[i].code == SLUICE_OK && !(a->forwarded && a->forwarded[i]));
    if (!a->code) metrics_committed(x);
    if (failed_whole(x, a))
        answer_error(x, a->error);
    else
        answer_sent(x, a);
    call_end(s);
}

static void send_all(struct exchange *x, const struct sluice_send *messages, size_t len)
{
    x->async.done = sent;
    x->async.token = auth_secret(x);
    call_begin(x->server);
    async_send(x->server->engine, x->queue, messages, len, x->has_request ? &x->request : NULL,
               &x->async);
}

// The request's text, from which JSON bodies are stored as they were written. It is scanned only
// when needed, because most bodies are strings.
struct source {
    struct bytes text;     // of the whole request
    bool batch;            // the messages are in a list
    struct json_walk list; // the position in that list
    size_t walked;         // number of messages passed
    struct bytes item;     // the text of the last of them
};

// The text of a member of an object in the request's text; empty: there is none.
static struct bytes body_member(struct bytes object, const char *name)
{
    struct bytes key, value;
    for (struct json_walk w = json_walk_of(object); json_walk_next(&w, &key, &value);)
        if (bytes_equal(key, bytes_str(name))) return value;
    return BYTES_EMPTY;
}

// Returns the text of message number `index`. Call it with rising numbers.
static struct bytes source_message(struct source *s, size_t index)
{
    struct bytes key;
    if (!s->batch) return s->text;
    if (s->walked == 0) s->list = json_walk_of(body_member(s->text, "messages"));
    for (; s->walked <= index; s->walked++)
        if (!json_walk_next(&s->list, &key, &s->item)) s->item = BYTES_EMPTY;
    return s->item;
}

// Returns a value as it is stored: as it was written, without white space. If its key was written
// with escapes, it is not found in the text. If the text has zero bytes, the parser skipped them.
// In both cases the value is written anew.
static struct bytes stored_value(struct exchange *x, struct json *value, struct bytes written)
{
    if (json_kind(value) == JSON_KIND_TEXT) return json_as_text(value);
    bool good = json_raw_ok(written);
    size_t len = good ? json_raw_compact_len(written) : 0;
    if (good && len == written.len) return written;
    if (good) {
        char *copy = kept_new(&x->kept, len);
        json_raw_compact(written, copy);
        return bytes_of(copy, len);
    }
    LOCAL(buf, anew, SIZE_MAX);
    json_write(json_again(value), &anew);
    void *copy = kept_new(&x->kept, anew.len);
    memcpy(copy, anew.data, anew.len);
    return bytes_of(copy, anew.len);
}

bool read_value(struct exchange *x, struct json *object, struct bytes text, const char *name,
                struct bytes *bytes)
{
    struct json *value = object ? json_member(object, name) : NULL;
    if (!value || json_kind(value) == JSON_KIND_NULL) return true;
    if (bytes->data)
        return refuse_request(x, SLUICE_INVALID, "", name, "give %s or %sBase64, not both", name,
                              name);
    *bytes = stored_value(x, value, body_member(text, name));
    return true;
}

// path is "" or "messages[3]."
static bool read_message(struct exchange *x, struct json *object, const char *path,
                         struct source *source, size_t index, struct sluice_send *out)
{
    *out = (struct sluice_send){0};
    if (!read_object(x, object, path, &message_fields, out)) return false;
    // A null is a value like any other, unless there is bodyBase64.
    struct json *value = json_member(object, "body");
    if (value && out->body && json_kind(value) == JSON_KIND_NULL) value = NULL;
    if (!value == !out->body) {
        char field[FIELD_PATH_MAX];
        (void)snprintf(field, sizeof field, "%sbody", path);
        return refuse_request(x, SLUICE_INVALID, "", field,
                              value ? "%s: give body or bodyBase64, not both"
                                    : "%s is missing: any JSON value, or bodyBase64",
                              field);
    }
    if (!value) return true;
    struct bytes body;
    if (json_kind(value) == JSON_KIND_TEXT) {
        body = json_as_text(value);
    } else {
        body = stored_value(x, value, body_member(source_message(source, index), "body"));
        message_mark_json(out, &x->kept);
    }
    out->body = body.data;
    out->body_len = body.len;
    return true;
}

static void send_many(struct exchange *x, struct json *root)
{
    struct messages_in in = {0};
    if (!read_object(x, root, "", &messages_fields, &in)) return;
    struct json *list = in.messages;
    if (!list) {
        (void)refuse_request(x, SLUICE_INVALID, "", "messages", "messages is null, not a list");
        return;
    }
    size_t len = json_list_len(list);
    struct sluice_send *messages = kept_new(&x->kept, len * sizeof *messages);
    struct source source = {.text = httpd_body(x->http), .batch = true};
    for (size_t i = 0; i < len; i++) {
        char path[FIELD_PATH_MAX];
        struct json *one = json_list_at(list, i);
        (void)snprintf(path, sizeof path, "messages[%zu].", i);
        if (json_kind(one) != JSON_KIND_OBJECT) {
            (void)refuse_request(x, SLUICE_INVALID, "", "messages",
                                 "messages[%zu] is %s; it should be an object", i,
                                 json_kind_name(json_kind(one)));
            return;
        }
        if (!read_message(x, one, path, &source, i, &messages[i])) return;
    }
    send_all(x, messages, len);
}

static void send_json(struct exchange *x)
{
    struct json *root = read_json(x);
    struct sluice_send one;
    if (!root || !read_query(x, &no_fields, NULL)) return;
    if (json_member(root, "messages")) {
        send_many(x, root);
        return;
    }
    x->single = true;
    struct source source = {.text = httpd_body(x->http)};
    if (read_message(x, root, "", &source, 0, &one)) send_all(x, &one, 1);
}

static void send_raw(struct exchange *x, const char *type)
{
    struct bytes body = httpd_body(x->http);
    struct sluice_send one = {.body = body.data, .body_len = body.len, .content_type = type};
    struct sluice_header headers[HEADERS_MAX];
    struct httpd_pair row;
    size_t len = strlen(MESSAGE_HEADER);
    if (!read_query(x, &message_query_fields, &one)) return;
    one.headers = headers;
    for (size_t i = 0; httpd_nth_header(x->http, i, &row) && one.headers_len < HEADERS_MAX; i++)
        if (strncasecmp(row.name, MESSAGE_HEADER, len) == 0)
            headers[one.headers_len++] = (struct sluice_header){row.name + len, row.value};
    x->single = true;
    send_all(x, &one, 1);
}

static void send_wire(struct exchange *x)
{
    struct wire_sends sends;
    if (!wire_read_sends(httpd_body(x->http), &sends)) {
        (void)refuse_request(x, SLUICE_INVALID, "malformed", "body",
                             "the body is not a list of sends in the encoding %s", WIRE_TYPE);
        return;
    }
    x->single = sends.len == 1;
    send_all(x, sends.messages, sends.len);
    wire_sends_done(&sends);
}

void handle_send(struct exchange *x)
{
    const char *type = httpd_header(x->http, "Content-Type");
    if (x->wire_in)
        send_wire(x);
    else if (!type || is_type(type, JSON_TYPE))
        send_json(x);
    else
        send_raw(x, type);
}
