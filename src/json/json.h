// SPDX-License-Identifier: Apache-2.0
// Writes and reads JSON. An object keeps the order in which its keys were added. It is printed on
// one line.
#pragma once

#include "base/bytes.h"
#include "base/text.h"

#include <sluice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json;

struct json *json_new(void);                        // an empty object
struct json *json_list_new(void);                   // an empty list
void json_free(struct json *value);                 // accepts NULL
static inline void json_let_go(struct json **value) // for CLEANUP
{
    json_free(*value);
}
// adds a reference; each reference needs its own json_free
struct json *json_again(struct json *value);

void json_text(struct json *object, const char *key, const char *value); // NULL writes null
// Each byte that is not valid UTF-8 becomes U+FFFD.
void json_text_len(struct json *object, const char *key, const char *value, size_t len);
void json_number(struct json *object, const char *key, int64_t value);
void json_fraction(struct json *object, const char *key, double value);
void json_bool(struct json *object, const char *key, bool value);
// The object or list takes ownership of the child.
void json_take(struct json *object, const char *key, struct json *child);
void json_list_take(struct json *list, struct json *child);
void json_list_text(struct json *list, const char *value);

// Adds a value that is JSON text already (json/raw.h). The text is copied and written unchanged.
void json_raw(struct json *object, const char *key, struct bytes text);
struct bytes json_raw_text(const struct json *object); // data is NULL if it is a normal object

// Prints one line on out, escaped like json_write_plain. Frees the object.
void json_print(struct json *object, FILE *out);
// Appends the value to a buffer, without a newline. Frees the value.
void json_write(struct json *value, struct buf *to);
// Like json_write, for a terminal or a log: DEL and C1 are escaped, too.
void json_write_plain(struct json *value, struct buf *to);

// A message whose body was sent as a JSON value has this header. The header is not shown, and the
// body is shown as a JSON value.
#define JSON_TYPE           "application/json"
#define JSON_BODY_HEADER    "sluice-body"
#define JSON_BODY_VALUE     "json"

// Reads an object and flattens nested objects: {"a": {"b": 3}} gives "a.b" = "3". Lists and nulls
// are refused. On false, error says what is wrong. A syntax error names its line and column. The
// number 30 of a setting that is a duration gives "30ms". The settings may be below the key
// "settings", as the command line prints them.
#define JSON_SETTINGS_BELOW "settings."
struct json_pairs {
    struct sluice_setting *rows;
    size_t len;
};
bool json_flatten(const char *text, size_t len, struct json_pairs *out, char *error,
                  size_t error_len);
bool json_pairs_of(struct json *object, struct json_pairs *out); // the same for a parsed object
void json_pairs_done(struct json_pairs *pairs);
// The inverse: makes a nested object of settings. Numbers and booleans keep their JSON type.
struct json *json_settings(const struct sluice_setting *rows, size_t len);

// Parses one value of any kind. The caller frees it. Duplicate keys are refused. On NULL, error
// says what is wrong, with line and column.
struct json *json_parse(const char *text, size_t len, char *error, size_t error_len);
struct json *json_read_object(struct bytes text); // NULL: it is not the text of an object

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_NUMBER,   // an integer
    JSON_KIND_FRACTION, // any other number
    JSON_KIND_TEXT,
    JSON_KIND_LIST,
    JSON_KIND_OBJECT,
};
enum json_kind json_kind(const struct json *value);
const char *json_kind_name(enum json_kind kind); // such as "a string"

// Each function requires a value of its own kind. The result is valid as long as the value.
bool json_as_bool(const struct json *value);
int64_t json_as_number(const struct json *value);
double json_as_fraction(const struct json *value);
struct bytes json_as_text(const struct json *value); // may contain zeros, and a zero follows it
size_t json_list_len(const struct json *list);
struct json *json_list_at(const struct json *list, size_t index);
struct json *json_member(const struct json *object, const char *key); // NULL if the key is absent
// Iterates over the members of an object:
//   for (void *at = NULL; json_next(object, &at, &key, &value);)
bool json_next(struct json *object, void **at, const char **key, struct json **value);
