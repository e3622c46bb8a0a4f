// SPDX-License-Identifier: Apache-2.0
// Buffers with a limit, and the little-endian codec.
#include "base/bytes.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

struct bytes bytes_str(const char *text)
{
    return bytes_of(text, strlen(text));
}

bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0) return order;
    return (a.len > b.len) - (a.len < b.len);
}

struct bytes bytes_copy(struct bytes from)
{
    if (from.len == 0) return BYTES_EMPTY;
    uint8_t *copy = memory_new(from.len);
    memcpy(copy, from.data, from.len);
    return bytes_of(copy, from.len);
}

void bytes_free(struct bytes owned)
{
    memory_free((void *)(uintptr_t)owned.data);
}

void buf_init(struct buf *b, size_t limit)
{
    *b = (struct buf){.limit = limit};
}

void buf_done(struct buf *b)
{
    memory_free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->bad = false;
}

struct bytes buf_take(struct buf *b)
{
    struct bytes taken = buf_bytes(b);
    size_t limit = b->limit;
    buf_init(b, limit);
    return taken;
}

bool buf_reserve(struct buf *b, size_t len)
{
    CHECK(b->len <= b->limit);
    if (b->bad || len > b->limit - b->len) {
        b->bad = true;
        return false;
    }
    if (b->len + len > b->cap || !b->data) {
        size_t need = b->len + len;
        size_t cap = b->cap < 32 ? 64 : b->cap;
        cap = cap <= b->limit / 2 ? cap * 2 : b->limit; // doubles, up to the limit
        if (cap < need) cap = need;
        b->data = memory_resize(b->data, cap);
        b->cap = cap;
    }
    return true;
}

void buf_put_var(struct buf *b, uint64_t v)
{
    uint8_t bytes[10];
    size_t len = 0;
    for (; v > 0x7f; v >>= 7)
        bytes[len++] = (uint8_t)(v | 0x80);
    bytes[len++] = (uint8_t)v;
    CHECK(len <= sizeof bytes);
    buf_put(b, bytes_of(bytes, len));
}

uint64_t read_var(struct reader *r)
{
    uint64_t v = 0;
    uint8_t byte = 0x80;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        byte = read_u8(r);
        // The tenth byte has the highest bit alone. A last byte of 0 has a shorter form.
        if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) r->bad = true;
        if (r->bad) return 0;
        v |= (uint64_t)(byte & 0x7f) << shift;
    }
    return v;
}

void buf_put_sized(struct buf *b, struct bytes from)
{
    CHECK(from.len <= UINT32_MAX);
    buf_put_u32(b, (uint32_t)from.len);
    buf_put(b, from);
}

void buf_set_u32(struct buf *b, size_t at, uint32_t v)
{
    if (b->bad) return;
    CHECK(b->len >= 4 && at <= b->len - 4);
    le_put(b->data + at, v, 4);
}
