// SPDX-License-Identifier: Apache-2.0
// JSON objects into structs, by a table of their fields. What is not in the table is an error that
// names it, and so is a value of the wrong kind.
#pragma once

#include "base/bytes.h"
#include "json/json.h"

#define FIELD_PATH_MAX 64

// Memory that lives as long as somebody's answer.
struct kept_texts {
    struct kept_block *blocks;
    struct json *json;
};
void *kept_new(struct kept_texts *k, size_t len);
void kept_done(struct kept_texts *k);

enum field_kind {
    FIELD_TEXT,     // const char *; without zeros
    FIELD_BASE64,   // struct bytes; data is never NULL when it was given
    FIELD_NUMBER,   // int64_t, min .. max
    FIELD_DURATION, // int64_t ms, min .. max: a number, or "30s"
    FIELD_BOOL,     // bool
    FIELD_HEADERS,  // struct field_headers: an object of texts
    FIELD_TEXTS,    // struct field_texts: a list of texts
    FIELD_JSON,     // struct json *: of any kind
};

struct field_headers {
    struct sluice_header *rows;
    size_t len;
};
struct field_texts {
    const char **rows;
    size_t len;
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t at; // where it goes: offsetof
    int64_t min;
    int64_t max;
};

// path: "" or "messages[3].", which goes before a field's name in errors. A null is a field that
// was not given. What `out` then points to lives as long as the object and `kept`.
enum sluice_code fields_read(struct json *object, const char *path, const struct field *table,
                             size_t len, void *out, struct kept_texts *kept,
                             struct sluice_error *error);
// "name, other", for a sentence that lists them.
#define FIELD_NAMES_MAX 200
void fields_names(const struct field *table, size_t len, char out[static FIELD_NAMES_MAX]);
// One value given as text, as in a query: numbers, durations and texts.
enum sluice_code field_read_text(const char *text, const struct field *field, void *out,
                                 struct sluice_error *error);
