// SPDX-License-Identifier: Apache-2.0
// Goes over the list of fields: one function for each of writing, reading and hashing, with one
// case per kind of field.
#include "base/layout.h"

#include "base/check.h"
#include "base/memory.h"

static uint64_t load(const void *at, size_t held)
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

static void store(void *at, size_t held, uint64_t v)
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
    return f->bits == 0 || (load(member(from, f->when), f->when_held) & f->bits);
}

// The greatest number, length or count.
static uint64_t limit(const struct layout_field *f)
{
    if (f->max > 0) return f->max;
    if (f->kind == LAYOUT_UNSIGNED && f->written < 8) return (UINT64_C(1) << 8 * f->written) - 1;
    if (f->kind == LAYOUT_TEXT) return f->held - (uint64_t)1;
    bool counted = f->kind == LAYOUT_BYTES || f->kind == LAYOUT_ROWS || f->kind == LAYOUT_ARRAY;
    return counted ? UINT32_MAX : UINT64_MAX;
}

// A signed number below zero is more than any limit but that of a field without one.
static bool is_in(const struct layout_field *f, uint64_t v)
{
    return v >= f->min && v <= limit(f);
}

static void *array(const void *from, const struct layout_field *f)
{
    void *rows;
    memcpy(&rows, member(from, f->offset), sizeof rows);
    return rows;
}

static uint64_t count_of(const void *from, const struct layout_field *f)
{
    return load(member(from, f->count_offset), f->held);
}

static void put_sized(const struct layout_field *f, struct buf *to, struct bytes v)
{
    CHECK(is_in(f, v.len));
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
        number = load(at, f->held);
        CHECK(is_in(f, number));
        buf_put_le(to, number, f->written);
        break;
    case LAYOUT_FIXED:
        buf_put(to, bytes_of(at, f->held));
        break;
    case LAYOUT_HASH:
        buf_put_u64(to, load(at, 8));
        buf_put_u64(to, load(member(at, 8), 8));
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
        CHECK(is_in(f, count_of(from, f)));
        buf_put_u32(to, (uint32_t)count_of(from, f));
        buf_put(to, view(from, f));
        break;
    case LAYOUT_ARRAY:
        CHECK(is_in(f, count_of(from, f)));
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
    uint64_t max = limit(f);
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
    if (!is_in(f, count) || count > from->left / least) from->bad = true;
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
    store(place(to, f->count_offset), f->held, count);
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
    store(place(to, f->count_offset), f->held, len);
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
        if (!is_in(f, number)) from->bad = true;
        if (!from->bad) store(at, f->held, number);
        break;
    case LAYOUT_FIXED:
        bytes = read_bytes(from, f->held);
        if (bytes.len > 0) memcpy(at, bytes.data, bytes.len);
        break;
    case LAYOUT_HASH:
        store(at, 8, read_u64(from));
        store(place(at, 8), 8, read_u64(from));
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
    if (rows) store(place(to, f->count_offset), f->held, 0);
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

static uint64_t hash_field(const struct layout_field *f, uint64_t h, const void *of)
{
    const void *at = member(of, f->offset);
    const char *rows = NULL;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
        return hash64_mix(h, load(at, f->held));
    case LAYOUT_FIXED:
        return hash64_of(bytes_of(at, f->held), h);
    case LAYOUT_HASH:
        return hash64_mix(hash64_mix(h, load(at, 8)), load(member(at, 8), 8));
    case LAYOUT_TEXT:
        return hash64_of(text(of, f), h);
    case LAYOUT_BYTES:
    case LAYOUT_ROWS:
    case LAYOUT_REST:
        return hash64_of(view(of, f), h);
    case LAYOUT_PART:
        return layout_hash(f->of, h, at);
    case LAYOUT_ARRAY:
        break;
    }
    rows = array(of, f);
    h = hash64_mix(h, count_of(of, f));
    for (uint64_t i = 0; i < count_of(of, f); i++)
        h = layout_hash(f->of, h, rows + i * f->of->size);
    return h;
}

uint64_t layout_hash(const struct layout *layout, uint64_t seed, const void *of)
{
    uint64_t h = seed;
    for (size_t i = 0; i < layout->fields_len; i++)
        if (is_there(&layout->fields[i], of)) h = hash_field(&layout->fields[i], h, of);
    return h;
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
