// SPDX-License-Identifier: Apache-2.0
// Reading fields: one function for each kind of value. Each refusal names the field, the value and
// what would be right.
#include "protocol/fields.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/duration.h"
#include "base/memory.h"
#include "base/moment.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOMENT_HINT   "milliseconds since 1970, or a string such as \"2027-01-31T12:00:00Z\""
#define DURATION_HINT "milliseconds as a number, or a string such as \"500ms\", \"30s\" or \"2h\""

struct kept_block {
    struct kept_block *next;
    max_align_t budget[];
};

void *kept_new(struct kept_texts *k, size_t len)
{
    struct kept_block *b = memory_new(sizeof *b + len);
    b->next = k->blocks;
    k->blocks = b;
    return b->budget;
}

void kept_done(struct kept_texts *k)
{
    while (k->blocks) {
        struct kept_block *b = k->blocks;
        k->blocks = b->next;
        memory_free(b);
    }
    json_free(k->json);
    *k = (struct kept_texts){0};
}

struct field_place {
    const char *path;
    const char *name;
    struct kept_texts *kept;
    struct sluice_error *error;
};

__attribute__((format(printf, 2, 3))) static enum sluice_code wrong(const struct field_place *p,
                                                                    const char *format, ...)
{
    struct sluice_error *e = p->error;
    *e = (struct sluice_error){.code = SLUICE_INVALID};
    (void)snprintf(e->field, sizeof e->field, "%s%s", p->path, p->name);
    int len = snprintf(e->message, sizeof e->message, "%.60s ", e->field);
    size_t at = len > 0 ? (size_t)len : 0;
    va_list words;
    va_start(words, format);
    (void)vsnprintf(e->message + at, sizeof e->message - at, format, words);
    va_end(words);
    return SLUICE_INVALID;
}

static enum sluice_code wrong_kind(const struct field_place *p, enum json_kind got,
                                   const char *right)
{
    return wrong(p, "must be %s, not %s", right, json_kind_name(got));
}

int64_t field_load(const struct field *f, const void *at)
{
    if (f->size == sizeof(bool)) return *(const bool *)at;
    if (f->kind == FIELD_SMALL) return *(const uint32_t *)at;
    return f->size == sizeof(int) ? *(const int *)at : *(const int64_t *)at;
}

void field_store(const struct field *f, void *at, int64_t value)
{
    if (f->size == sizeof(bool))
        *(bool *)at = value != 0;
    else if (f->size == sizeof(int))
        *(int *)at = (int)value;
    else
        *(int64_t *)at = value;
}

static enum sluice_code check_range(const struct field_place *p, const struct field *f, int64_t v)
{
    if (v >= f->min && v <= f->max) return SLUICE_OK;
    char low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX], text[DURATION_TEXT_MAX];
    if (f->kind == FIELD_DURATION)
        return wrong(p, "must be between %s and %s, not %s", duration_exact(f->min, low),
                     duration_exact(f->max, high), duration_exact(v, text));
    return wrong(p, "must be between %" PRId64 " and %" PRId64 ", not %" PRId64, f->min, f->max, v);
}

static enum sluice_code in_range(const struct field_place *p, const struct field *f, int64_t v,
                                 void *to)
{
    field_store(f, to, v);
    return check_range(p, f, v);
}

// Checks the bytes of a text, or the items of a list.
static enum sluice_code check_len(const struct field_place *p, const struct field *f, size_t len)
{
    if (f->max == 0 || len <= (uint64_t)f->max) return SLUICE_OK;
    bool text = f->kind == FIELD_TEXT;
    return wrong(p, "has %zu %s; at most %" PRId64 " are allowed", len, text ? "bytes" : "items",
                 f->max);
}

// A duration or a moment that is a text.
static enum sluice_code time_of(const struct field_place *p, const struct field *f,
                                const char *text, void *to)
{
    int64_t ms;
    bool read = f->kind == FIELD_MOMENT ? moment_read(text, &ms, NULL) : duration_read(text, &ms);
    if (read) return in_range(p, f, ms, to);
    if (f->kind == FIELD_MOMENT) return wrong(p, "\"%.40s\" is not " MOMENT_HINT, text);
    if (duration_lacks_unit(text)) return wrong(p, DURATION_NO_UNIT, text, text, text, text);
    return wrong(p, "\"%.40s\" is not a duration: " DURATION_HINT, text);
}

static enum sluice_code read_time(const struct field_place *p, const struct field *f,
                                  enum json_kind kind, const struct json *v, void *to)
{
    if (kind == JSON_KIND_NUMBER) return in_range(p, f, json_as_number(v), to);
    if (kind == JSON_KIND_TEXT) return time_of(p, f, (const char *)json_as_text(v).data, to);
    return wrong_kind(p, kind, f->kind == FIELD_MOMENT ? MOMENT_HINT : DURATION_HINT);
}

static enum sluice_code read_text(const struct field_place *p, const struct json *v,
                                  const char **to)
{
    if (json_kind(v) != JSON_KIND_TEXT) return wrong_kind(p, json_kind(v), "a string");
    struct bytes text = json_as_text(v);
    if (memchr(text.data, 0, text.len)) return wrong(p, "has a zero byte in it");
    *to = (const char *)text.data;
    return SLUICE_OK;
}

static enum sluice_code read_base64(const struct field_place *p, const struct json *v, void *to)
{
    const char *text = NULL;
    enum sluice_code code = read_text(p, v, &text);
    if (code) return code;
    struct bytes digits = json_as_text(v);
    LOCAL(buf, decoded, digits.len);
    if (base64_read(digits, &decoded)) {
        uint8_t *copy = kept_new(p->kept, decoded.len + 1);
        if (decoded.len > 0) memcpy(copy, decoded.data, decoded.len);
        struct bytes bytes = bytes_of(copy, decoded.len);
        memcpy(to, &bytes, sizeof bytes);
    } else {
        code = wrong(p, "is not base64 (RFC 4648, with padding)");
    }
    return code;
}

static enum sluice_code read_short_text(const struct field_place *p, const struct field *f,
                                        const struct json *v, const char **to)
{
    enum sluice_code code = read_text(p, v, to);
    return code ? code : check_len(p, f, json_as_text(v).len);
}

static enum sluice_code read_headers(const struct field_place *p, const struct field *f,
                                     struct json *v, void *to)
{
    const char *key;
    struct json *value;
    size_t count = 0;
    if (json_kind(v) != JSON_KIND_OBJECT)
        return wrong_kind(p, json_kind(v), "an object of strings");
    for (void *at = NULL; json_next(v, &at, &key, &value);)
        count++;
    enum sluice_code code = check_len(p, f, count);
    if (code) return code;
    struct sluice_header *rows = kept_new(p->kept, count * sizeof *rows);
    size_t len = 0;
    for (void *at = NULL; json_next(v, &at, &key, &value);) {
        const char *text = NULL;
        char name[FIELD_PATH_MAX + 64];
        (void)snprintf(name, sizeof name, "%s.%.60s", p->name, key);
        struct field_place one = {
            .path = p->path, .name = name, .kept = p->kept, .error = p->error};
        code = read_text(&one, value, &text);
        if (code) return code;
        rows[len++] = (struct sluice_header){key, text};
    }
    memcpy(to, &(struct field_headers){rows, len}, sizeof(struct field_headers));
    return SLUICE_OK;
}

static enum sluice_code read_list(const struct field_place *p, const struct field *f,
                                  struct json *v, struct json **to)
{
    if (json_kind(v) != JSON_KIND_LIST) return wrong_kind(p, json_kind(v), "a list");
    *to = v;
    return check_len(p, f, json_list_len(v));
}

static enum sluice_code read_texts(const struct field_place *p, const struct field *f,
                                   struct json *v, struct field_texts *to)
{
    if (json_kind(v) != JSON_KIND_LIST) return wrong_kind(p, json_kind(v), "a list of strings");
    size_t count = json_list_len(v);
    enum sluice_code code = check_len(p, f, count);
    const char **rows = kept_new(p->kept, count * sizeof *rows);
    *to = (struct field_texts){rows, count};
    for (size_t i = 0; !code && i < count; i++)
        code = read_text(p, json_list_at(v, i), &rows[i]);
    return code;
}

static enum sluice_code read_numbers(const struct field_place *p, const struct field *f,
                                     struct json *v, struct field_numbers *to)
{
    if (json_kind(v) != JSON_KIND_LIST) return wrong_kind(p, json_kind(v), "a list of numbers");
    size_t count = json_list_len(v);
    enum sluice_code code = SLUICE_OK;
    uint32_t *rows = kept_new(p->kept, count * sizeof *rows);
    *to = (struct field_numbers){rows, count};
    for (size_t i = 0; !code && i < count; i++) {
        const struct json *one = json_list_at(v, i);
        if (json_kind(one) != JSON_KIND_NUMBER)
            code = wrong_kind(p, json_kind(one), "a list of whole numbers");
        else
            code = check_range(p, f, json_as_number(one));
        if (!code) rows[i] = (uint32_t)json_as_number(one);
    }
    return code;
}

static enum sluice_code read_value(const struct field_place *p, const struct field *f,
                                   struct json *v, void *to)
{
    enum json_kind kind = json_kind(v);
    switch (f->kind) {
    case FIELD_TEXT:
        return read_short_text(p, f, v, to);
    case FIELD_BASE64:
        return read_base64(p, v, to);
    case FIELD_NUMBER:
    case FIELD_INT:
    case FIELD_SMALL:
        if (kind != JSON_KIND_NUMBER) return wrong_kind(p, kind, "a whole number");
        return in_range(p, f, json_as_number(v), to);
    case FIELD_DURATION:
    case FIELD_MOMENT:
        return read_time(p, f, kind, v, to);
    case FIELD_BOOL:
        if (kind != JSON_KIND_BOOL) return wrong_kind(p, kind, "true or false");
        *(bool *)to = json_as_bool(v);
        return SLUICE_OK;
    case FIELD_HEADERS:
        return read_headers(p, f, v, to);
    case FIELD_TEXTS:
        return read_texts(p, f, v, to);
    case FIELD_NUMBERS:
        return read_numbers(p, f, v, to);
    case FIELD_LIST:
        return read_list(p, f, v, to);
    case FIELD_ANY:
        return SLUICE_OK;
    default:
        break;
    }
    CHECK(false); // such a field is only in answers
    return SLUICE_INVALID;
}

const struct fields no_fields = {NULL, 0};

const struct field *fields_find(const struct fields *table, const char *name)
{
    for (size_t i = 0; i < table->len; i++)
        if (strcmp(table->rows[i].name, name) == 0) return &table->rows[i];
    return NULL;
}

void fields_defaults(const struct fields *table, void *out)
{
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[i];
        if (f->fallback != 0) field_store(f, (char *)out + f->at, f->fallback);
    }
}

static enum sluice_code check_field(const struct field_place *p, const struct field *f, void *at)
{
    const char *const *text = at;
    const struct field_texts *texts = at;
    switch (f->kind) {
    case FIELD_NUMBER:
    case FIELD_INT:
    case FIELD_SMALL:
    case FIELD_DURATION:
    case FIELD_MOMENT:
        if (field_load(f, at) == 0) field_store(f, at, f->fallback);
        return check_range(p, f, field_load(f, at));
    case FIELD_TEXT:
        return check_len(p, f, *text ? strlen(*text) : 0);
    case FIELD_TEXTS:
        return check_len(p, f, texts->len);
    default:
        return SLUICE_OK;
    }
}

enum sluice_code fields_check(const struct fields *table, void *in, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t i = 0; !code && i < table->len; i++) {
        const struct field *f = &table->rows[i];
        struct field_place p = {.path = "", .name = f->name, .error = error};
        code = check_field(&p, f, (char *)in + f->at);
    }
    return code;
}

void fields_names(const struct fields *table, char out[static FIELD_NAMES_MAX])
{
    (void)snprintf(out, FIELD_NAMES_MAX, "it takes none");
    for (size_t i = 0, at = 0; i < table->len && at < FIELD_NAMES_MAX; i++)
        at += (size_t)snprintf(out + at, FIELD_NAMES_MAX - at, "%s%s", i > 0 ? ", " : "",
                               table->rows[i].name);
}

static enum sluice_code unknown(const struct field_place *p, const struct fields *table)
{
    char names[FIELD_NAMES_MAX];
    fields_names(table, names);
    return wrong(p, "is not a field of this request: %s", names);
}

enum sluice_code fields_read(struct json *object, const char *path, const struct fields *table,
                             void *out, struct kept_texts *kept, struct sluice_error *error)
{
    const char *name;
    struct json *value;
    for (void *at = NULL; json_next(object, &at, &name, &value);) {
        struct field_place p = {.path = path, .name = name, .kept = kept, .error = error};
        const struct field *f = fields_find(table, name);
        if (!f) return unknown(&p, table);
        if (json_kind(value) == JSON_KIND_NULL) continue;
        enum sluice_code code = read_value(&p, f, value, (char *)out + f->at);
        if (code) return code;
    }
    return SLUICE_OK;
}

const char *field_text(const struct field *f, const void *in, char out[static FIELD_TEXT_MAX])
{
    const void *at = (const char *)in + f->at;
    switch (f->kind) {
    case FIELD_TEXT:
        return *(const char *const *)at;
    case FIELD_TEXTS:
        return NULL; // it has several
    default:
        if (field_load(f, at) == 0) return NULL;
        (void)snprintf(out, FIELD_TEXT_MAX, "%" PRId64 "%s", field_load(f, at),
                       f->kind == FIELD_DURATION ? "ms" : "");
        return out;
    }
}

static void add_text(struct field_texts *to, const char *text, struct kept_texts *kept)
{
    const char **rows = kept_new(kept, (to->len + 1) * sizeof *rows);
    if (to->len > 0) memcpy(rows, to->rows, to->len * sizeof *rows);
    rows[to->len++] = text;
    to->rows = rows;
}

static bool is_number(const char *text)
{
    return *text && strlen(text) <= 15 && strspn(text, "0123456789") == strlen(text);
}

enum sluice_code field_read_text(const char *text, const struct field *f, void *out,
                                 struct kept_texts *kept, struct sluice_error *error)
{
    struct field_place p = {.path = "", .name = f->name, .error = error};
    void *to = (char *)out + f->at;
    switch (f->kind) {
    case FIELD_NUMBER:
    case FIELD_INT:
    case FIELD_SMALL:
        if (!is_number(text)) return wrong(&p, "\"%.40s\" is not a whole number", text);
        return in_range(&p, f, strtoll(text, NULL, 10), to);
    case FIELD_MOMENT: // every value of a query is a text
        if (is_number(text)) return in_range(&p, f, strtoll(text, NULL, 10), to);
        return time_of(&p, f, text, to);
    case FIELD_DURATION:
        return time_of(&p, f, text, to);
    case FIELD_BOOL:
        *(bool *)to = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
        if (!*(bool *)to && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
            return wrong(&p, "\"%.40s\" is neither 1 nor 0", text);
        return SLUICE_OK;
    case FIELD_TEXTS:
        add_text(to, text, kept);
        return SLUICE_OK;
    default:
        *(const char **)to = text;
        return check_len(&p, f, strlen(text));
    }
}
