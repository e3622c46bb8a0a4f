// SPDX-License-Identifier: Apache-2.0
// Performs the requests of pure code on a real store.
#pragma once

#include "journal/request.h"
#include "store/store.h"

// Memory for one answer, reused between calls.
struct perform_buffer {
    struct store_answer answer;
    struct response_row *rows;
    size_t rows_cap;
};

void perform_buffer_init(struct perform_buffer *p);
void perform_buffer_done(struct perform_buffer *p);
// Blocks. The response's views point into p and are valid until the next call.
struct response perform(struct store *s, const struct request *r, struct perform_buffer *p);
