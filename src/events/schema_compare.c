// SPDX-License-Identifier: Apache-2.0
// Says how a schema changed. Two readers must go on to work: an older consumer that gets newer
// events, and a newer consumer that gets events which a stream has kept. So only a property that
// may be absent can be added.
#include "base/check.h"
#include "events/schema_inside.h"
#include "events/schema_path.h"

#include <stdarg.h>
#include <string.h>

#define OLDER "an older consumer"
#define NEWER "a newer consumer"

struct comparison {
    struct schema_path path;
    enum schema_change worst;
    schema_report *report;
    void *ctx;
};

const char *schema_change_name(enum schema_change change)
{
    static const char *const names[] = {
        [SCHEMA_SAME] = "same", [SCHEMA_ADDITIVE] = "additive", [SCHEMA_BREAKING] = "breaking"};
    CHECK((size_t)change < sizeof names / sizeof *names);
    return names[change];
}

__attribute__((format(printf, 4, 5))) static void
tell(struct comparison *c, enum schema_change change, const char *name, const char *format, ...)
{
    char what[SCHEMA_WHY_MAX];
    va_list rest;
    va_start(rest, format);
    (void)vsnprintf(what, sizeof what, format, rest);
    va_end(rest);
    size_t before = name ? schema_path_push(&c->path, name) : c->path.len;
    if (c->report) c->report(c->ctx, change, schema_path_text(&c->path), what);
    schema_path_pop(&c->path, before);
    if (change > c->worst) c->worst = change;
}

static void compare(struct comparison *c, const struct json *old, const struct json *new);

static const char *const type_names[] = {"object", "array",   "string", "integer",
                                         "number", "boolean", "null"};

// "number" includes each integer.
static bool allows(const struct json *schema, const char *type)
{
    if (schema_type_allows(schema, type)) return true;
    return strcmp(type, "integer") == 0 && schema_type_allows(schema, "number");
}

static void compare_types(struct comparison *c, const struct json *old, const struct json *new)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        const char *type = type_names[i];
        bool before = allows(old, type), after = allows(new, type);
        if (!before && after)
            tell(c, SCHEMA_BREAKING, "type", "%s is allowed now: " OLDER " does not expect it",
                 type);
        if (before && !after)
            tell(c, SCHEMA_BREAKING, "type",
                 "%s is not allowed any more: " NEWER " refuses events that are kept", type);
    }
}

// The values that a schema lists: enum, or const as a list of one.
struct choices {
    const struct json *list;
    const struct json *one;
};

static struct choices choices_of(const struct json *schema)
{
    return (struct choices){json_member(schema, "enum"), json_member(schema, "const")};
}

static size_t choices_len(const struct choices *c)
{
    return c->one ? 1 : c->list ? json_list_len(c->list) : 0;
}

static const struct json *choice_at(const struct choices *c, size_t at)
{
    return c->one ? c->one : json_list_at(c->list, at);
}

static bool choices_have(const struct choices *c, const struct json *value)
{
    return c->one ? schema_same_value(c->one, value) : schema_list_has(c->list, value);
}

static void compare_choices(struct comparison *c, const struct json *old, const struct json *new)
{
    char text[64];
    struct choices before = choices_of(old), after = choices_of(new);
    const char *name = after.one || before.one ? "const" : "enum";
    if (choices_len(&before) == 0 && choices_len(&after) == 0) return;
    if (choices_len(&after) == 0) {
        tell(c, SCHEMA_BREAKING, name, "every value is allowed now: " OLDER " knows only some");
        return;
    }
    if (choices_len(&before) == 0) {
        tell(c, SCHEMA_BREAKING, name,
             "only some values are allowed now: " NEWER " refuses events that are kept");
        return;
    }
    for (size_t i = 0; i < choices_len(&after); i++)
        if (!choices_have(&before, choice_at(&after, i)))
            tell(c, SCHEMA_BREAKING, name, "the value %s is new: " OLDER " does not know it",
                 schema_value_text(choice_at(&after, i), text));
    for (size_t i = 0; i < choices_len(&before); i++)
        if (!choices_have(&after, choice_at(&before, i)))
            tell(c, SCHEMA_BREAKING, name,
                 "the value %s is gone: " NEWER " refuses events that are kept",
                 schema_value_text(choice_at(&before, i), text));
}

// A bound that is not there is printed as "none".
static const char *bound_text(const struct json *bound, char out[64])
{
    return bound ? schema_value_text(bound, out) : "none";
}

static void compare_bound(struct comparison *c, const char *name, bool low, const struct json *old,
                          const struct json *new)
{
    char texts[2][64];
    const struct json *before = json_member(old, name), *after = json_member(new, name);
    if (!before && !after) return;
    if (before && after && json_as_number(before) == json_as_number(after)) return;
    bool wider = !after || (before && (json_as_number(after) < json_as_number(before)) == low);
    tell(c, SCHEMA_BREAKING, name, "it was %s and is %s: %s", bound_text(before, texts[0]),
         bound_text(after, texts[1]),
         wider ? OLDER " does not expect such values" : NEWER " refuses events that are kept");
}

static void compare_format(struct comparison *c, const struct json *old, const struct json *new)
{
    bool before = json_member(old, "format"), after = json_member(new, "format");
    if (before && !after)
        tell(c, SCHEMA_BREAKING, "format", "it is gone: " OLDER " cannot read every value");
    if (!before && after)
        tell(c, SCHEMA_BREAKING, "format", "it is new: " NEWER " refuses events that are kept");
}

static bool is_open(const struct json *schema)
{
    const struct json *more = json_member(schema, "additionalProperties");
    return !more || json_as_bool(more);
}

static void compare_open(struct comparison *c, const struct json *old, const struct json *new)
{
    if (is_open(old) && !is_open(new))
        tell(c, SCHEMA_BREAKING, "additionalProperties",
             "other properties are not allowed any more: " NEWER " refuses events that are kept");
    if (!is_open(old) && is_open(new))
        tell(c, SCHEMA_BREAKING, "additionalProperties",
             "other properties are allowed now: " OLDER " refuses them");
}

static void compare_required(struct comparison *c, const struct json *old, const struct json *new)
{
    const struct json *before = json_member(old, "required"), *after = json_member(new, "required");
    for (size_t i = 0; before && i < json_list_len(before); i++) {
        const char *name = (const char *)json_as_text(json_list_at(before, i)).data;
        if (!schema_requires(new, name))
            tell(c, SCHEMA_BREAKING, "required", "%.100s may be absent now: " OLDER " relies on it",
                 name);
    }
    for (size_t i = 0; after && i < json_list_len(after); i++) {
        const char *name = (const char *)json_as_text(json_list_at(after, i)).data;
        if (!schema_requires(old, name))
            tell(c, SCHEMA_BREAKING, "required",
                 "%.100s is required now: events that are kept do not have it", name);
    }
}

static void compare_property(struct comparison *c, const char *name, const struct json *before,
                             const struct json *after, bool open)
{
    if (before && after) {
        size_t at = schema_path_push(&c->path, name);
        compare(c, before, after);
        schema_path_pop(&c->path, at);
    } else if (before) {
        tell(c, SCHEMA_BREAKING, name, "the property is gone: " OLDER " may read it");
    } else if (open) {
        tell(c, SCHEMA_ADDITIVE, name, "the property is new: " OLDER " ignores it");
    } else {
        tell(c, SCHEMA_BREAKING, name,
             "the property is new, and the object had no others: " OLDER " refuses it");
    }
}

static void compare_properties(struct comparison *c, const struct json *old, const struct json *new)
{
    struct json *before = json_member(old, "properties"), *after = json_member(new, "properties");
    struct json *value;
    const char *name;
    size_t at = schema_path_push(&c->path, "properties");
    for (void *i = NULL; before && json_next(before, &i, &name, &value);)
        compare_property(c, name, value, after ? json_member(after, name) : NULL, is_open(old));
    for (void *i = NULL; after && json_next(after, &i, &name, &value);)
        if (!before || !json_member(before, name))
            compare_property(c, name, NULL, value, is_open(old));
    schema_path_pop(&c->path, at);
}

static void compare_items(struct comparison *c, const struct json *old, const struct json *new)
{
    const struct json *before = json_member(old, "items"), *after = json_member(new, "items");
    if (before && after) {
        size_t at = schema_path_push(&c->path, "items");
        compare(c, before, after);
        schema_path_pop(&c->path, at);
    } else if (before) {
        tell(c, SCHEMA_BREAKING, "items", "every item is allowed now: " OLDER " knows only some");
    } else if (after) {
        tell(c, SCHEMA_BREAKING, "items",
             "only some items are allowed now: " NEWER " refuses events that are kept");
    }
}

static void compare(struct comparison *c, const struct json *old, const struct json *new)
{
    compare_types(c, old, new);
    compare_choices(c, old, new);
    compare_bound(c, "minimum", true, old, new);
    compare_bound(c, "maximum", false, old, new);
    compare_bound(c, "minLength", true, old, new);
    compare_bound(c, "maxLength", false, old, new);
    compare_format(c, old, new);
    compare_open(c, old, new);
    compare_required(c, old, new);
    compare_properties(c, old, new);
    compare_items(c, old, new);
}

static void compare_names(struct comparison *c, const struct json *old, const struct json *new)
{
    char texts[2][64];
    const struct json *before = json_member(old, "$id"), *after = json_member(new, "$id");
    if (before && !(after && schema_same_value(before, after)))
        tell(c, SCHEMA_BREAKING, "$id", "it was %s and is %s: " OLDER " finds it by its name",
             bound_text(before, texts[0]), bound_text(after, texts[1]));
}

enum schema_change schema_compare(const struct schema *old, const struct schema *new,
                                  schema_report *report, void *ctx)
{
    struct comparison c = {.report = report, .ctx = ctx};
    compare_names(&c, old->tree, new->tree);
    compare(&c, old->tree, new->tree);
    return c.worst;
}
