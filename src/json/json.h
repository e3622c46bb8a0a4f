// SPDX-License-Identifier: Apache-2.0
// JSON, out and in. An object is built key by key, keeps that order, and is printed on one line.
#pragma once

#include "base/bytes.h"

#include <sluice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json;

bool utf8_ok(const void *bytes, size_t len);
// UTF-8 without control characters (C0, DEL, C1): it does to a terminal what it looks like.
bool text_is_plain(const char *text);

struct json *json_new(void);                 // an object
struct json *json_list_new(void);            // a list
void json_free(struct json *value);          // NULL is fine
struct json *json_again(struct json *value); // the same one, to be freed once more

void json_text(struct json *object, const char *key, const char *value); // NULL: null
// Bytes that are not UTF-8 are shown as U+FFFD.
void json_text_len(struct json *object, const char *key, const char *value, size_t len);
void json_number(struct json *object, const char *key, int64_t value);
void json_fraction(struct json *object, const char *key, double value);
void json_bool(struct json *object, const char *key, bool value);
// The child belongs to the object afterwards.
void json_take(struct json *object, const char *key, struct json *child);
void json_list_take(struct json *list, struct json *child);
void json_list_text(struct json *list, const char *value);

// A value that is JSON text already (json/raw.h); it is copied, and written as it is.
void json_raw(struct json *object, const char *key, struct bytes text);
struct bytes json_raw_text(const struct json *object); // data NULL: it is an object like any other

// One line on out; frees the object.
void json_print(struct json *object, FILE *out);
// The same without the end of the line, into a buffer.
void json_write(struct json *value, struct buf *to);
// The same for a terminal or a log: DEL and C1 are escaped, too.
void json_write_plain(struct json *value, struct buf *to);

// A message whose body was sent as a JSON value has this header, which is not shown: the body is
// shown as that value.
#define JSON_BODY_HEADER "sluice-body"
#define JSON_BODY_VALUE  "json"

// The keys of a message, as the documentation lists them.
struct json *json_message(const char *queue, const struct sluice_message *message);
struct json *json_event(const char *queue, const struct sluice_event *event);

// Reads an object, nested ones flattened: {"a": {"b": 3}} answers "a.b" = "3". Lists and nulls are
// refused. False: error says what, and at which line and column.
struct json_pairs {
    struct sluice_setting *rows;
    size_t len;
};
bool json_flatten(const char *text, size_t len, struct json_pairs *out, char *error,
                  size_t error_len);
bool json_pairs_of(struct json *object, struct json_pairs *out); // the same, of one parsed already
void json_pairs_done(struct json_pairs *pairs);
// The other way: settings as a nested object; numbers and booleans as such.
struct json *json_settings(const struct sluice_setting *rows, size_t len);

// One value of any kind, to be freed; keys that come twice are refused. NULL: error says what is
// wrong, and at which line and column.
struct json *json_parse(const char *text, size_t len, char *error, size_t error_len);

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_NUMBER,   // a whole one
    JSON_KIND_FRACTION, // any other
    JSON_KIND_TEXT,
    JSON_KIND_LIST,
    JSON_KIND_OBJECT,
};
enum json_kind json_kind(const struct json *value);
const char *json_kind_name(enum json_kind kind); // "a string"

// Each wants a value of its kind. What they answer lives as long as the value.
bool json_as_bool(const struct json *value);
int64_t json_as_number(const struct json *value);
double json_as_fraction(const struct json *value);
struct bytes json_as_text(const struct json *value); // may have zeros in it, and one after it
size_t json_list_len(const struct json *list);
struct json *json_list_at(const struct json *list, size_t index);
struct json *json_member(const struct json *object, const char *key); // NULL: there is none
// for (void *at = NULL; json_next(object, &at, &key, &value);)
bool json_next(struct json *object, void **at, const char **key, struct json **value);
