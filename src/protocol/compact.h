// SPDX-License-Identifier: Apache-2.0
// Writes and reads structs in the compact encoding, by the tables of routes.h.
#pragma once

#include "protocol/routes.h"

// The headers of messages while they are read. A message has its number of headers, and they are
// the next ones here.
struct compact_headers {
    struct sluice_header *rows; // owned: release with memory_free
    size_t len;
    size_t cap;
};

void compact_put(struct buf *to, const struct compact_form *table, const void *in);
// The texts and bodies are views into the input. `headers` may be NULL if the struct has none.
// Lists of texts are owned: release them with compact_texts_done.
void compact_read(struct reader *r, const struct compact_form *table, void *out,
                  struct compact_headers *headers);
size_t compact_min(const struct compact_form *table); // the smallest encoding of a struct

void compact_texts_done(struct field_texts *t);
