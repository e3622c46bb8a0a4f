// SPDX-License-Identifier: Apache-2.0
// Wraps jansson in our own names. If memory runs out, the program aborts: a line with half of its
// keys would be worse than no line.
#include "json/json.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/codec/settings.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16
#define KEY_MAX   256

// struct json is never defined. It stands for jansson's value.
static json_t *real(struct json *value)
{
    return (json_t *)value;
}

static void *need(void *p)
{
    CHECK(p); // out of memory
    return p;
}

struct json *json_new(void)
{
    return need(json_object());
}

struct json *json_list_new(void)
{
    return need(json_array());
}

void json_free(struct json *value)
{
    json_decref(real(value));
}

struct json *json_again(struct json *value)
{
    return (struct json *)json_incref(real(value));
}

// Replaces each byte that is not valid UTF-8 with U+FFFD.
static json_t *mended(const char *text, size_t len)
{
    CLEANUP(memory_let_go) char *copy = memory_new(len * 3 + 1);
    size_t at = 0;
    for (size_t i = 0; i < len;) {
        size_t n = 1;
        while (n < 4 && n < len - i && !utf8_ok(text + i, n))
            n++;
        if (utf8_ok(text + i, n)) {
            memcpy(copy + at, text + i, n);
            at += n;
            i += n;
        } else {
            memcpy(copy + at, "\xef\xbf\xbd", 3);
            at += 3;
            i++;
        }
    }
    return json_stringn(copy, at);
}

static json_t *text_value(const char *text, size_t len)
{
    return need(utf8_ok(text, len) ? json_stringn(text, len) : mended(text, len));
}

static void set_member(struct json *object, const char *key, json_t *value)
{
    json_t *name = text_value(key, strlen(key)); // a header's name may contain any bytes
    if (json_object_set_new(real(object), json_string_value(name), need(value)) != 0)
        (void)need(NULL);
    json_decref(name);
}

void json_text(struct json *object, const char *key, const char *value)
{
    set_member(object, key, value ? text_value(value, strlen(value)) : json_null());
}

void json_text_len(struct json *object, const char *key, const char *value, size_t len)
{
    set_member(object, key, text_value(value, len));
}

void json_number(struct json *object, const char *key, int64_t value)
{
    set_member(object, key, json_integer(value));
}

void json_fraction(struct json *object, const char *key, double value)
{
    set_member(object, key, json_real(value));
}

void json_bool(struct json *object, const char *key, bool value)
{
    set_member(object, key, json_boolean(value));
}

void json_take(struct json *object, const char *key, struct json *child)
{
    set_member(object, key, real(child));
}

void json_list_take(struct json *list, struct json *child)
{
    if (json_array_append_new(real(list), need(child)) != 0) (void)need(NULL);
}

void json_list_text(struct json *list, const char *value)
{
    json_list_take(list, (struct json *)text_value(value, strlen(value)));
}

// This key marks raw JSON text. It is not UTF-8, so no parsed object can have it.
#define RAW_KEY "\xff"

void json_raw(struct json *object, const char *key, struct bytes text)
{
    json_t *child = need(json_object());
    json_t *value = need(json_stringn_nocheck((const char *)text.data, text.len));
    if (json_object_set_new_nocheck(child, RAW_KEY, value) != 0) (void)need(NULL);
    set_member(object, key, child);
}

struct bytes json_raw_text(const struct json *object)
{
    const json_t *value = json_object_get((const json_t *)object, RAW_KEY);
    return value ? bytes_of(json_string_value(value), json_string_length(value)) : BYTES_EMPTY;
}

static json_t *parse(const char *text, size_t len, size_t flags, char *error, size_t error_len)
{
    json_error_t wrong;
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | flags, &wrong);
    if (value) return value;
    (void)snprintf(error, error_len, "line %d, column %d: %s", wrong.line, wrong.column,
                   wrong.text);
    for (char *at = error; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    return NULL;
}

struct json *json_parse(const char *text, size_t len, char *error, size_t error_len)
{
    return (struct json *)parse(text, len, JSON_ALLOW_NUL, error, error_len);
}

static const json_t *seen(const struct json *value)
{
    return (const json_t *)value;
}

enum json_kind json_kind(const struct json *value)
{
    switch (json_typeof(seen(value))) {
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_ARRAY:
        return JSON_KIND_LIST;
    case JSON_STRING:
        return JSON_KIND_TEXT;
    case JSON_INTEGER:
        return JSON_KIND_NUMBER;
    case JSON_REAL:
        return JSON_KIND_FRACTION;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    default:
        return JSON_KIND_NULL;
    }
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = {
        [JSON_KIND_NULL] = "null",       [JSON_KIND_BOOL] = "true or false",
        [JSON_KIND_NUMBER] = "a number", [JSON_KIND_FRACTION] = "a fraction",
        [JSON_KIND_TEXT] = "a string",   [JSON_KIND_LIST] = "a list",
        [JSON_KIND_OBJECT] = "an object"};
    return names[kind];
}

bool json_as_bool(const struct json *value)
{
    return json_is_true(seen(value));
}

int64_t json_as_number(const struct json *value)
{
    CHECK(json_is_integer(seen(value)));
    return json_integer_value(seen(value));
}

double json_as_fraction(const struct json *value)
{
    CHECK(json_is_real(seen(value)));
    return json_real_value(seen(value));
}

struct bytes json_as_text(const struct json *value)
{
    CHECK(json_is_string(seen(value)));
    return bytes_of(json_string_value(seen(value)), json_string_length(seen(value)));
}

size_t json_list_len(const struct json *list)
{
    return json_array_size(seen(list));
}

struct json *json_list_at(const struct json *list, size_t index)
{
    return (struct json *)json_array_get(seen(list), index);
}

struct json *json_member(const struct json *object, const char *key)
{
    return (struct json *)json_object_get(seen(object), key);
}

bool json_next(struct json *object, void **at, const char **key, struct json **value)
{
    *at = *at ? json_object_iter_next(real(object), *at) : json_object_iter(real(object));
    if (!*at) return false;
    *key = json_object_iter_key(*at);
    *value = (struct json *)json_object_iter_value(*at);
    return true;
}

struct flatten_context {
    struct json_pairs *out;
    char *error;
    size_t error_len;
};

static void pair_add(struct json_pairs *pairs, const char *key, const char *value)
{
    pairs->rows = memory_resize(pairs->rows, (pairs->len + 1) * sizeof *pairs->rows);
    pairs->rows[pairs->len].key = need(strdup(key));
    pairs->rows[pairs->len].value = need(strdup(value));
    pairs->len++;
}

// A number is milliseconds where a duration is meant. The text that stands for it needs the unit.
static const char *unit_of(const char *key)
{
    size_t below = sizeof JSON_SETTINGS_BELOW - 1;
    const struct setting *s =
        setting_find(strncmp(key, JSON_SETTINGS_BELOW, below) == 0 ? key + below : key);
    return s && s->kind == SETTING_DURATION ? "ms" : "";
}

static bool flatten_leaf(struct flatten_context *f, const char *key, const json_t *value)
{
    char text[64];
    const char *words = NULL;
    switch (json_typeof(value)) {
    case JSON_STRING:
        words = json_string_value(value);
        break;
    case JSON_INTEGER:
        (void)snprintf(text, sizeof text, "%lld%s", (long long)json_integer_value(value),
                       unit_of(key));
        break;
    case JSON_REAL: // 15 digits keep 0.2 as 0.2
        (void)snprintf(text, sizeof text, "%.15g%s", json_real_value(value), unit_of(key));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        words = json_is_true(value) ? "true" : "false";
        break;
    default:
        (void)snprintf(
            f->error, f->error_len,
            "%s is %s; a setting is a string, a number, true, false or an object of these", key,
            json_is_null(value) ? "null" : "a list");
        return false;
    }
    pair_add(f->out, key, words ? words : text);
    return true;
}

static bool flatten_object(struct flatten_context *f, const char *prefix, json_t *object, int depth)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        char key[KEY_MAX];
        int len = snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", name);
        if (len < 0 || (size_t)len >= sizeof key || depth == DEPTH_MAX) {
            (void)snprintf(f->error, f->error_len,
                           "%.60s... is longer than the name of any setting", key);
            return false;
        }
        bool done = json_is_object(value) ? flatten_object(f, key, value, depth + 1)
                                          : flatten_leaf(f, key, value);
        if (!done) return false;
    }
    return true;
}

bool json_flatten(const char *text, size_t len, struct json_pairs *out, char *error,
                  size_t error_len)
{
    *out = (struct json_pairs){0};
    json_t *root = parse(text, len, 0, error, error_len);
    if (!root) return false;
    bool done = json_is_object(root);
    if (!done)
        (void)snprintf(error, error_len, "line 1, column 1: expected an object of settings");
    else
        done = flatten_object(&(struct flatten_context){out, error, error_len}, "", root, 0);
    json_decref(root);
    if (!done) json_pairs_done(out);
    return done;
}

bool json_pairs_of(struct json *object, struct json_pairs *out)
{
    char why[160];
    *out = (struct json_pairs){0};
    struct flatten_context f = {out, why, sizeof why};
    if (json_is_object(real(object)) && flatten_object(&f, "", real(object), 0)) return true;
    json_pairs_done(out);
    return false;
}

void json_pairs_done(struct json_pairs *pairs)
{
    for (size_t i = 0; i < pairs->len; i++) {
        free((char *)(uintptr_t)pairs->rows[i].key);
        free((char *)(uintptr_t)pairs->rows[i].value);
    }
    memory_free(pairs->rows);
    *pairs = (struct json_pairs){0};
}

static json_t *typed(const struct sluice_setting *row)
{
    const struct setting *s = setting_find(row->key);
    switch (s ? s->kind : SETTING_NAME) {
    case SETTING_FLAG:
        return json_boolean(row->value[0] == 't');
    case SETTING_NUMBER:
    case SETTING_BYTES:
        return json_integer(strtoll(row->value, NULL, 10));
    case SETTING_RATIO:
        return json_real(strtod(row->value, NULL));
    default:
        return json_string(row->value);
    }
}

struct json *json_settings(const struct sluice_setting *rows, size_t len)
{
    struct json *root = json_new();
    for (size_t i = 0; i < len; i++) {
        json_t *at = real(root);
        char key[KEY_MAX];
        (void)snprintf(key, sizeof key, "%s", rows[i].key);
        char *name = key;
        for (char *dot; (dot = strchr(name, '.')); name = dot + 1) {
            *dot = '\0';
            if (!json_object_get(at, name)) set_member((struct json *)at, name, json_object());
            at = json_object_get(at, name);
        }
        set_member((struct json *)at, name, typed(&rows[i]));
    }
    return root;
}

struct json *json_read_object(struct bytes body)
{
    char why[256];
    struct json *o = json_parse((const char *)body.data, body.len, why, sizeof why);
    if (o && json_kind(o) == JSON_KIND_OBJECT) return o;
    json_free(o);
    return NULL;
}
