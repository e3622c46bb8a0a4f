// SPDX-License-Identifier: Apache-2.0
// Buffers with a limit, and the little-endian codec.
#include "base/bytes.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

struct bytes bytes_of(const void *data, size_t len)
{
    return (struct bytes){data, len};
}

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

struct bytes buf_bytes(const struct buf *b)
{
    return bytes_of(b->data, b->len);
}

struct bytes buf_take(struct buf *b)
{
    struct bytes taken = buf_bytes(b);
    size_t limit = b->limit;
    buf_init(b, limit);
    return taken;
}

uint8_t *buf_grow(struct buf *b, size_t len)
{
    CHECK(b->len <= b->limit);
    if (b->bad || len > b->limit - b->len) {
        b->bad = true;
        return NULL;
    }
    if (b->len + len > b->cap || !b->data) {
        size_t need = b->len + len;
        size_t cap = b->cap < 32 ? 64 : b->cap;
        cap = cap <= b->limit / 2 ? cap * 2 : b->limit; // doubles, up to the limit
        if (cap < need) cap = need;
        b->data = memory_resize(b->data, cap);
        b->cap = cap;
    }
    uint8_t *room = b->data + b->len;
    b->len += len;
    return room;
}

void buf_put(struct buf *b, struct bytes from)
{
    if (from.len == 0) return;
    uint8_t *room = buf_grow(b, from.len);
    if (room) memcpy(room, from.data, from.len);
}

static void put_le(uint8_t *at, uint64_t v, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static void buf_put_le(struct buf *b, uint64_t v, size_t len)
{
    uint8_t *room = buf_grow(b, len);
    if (room) put_le(room, v, len);
}

void buf_put_u8(struct buf *b, uint8_t v)
{
    buf_put_le(b, v, 1);
}

void buf_put_u16(struct buf *b, uint16_t v)
{
    buf_put_le(b, v, 2);
}

void buf_put_u32(struct buf *b, uint32_t v)
{
    buf_put_le(b, v, 4);
}

void buf_put_u64(struct buf *b, uint64_t v)
{
    buf_put_le(b, v, 8);
}

void buf_put_i64(struct buf *b, int64_t v)
{
    buf_put_le(b, (uint64_t)v, 8);
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
    put_le(b->data + at, v, 4);
}

struct reader reader_of(struct bytes from)
{
    return (struct reader){.at = from.data, .left = from.len};
}

struct bytes read_bytes(struct reader *r, size_t len)
{
    if (r->bad || len > r->left) {
        r->bad = true;
        return BYTES_EMPTY;
    }
    struct bytes view = bytes_of(r->at, len);
    if (len > 0) r->at += len;
    r->left -= len;
    return view;
}

static uint64_t read_le(struct reader *r, size_t len)
{
    struct bytes view = read_bytes(r, len);
    uint64_t v = 0;
    for (size_t i = 0; i < view.len; i++)
        v |= (uint64_t)view.data[i] << (8 * i);
    return v;
}

uint8_t read_u8(struct reader *r)
{
    return (uint8_t)read_le(r, 1);
}

uint16_t read_u16(struct reader *r)
{
    return (uint16_t)read_le(r, 2);
}

uint32_t read_u32(struct reader *r)
{
    return (uint32_t)read_le(r, 4);
}

uint64_t read_u64(struct reader *r)
{
    return read_le(r, 8);
}

int64_t read_i64(struct reader *r)
{
    return (int64_t)read_le(r, 8);
}

struct bytes read_sized(struct reader *r, size_t len_max)
{
    uint32_t len = read_u32(r);
    if (len > len_max) r->bad = true;
    return read_bytes(r, len);
}

bool reader_ok(const struct reader *r)
{
    return !r->bad;
}

bool reader_end(const struct reader *r)
{
    return !r->bad && r->left == 0;
}
