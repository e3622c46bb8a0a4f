// SPDX-License-Identifier: Apache-2.0
// Goes over the list of fields: one function for each of writing, reading and hashing, with one
// case per kind of field.
#include "base/layout_flat.h"

#include "base/check.h"
#include "base/memory.h"

static const void *member(const void *from, size_t offset)
{
    return (const char *)from + offset;
}

static void *place(void *to, size_t offset)
{
    return (char *)to + offset;
}

static struct bytes view(const void *from, const struct layout_field *f)
{
    struct bytes out;
    memcpy(&out, member(from, f->offset), sizeof out);
    return out;
}

static void set_view(void *to, const struct layout_field *f, struct bytes v)
{
    memcpy(place(to, f->offset), &v, sizeof v);
}

static struct bytes text(const void *from, const struct layout_field *f)
{
    const char *at = member(from, f->offset);
    return bytes_of(at, strnlen(at, f->held));
}

static bool is_there(const struct layout_field *f, const void *from)
{
    return f->bits == 0 || (layout_load(member(from, f->when), f->when_held) & f->bits);
}

static void *array(const void *from, const struct layout_field *f)
{
    void *rows;
    memcpy(&rows, member(from, f->offset), sizeof rows);
    return rows;
}

static uint64_t count_of(const void *from, const struct layout_field *f)
{
    return layout_load(member(from, f->count_offset), f->held);
}

static void put_sized(const struct layout_field *f, struct buf *to, struct bytes v)
{
    CHECK(layout_is_in(f, v.len));
    buf_put_sized(to, v);
}

static void put_array(const struct layout_field *f, struct buf *to, const void *from)
{
    const char *rows = array(from, f);
    uint64_t count = count_of(from, f);
    buf_put_u32(to, (uint32_t)count);
    for (uint64_t i = 0; i < count; i++)
        layout_put(f->of, to, rows + i * f->of->size);
}

static void put_field(const struct layout_field *f, struct buf *to, const void *from)
{
    const void *at = member(from, f->offset);
    uint64_t number = 0;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
        number = layout_load(at, f->held);
        CHECK(layout_is_in(f, number));
        buf_put_le(to, number, f->written);
        break;
    case LAYOUT_FIXED:
        buf_put(to, bytes_of(at, f->held));
        break;
    case LAYOUT_HASH:
        buf_put_u64(to, layout_load(at, 8));
        buf_put_u64(to, layout_load(member(at, 8), 8));
        break;
    case LAYOUT_BYTES:
        put_sized(f, to, view(from, f));
        break;
    case LAYOUT_TEXT:
        put_sized(f, to, text(from, f));
        break;
    case LAYOUT_REST:
        buf_put(to, view(from, f));
        break;
    case LAYOUT_PART:
        layout_put(f->of, to, at);
        break;
    case LAYOUT_ROWS:
        CHECK(layout_is_in(f, count_of(from, f)));
        buf_put_u32(to, (uint32_t)count_of(from, f));
        buf_put(to, view(from, f));
        break;
    case LAYOUT_ARRAY:
        CHECK(layout_is_in(f, count_of(from, f)));
        put_array(f, to, from);
        break;
    }
}

void layout_put(const struct layout *layout, struct buf *to, const void *from)
{
    for (size_t i = 0; i < layout->fields_len; i++)
        if (is_there(&layout->fields[i], from)) put_field(&layout->fields[i], to, from);
}

static struct bytes read_within(const struct layout_field *f, struct reader *from)
{
    uint64_t max = layout_limit(f);
    struct bytes v = read_sized(from, max < UINT32_MAX ? (size_t)max : UINT32_MAX);
    if (v.len < f->min) from->bad = true;
    return v;
}

static void read_text(const struct layout_field *f, struct reader *from, void *at)
{
    struct bytes v = read_within(f, from);
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
    size_t least = layout_bytes_min(f->of);
    CHECK(least > 0);
    if (!layout_is_in(f, count) || count > from->left / least) from->bad = true;
    return from->bad ? 0 : count;
}

static void read_rows(const struct layout_field *f, struct reader *from, void *to)
{
    uint64_t row[LAYOUT_ROW_SIZE_MAX / sizeof(uint64_t)];
    CHECK(f->of->size <= sizeof row);
    uint32_t count = read_count(f, from);
    const uint8_t *start = from->at;
    for (uint32_t i = 0; i < count && reader_ok(from); i++)
        (void)layout_read(f->of, from, row);
    if (from->bad) return;
    set_view(to, f, bytes_of(start, count > 0 ? (size_t)(from->at - start) : 0));
    layout_store(place(to, f->count_offset), f->held, count);
}

static void read_array(const struct layout_field *f, struct reader *from, void *to)
{
    uint32_t count = read_count(f, from);
    if (count == 0) return;
    char *rows = memory_zeroed(count, f->of->size);
    uint32_t len = 0;
    while (len < count && layout_read(f->of, from, rows + len * f->of->size))
        len++;
    memcpy(place(to, f->offset), &rows, sizeof rows);
    layout_store(place(to, f->count_offset), f->held, len);
}

static void read_field(const struct layout_field *f, struct reader *from, void *to)
{
    void *at = place(to, f->offset);
    uint64_t number = 0;
    struct bytes bytes;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
        number = read_le(from, f->written);
        if (!layout_is_in(f, number)) from->bad = true;
        if (!from->bad) layout_store(at, f->held, number);
        break;
    case LAYOUT_FIXED:
        bytes = read_bytes(from, f->held);
        if (bytes.len > 0) memcpy(at, bytes.data, bytes.len);
        break;
    case LAYOUT_HASH:
        layout_store(at, 8, read_u64(from));
        layout_store(place(at, 8), 8, read_u64(from));
        break;
    case LAYOUT_BYTES:
        set_view(to, f, read_within(f, from));
        break;
    case LAYOUT_TEXT:
        read_text(f, from, at);
        break;
    case LAYOUT_REST:
        set_view(to, f, read_bytes(from, from->left));
        break;
    case LAYOUT_PART:
        (void)layout_read(f->of, from, at);
        break;
    case LAYOUT_ROWS:
        read_rows(f, from, to);
        break;
    case LAYOUT_ARRAY:
        read_array(f, from, to);
        break;
    }
}

// Sets a field to zeros. An array that is not there has no pointer, either.
static void clear(const struct layout_field *f, void *to)
{
    bool rows = f->kind == LAYOUT_ROWS || f->kind == LAYOUT_ARRAY;
    if (rows) layout_store(place(to, f->count_offset), f->held, 0);
    size_t held = f->kind == LAYOUT_ROWS ? sizeof(struct bytes) : sizeof(void *);
    memset(place(to, f->offset), 0, rows ? held : f->held);
}

bool layout_read(const struct layout *layout, struct reader *from, void *to)
{
    for (size_t i = 0; i < layout->fields_len; i++) {
        const struct layout_field *f = &layout->fields[i];
        bool there = is_there(f, to);
        bool whole = f->kind != LAYOUT_ROWS && f->kind != LAYOUT_ARRAY;
        if (!there || !whole || from->bad) clear(f, to);
        if (there && !from->bad) read_field(f, from, to);
    }
    if (reader_ok(from)) return true;
    layout_done(layout, to);
    return false;
}

void layout_done(const struct layout *layout, void *of)
{
    for (size_t i = 0; i < layout->fields_len; i++) {
        const struct layout_field *f = &layout->fields[i];
        if (f->kind == LAYOUT_PART) layout_done(f->of, place(of, f->offset));
        if (f->kind != LAYOUT_ARRAY) continue;
        char *rows = array(of, f);
        for (uint64_t n = count_of(of, f); n > 0; n--)
            layout_done(f->of, rows + (n - 1) * f->of->size);
        memory_free(rows);
        clear(f, of);
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
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
    case LAYOUT_FIXED:
    case LAYOUT_HASH:
    case LAYOUT_BYTES:
        layout_flat_digest(d, f, of);
        break;
    case LAYOUT_TEXT:
        hash_bytes(d, text(of, f));
        break;
    case LAYOUT_ROWS:
    case LAYOUT_REST:
        hash_bytes(d, view(of, f));
        break;
    case LAYOUT_PART:
        layout_digest_flush(d);
        d->hash = layout_hash(f->of, d->hash, member(of, f->offset));
        break;
    case LAYOUT_ARRAY:
        layout_digest_add(d, count_of(of, f), 8);
        layout_digest_flush(d);
        for (uint64_t i = 0; i < count_of(of, f); i++)
            d->hash = layout_hash(f->of, d->hash, (char *)array(of, f) + i * f->of->size);
        break;
    }
}

uint64_t layout_hash(const struct layout *layout, uint64_t seed, const void *of)
{
    struct layout_digest d = {.hash = seed};
    for (size_t i = 0; i < layout->fields_len; i++)
        if (is_there(&layout->fields[i], of)) hash_field(&d, &layout->fields[i], of);
    layout_digest_flush(&d);
    return d.hash;
}

size_t layout_bytes_min(const struct layout *layout)
{
    size_t sum = 0;
    for (size_t i = 0; i < layout->fields_len; i++) {
        const struct layout_field *f = &layout->fields[i];
        if (f->bits) continue;
        switch ((enum layout_kind)f->kind) {
        case LAYOUT_UNSIGNED:
        case LAYOUT_SIGNED:
            sum += f->written;
            break;
        case LAYOUT_FIXED:
        case LAYOUT_HASH:
            sum += f->held;
            break;
        case LAYOUT_BYTES:
        case LAYOUT_TEXT:
            sum += 4 + (size_t)f->min;
            break;
        case LAYOUT_REST:
            break;
        case LAYOUT_PART:
            sum += layout_bytes_min(f->of);
            break;
        case LAYOUT_ROWS:
        case LAYOUT_ARRAY:
            sum += 4;
            break;
        }
    }
    return sum;
}
