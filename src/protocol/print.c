// SPDX-License-Identifier: Apache-2.0
// Prints the table of calls as JSON, for tools/check-openapi.
#include "protocol/routes.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
#define KIND(id, name) [FIELD_##id] = name,
    FIELD_KINDS(KIND)
#undef KIND
};

static struct json *field_json(const struct field *f)
{
    struct json *o = json_new();
    json_text(o, "name", f->name);
    json_text(o, "kind", kinds[f->kind]);
    json_number(o, "min", f->min);
    json_number(o, "max", f->max);
    json_number(o, "fallback", f->fallback);
    json_bool(o, "optional", f->omit != OMIT_NEVER && f->omit != OMIT_NULL);
    json_text(o, "about", f->about);
    return o;
}

static struct json *fields_list(const struct fields *table)
{
    struct json *list = json_list_new();
    for (size_t i = 0; table && i < table->len; i++)
        json_list_take(list, field_json(&table->rows[i]));
    return list;
}

static struct json *call_json(const struct route *c)
{
    static const char *const repeats[] = {
        [REPEAT_READ] = "read", [REPEAT_SAME] = "same", [REPEAT_ID] = "id", [REPEAT_ONCE] = "once"};
    static const char *const compacts[] = {
        [COMPACT_NOWHERE] = "nowhere", [COMPACT_ANSWER] = "answer", [COMPACT_BOTH] = "both"};
    struct json *o = json_new();
    json_text(o, "method", c->method);
    json_text(o, "path", c->pattern);
    json_text(o, "scope", scope_name(c->scope));
    bool all = c->scope != SCOPE_NONE && !c->any_queue && !strstr(c->pattern, "{queue}");
    json_bool(o, "allQueues", all);
    json_text(o, "repeat", repeats[c->repeat]);
    json_text(o, "compact", compacts[c->compact]);
    json_bool(o, "body", c->body_max > 0);
    json_number(o, "bodyMax", c->body_max < SIZE_MAX ? (int64_t)c->body_max : 0);
    json_take(o, "query", fields_list(c->query));
    json_take(o, "fields", fields_list(c->body));
    json_text(o, "operation", c->operation);
    json_text(o, "tag", c->tag);
    json_text(o, "summary", c->summary);
    json_text(o, "takes", c->takes);
    json_text(o, "answer", c->answer);
    json_text(o, "about", c->about);
    json_number(o, "status", c->status != 0 ? c->status : 200);
    json_bool(o, "conflicts", c->conflicts);
    json_bool(o, "fences", c->fences);
    return o;
}

int main(void)
{
    struct json *o = json_new(), *list = json_list_new(), *answers = json_new();
    struct json *parts = json_new();
    for (size_t i = 0; i < ROUTE_COUNT; i++)
        if (!route_table[i].peer) json_list_take(list, call_json(&route_table[i]));
#define ANSWER(schema, name, in, rows) json_take(answers, #schema, fields_list(&name##_answer));
    ANSWER_TABLES(ANSWER)
#undef ANSWER
    json_take(parts, "NewMessages", fields_list(&messages_fields));
    json_take(o, "calls", list);
    json_take(o, "answers", answers);
    json_take(o, "parts", parts);
    json_print(o, stdout);
    return 0;
}
