// SPDX-License-Identifier: Apache-2.0
// The protocol of Redis (RESP2): commands into bytes, bytes into replies. Every reply has limits,
// because the bytes come from outside.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>

#define RESP_ITEMS_MAX 65536               // in one reply
#define RESP_BYTES_MAX ((size_t)160 << 20) // of one reply: the largest answer and its framing

enum resp_kind { RESP_TEXT, RESP_LIST, RESP_NUMBER, RESP_NIL, RESP_STATUS, RESP_ERROR };

struct resp {
    enum resp_kind kind;
    int64_t number;      // RESP_NUMBER
    char *text;          // RESP_TEXT, RESP_STATUS, RESP_ERROR; followed by a zero byte
    size_t len;          // of the text or the list
    struct resp **items; // RESP_LIST
};

void resp_free(struct resp *r); // accepts NULL
struct bytes resp_bytes(const struct resp *r);
// Returns the item of a list. Returns a nil if r is no list or is shorter.
const struct resp *resp_item(const struct resp *r, size_t at);
// Returns the number of a RESP_NUMBER, or of a text of digits; -1 if it is neither.
int64_t resp_number(const struct resp *r);

// Appends one command.
void resp_format(struct buf *to, const struct bytes *args, size_t count);

struct resp_reader;
struct resp_reader *resp_reader_new(void);
void resp_reader_free(struct resp_reader *r); // accepts NULL
void resp_reader_feed(struct resp_reader *r, struct bytes from);

// Returns whether all bytes that were fed belong to replies that were handed out.
bool resp_reader_is_empty(const struct resp_reader *r);

enum resp_step {
    RESP_MORE, // the next reply is not complete
    RESP_ONE,  // *out is the next reply, the caller's
    RESP_BAD,  // the bytes are not the protocol, or are over a limit; the reader stays bad
};
enum resp_step resp_reader_next(struct resp_reader *r, struct resp **out);
