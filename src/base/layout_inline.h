// SPDX-License-Identifier: Apache-2.0
// The interpreter of field lists (base/layout.h). layout.c has it once for all lists. A codec of
// the hot path has it once for its own list: the compiler then unrolls the loop over the fields and
// leaves what a codec by hand would have.
#pragma once

#include "base/layout_flat.h"

void layout_put_array(const struct layout_field *f, struct buf *to, const void *from);
void layout_read_text(const struct layout_field *f, struct reader *from, void *at);
void layout_read_rows(const struct layout_field *f, struct reader *from, void *to);
void layout_read_array(const struct layout_field *f, struct reader *from, void *to);

LAYOUT_INLINE const void *field_member(const void *from, size_t offset)
{
    return (const char *)from + offset;
}

LAYOUT_INLINE void *field_place(void *to, size_t offset)
{
    return (char *)to + offset;
}

LAYOUT_INLINE struct bytes field_view(const void *from, const struct layout_field *f)
{
    struct bytes out;
    memcpy(&out, field_member(from, f->offset), sizeof out);
    return out;
}

LAYOUT_INLINE void field_set_view(void *to, const struct layout_field *f, struct bytes v)
{
    memcpy(field_place(to, f->offset), &v, sizeof v);
}

LAYOUT_INLINE struct bytes field_text(const void *from, const struct layout_field *f)
{
    const char *at = field_member(from, f->offset);
    return bytes_of(at, strnlen(at, f->held));
}

LAYOUT_INLINE bool field_is_there(const struct layout_field *f, const void *from)
{
    return f->bits == 0 || (layout_load(field_member(from, f->when), f->when_held) & f->bits);
}

LAYOUT_INLINE bool field_is_bounded(const struct layout_field *f)
{
    return (f->min | f->max) > 0;
}

LAYOUT_INLINE void *field_array(const void *from, const struct layout_field *f)
{
    void *rows;
    memcpy(&rows, field_member(from, f->offset), sizeof rows);
    return rows;
}

LAYOUT_INLINE uint64_t field_count_of(const void *from, const struct layout_field *f)
{
    return layout_load(field_member(from, f->count_offset), f->held);
}

LAYOUT_INLINE void field_put_sized(const struct layout_field *f, struct buf *to, struct bytes v)
{
    CHECK(layout_is_in(f, v.len));
    buf_put_sized(to, v);
}

// The loops in buf_put_le and read_le are fast only for a constant number of bytes.
LAYOUT_INLINE void field_put_number(struct buf *to, uint64_t v, size_t written)
{
    switch (written) {
    case 1:
        buf_put_u8(to, (uint8_t)v);
        break;
    case 2:
        buf_put_u16(to, (uint16_t)v);
        break;
    case 4:
        buf_put_u32(to, (uint32_t)v);
        break;
    default:
        buf_put_u64(to, v);
    }
}

LAYOUT_INLINE uint64_t field_read_number(struct reader *from, size_t written)
{
    switch (written) {
    case 1:
        return read_u8(from);
    case 2:
        return read_u16(from);
    case 4:
        return read_u32(from);
    default:
        return read_u64(from);
    }
}

LAYOUT_INLINE void field_put_rows(const struct layout_field *f, struct buf *to, const void *from)
{
    struct bytes rows = field_view(from, f);
    uint64_t count = field_count_of(from, f);
    size_t size = f->of->fixed;
    CHECK(layout_is_in(f, count) && (size == 0 || rows.len == count * size));
    buf_put_u32(to, (uint32_t)count);
    buf_put(to, rows);
}

LAYOUT_INLINE void field_put(const struct layout_field *f, struct buf *to, const void *from)
{
    const void *at = field_member(from, f->offset);
    uint64_t number = 0;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
        number = layout_load(at, f->held);
        CHECK((!field_is_bounded(f) && f->held == f->written) || layout_is_in(f, number));
        field_put_number(to, number, f->written);
        break;
    case LAYOUT_MARK:
        field_put_number(to, f->min, f->written);
        break;
    case LAYOUT_FIXED:
        buf_put(to, bytes_of(at, f->held));
        break;
    case LAYOUT_HASH:
        buf_put_u64(to, layout_load(at, 8));
        buf_put_u64(to, layout_load(field_member(at, 8), 8));
        break;
    case LAYOUT_BYTES:
        field_put_sized(f, to, field_view(from, f));
        break;
    case LAYOUT_TEXT:
        field_put_sized(f, to, field_text(from, f));
        break;
    case LAYOUT_REST:
        buf_put(to, field_view(from, f));
        break;
    case LAYOUT_PART:
        layout_put(f->of, to, at);
        break;
    case LAYOUT_ROWS:
        field_put_rows(f, to, from);
        break;
    case LAYOUT_ARRAY:
        CHECK(layout_is_in(f, field_count_of(from, f)));
        layout_put_array(f, to, from);
        break;
    }
}

LAYOUT_INLINE struct bytes field_read_within(const struct layout_field *f, struct reader *from)
{
    uint64_t max = layout_limit(f);
    struct bytes v = read_sized(from, max < UINT32_MAX ? (size_t)max : UINT32_MAX);
    if (v.len < f->min) from->bad = true;
    return v;
}

LAYOUT_INLINE void field_read(const struct layout_field *f, struct reader *from, void *to)
{
    void *at = field_place(to, f->offset);
    uint64_t number = 0;
    struct bytes bytes;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
        number = field_read_number(from, f->written);
        if (field_is_bounded(f) && !layout_is_in(f, number)) from->bad = true;
        if (!from->bad) layout_store(at, f->held, number);
        break;
    case LAYOUT_MARK:
        if (field_read_number(from, f->written) != f->min) from->bad = true;
        break;
    case LAYOUT_FIXED:
        bytes = read_bytes(from, f->held);
        if (bytes.len > 0) memcpy(at, bytes.data, bytes.len);
        break;
    case LAYOUT_HASH:
        layout_store(at, 8, read_u64(from));
        layout_store(field_place(at, 8), 8, read_u64(from));
        break;
    case LAYOUT_BYTES:
        field_set_view(to, f, field_read_within(f, from));
        break;
    case LAYOUT_TEXT:
        layout_read_text(f, from, at);
        break;
    case LAYOUT_REST:
        field_set_view(to, f, read_bytes(from, from->left));
        break;
    case LAYOUT_PART:
        (void)layout_read(f->of, from, at);
        break;
    case LAYOUT_ROWS:
        layout_read_rows(f, from, to);
        break;
    case LAYOUT_ARRAY:
        layout_read_array(f, from, to);
        break;
    }
}

// Sets a field to zeros. An array that is not there has no pointer, either.
LAYOUT_INLINE void field_clear(const struct layout_field *f, void *to)
{
    bool rows = f->kind >= LAYOUT_ROWS;
    if (rows) layout_store(field_place(to, f->count_offset), f->held, 0);
    size_t held = f->kind == LAYOUT_ROWS ? sizeof(struct bytes) : sizeof(void *);
    memset(field_place(to, f->offset), 0, rows ? held : f->held);
}

LAYOUT_INLINE size_t field_bytes_min(const struct layout_field *f)
{
    if (f->bits) return 0;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
    case LAYOUT_MARK:
        return f->written;
    case LAYOUT_FIXED:
    case LAYOUT_HASH:
        return f->held;
    case LAYOUT_BYTES:
    case LAYOUT_TEXT:
        return 4 + (size_t)f->min;
    case LAYOUT_PART:
        return layout_bytes_min(f->of);
    case LAYOUT_REST:
        return 0;
    case LAYOUT_ROWS:
    case LAYOUT_ARRAY:
        break;
    }
    return 4;
}

LAYOUT_INLINE void field_take(const struct layout_field *f, struct reader *from, void *to)
{
    bool there = field_is_there(f, to) && !from->bad;
    if (!there || f->kind >= LAYOUT_ROWS) field_clear(f, to);
    if (there) field_read(f, from, to);
}

LAYOUT_INLINE void layout_put_fields(const struct layout_field *fields, size_t len, struct buf *to,
                                     const void *from)
{
#pragma GCC unroll 32
    for (size_t i = 0; i < len; i++)
        if (field_is_there(&fields[i], from)) field_put(&fields[i], to, from);
}

LAYOUT_INLINE bool layout_read_fields(const struct layout_field *fields, size_t len,
                                      struct reader *from, void *to)
{
#pragma GCC unroll 32
    for (size_t i = 0; i < len; i++)
        field_take(&fields[i], from, to);
    return reader_ok(from);
}

LAYOUT_INLINE size_t layout_sum_fields(const struct layout_field *fields, size_t len)
{
    size_t sum = 0;
#pragma GCC unroll 32
    for (size_t i = 0; i < len; i++)
        sum += field_bytes_min(&fields[i]);
    return sum;
}

// The same as layout_put, layout_read and layout_bytes_min, for the array of fields itself. The
// fields have no arrays.
#define LAYOUT_PUT(list, to, from) layout_put_fields(list, sizeof(list) / sizeof *(list), to, from)
#define LAYOUT_READ(list, from, to)                                                                \
    layout_read_fields(list, sizeof(list) / sizeof *(list), from, to)
#define LAYOUT_BYTES_MIN(list) layout_sum_fields(list, sizeof(list) / sizeof *(list))
