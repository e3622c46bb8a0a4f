// SPDX-License-Identifier: Apache-2.0
// The head of a request: a copy of its fields, and whether they are as HTTP wants them. Strict
// where two readers of the same bytes could disagree on where a request ends (RFC 9112,
// section 6.3).
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
    struct head_row *rows; // in the order they came; their text lies behind them
    size_t rows_len;
    char *text;
    size_t len; // of the text
    size_t cap;
    size_t bytes;  // of the whole head as it was sent, about
    size_t fields; // how many
    struct httpd_fault fault;
    bool has_length;
    bool has_coding;
    bool has_host;
    uint64_t length; // what Content-Length says
};

// First all of it is weighed: a head that is too large is not kept.
void head_init(struct head *h, struct bytes method, struct bytes target);
void head_weigh(struct head *h, size_t name_len, size_t value_len);
void head_take(struct head *h, size_t bytes_max);
// Then each field is added, unless there was a fault. `line`: how it was laid out, which only the
// one who read it can know; false: not as name, colon, value, CR LF.
void head_add(struct head *h, struct bytes name, struct bytes value, bool line);
// At last. old: HTTP/1.0.
void head_end(struct head *h, bool old);
void head_done(struct head *h);

const char *head_value(const struct head *h, const char *name); // the first; NULL: none
void head_each(const struct head *h, httpd_header_fn *each, void *ctx);
// Whether a body follows whose length is not known.
bool head_is_chunked(const struct head *h);
