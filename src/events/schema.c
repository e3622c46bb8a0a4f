// SPDX-License-Identifier: Apache-2.0
// Reads schemas and compares values with them.
#include "events/schema.h"

#include "base/memory.h"
#include "events/schema_inside.h"
#include "events/schema_path.h"
#include "json/weigh.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const types[] = {"object", "array",   "string", "integer",
                                    "number", "boolean", "null"};
static const char *const notes[] = {"$schema", "$comment", "title",     "description",
                                    "default", "examples", "deprecated"};

struct schema_reader {
    struct schema_path path;
    char *why;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct schema_reader *r,
                                                         const char *format, ...)
{
    va_list rest;
    int len = snprintf(r->why, SCHEMA_WHY_MAX, "%s: ", schema_path_text(&r->path));
    va_start(rest, format);
    (void)vsnprintf(r->why + len, SCHEMA_WHY_MAX - (size_t)len, format, rest);
    va_end(rest);
    return false;
}

static bool is_one_of(const char *name, const char *const *list, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (strcmp(name, list[i]) == 0) return true;
    return false;
}

static bool is_scalar(const struct json *value)
{
    enum json_kind kind = json_kind(value);
    return kind == JSON_KIND_NULL || kind == JSON_KIND_BOOL || kind == JSON_KIND_NUMBER ||
           kind == JSON_KIND_TEXT;
}

bool schema_same_value(const struct json *a, const struct json *b)
{
    enum json_kind kind = json_kind(a);
    if (kind != json_kind(b)) return false;
    if (kind == JSON_KIND_BOOL) return json_as_bool(a) == json_as_bool(b);
    if (kind == JSON_KIND_NUMBER) return json_as_number(a) == json_as_number(b);
    if (kind == JSON_KIND_TEXT) return bytes_equal(json_as_text(a), json_as_text(b));
    return kind == JSON_KIND_NULL;
}

const char *schema_value_text(const struct json *value, char out[64])
{
    switch (json_kind(value)) {
    case JSON_KIND_TEXT:
        (void)snprintf(out, 64, "\"%.50s\"", (const char *)json_as_text(value).data);
        break;
    case JSON_KIND_NUMBER:
        (void)snprintf(out, 64, "%lld", (long long)json_as_number(value));
        break;
    case JSON_KIND_BOOL:
        (void)snprintf(out, 64, "%s", json_as_bool(value) ? "true" : "false");
        break;
    default:
        (void)snprintf(out, 64, "%s", json_kind_name(json_kind(value)));
        break;
    }
    return out;
}

bool schema_list_has(const struct json *list, const struct json *value)
{
    for (size_t i = 0; i < json_list_len(list); i++)
        if (schema_same_value(json_list_at(list, i), value)) return true;
    return false;
}

static bool list_has_text(const struct json *list, const char *text)
{
    for (size_t i = 0; i < json_list_len(list); i++)
        if (bytes_equal(json_as_text(json_list_at(list, i)), bytes_str(text))) return true;
    return false;
}

bool schema_requires(const struct json *schema, const char *name)
{
    const struct json *required = json_member(schema, "required");
    return required && list_has_text(required, name);
}

bool schema_type_allows(const struct json *schema, const char *type)
{
    const struct json *t = json_member(schema, "type");
    if (!t) return true;
    if (json_kind(t) == JSON_KIND_TEXT) return bytes_equal(json_as_text(t), bytes_str(type));
    return list_has_text(t, type);
}

// Each keyword has a function that checks its value.

static bool check_schema(struct schema_reader *r, struct json *schema);

static bool check_type_name(struct schema_reader *r, const struct json *value)
{
    char text[64];
    bool good =
        json_kind(value) == JSON_KIND_TEXT &&
        is_one_of((const char *)json_as_text(value).data, types, sizeof types / sizeof *types);
    return good || refuse(r, "%s is not the name of a type", schema_value_text(value, text));
}

static bool check_type(struct schema_reader *r, struct json *value)
{
    if (json_kind(value) != JSON_KIND_LIST) return check_type_name(r, value);
    for (size_t i = 0; i < json_list_len(value); i++)
        if (!check_type_name(r, json_list_at(value, i))) return false;
    return json_list_len(value) > 0 || refuse(r, "the list is empty");
}

static bool check_properties(struct schema_reader *r, struct json *value)
{
    const char *name;
    struct json *child;
    bool good = true;
    if (json_kind(value) != JSON_KIND_OBJECT) return refuse(r, "it is not an object");
    for (void *at = NULL; good && json_next(value, &at, &name, &child);) {
        size_t before = schema_path_push(&r->path, name);
        good = check_schema(r, child);
        schema_path_pop(&r->path, before);
    }
    return good;
}

static bool check_required(struct schema_reader *r, struct json *value)
{
    if (json_kind(value) != JSON_KIND_LIST) return refuse(r, "it is not a list");
    for (size_t i = 0; i < json_list_len(value); i++)
        if (json_kind(json_list_at(value, i)) != JSON_KIND_TEXT)
            return refuse(r, "item %zu is not the name of a property", i);
    return true;
}

static bool check_flag(struct schema_reader *r, struct json *value)
{
    return json_kind(value) == JSON_KIND_BOOL || refuse(r, "it is neither true nor false");
}

static bool check_const(struct schema_reader *r, struct json *value)
{
    return is_scalar(value) ||
           refuse(r, "it is %s, not a string, a whole number, a boolean or null",
                  json_kind_name(json_kind(value)));
}

static bool check_enum(struct schema_reader *r, struct json *value)
{
    if (json_kind(value) != JSON_KIND_LIST) return refuse(r, "it is not a list");
    for (size_t i = 0; i < json_list_len(value); i++)
        if (!check_const(r, json_list_at(value, i))) return false;
    return json_list_len(value) > 0 || refuse(r, "the list is empty");
}

static bool check_number(struct schema_reader *r, struct json *value)
{
    return json_kind(value) == JSON_KIND_NUMBER || refuse(r, "it is not a whole number");
}

static bool check_format(struct schema_reader *r, struct json *value)
{
    bool good = json_kind(value) == JSON_KIND_TEXT &&
                bytes_equal(json_as_text(value), bytes_str("date-time"));
    return good || refuse(r, "the only format is \"date-time\"");
}

static bool check_id(struct schema_reader *r, struct json *value)
{
    return json_kind(value) == JSON_KIND_TEXT ||
           refuse(r, "it is %s, not a string", json_kind_name(json_kind(value)));
}

static const struct keyword {
    const char *name;
    bool (*check)(struct schema_reader *r, struct json *value);
} keywords[] = {
    {"type", check_type},
    {"properties", check_properties},
    {"required", check_required},
    {"additionalProperties", check_flag},
    {"items", check_schema},
    {"enum", check_enum},
    {"const", check_const},
    {"minimum", check_number},
    {"maximum", check_number},
    {"minLength", check_number},
    {"maxLength", check_number},
    {"format", check_format},
    {"$id", check_id},
};

static bool check_keyword(struct schema_reader *r, const char *name, struct json *value)
{
    if (is_one_of(name, notes, sizeof notes / sizeof *notes)) return true;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0) return keywords[i].check(r, value);
    return refuse(r, "the keyword is not in the subset that docs/events.md describes");
}

static bool check_schema(struct schema_reader *r, struct json *schema)
{
    const char *name;
    struct json *value;
    bool good = true;
    if (json_kind(schema) != JSON_KIND_OBJECT) return refuse(r, "a schema is an object");
    for (void *at = NULL; good && json_next(schema, &at, &name, &value);) {
        size_t before = schema_path_push(&r->path, name);
        good = check_keyword(r, name, value);
        schema_path_pop(&r->path, before);
    }
    return good;
}

enum err schema_parse(struct bytes text, struct schema **out, char why[SCHEMA_WHY_MAX])
{
    struct schema_reader r = {.why = why};
    char wrong[256];
    *out = NULL;
    if (text.len > SCHEMA_TEXT_MAX) {
        (void)snprintf(why, SCHEMA_WHY_MAX, "the schema has %zu bytes; at most %zu are allowed",
                       text.len, SCHEMA_TEXT_MAX);
        return ERR_INVALID;
    }
    if (json_weigh((const char *)text.data, text.len).depth > SCHEMA_DEPTH_MAX) {
        (void)snprintf(why, SCHEMA_WHY_MAX, "the schema nests deeper than %d", SCHEMA_DEPTH_MAX);
        return ERR_INVALID;
    }
    struct json *tree = json_parse((const char *)text.data, text.len, wrong, sizeof wrong);
    if (!tree) {
        (void)snprintf(why, SCHEMA_WHY_MAX, "it is not JSON: %s", wrong); // no place in it
        return ERR_INVALID;
    }
    if (!check_schema(&r, tree)) {
        json_free(tree);
        return ERR_INVALID;
    }
    *out = NEW(struct schema);
    (*out)->tree = tree;
    return ERR_OK;
}

void schema_free(struct schema *s)
{
    if (!s) return;
    json_free(s->tree);
    memory_free(s);
}
