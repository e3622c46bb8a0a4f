// SPDX-License-Identifier: Apache-2.0
// Reads the answer to one HTTP/1 request from bytes as they come, without a connection. It puts
// status, head and body into the call. Interim answers (1xx) are skipped.
#pragma once

#include "net/http.h"

enum http_part {
    HTTP_PART_HEAD,
    HTTP_PART_BODY,
    HTTP_PART_TO_END, // a body that ends where the connection is closed
    HTTP_PART_CHUNK_LEN,
    HTTP_PART_CHUNK,
    HTTP_PART_CHUNK_END,
    HTTP_PART_TRAILER,
    HTTP_PART_WHOLE,
};

// All zero: nothing has come.
struct http_answer {
    enum http_part part;
    uint64_t left;   // bytes of the body, or of the chunk
    size_t line_at;  // start of the current line, in the head
    size_t line_len; // of the line of a chunk's length, or of a trailer, up to now
    bool extended;   // the digits of a chunk's length are over
    bool keeps;      // the connection can have a further request
};

enum http_took {
    HTTP_TOOK_SOME,  // all bytes, and more are to come
    HTTP_TOOK_HEAD,  // up to the end of the head; the body may follow
    HTTP_TOOK_WHOLE, // up to the end of the answer
    HTTP_TOOK_BAD,   // they are not HTTP, or the head is too long
    HTTP_TOOK_LONG,  // the body is longer than allowed
};

// Takes bytes from the front of *in.
enum http_took http_answer_take(struct http_answer *a, struct http_call *c, struct bytes *in);
// The connection was closed: returns whether the answer is whole.
bool http_answer_end(struct http_answer *a);
