// SPDX-License-Identifier: Apache-2.0
// Writes and reads JSON objects by their tables.
#include "base/check.h"
#include "base/err.h"
#include "calls/calls.h"

#include <stdio.h>
#include <string.h>

static void put_text(struct json *o, const struct field *f, const char *text)
{
    bool empty = !text || (f->omit == OMIT_EMPTY && !*text);
    if (f->omit == OMIT_NEVER || !empty) json_text(o, f->name, text);
}

static void put_number(struct json *o, const struct field *f, int64_t value)
{
    if (f->omit == OMIT_NEVER || value != 0) json_number(o, f->name, value);
}

static void put_bool(struct json *o, const struct field *f, bool value)
{
    if (f->omit == OMIT_NEVER || value) json_bool(o, f->name, value);
}

void fields_put(struct json *o, const struct fields *table, const void *in)
{
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[i];
        const void *at = (const char *)in + f->at;
        switch (f->kind) {
        case FIELD_TEXT:
            put_text(o, f, *(const char *const *)at);
            break;
        case FIELD_CHARS:
            put_text(o, f, at);
            break;
        case FIELD_NUMBER:
        case FIELD_DURATION:
            put_number(o, f, *(const int64_t *)at);
            break;
        case FIELD_COUNT:
            put_number(o, f, (int64_t) * (const uint64_t *)at);
            break;
        case FIELD_SMALL:
            put_number(o, f, *(const uint32_t *)at);
            break;
        case FIELD_BOOL:
            put_bool(o, f, *(const bool *)at);
            break;
        case FIELD_FLAG:
            put_bool(o, f, *(const int *)at != 0);
            break;
        case FIELD_CODE:
            json_text(o, f->name, err_name(*(const enum err *)at));
            break;
        case FIELD_REQUESTS:
            json_take(o, f->name, fields_json(&requests_answer, at));
            break;
        default:
            CHECK(false); // such a field is read, and not written
        }
    }
}

struct json *fields_json(const struct fields *table, const void *in)
{
    struct json *o = json_new();
    fields_put(o, table, in);
    return o;
}

static int64_t number_of(const struct json *v)
{
    return json_kind(v) == JSON_KIND_NUMBER ? json_as_number(v) : 0;
}

static bool is_true(const struct json *v)
{
    return json_kind(v) == JSON_KIND_BOOL && json_as_bool(v);
}

static void take(const struct field *f, const struct json *v, void *to)
{
    switch (f->kind) {
    case FIELD_CHARS:
        if (json_kind(v) == JSON_KIND_TEXT)
            (void)snprintf(to, f->size, "%s", (const char *)json_as_text(v).data);
        break;
    case FIELD_NUMBER:
        *(int64_t *)to = number_of(v);
        break;
    case FIELD_COUNT:
        *(uint64_t *)to = (uint64_t)number_of(v);
        break;
    case FIELD_SMALL:
        *(uint32_t *)to = (uint32_t)number_of(v);
        break;
    case FIELD_FLAG:
        *(int *)to = is_true(v);
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
