// SPDX-License-Identifier: Apache-2.0
// Every layout of the tree, with random values within its bounds: what was written is read, the
// digest has every field, and bytes that are cut short are refused.
#include "layouts/all.h"

#include "base/layout_inline.h"
#include "base/memory.h"
#include "base/rng.h"
#include "unit/unit.h"

#include <string.h>

#define ROUNDS     50
#define STRUCT_MAX 65536
#define OWNED_MAX  256
#define LENGTH_MAX 12

struct maker {
    struct rng rng;
    void *owned[OWNED_MAX]; // what the views of the values show
    size_t owned_len;
    bool no_rest;
};

static void *own(struct maker *m, size_t len)
{
    assert_true(m->owned_len < OWNED_MAX);
    uint8_t *room = memory_zeroed(len + 1, 1);
    for (size_t i = 0; i < len; i++)
        room[i] = (uint8_t)(1 + rng_below(&m->rng, 255)); // no zeros: a text ends with one
    m->owned[m->owned_len++] = room;
    return room;
}

static void release(struct maker *m)
{
    while (m->owned_len > 0)
        memory_free(m->owned[--m->owned_len]);
}

static uint64_t most(const struct layout_field *f)
{
    uint64_t max = layout_limit(f);
    if (f->kind == LAYOUT_SIGNED && f->max == 0) return UINT64_MAX;
    size_t bytes = f->held < f->written ? f->held : f->written;
    return bytes < 8 && max >> 8 * bytes ? (UINT64_C(1) << 8 * bytes) - 1 : max;
}

static uint64_t number(struct maker *m, const struct layout_field *f)
{
    uint64_t min = f->min, max = most(f);
    switch (rng_below(&m->rng, 4)) {
    case 0:
        return min;
    case 1:
        return max;
    default:
        return max - min == UINT64_MAX ? rng_next(&m->rng)
                                       : min + rng_below(&m->rng, max - min + 1);
    }
}

static size_t length(struct maker *m, const struct layout_field *f)
{
    uint64_t max = layout_limit(f), top = f->min + LENGTH_MAX;
    return (size_t)(f->min + rng_below(&m->rng, (max < top ? max : top) - f->min + 1));
}

static void fill(struct maker *m, const struct layout *layout, void *to);

static void fill_rows(struct maker *m, const struct layout_field *f, void *to)
{
    uint64_t row[LAYOUT_ROW_SIZE_MAX / 8], count = rng_below(&m->rng, 4);
    struct buf rows;
    buf_init(&rows, 1 << 20);
    for (uint64_t i = 0; i < count; i++) {
        memset(row, 0, sizeof row);
        fill(m, f->of, row);
        layout_put(f->of, &rows, row);
    }
    struct bytes view = buf_take(&rows);
    if (view.data) m->owned[m->owned_len++] = (void *)(uintptr_t)view.data;
    field_set_view(to, f, view);
    layout_store(field_place(to, f->count_offset), f->held, count);
}

static void fill_array(struct maker *m, const struct layout_field *f, void *to)
{
    uint64_t count = rng_below(&m->rng, 4);
    char *rows = own(m, count * f->of->size);
    memset(rows, 0, count * f->of->size);
    for (uint64_t i = 0; i < count; i++)
        fill(m, f->of, rows + i * f->of->size);
    memcpy(field_place(to, f->offset), &rows, sizeof rows);
    layout_store(field_place(to, f->count_offset), f->held, count);
}

static void fill_field(struct maker *m, const struct layout_field *f, void *to)
{
    void *at = field_place(to, f->offset);
    size_t len = 0;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_UNSIGNED:
    case LAYOUT_SIGNED:
        layout_store(at, f->held, number(m, f));
        break;
    case LAYOUT_MARK:
        break;
    case LAYOUT_FIXED:
    case LAYOUT_HASH:
        memcpy(at, own(m, f->held), f->held);
        break;
    case LAYOUT_TEXT:
        len = length(m, f);
        memcpy(at, own(m, len), len);
        break;
    case LAYOUT_BYTES:
        len = length(m, f);
        field_set_view(to, f, bytes_of(own(m, len), len));
        break;
    case LAYOUT_REST:
        len = m->no_rest ? 0 : length(m, f);
        field_set_view(to, f, bytes_of(own(m, len), len));
        break;
    case LAYOUT_PART:
        fill(m, f->of, at);
        break;
    case LAYOUT_ROWS:
        fill_rows(m, f, to);
        break;
    case LAYOUT_ARRAY:
        fill_array(m, f, to);
        break;
    }
}

// *to is zeros. Fields that others decide about come after these.
static void fill(struct maker *m, const struct layout *layout, void *to)
{
    for (size_t i = 0; i < layout->fields_len; i++)
        if (field_is_there(&layout->fields[i], to)) fill_field(m, &layout->fields[i], to);
}

static void put(const struct layout *layout, struct buf *out, const void *value)
{
    buf_init(out, 1 << 20);
    layout_put(layout, out, value);
    assert_false(out->bad);
}

// Every value of the layout, and its bytes.
struct sample {
    struct maker maker;
    uint64_t value[STRUCT_MAX / 8];
    struct buf bytes;
};

static void sample_init(struct sample *s, const struct layout *layout, uint64_t seed, bool no_rest)
{
    *s = (struct sample){.maker.no_rest = no_rest};
    assert_true(layout->size <= sizeof s->value);
    rng_init(&s->maker.rng, seed);
    fill(&s->maker, layout, s->value);
    put(layout, &s->bytes, s->value);
}

static void sample_done(struct sample *s)
{
    release(&s->maker);
    buf_done(&s->bytes);
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_LAYOUTS * ROUNDS; i++) {
        const struct layout *layout = all_layouts[i / ROUNDS].layout;
        struct sample s;
        uint64_t again[STRUCT_MAX / 8];
        struct buf twice;
        sample_init(&s, layout, i + 1, false);
        memset(again, 0xa5, sizeof again);
        assert_true(layout_read_all(layout, buf_bytes(&s.bytes), again));
        put(layout, &twice, again);
        assert_true(bytes_equal(buf_bytes(&s.bytes), buf_bytes(&twice)));
        assert_true(layout_hash(layout, 1, s.value) == layout_hash(layout, 1, again));
        assert_true(s.bytes.len >= layout_bytes_min(layout));
        if (layout->fixed > 0) assert_int_equal(s.bytes.len, layout->fixed);
        layout_done(layout, again);
        buf_done(&twice);
        sample_done(&s);
    }
}

static void bytes_that_are_cut_short_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_LAYOUTS * 5; i++) {
        const struct layout *layout = all_layouts[i / 5].layout;
        struct sample s;
        uint64_t again[STRUCT_MAX / 8] = {0};
        sample_init(&s, layout, i + 1, true);
        for (size_t len = 0; len < s.bytes.len; len++) {
            struct bytes cut = bytes_copy(bytes_of(s.bytes.data, len)); // its end is the heap's
            if (layout_read_all(layout, cut, again))
                fail_msg("%s: %zu of %zu bytes are read", all_layouts[i / 5].name, len,
                         s.bytes.len);
            bytes_free(cut);
        }
        sample_done(&s);
    }
}

static void another_mark_is_refused(void **state)
{
    (void)state;
    size_t marked = 0;
    for (size_t i = 0; i < ALL_LAYOUTS; i++) {
        const struct layout *layout = all_layouts[i].layout;
        struct sample s;
        uint64_t again[STRUCT_MAX / 8] = {0};
        if (layout->fields[0].kind != LAYOUT_MARK) continue;
        sample_init(&s, layout, 1, false);
        s.bytes.data[0] ^= 1;
        assert_false(layout_read_all(layout, buf_bytes(&s.bytes), again));
        sample_done(&s);
        marked++;
    }
    assert_true(marked > 0);
}

// Changes one bit of the field's own bytes. The value may then be outside of its bounds.
static bool change(const struct layout_field *f, void *value)
{
    struct bytes view;
    switch ((enum layout_kind)f->kind) {
    case LAYOUT_MARK:
        return false;
    case LAYOUT_BYTES:
    case LAYOUT_REST:
    case LAYOUT_ROWS:
        view = field_view(value, f);
        if (view.len == 0) return false;
        view.len--;
        field_set_view(value, f, view);
        return true;
    case LAYOUT_PART:
        for (size_t i = 0; i < f->of->fields_len; i++)
            if (change(&f->of->fields[i], field_place(value, f->offset))) return true;
        return false;
    case LAYOUT_ARRAY:
        if (field_count_of(value, f) == 0) return false;
        return change(&f->of->fields[0], field_array(value, f));
    default:
        *(uint8_t *)field_place(value, f->offset) ^= 1;
        return true;
    }
}

static void a_changed_field_changes_the_digest(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_LAYOUTS; i++) {
        const struct layout *layout = all_layouts[i].layout;
        for (size_t n = 0; n < layout->fields_len; n++) {
            const struct layout_field *f = &layout->fields[n];
            bool changed = f->kind == LAYOUT_MARK;
            for (uint64_t seed = 1; !changed && seed < 100; seed++) {
                struct sample s;
                sample_init(&s, layout, seed, false);
                uint64_t before = layout_hash(layout, 1, s.value);
                changed = field_is_there(f, s.value) && change(f, s.value);
                if (changed && layout_hash(layout, 1, s.value) == before)
                    fail_msg("%s.%s is not in the digest", all_layouts[i].name, f->name);
                sample_done(&s);
            }
            assert_true(changed);
        }
    }
}

// A list that names a member twice has forgotten another one.
static void no_two_fields_are_the_same_member(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_LAYOUTS; i++) {
        const struct layout *layout = all_layouts[i].layout;
        uint8_t taken[STRUCT_MAX] = {0};
        for (size_t n = 0; n < layout->fields_len; n++) {
            const struct layout_field *f = &layout->fields[n];
            size_t len = f->kind >= LAYOUT_ROWS ? sizeof(void *) : f->held;
            for (size_t at = f->offset; at < f->offset + len; at++)
                if (taken[at]++) fail_msg("%s.%s is there twice", all_layouts[i].name, f->name);
        }
    }
}

// A reader skips the rows of a layout with `fixed`: no field of it has bounds.
static void rows_of_fixed_length_have_no_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_LAYOUTS; i++) {
        const struct layout *layout = all_layouts[i].layout;
        for (size_t n = 0; layout->fixed > 0 && n < layout->fields_len; n++)
            if (field_is_bounded(&layout->fields[n]) || layout->fields[n].bits)
                fail_msg("%s.%s has bounds", all_layouts[i].name, layout->fields[n].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(bytes_that_are_cut_short_are_refused),
        cmocka_unit_test(another_mark_is_refused),
        cmocka_unit_test(a_changed_field_changes_the_digest),
        cmocka_unit_test(rows_of_fixed_length_have_no_bounds),
        cmocka_unit_test(no_two_fields_are_the_same_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
