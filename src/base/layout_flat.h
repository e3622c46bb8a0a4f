// SPDX-License-Identifier: Apache-2.0
// The writer, the reader and the digest of a flat layout, in line: for rows on a hot path. They do
// the same as those of layout.h. A flat layout has numbers, FIXED and HASH, and no WHEN. For the
// digest, it can also have BYTES.
//
// The list is a constant of the same file. So the compiler unrolls the loops, and each function
// costs the same as code by hand.
#pragma once

#include "base/check.h"
#include "base/layout.h"

#define LAYOUT_INLINE static inline __attribute__((always_inline))
#define LAYOUT_EACH(f, layout)                                                                     \
    _Pragma("GCC unroll 32") for (const struct layout_field *f = (layout)->fields;                 \
                                  f < (layout)->fields + (layout)->fields_len; f++)

LAYOUT_INLINE uint64_t layout_load(const void *at, size_t held)
{
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (held) {
    case 1:
        return memcpy(&u8, at, 1), u8;
    case 2:
        return memcpy(&u16, at, 2), u16;
    case 4:
        return memcpy(&u32, at, 4), u32;
    default:
        CHECK(held == 8);
        return memcpy(&u64, at, 8), u64;
    }
}

LAYOUT_INLINE void layout_store(void *at, size_t held, uint64_t v)
{
    uint8_t u8 = (uint8_t)v;
    uint16_t u16 = (uint16_t)v;
    uint32_t u32 = (uint32_t)v;
    switch (held) {
    case 1:
        memcpy(at, &u8, 1);
        break;
    case 2:
        memcpy(at, &u16, 2);
        break;
    case 4:
        memcpy(at, &u32, 4);
        break;
    default:
        CHECK(held == 8);
        memcpy(at, &v, 8);
    }
}

// The greatest number, length or count.
LAYOUT_INLINE uint64_t layout_limit(const struct layout_field *f)
{
    if (f->max > 0) return f->max;
    if (f->kind == LAYOUT_UNSIGNED && f->written < 8) return (UINT64_C(1) << 8 * f->written) - 1;
    if (f->kind == LAYOUT_TEXT) return f->held - (uint64_t)1;
    bool counted = f->kind == LAYOUT_BYTES || f->kind == LAYOUT_ROWS || f->kind == LAYOUT_ARRAY;
    return counted ? UINT32_MAX : UINT64_MAX;
}

// A signed number below zero is more than any limit but that of a field without one.
LAYOUT_INLINE bool layout_is_in(const struct layout_field *f, uint64_t v)
{
    return v >= f->min && v <= layout_limit(f);
}

// As hash64_mix, with one multiplication less: digests of rows are added up.
static inline uint64_t hash64_step(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u + b;
    x = (x ^ (x >> 32)) * 0x94d049bb133111ebu;
    return x ^ (x >> 29);
}

// A digest takes small numbers together, as long as they fit into one word.
struct layout_digest {
    uint64_t hash;
    uint64_t word;
    size_t bytes; // of the word
};

LAYOUT_INLINE void layout_digest_flush(struct layout_digest *d)
{
    if (d->bytes > 0) d->hash = hash64_step(d->hash, d->word);
    d->word = 0;
    d->bytes = 0;
}

LAYOUT_INLINE void layout_digest_add(struct layout_digest *d, uint64_t v, size_t bytes)
{
    if (d->bytes + bytes > 8) layout_digest_flush(d);
    d->word = bytes < 8 ? d->word << 8 * bytes | v : v;
    d->bytes += bytes;
}

LAYOUT_INLINE void layout_flat_digest(struct layout_digest *d, const struct layout_field *f,
                                      const void *of)
{
    const char *at = (const char *)of + f->offset;
    if (f->kind == LAYOUT_HASH) {
        layout_digest_add(d, layout_load(at, 8), 8);
        layout_digest_add(d, layout_load(at + 8, 8), 8);
    } else if (f->kind == LAYOUT_FIXED) {
        layout_digest_flush(d);
        d->hash = hash64_of(bytes_of(at, f->held), d->hash);
    } else if (f->kind == LAYOUT_BYTES) {
        struct bytes v;
        memcpy(&v, at, sizeof v);
        layout_digest_flush(d);
        d->hash = hash64_of(v, d->hash);
    } else {
        layout_digest_add(d, layout_load(at, f->held), f->written);
    }
}

LAYOUT_INLINE uint64_t layout_flat_hash(const struct layout *layout, uint64_t seed, const void *of)
{
    struct layout_digest d = {.hash = seed};
    LAYOUT_EACH(f, layout)
    layout_flat_digest(&d, f, of);
    layout_digest_flush(&d);
    return d.hash;
}

LAYOUT_INLINE size_t layout_flat_len(const struct layout_field *f)
{
    return f->kind == LAYOUT_FIXED || f->kind == LAYOUT_HASH ? f->held : f->written;
}

LAYOUT_INLINE size_t layout_flat_bytes(const struct layout *layout)
{
    size_t sum = 0;
    LAYOUT_EACH(f, layout)
    sum += layout_flat_len(f);
    return sum;
}

// A number of so many bytes, as they are stored.
LAYOUT_INLINE uint64_t layout_le(uint64_t v, size_t bytes)
{
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    return little ? v : __builtin_bswap64(v) >> (64 - 8 * bytes);
}

LAYOUT_INLINE void layout_flat_put(const struct layout *layout, struct buf *to, const void *from)
{
    uint8_t *to_at = buf_grow(to, layout_flat_bytes(layout));
    if (!to_at) return;
    LAYOUT_EACH(f, layout)
    {
        const char *at = (const char *)from + f->offset;
        if (f->kind == LAYOUT_HASH) {
            layout_store(to_at, 8, layout_le(layout_load(at, 8), 8));
            layout_store(to_at + 8, 8, layout_le(layout_load(at + 8, 8), 8));
        } else if (f->kind == LAYOUT_FIXED) {
            memcpy(to_at, at, f->held);
        } else {
            CHECK(layout_is_in(f, layout_load(at, f->held)));
            layout_store(to_at, f->written, layout_le(layout_load(at, f->held), f->written));
        }
        to_at += layout_flat_len(f);
    }
}

// False: the input is bad, and so is the reader. Then *to is not complete.
LAYOUT_INLINE bool layout_flat_read(const struct layout *layout, struct reader *from, void *to)
{
    const uint8_t *from_at = read_bytes(from, layout_flat_bytes(layout)).data;
    if (!from_at) return false;
    LAYOUT_EACH(f, layout)
    {
        char *at = (char *)to + f->offset;
        if (f->kind == LAYOUT_HASH) {
            layout_store(at, 8, layout_le(layout_load(from_at, 8), 8));
            layout_store(at + 8, 8, layout_le(layout_load(from_at + 8, 8), 8));
        } else if (f->kind == LAYOUT_FIXED) {
            memcpy(at, from_at, f->held);
        } else {
            uint64_t v = layout_le(layout_load(from_at, f->written), f->written);
            if (!layout_is_in(f, v)) from->bad = true;
            layout_store(at, f->held, v);
        }
        from_at += layout_flat_len(f);
    }
    return reader_ok(from);
}
