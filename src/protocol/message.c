// SPDX-License-Identifier: Apache-2.0
// Messages and events as JSON.
#include "protocol/message.h"

#include "base/base64.h"
#include "base/memory.h"
#include "protocol/routes.h"
#include "json/raw.h"

#include <stdio.h>
#include <string.h>

#define ORIGIN_WITHOUT_REASON 2 // fields of an origin

static bool is_finished(const struct sluice_message *m)
{
    static const char *const others[] = {"ready", "delayed", "locked", "dead", "outbound"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(m->state, others[i]) == 0) return false;
    return true;
}

// A finished message whose body is not kept has none, which is not the same as an empty body.
static bool has_body(const struct sluice_message *m)
{
    return m->body;
}

static bool marks_json(const struct sluice_header *h)
{
    return strcmp(h->name, JSON_BODY_HEADER) == 0 && strcmp(h->value, JSON_BODY_VALUE) == 0;
}

// True if the body was sent as a JSON value. Any sender can set the header, so the body is checked,
// too.
static bool is_json(const struct sluice_message *m)
{
    for (size_t i = 0; i < m->headers_len; i++)
        if (marks_json(&m->headers[i])) return json_raw_ok(bytes_of(m->body, m->body_len));
    return false;
}

// Whitespace between tokens can contain newlines. They would break a line of output, so they are
// removed.
static void put_compact(struct json *o, const char *name, struct bytes text)
{
    size_t len = json_raw_compact_len(text);
    CLEANUP(memory_let_go) char *compact = memory_new(len + 1);
    json_raw_compact(text, compact);
    json_raw(o, name, bytes_of(compact, len));
}

void message_mark_json(struct sluice_send *m, struct kept_texts *kept)
{
    struct sluice_header *rows = kept_new(kept, (m->headers_len + 1) * sizeof *rows);
    size_t len = 0;
    for (size_t i = 0; i < m->headers_len; i++)
        if (strcmp(m->headers[i].name, JSON_BODY_HEADER) != 0) rows[len++] = m->headers[i];
    rows[len++] = (struct sluice_header){JSON_BODY_HEADER, JSON_BODY_VALUE};
    m->headers = rows;
    m->headers_len = len;
    if (!m->content_type) m->content_type = JSON_TYPE;
}

void message_put_base64(struct json *o, const char *name, struct bytes bytes)
{
    LOCAL(buf, digits, SIZE_MAX);
    base64_put(&digits, bytes);
    json_text_len(o, name, (const char *)digits.data, digits.len);
}

static bool is_structure(struct bytes text)
{
    size_t at = 0;
    while (at < text.len && strchr(" \t\r\n", text.data[at]))
        at++;
    return at < text.len && (text.data[at] == '{' || text.data[at] == '[') && json_raw_ok(text);
}

void message_put_data(struct json *o, const struct field *f, const void *at)
{
    struct bytes data;
    char name[FIELD_PATH_MAX];
    memcpy(&data, at, sizeof data);
    if (!data.data) return;
    (void)snprintf(name, sizeof name, "%sBase64", f->name);
    if (is_structure(data))
        put_compact(o, f->name, data);
    else if (utf8_ok((const char *)data.data, data.len))
        json_text_len(o, f->name, (const char *)data.data, data.len);
    else
        message_put_base64(o, name, data);
}

void message_put_body(struct json *o, const struct sluice_message *m)
{
    if (!has_body(m)) {
        json_text(o, "body", NULL);
    } else if (is_json(m)) {
        put_compact(o, "body", bytes_of(m->body, m->body_len));
    } else if (utf8_ok(m->body, m->body_len)) {
        json_text_len(o, "body", m->body, m->body_len);
    } else {
        message_put_base64(o, "bodyBase64", bytes_of(m->body, m->body_len));
    }
}

void message_put_headers(struct json *o, const struct field *f, const struct field_headers *h)
{
    struct json *headers = json_new();
    for (size_t i = 0; i < h->len; i++)
        if (!marks_json(&h->rows[i])) json_text(headers, h->rows[i].name, h->rows[i].value);
    json_take(o, f->name, headers);
}

void message_put_origin(struct json *o, const struct field *f, const struct sluice_origin *from)
{
    struct fields table = origin_answer;
    if (!from->queue || !*from->queue) return;
    if (!*from->reason) table.len = ORIGIN_WITHOUT_REASON;
    json_take(o, f->name, fields_json(&table, from));
}

void message_put_failures(struct json *o, const struct field *f, const void *at)
{
    struct {
        const struct sluice_failure *rows;
        size_t len;
    } failures;
    memcpy(&failures, at, sizeof failures);
    if (failures.len == 0) return;
    struct json *list = json_list_new();
    for (size_t i = 0; i < failures.len; i++)
        json_list_take(list, fields_json(&failure_answer, &failures.rows[i]));
    json_take(o, f->name, list);
}

void message_put_signals(struct json *o, const struct field *f, const void *at)
{
    struct {
        const struct sluice_signal_state *rows;
        size_t len;
    } signals;
    memcpy(&signals, at, sizeof signals);
    if (signals.len == 0) return;
    struct json *list = json_list_new();
    for (size_t i = 0; i < signals.len; i++)
        json_list_take(list, fields_json(&signal_answer, &signals.rows[i]));
    json_take(o, f->name, list);
}

// Writes "queue", which the struct does not have, after the first fields.
static struct json *json_with_queue(const struct fields *table, size_t first, const char *queue,
                                    const void *in)
{
    struct json *o = json_new();
    fields_put(o, &(struct fields){table->rows, first}, in);
    json_text(o, "queue", queue);
    fields_put(o, &(struct fields){table->rows + first, table->len - first}, in);
    return o;
}

static struct json *message_json(const struct fields *table, const char *queue,
                                 const struct sluice_message *m)
{
    struct json *o = json_with_queue(table, 1, queue, m);
    if (is_finished(m)) json_text(o, "attempt", NULL); // it has no present one
    // 0 is a fact, too: it was purged before a worker had it.
    if (m->finished_at != 0 && m->attempts == 0) json_number(o, "attempts", 0);
    return o;
}

struct json *json_message(const char *queue, const struct sluice_message *m)
{
    return message_json(&message_shown_answer, queue, m);
}

struct json *json_message_all(const char *queue, const struct sluice_message *m)
{
    return message_json(&message_answer, queue, m);
}

struct json *json_event(const char *queue, const struct sluice_event *e)
{
    return json_with_queue(&event_answer, 2, queue, e);
}
