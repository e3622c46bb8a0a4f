// SPDX-License-Identifier: Apache-2.0
// The fields of a message that are more than one value of JSON.
#pragma once

#include "protocol/fields.h"

// The body is JSON: a header says so, and the content type unless another one is given.
void message_mark_json(struct sluice_send *m, struct kept_texts *kept);
void message_put_body(struct json *object, const struct sluice_message *m);
void message_put_headers(struct json *object, const struct field *f, const struct field_headers *h);
// A JSON object or list is written as that value, other text as a string, and other bytes as base64
// with the name "<name>Base64". `at` is the address of the pointer; the length follows it.
void message_put_data(struct json *object, const struct field *f, const void *at);
void message_put_base64(struct json *object, const char *name, struct bytes bytes);
void message_put_origin(struct json *object, const struct field *f, const struct sluice_origin *o);
// `at` is the address of the failures' pointer; their number follows it.
void message_put_failures(struct json *object, const struct field *f, const void *at);
void message_put_signals(struct json *object, const struct field *f, const void *at); // alike
