// SPDX-License-Identifier: Apache-2.0
// Compares a value with a schema, keyword by keyword.
#include "base/check.h"
#include "base/moment.h"
#include "events/schema_inside.h"
#include "events/schema_path.h"

#include <stdarg.h>
#include <string.h>

struct value_check {
    struct schema_path path; // of the value
    char *why;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct value_check *h, const char *format,
                                                         ...)
{
    va_list rest;
    int len = snprintf(h->why, SCHEMA_WHY_MAX, "%s: ", schema_path_text(&h->path));
    va_start(rest, format);
    (void)vsnprintf(h->why + len, SCHEMA_WHY_MAX - (size_t)len, format, rest);
    va_end(rest);
    return false;
}

static bool holds(struct value_check *h, const struct json *schema, struct json *value);

static const char *type_of(const struct json *value)
{
    static const char *const names[] = {
        [JSON_KIND_NULL] = "null",      [JSON_KIND_BOOL] = "boolean",
        [JSON_KIND_NUMBER] = "integer", [JSON_KIND_FRACTION] = "number",
        [JSON_KIND_TEXT] = "string",    [JSON_KIND_LIST] = "array",
        [JSON_KIND_OBJECT] = "object",
    };
    return names[json_kind(value)];
}

static bool type_holds(struct value_check *h, const struct json *schema, const struct json *value)
{
    const char *type = type_of(value);
    if (schema_type_allows(schema, type)) return true;
    if (json_kind(value) == JSON_KIND_NUMBER && schema_type_allows(schema, "number")) return true;
    return refuse(h, "the type %s is not allowed", type);
}

static bool choice_holds(struct value_check *h, const struct json *schema, const struct json *value)
{
    char text[64], right[64];
    const struct json *one = json_member(schema, "const"), *some = json_member(schema, "enum");
    if (one && !schema_same_value(one, value))
        return refuse(h, "%s is not %s", schema_value_text(value, text),
                      schema_value_text(one, right));
    if (some && !schema_list_has(some, value))
        return refuse(h, "%s is none of the allowed values", schema_value_text(value, text));
    return true;
}

// Compares a size or a number with two bounds of the schema.
static bool bounds_hold(struct value_check *h, const struct json *schema, const char *low,
                        const char *high, int64_t value)
{
    const struct json *min = json_member(schema, low), *max = json_member(schema, high);
    if (min && value < json_as_number(min))
        return refuse(h, "%lld is under the %s %lld", (long long)value, low,
                      (long long)json_as_number(min));
    if (max && value > json_as_number(max))
        return refuse(h, "%lld is over the %s %lld", (long long)value, high,
                      (long long)json_as_number(max));
    return true;
}

static bool text_holds(struct value_check *h, const struct json *schema, const struct json *value)
{
    int64_t ms;
    struct bytes text = json_as_text(value);
    if (!bounds_hold(h, schema, "minLength", "maxLength", (int64_t)text.len)) return false;
    if (!json_member(schema, "format") || moment_read_exact(text, &ms)) return true;
    return refuse(h, "it is not a time such as 2030-01-31T12:00:00.000Z");
}

static bool member_holds(struct value_check *h, const struct json *schema, const char *name,
                         struct json *value)
{
    const struct json *properties = json_member(schema, "properties");
    const struct json *closed = json_member(schema, "additionalProperties");
    const struct json *own = properties ? json_member(properties, name) : NULL;
    size_t before = schema_path_push(&h->path, name);
    bool good = own ? holds(h, own, value)
                    : !closed || json_as_bool(closed) || refuse(h, "the property is not allowed");
    schema_path_pop(&h->path, before);
    return good;
}

static bool object_holds(struct value_check *h, const struct json *schema, struct json *value)
{
    const char *name;
    struct json *child;
    const struct json *required = json_member(schema, "required");
    for (size_t i = 0; required && i < json_list_len(required); i++) {
        name = (const char *)json_as_text(json_list_at(required, i)).data;
        if (!json_member(value, name)) return refuse(h, "%.100s is missing", name);
    }
    for (void *at = NULL; json_next(value, &at, &name, &child);)
        if (!member_holds(h, schema, name, child)) return false;
    return true;
}

static bool list_holds(struct value_check *h, const struct json *schema, struct json *value)
{
    const struct json *items = json_member(schema, "items");
    for (size_t i = 0; items && i < json_list_len(value); i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", i);
        size_t before = schema_path_push(&h->path, number);
        bool good = holds(h, items, json_list_at(value, i));
        schema_path_pop(&h->path, before);
        if (!good) return false;
    }
    return true;
}

static bool holds(struct value_check *h, const struct json *schema, struct json *value)
{
    CHECK(json_kind(schema) == JSON_KIND_OBJECT);
    if (!type_holds(h, schema, value) || !choice_holds(h, schema, value)) return false;
    switch (json_kind(value)) {
    case JSON_KIND_OBJECT:
        return object_holds(h, schema, value);
    case JSON_KIND_LIST:
        return list_holds(h, schema, value);
    case JSON_KIND_TEXT:
        return text_holds(h, schema, value);
    case JSON_KIND_NUMBER:
        return bounds_hold(h, schema, "minimum", "maximum", json_as_number(value));
    default:
        return true;
    }
}

bool schema_holds(const struct schema *s, const struct json *value, char why[SCHEMA_WHY_MAX])
{
    struct value_check h = {.why = why};
    return holds(&h, s->tree, (struct json *)value);
}
