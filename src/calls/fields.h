// SPDX-License-Identifier: Apache-2.0
// Reads JSON objects into structs, by a table of their fields. A member that is not in the table is
// an error that names it, and so is a value of the wrong kind.
#pragma once

#include "base/bytes.h"
#include "json/json.h"

#define FIELD_PATH_MAX 64

// Memory that lives until the exchange ends.
struct kept_texts {
    struct kept_block *blocks;
    struct json *json;
};
void *kept_new(struct kept_texts *k, size_t len);
void kept_done(struct kept_texts *k);

enum field_kind {
    FIELD_TEXT,     // const char *; without zero bytes
    FIELD_BASE64,   // struct bytes; data is not NULL if the field was given
    FIELD_NUMBER,   // int64_t, min .. max
    FIELD_DURATION, // int64_t ms, min .. max: a number, or "30s"
    FIELD_BOOL,     // bool
    FIELD_HEADERS,  // struct field_headers: an object of strings
    FIELD_TEXTS,    // struct field_texts: a list of strings
    FIELD_JSON,     // struct json *: any value
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
    size_t at; // offset in the struct
    int64_t min;
    int64_t max;
    int64_t fallback;  // of a number or duration that is not given
    const char *about; // a sentence for api/openapi.json
};

struct fields {
    const struct field *rows;
    size_t len;
};
extern const struct fields no_fields;

// `path` is "" or, for example, "messages[3]."; errors put it before the field's name. A null
// counts as a field that was not given. `out` points into the object and `kept`.
enum sluice_code fields_read(struct json *object, const char *path, const struct fields *table,
                             void *out, struct kept_texts *kept, struct sluice_error *error);
void fields_defaults(const struct fields *table, void *out); // the struct is zeroed otherwise
const struct field *fields_find(const struct fields *table, const char *name); // NULL: none
// Writes "name, other", for use in a sentence.
#define FIELD_NAMES_MAX 200
void fields_names(const struct fields *table, char out[static FIELD_NAMES_MAX]);
// Reads one value that was given as text, as in a query: numbers, durations, booleans and texts. A
// list of texts gets one more.
enum sluice_code field_read_text(const char *text, const struct field *field, void *out,
                                 struct kept_texts *kept, struct sluice_error *error);
