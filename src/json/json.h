// SPDX-License-Identifier: Apache-2.0
// JSON, out and in. An object is built key by key, keeps that order, and is printed on one line.
#pragma once

#include <sluice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json;

bool utf8_ok(const void *bytes, size_t len);

struct json *json_new(void);        // an object
struct json *json_list_new(void);   // a list
void json_free(struct json *value); // NULL is fine

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

// One line on out; frees the object.
void json_print(struct json *object, FILE *out);

// The keys of a message, as the documentation lists them.
struct json *json_message(const char *queue, const struct sluice_message *message);

// Reads an object, nested ones flattened: {"a": {"b": 3}} answers "a.b" = "3". Lists and nulls are
// refused. False: error says what, and at which line and column.
struct json_pairs {
    struct sluice_setting *rows;
    size_t len;
};
bool json_flatten(const char *text, size_t len, struct json_pairs *out, char *error,
                  size_t error_len);
void json_pairs_done(struct json_pairs *pairs);
// The other way: settings as a nested object; numbers and booleans as such.
struct json *json_settings(const struct sluice_setting *rows, size_t len);
