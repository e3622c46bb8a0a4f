// SPDX-License-Identifier: Apache-2.0
// The head of a request: a copy of its fields, checked against HTTP. The checks are strict where
// two parsers could disagree on where a request ends (RFC 9112, section 6.3).
#pragma once

#include "net/httpd.h"

#define HEAD_FIELDS_MAX 100
#define HEAD_TARGET_MAX ((size_t)8 << 10)

struct head_row {
    const char *name;
    const char *value;
    size_t name_len;
};

struct head {
    struct head_row *rows; // in the order of arrival; their text follows in the same allocation
    size_t rows_len;
    char *text;
    size_t len; // bytes of text in use
    size_t cap;
    size_t bytes;  // approximate size of the whole head as it was sent
    size_t fields; // number of fields that were weighed
    struct httpd_fault fault;
    bool has_length;
    bool has_coding;
    bool has_host;
    uint64_t length; // value of Content-Length
};

// Call these in order: head_init, head_weigh for each field, head_take, head_add for each field,
// head_end. The sizes are added up first, so that a head that is too large is not copied.
void head_init(struct head *h, struct bytes method, struct bytes target);
void head_weigh(struct head *h, size_t name_len, size_t value_len);
void head_take(struct head *h, size_t bytes_max);
// Adds a field, unless there was a fault. `line` is false if the field was not sent as name, colon,
// value, CR LF; only the parser knows.
void head_add(struct head *h, struct bytes name, struct bytes value, bool line);
// `old`: the request is HTTP/1.0.
void head_end(struct head *h, bool old);
void head_done(struct head *h);

const char *head_value(const struct head *h, const char *name);        // the first one; NULL: none
bool head_nth(const struct head *h, size_t i, struct httpd_pair *out); // false: fewer
