// SPDX-License-Identifier: Apache-2.0
// Goes over the list of fields: one function for each of writing, reading and hashing, with one
// case per kind of field.
#include "base/layout.h"

#include "base/layout_inline.h"
#include "base/memory.h"

void layout_put_array(const struct layout_field *f, struct buf *to, const void *from)
{
    const char *rows = field_array(from, f);
    uint64_t count = field_count_of(from, f);
    buf_put_u32(to, (uint32_t)count);
    for (uint64_t i = 0; i < count; i++)
        layout_put(f->of, to, rows + i * f->of->size);
}

void layout_read_text(const struct layout_field *f, struct reader *from, void *at)
{
    struct bytes v = field_read_within(f, from);
    if (from->bad || (v.len > 0 && memchr(v.data, 0, v.len))) {
        from->bad = true;
        return;
    }
    memset(at, 0, f->held);
    if (v.len > 0) memcpy(at, v.data, v.len);
}

// The count of rows. The rest of the input has at least the bytes that they need.
static uint32_t read_count(const struct layout_field *f, struct reader *from)
{
    uint32_t count = read_u32(from);
    size_t least = f->of->fixed > 0 ? f->of->fixed : layout_bytes_min(f->of);
    CHECK(least > 0);
    if (!layout_is_in(f, count) || count > from->left / least) from->bad = true;
    return from->bad ? 0 : count;
}

void layout_read_rows(const struct layout_field *f, struct reader *from, void *to)
{
    uint64_t row[LAYOUT_ROW_SIZE_MAX / sizeof(uint64_t)];
    CHECK(f->of->size <= sizeof row);
    uint32_t count = read_count(f, from);
    const uint8_t *start = from->at;
    size_t size = f->of->fixed;
    if (size > 0) (void)read_bytes(from, count * size);
    for (uint32_t i = 0; size == 0 && i < count && reader_ok(from); i++)
        (void)layout_read(f->of, from, row);
    if (from->bad) return;
    field_set_view(to, f, bytes_of(start, count > 0 ? (size_t)(from->at - start) : 0));
    layout_store(field_place(to, f->count_offset), f->held, count);
}

void layout_read_array(const struct layout_field *f, struct reader *from, void *to)
{
    uint32_t count = read_count(f, from);
    if (count == 0) return;
    char *rows = memory_zeroed(count, f->of->size);
    uint32_t len = 0;
    while (len < count && layout_read(f->of, from, rows + len * f->of->size))
        len++;
    memcpy(field_place(to, f->offset), &rows, sizeof rows);
    layout_store(field_place(to, f->count_offset), f->held, len);
}

void layout_put(const struct layout *layout, struct buf *to, const void *from)
{
    for (size_t i = 0; i < layout->fields_len; i++)
        if (field_is_there(&layout->fields[i], from)) field_put(&layout->fields[i], to, from);
}

bool layout_read(const struct layout *layout, struct reader *from, void *to)
{
    for (size_t i = 0; i < layout->fields_len; i++)
        field_take(&layout->fields[i], from, to);
    if (reader_ok(from)) return true;
    layout_done(layout, to);
    return false;
}

void layout_done(const struct layout *layout, void *of)
{
    for (size_t i = 0; i < layout->fields_len; i++) {
        const struct layout_field *f = &layout->fields[i];
        if (f->kind == LAYOUT_PART) layout_done(f->of, field_place(of, f->offset));
        if (f->kind != LAYOUT_ARRAY) continue;
        char *rows = field_array(of, f);
        for (uint64_t n = field_count_of(of, f); n > 0; n--)
            layout_done(f->of, rows + (n - 1) * f->of->size);
        memory_free(rows);
        field_clear(f, of);
    }
}

static void hash_bytes(struct layout_digest *d, struct bytes from)
{
    layout_digest_flush(d);
    d->hash = hash64_of(from, d->hash);
}

static void hash_field(struct layout_digest *d, const struct layout_field *f, const void *of)
{
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_MARK:
        break;
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
    case LAYOUT_FIXED:
    case LAYOUT_HASH:
    case LAYOUT_BYTES:
        layout_flat_digest(d, f, of);
        break;
    case LAYOUT_TEXT:
        hash_bytes(d, field_text(of, f));
        break;
    case LAYOUT_ROWS:
    case LAYOUT_REST:
        hash_bytes(d, field_view(of, f));
        break;
    case LAYOUT_PART:
        layout_digest_flush(d);
        d->hash = layout_hash(f->of, d->hash, field_member(of, f->offset));
        break;
    case LAYOUT_ARRAY:
        layout_digest_add(d, field_count_of(of, f), 8);
        layout_digest_flush(d);
        for (uint64_t i = 0; i < field_count_of(of, f); i++)
            d->hash = layout_hash(f->of, d->hash, (char *)field_array(of, f) + i * f->of->size);
        break;
    }
}

uint64_t layout_hash(const struct layout *layout, uint64_t seed, const void *of)
{
    struct layout_digest d = {.hash = seed};
    for (size_t i = 0; i < layout->fields_len; i++)
        if (field_is_there(&layout->fields[i], of)) hash_field(&d, &layout->fields[i], of);
    layout_digest_flush(&d);
    return d.hash;
}

size_t layout_bytes_min(const struct layout *layout)
{
    size_t sum = 0;
    for (size_t i = 0; i < layout->fields_len; i++)
        sum += field_bytes_min(&layout->fields[i]);
    return sum;
}

bool layout_read_all(const struct layout *layout, struct bytes from, void *to)
{
    struct reader r = reader_of(from);
    if (!layout_read(layout, &r, to)) return false;
    if (reader_end(&r)) return true;
    layout_done(layout, to);
    return false;
}

void layout_at(const struct layout *layout, struct bytes rows, size_t index, void *to)
{
    size_t size = layout->fixed;
    CHECK(size > 0 && index < rows.len / size);
    struct reader r = reader_of(bytes_of(rows.data + index * size, size));
    CHECK(layout_read(layout, &r, to));
}
