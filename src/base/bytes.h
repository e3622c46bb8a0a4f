// SPDX-License-Identifier: Apache-2.0
// Bytes: a borrowed view (struct bytes), an owned buffer with a limit (struct buf), and a
// little-endian codec. Errors are sticky: past the limit or the end, a buffer or reader becomes bad
// and further calls do nothing. The caller checks once at the end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t len;
};

#define BYTES_EMPTY ((struct bytes){NULL, 0})

static inline struct bytes bytes_of(const void *data, size_t len)
{
    return (struct bytes){data, len};
}

struct bytes bytes_str(const char *text); // without the closing zero
bool bytes_equal(struct bytes a, struct bytes b);
// As memcmp; of two with the same prefix the shorter comes first.
int bytes_compare(struct bytes a, struct bytes b);
struct bytes bytes_copy(struct bytes from); // heap; release with bytes_free
void bytes_free(struct bytes owned);

// An owned buffer. It never holds more than limit bytes. A put that would exceed the limit is
// dropped and marks the buffer bad.
struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t limit;
    bool bad;
};

void buf_init(struct buf *b, size_t limit);
void buf_done(struct buf *b);
void buf_clear(struct buf *b); // empty and good again; keeps its memory
static inline struct bytes buf_bytes(const struct buf *b)
{
    return bytes_of(b->data, b->len);
}

// Transfers the memory to the caller (bytes_free) and leaves the buffer empty.
struct bytes buf_take(struct buf *b);

// Makes room for len bytes more. False if the buffer is bad, or now becomes bad.
bool buf_reserve(struct buf *b, size_t len);

// Appends len bytes for the caller to fill and returns their address; NULL if the buffer is bad.
static inline uint8_t *buf_grow(struct buf *b, size_t len)
{
    size_t end = b->len + len;
    bool fits = b->data && !b->bad && end >= len && end <= b->cap && end <= b->limit;
    if (!fits && !buf_reserve(b, len)) return NULL;
    uint8_t *room = b->data + b->len;
    b->len += len;
    return room;
}

static inline void buf_put(struct buf *b, struct bytes from)
{
    if (from.len == 0) return;
    uint8_t *room = buf_grow(b, from.len);
    if (room) memcpy(room, from.data, from.len);
}

// The loops over a constant number of bytes become single loads and stores.
static inline void le_put(uint8_t *at, uint64_t v, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static inline uint64_t le_get(const uint8_t *at, size_t len)
{
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

static inline void buf_put_le(struct buf *b, uint64_t v, size_t len)
{
    uint8_t *room = buf_grow(b, len);
    if (room) le_put(room, v, len);
}

static inline void buf_put_u8(struct buf *b, uint8_t v)
{
    buf_put_le(b, v, 1);
}

static inline void buf_put_u16(struct buf *b, uint16_t v)
{
    buf_put_le(b, v, 2);
}

static inline void buf_put_u32(struct buf *b, uint32_t v)
{
    buf_put_le(b, v, 4);
}

static inline void buf_put_u64(struct buf *b, uint64_t v)
{
    buf_put_le(b, v, 8);
}

static inline void buf_put_i64(struct buf *b, int64_t v)
{
    buf_put_le(b, (uint64_t)v, 8);
}

// 7 bits a byte, the lowest first; the high bit says that another byte follows (LEB128).
void buf_put_var(struct buf *b, uint64_t v);
void buf_put_sized(struct buf *b, struct bytes from); // u32 length, then the bytes
void buf_set_u32(struct buf *b, size_t at, uint32_t v);

// Reads from front to back.
struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static inline struct reader reader_of(struct bytes from)
{
    return (struct reader){.at = from.data, .left = from.len};
}

static inline struct bytes read_bytes(struct reader *r, size_t len) // a view into the input
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

static inline uint64_t read_le(struct reader *r, size_t len)
{
    const uint8_t *at = read_bytes(r, len).data;
    return at ? le_get(at, len) : 0;
}

static inline uint8_t read_u8(struct reader *r)
{
    return (uint8_t)read_le(r, 1);
}

static inline uint16_t read_u16(struct reader *r)
{
    return (uint16_t)read_le(r, 2);
}

static inline uint32_t read_u32(struct reader *r)
{
    return (uint32_t)read_le(r, 4);
}

static inline uint64_t read_u64(struct reader *r)
{
    return read_le(r, 8);
}

static inline int64_t read_i64(struct reader *r)
{
    return (int64_t)read_le(r, 8);
}

uint64_t read_var(struct reader *r); // only the shortest form of a number is accepted

static inline struct bytes read_sized(struct reader *r, size_t len_max)
{
    uint32_t len = read_u32(r);
    if (len > len_max) r->bad = true;
    return read_bytes(r, len);
}

static inline bool reader_ok(const struct reader *r) // no read went past the end
{
    return !r->bad;
}

static inline bool reader_end(const struct reader *r) // the same, and all bytes were read
{
    return !r->bad && r->left == 0;
}

#define CLEANUP(done) __attribute__((cleanup(done), unused))

// A variable that its x_init fills, and that its x_done releases at the end of the scope:
//
//     LOCAL(buf, text, TEXT_MAX); // struct buf text, of up to TEXT_MAX bytes
//
// So no return forgets it. It is two statements: it stands in a block, not after a bare if.
#define LOCAL(type, name, ...)                                                                     \
    CLEANUP(type##_done) struct type name;                                                         \
    type##_init(&name, ##__VA_ARGS__)

// For a large variable of a function that runs often: the compiler does not fill it with zeros
// (-ftrivial-auto-var-init). Use it only where a length says what was written.
#if defined(__has_attribute) && __has_attribute(uninitialized)
#define NOT_ZEROED __attribute__((uninitialized))
#else
#define NOT_ZEROED
#endif
