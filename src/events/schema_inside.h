// SPDX-License-Identifier: Apache-2.0
// What the files of schemas share. A parsed schema is its JSON tree: schema_parse has checked the
// kind of each keyword's value.
#pragma once

#include "events/schema.h"
#include "json/json.h"

struct schema {
    struct json *tree; // an object
};

bool schema_same_value(const struct json *a, const struct json *b); // of scalars
// The value as JSON, for a sentence.
const char *schema_value_text(const struct json *value, char out[64]);
bool schema_list_has(const struct json *list, const struct json *value);
bool schema_requires(const struct json *schema, const char *name);
// True if `type` of the schema allows the kind. A schema without `type` allows each.
bool schema_type_allows(const struct json *schema, const char *type);
