// SPDX-License-Identifier: Apache-2.0
// Reads and writes the texts of the compact encoding.
#pragma once

#include "wire/wire.h"

#include <string.h>

static inline void put_body(struct buf *to, const void *data, size_t len)
{
    buf_put_sized(to, bytes_of(data, len));
    buf_put_u8(to, 0);
}

static inline void put_sized_text(struct buf *to, const char *text)
{
    put_body(to, text, text ? strlen(text) : 0);
}

static inline struct bytes read_body(struct reader *r)
{
    struct bytes body = read_sized(r, UINT32_MAX);
    if (read_u8(r) != 0) r->bad = true;
    return body;
}

static inline const char *read_text(struct reader *r)
{
    struct bytes text = read_body(r);
    if (r->bad) return "";
    if (text.len > 0 && memchr(text.data, 0, text.len)) r->bad = true;
    return (const char *)text.data;
}

// Maps views into the input to views into a copy of it.
struct move {
    const uint8_t *from;
    char *to;
};

static inline const char *moved(const struct move *m, const void *view)
{
    return m->to + ((const uint8_t *)view - m->from);
}

// Reads the messages of a batch. Returns NULL if they are malformed.
struct sluice_batch *wire_read_messages(struct reader *r);
