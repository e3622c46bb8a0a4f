// SPDX-License-Identifier: Apache-2.0
// Sending: one message or many as JSON, one as the bytes of the request, many in the compact
// encoding.
#include "api/wire.h"
#include "base/memory.h"
#include "queue/message.h"
#include "queue/ops.h"
#include "server/inside.h"
#include "server/relay.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define HEADERS_MAX     256 // of a message that came as a request of its own

struct message_in {
    struct bytes body;
    struct bytes decoded;
    const char *group;
    const char *dedup;
    const char *content_type;
    const char *workflow;
    int64_t priority;
    int64_t delay;
    int64_t due;
    struct field_headers headers;
};

#define AT(member) .at = offsetof(struct message_in, member)
static const struct field table[] = {
    {.name = "group", .kind = FIELD_TEXT, AT(group)},
    {.name = "dedup", .kind = FIELD_TEXT, AT(dedup)},
    {.name = "priority", .kind = FIELD_NUMBER, AT(priority), .max = MESSAGE_PRIORITY_MAX},
    {.name = "delay", .kind = FIELD_DURATION, AT(delay), .max = DELAY_MAX_MS},
    {.name = "due", .kind = FIELD_NUMBER, AT(due), .max = INT64_MAX},
    {.name = "workflow", .kind = FIELD_TEXT, AT(workflow)},
    {.name = "body", .kind = FIELD_BYTES, AT(body)}, // from here on not in a query
    {.name = "bodyBase64", .kind = FIELD_BASE64, AT(decoded)},
    {.name = "contentType", .kind = FIELD_TEXT, AT(content_type)},
    {.name = "headers", .kind = FIELD_HEADERS, AT(headers)},
};
#define QUERY_FIELDS 6

static struct sluice_send send_of(const struct message_in *m)
{
    struct bytes body = m->decoded.data ? m->decoded : m->body;
    return (struct sluice_send){.body = body.data,
                                .body_len = body.len,
                                .group = m->group,
                                .dedup = m->dedup,
                                .content_type = m->content_type,
                                .workflow = m->workflow,
                                .priority = (int)m->priority,
                                .delay_ms = m->delay,
                                .due = m->due,
                                .headers = m->headers.rows,
                                .headers_len = m->headers.len};
}

// ---- the answer

static struct json *sent_json(const struct sluice_sent *sent)
{
    struct json *o = json_new();
    json_text(o, "code", sluice_code_name(sent->code));
    if (sent->code) return o;
    json_text(o, "id", sent->id);
    json_bool(o, "duplicate", sent->duplicate);
    return o;
}

// All were refused alike, by something that is not about one of them: the request's answer.
static bool failed_whole(const struct exchange *x, const struct later_answer *a)
{
    if (x->single || a->len == 0) return a->code != SLUICE_OK;
    if (a->code == SLUICE_OK || a->code == SLUICE_LIMIT || a->code == SLUICE_CONFLICT) return false;
    for (size_t i = 0; i < a->len; i++)
        if (a->sent[i].code != a->code) return false;
    return true;
}

static void answer_sent(struct exchange *x, const struct later_answer *a)
{
    if (x->wire_out) {
        struct buf body;
        buf_init(&body, SIZE_MAX);
        wire_put_sent(&body, a->sent, a->len, a->error);
        answer_bytes(x, 200, WIRE_TYPE, &body);
        return;
    }
    struct json *o = json_new();
    if (x->single) {
        json_text(o, "id", a->sent[0].id);
        json_bool(o, "duplicate", a->sent[0].duplicate);
        answer_json(x, 201, o);
        return;
    }
    struct json *list = json_list_new();
    for (size_t i = 0; i < a->len; i++)
        json_list_take(list, sent_json(&a->sent[i]));
    json_take(o, "sent", list);
    answer_json(x, 200, o);
}

static void sent(struct later *l, const struct later_answer *a)
{
    struct exchange *x = (struct exchange *)l;
    struct server *s = x->server;
    for (size_t i = 0; i < a->len; i++)
        METRICS_ADD(&s->metrics, sent, a->sent[i].code == SLUICE_OK);
    if (!a->code) metrics_committed(x);
    if (failed_whole(x, a))
        answer_error(x, a->error);
    else
        answer_sent(x, a);
    call_end(s);
}

static void send_all(struct exchange *x, const struct sluice_send *messages, size_t len)
{
    x->later.done = sent;
    call_begin(x->server);
    later_send(x->server->store, x->queue, messages, len, x->has_request ? &x->request : NULL,
               &x->later);
}

// ---- JSON

// path is "" or "messages[3]."
static bool read_message(struct exchange *x, struct json *object, const char *path,
                         struct sluice_send *out)
{
    struct message_in in = {0};
    if (!read_object(x, object, path, table, COUNT_OF(table), &in)) return false;
    if (!in.body.data == !in.decoded.data) {
        char field[FIELD_PATH_MAX];
        (void)snprintf(field, sizeof field, "%sbody", path);
        struct sluice_error e = error_of(SLUICE_INVALID, "", field,
                                         in.body.data ? "%s: give body or bodyBase64, not both"
                                                      : "%s is missing: a text, or bodyBase64",
                                         field);
        answer_error(x, &e);
        return false;
    }
    *out = send_of(&in);
    return true;
}

static void send_many(struct exchange *x, struct json *root)
{
    struct json *list = NULL;
    static const struct field batch[] = {{.name = "messages", .kind = FIELD_JSON}};
    if (!read_object(x, root, "", batch, COUNT_OF(batch), &list)) return;
    bool right = list && json_kind(list) == JSON_KIND_LIST;
    size_t len = right ? json_list_len(list) : 0;
    if (!right || len > WIRE_COUNT_MAX) {
        struct sluice_error e = error_of(SLUICE_INVALID, "", "messages",
                                         "messages is a list of at most %d", WIRE_COUNT_MAX);
        answer_error(x, &e);
        return;
    }
    struct sluice_send *messages = kept_new(&x->kept, len * sizeof *messages);
    for (size_t i = 0; i < len; i++) {
        char path[FIELD_PATH_MAX];
        struct json *one = json_list_at(list, i);
        (void)snprintf(path, sizeof path, "messages[%zu].", i);
        if (json_kind(one) != JSON_KIND_OBJECT) {
            struct sluice_error e = error_of(SLUICE_INVALID, "", "messages",
                                             "messages[%zu] is %s; it should be an object", i,
                                             json_kind_name(json_kind(one)));
            answer_error(x, &e);
            return;
        }
        if (!read_message(x, one, path, &messages[i])) return;
    }
    send_all(x, messages, len);
}

static void send_json(struct exchange *x)
{
    struct json *root = read_json(x);
    struct sluice_send one;
    if (!root || !read_query(x, NULL, 0, NULL)) return;
    if (json_member(root, "messages")) {
        send_many(x, root);
        return;
    }
    x->single = true;
    if (read_message(x, root, "", &one)) send_all(x, &one, 1);
}

// ---- bytes

struct headers_in {
    struct sluice_header rows[HEADERS_MAX];
    size_t len;
};

static void add_header(void *ctx, const char *name, const char *value)
{
    struct headers_in *h = ctx;
    size_t len = strlen(MESSAGE_HEADER);
    if (strncasecmp(name, MESSAGE_HEADER, len) != 0 || h->len == HEADERS_MAX) return;
    h->rows[h->len++] = (struct sluice_header){name + len, value};
}

static void send_raw(struct exchange *x, const char *type)
{
    struct message_in in = {.body = httpd_body(x->http), .content_type = type};
    struct headers_in headers = {.len = 0};
    if (!read_query(x, table, QUERY_FIELDS, &in)) return;
    httpd_each_header(x->http, add_header, &headers);
    in.headers = (struct field_headers){headers.rows, headers.len};
    struct sluice_send one = send_of(&in);
    x->single = true;
    send_all(x, &one, 1);
}

// ---- the compact encoding

static void send_wire(struct exchange *x)
{
    struct wire_sends sends;
    if (!wire_read_sends(httpd_body(x->http), &sends)) {
        struct sluice_error e = error_of(SLUICE_INVALID, "malformed", "body",
                                         "the body is not what %s calls sends", WIRE_TYPE);
        answer_error(x, &e);
        return;
    }
    x->single = sends.len == 1;
    send_all(x, sends.messages, sends.len);
    wire_sends_done(&sends);
}

void handle_send(struct exchange *x)
{
    const char *type = httpd_header(x->http, "Content-Type");
    if (relay_takes(x, 0)) return;
    if (x->wire_in)
        send_wire(x);
    else if (!type || is_type(type, JSON_TYPE))
        send_json(x);
    else
        send_raw(x, type);
}
