// SPDX-License-Identifier: Apache-2.0
// Writes and reads JSON objects by their tables.
#include "base/check.h"
#include "base/err.h"
#include "base/memory.h"
#include "protocol/message.h"
#include "protocol/routes.h"

#include <stdio.h>
#include <string.h>

static void put_text(struct json *o, const struct field *f, const char *text)
{
    bool empty = !text || !*text;
    if (f->omit == OMIT_NULL && empty) text = NULL;
    if ((f->omit == OMIT_ZERO && !text) || (f->omit == OMIT_EMPTY && empty)) return;
    json_text(o, f->name, text);
}

static bool is_omitted(const struct field *f, int64_t value)
{
    return value == 0 && (f->omit == OMIT_ZERO || f->omit == OMIT_EMPTY);
}

struct json *scopes_json(unsigned scopes)
{
    struct json *list = json_list_new();
    for (enum token_scope scope = SCOPE_READ; scope <= SCOPE_ADMIN; scope++)
        if (scopes & 1U << scope) json_list_text(list, scope_name(scope));
    return list;
}

static void put_texts(struct json *o, const struct field *f, const struct field_texts *texts)
{
    if (texts->len == 0) return;
    struct json *list = json_list_new();
    for (size_t i = 0; i < texts->len; i++)
        json_list_text(list, texts->rows[i]);
    json_take(o, f->name, list);
}

static void put_base64(struct json *o, const struct field *f, const void *at)
{
    struct bytes bytes;
    memcpy(&bytes, at, sizeof bytes);
    if (bytes.data) message_put_base64(o, f->name, bytes);
}

static void put_field(struct json *o, const struct field *f, const void *in)
{
    const void *at = (const char *)in + f->at;
    switch (f->kind) {
    case FIELD_TEXT:
    case FIELD_STATUS:
    case FIELD_WORD:
    case FIELD_KEPT_TEXT:
    case FIELD_FAILURE_KIND:
        put_text(o, f, *(const char *const *)at);
        break;
    case FIELD_CHARS:
        put_text(o, f, at);
        break;
    case FIELD_NUMBER:
    case FIELD_DURATION:
    case FIELD_MOMENT:
    case FIELD_COUNT:
    case FIELD_SMALL:
    case FIELD_INT:
        if (!is_omitted(f, field_load(f, at))) json_number(o, f->name, field_load(f, at));
        break;
    case FIELD_PERCENT:
        if (field_load(f, at) >= 0) json_number(o, f->name, field_load(f, at));
        break;
    case FIELD_BOOL:
    case FIELD_FLAG:
        if (!is_omitted(f, field_load(f, at))) json_bool(o, f->name, field_load(f, at) != 0);
        break;
    case FIELD_CODE:
        if (!is_omitted(f, *(const enum err *)at))
            json_text(o, f->name, err_name(*(const enum err *)at));
        break;
    case FIELD_SCOPES:
        if (!is_omitted(f, *(const unsigned *)at))
            json_take(o, f->name, scopes_json(*(const unsigned *)at));
        break;
    case FIELD_ANY: // the caller writes it
    case FIELD_NUMBERS:
        break;
    case FIELD_TEXTS:
        put_texts(o, f, at);
        break;
    case FIELD_REQUESTS:
        json_take(o, f->name, fields_json(&requests_answer, at));
        break;
    case FIELD_BODY:
        message_put_body(o, in);
        break;
    case FIELD_DATA:
        message_put_data(o, f, at);
        break;
    case FIELD_BASE64:
        put_base64(o, f, at);
        break;
    case FIELD_HEADERS:
        message_put_headers(o, f, at);
        break;
    case FIELD_ORIGIN:
        message_put_origin(o, f, at);
        break;
    case FIELD_FAILURES:
        message_put_failures(o, f, at);
        break;
    case FIELD_SIGNALS:
        message_put_signals(o, f, at);
        break;
    default:
        CHECK(false); // such a field is read, and not written
    }
}

void fields_put(struct json *o, const struct fields *table, const void *in)
{
    for (size_t i = 0; i < table->len; i++)
        put_field(o, &table->rows[i], in);
}

struct json *fields_json(const struct fields *table, const void *in)
{
    struct json *o = json_new();
    fields_put(o, table, in);
    return o;
}

static const char *text_of(const struct json *v)
{
    return v && json_kind(v) == JSON_KIND_TEXT ? (const char *)json_as_text(v).data : "";
}

static void take_code(const char *name, enum sluice_code *out)
{
    for (int code = SLUICE_OK; code <= SLUICE_DENIED; code++)
        if (strcmp(name, sluice_code_name((enum sluice_code)code)) == 0)
            *out = (enum sluice_code)code;
}

static void take(const struct field *f, const struct json *v, void *to)
{
    switch (f->kind) {
    case FIELD_CHARS:
        if (json_kind(v) == JSON_KIND_TEXT) (void)snprintf(to, f->size, "%s", text_of(v));
        break;
    case FIELD_NUMBER:
    case FIELD_COUNT:
    case FIELD_SMALL:
    case FIELD_INT:
    case FIELD_PERCENT:
        field_store(f, to, json_kind(v) == JSON_KIND_NUMBER ? json_as_number(v) : 0);
        break;
    case FIELD_FLAG:
        field_store(f, to, json_kind(v) == JSON_KIND_BOOL && json_as_bool(v));
        break;
    case FIELD_CODE:
        take_code(text_of(v), to);
        break;
    case FIELD_REQUESTS:
        fields_take(v, &requests_answer, to);
        break;
    default: // nothing would own a text
        break;
    }
}

void fields_take(const struct json *o, const struct fields *table, void *out)
{
    if (json_kind(o) != JSON_KIND_OBJECT) return;
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[i];
        const struct json *v = json_member(o, f->name);
        if (v) take(f, v, (char *)out + f->at);
    }
}

void fields_view(const struct json *o, const struct fields *table, void *out)
{
    bool object = o && json_kind(o) == JSON_KIND_OBJECT;
    if (object) fields_take(o, table, out);
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[i];
        const struct json *v = object ? json_member(o, f->name) : NULL;
        void *to = (char *)out + f->at;
        if (f->kind == FIELD_TEXT) *(const char **)to = text_of(v);
        if (f->kind == FIELD_ORIGIN) fields_view(v, &origin_answer, to);
    }
}

size_t fields_take_rows(struct json *o, const char *name, const struct fields *table, size_t size,
                        void **out)
{
    struct json *rows = json_member(o, name);
    bool is_list = rows && json_kind(rows) == JSON_KIND_LIST;
    size_t len = is_list ? json_list_len(rows) : 0, count = 0;
    char *to = memory_zeroed(len + 1, size);
    for (size_t i = 0; i < len; i++) {
        struct json *row = json_list_at(rows, i);
        if (json_kind(row) != JSON_KIND_OBJECT) continue;
        fields_take(row, table, to + count++ * size);
    }
    *out = to;
    return count;
}
