// SPDX-License-Identifier: Apache-2.0
// A list of fields writes, reads and hashes a struct. What is written is read again; what is cut
// off or out of its bounds is refused.
#include "base/layout_flat.h"

#include "base/memory.h"
#include "base/rng.h"
#include "unit.h"

#include <string.h>

enum colour { RED, GREEN, BLUE, COLOURS };

struct leaf {
    uint64_t seq;
    struct hash128 token;
    struct bytes name;
};

struct branch {
    size_t len;
    struct leaf *leaves;
    char text[8];
};

struct tree {
    uint8_t flags;
    enum colour colour;
    bool old;
    uint16_t u16;
    uint32_t u32;
    size_t size;
    uint64_t u64;
    int64_t any, positive;
    uint8_t id[16];
    struct hash128 token; // only in the flat layout
    struct branch branch;
    uint32_t rows_len;
    struct bytes rows;
    uint64_t rare;
    struct bytes rest;
};

#define LAYOUT_OF struct leaf
static const struct layout_field leaf_fields[] = {U64(seq, .min = 1), HASH(token),
                                                  BYTES(name, .min = 1, .max = 9)};
static const struct layout leaf_layout = LAYOUT(leaf_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct tree
static const struct layout_field flat_fields[] = {
    U8(flags),   ENUM(colour, COLOURS),
    FLAG(old),   U16(u16),
    U64(u64),    U32(u32),
    U32(size),   FIXED(id),
    I64(any),    I64(positive, .max = 99),
    HASH(token), U32(rows_len),
};
static const struct layout flat_layout = LAYOUT(flat_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct branch
static const struct layout_field branch_fields[] = {TEXT(text),
                                                    ARRAY(leaves, len, leaf_layout, .max = 3)};
static const struct layout branch_layout = LAYOUT(branch_fields);
#undef LAYOUT_OF

#define HAS_RARE  2
#define LAYOUT_OF struct tree
static const struct layout_field tree_fields[] = {
    U8(flags, .max = 3),
    ENUM(colour, COLOURS),
    FLAG(old),
    U16(u16),
    U32(u32),
    U32(size),
    U64(u64),
    I64(any),
    I64(positive, .max = 99),
    FIXED(id),
    PART(branch, branch_layout),
    ROWS(rows, rows_len, leaf_layout, .max = 4),
    U64(rare, WHEN(flags, HAS_RARE)),
    REST(rest),
};
static const struct layout tree_layout = LAYOUT(tree_fields);
#undef LAYOUT_OF

static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

static struct bytes some_text(struct rng *r, size_t min, size_t max)
{
    return bytes_of(letters, min + rng_below(r, max - min + 1));
}

static struct leaf some_leaf(struct rng *r)
{
    return (struct leaf){.seq = 1 + rng_below(r, 9),
                         .token = {rng_next(r), rng_next(r)},
                         .name = some_text(r, 1, 9)};
}

// Release with tree_done.
static struct tree some_tree(struct rng *r)
{
    struct tree t = {
        .flags = (uint8_t)rng_below(r, 4),
        .colour = (enum colour)rng_below(r, COLOURS),
        .old = rng_below(r, 2),
        .u16 = (uint16_t)rng_next(r),
        .u32 = (uint32_t)rng_next(r),
        .size = (uint32_t)rng_next(r),
        .u64 = rng_next(r),
        .any = (int64_t)rng_next(r),
        .positive = rng_range(r, 0, 99),
        .rest = some_text(r, 0, 20),
        .branch.len = rng_below(r, 4),
        .rows_len = (uint32_t)rng_below(r, 5),
    };
    struct buf rows;
    buf_init(&rows, 1000);
    for (size_t i = 0; i < sizeof t.id; i++)
        t.id[i] = (uint8_t)rng_next(r);
    memcpy(t.branch.text, letters, rng_below(r, sizeof t.branch.text));
    if (t.branch.len > 0) t.branch.leaves = memory_zeroed(t.branch.len, sizeof *t.branch.leaves);
    for (size_t i = 0; i < t.branch.len; i++)
        t.branch.leaves[i] = some_leaf(r);
    for (uint32_t i = 0; i < t.rows_len; i++) {
        struct leaf leaf = some_leaf(r);
        layout_put(&leaf_layout, &rows, &leaf);
    }
    t.rows = buf_take(&rows);
    if (t.flags & HAS_RARE) t.rare = rng_next(r);
    return t;
}

static void tree_done(struct tree *t)
{
    layout_done(&tree_layout, t);
    bytes_free(t->rows);
}

static void assert_leaf(const struct leaf *a, const struct leaf *b)
{
    assert_int_equal(a->seq, b->seq);
    assert_true(hash128_equal(a->token, b->token));
    assert_true(bytes_equal(a->name, b->name));
}

static void assert_tree(const struct tree *a, const struct tree *b)
{
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->colour, b->colour);
    assert_int_equal(a->old, b->old);
    assert_int_equal(a->u16, b->u16);
    assert_int_equal(a->u32, b->u32);
    assert_int_equal(a->size, b->size);
    assert_true(a->u64 == b->u64 && a->any == b->any && a->positive == b->positive);
    assert_true(a->rare == b->rare);
    assert_memory_equal(a->id, b->id, sizeof a->id);
    assert_string_equal(a->branch.text, b->branch.text);
    assert_int_equal(a->branch.len, b->branch.len);
    for (size_t i = 0; i < a->branch.len; i++)
        assert_leaf(&a->branch.leaves[i], &b->branch.leaves[i]);
    assert_int_equal(a->rows_len, b->rows_len);
    assert_true(bytes_equal(a->rows, b->rows));
    assert_true(bytes_equal(a->rest, b->rest));
}

static bool read_tree(struct bytes from, struct tree *out)
{
    struct reader r = reader_of(from);
    memset(out, 0xa5, sizeof *out);
    bool good = layout_read(&tree_layout, &r, out);
    assert_int_equal(good, reader_ok(&r));
    return good && reader_end(&r);
}

static void bytes_of_a_struct_are_its_fields_in_order(void **state)
{
    (void)state;
    struct leaf leaf = {.seq = 258, .token = {1, 2}, .name = bytes_str("abc")};
    static const uint8_t expected[] = {2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,   0,   0,  0,
                                       2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c'};
    struct buf out;
    buf_init(&out, 100);
    layout_put(&leaf_layout, &out, &leaf);
    assert_true(bytes_equal(buf_bytes(&out), bytes_of(expected, sizeof expected)));
    assert_int_equal(layout_bytes_min(&leaf_layout), 8 + 16 + 4 + 1);
    buf_done(&out);
}

static void a_written_struct_is_read_again(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 1);
    for (int i = 0; i < 2000; i++) {
        struct tree t = some_tree(&r), again;
        struct buf out;
        buf_init(&out, 10000);
        layout_put(&tree_layout, &out, &t);
        assert_true(out.len >= layout_bytes_min(&tree_layout));
        assert_true(read_tree(buf_bytes(&out), &again));
        assert_tree(&t, &again);
        assert_true(layout_hash(&tree_layout, 7, &t) == layout_hash(&tree_layout, 7, &again));
        layout_done(&tree_layout, &again);
        tree_done(&t);
        buf_done(&out);
    }
}

static void a_flat_layout_in_line_does_the_same(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 5);
    for (int i = 0; i < 500; i++) {
        struct tree t = some_tree(&r), again = {0};
        t.token = (struct hash128){rng_next(&r), rng_next(&r)};
        struct buf out, in_line;
        buf_init(&out, 1000);
        buf_init(&in_line, 1000);
        layout_put(&flat_layout, &out, &t);
        layout_flat_put(&flat_layout, &in_line, &t);
        assert_true(bytes_equal(buf_bytes(&out), buf_bytes(&in_line)));
        assert_int_equal(layout_flat_bytes(&flat_layout), out.len);
        struct reader whole = reader_of(buf_bytes(&out)), cut = whole, wrong = whole;
        assert_true(layout_flat_read(&flat_layout, &whole, &again) && reader_end(&whole));
        uint64_t hash = layout_hash(&flat_layout, 7, &t);
        assert_true(hash == layout_flat_hash(&flat_layout, 7, &again));
        struct leaf leaf = some_leaf(&r);
        hash = layout_hash(&leaf_layout, 7, &leaf);
        assert_true(hash == layout_flat_hash(&leaf_layout, 7, &leaf));
        cut.left--;
        assert_false(layout_flat_read(&flat_layout, &cut, &again));
        out.data[1] = COLOURS;
        assert_false(layout_flat_read(&flat_layout, &wrong, &again));
        tree_done(&t);
        buf_done(&out);
        buf_done(&in_line);
    }
}

static void a_cut_struct_is_refused_and_a_changed_byte_is_read_or_refused(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 2);
    for (int i = 0; i < 100; i++) {
        struct tree t = some_tree(&r), again;
        struct buf out;
        buf_init(&out, 10000);
        t.rest = BYTES_EMPTY; // any length of it is good
        layout_put(&tree_layout, &out, &t);
        for (size_t len = 0; len < out.len; len++)
            assert_false(read_tree(bytes_of(out.data, len), &again));
        for (size_t at = 0; at < out.len; at++) {
            uint8_t mask = (uint8_t)(1 + rng_below(&r, 255));
            out.data[at] ^= mask;
            if (read_tree(buf_bytes(&out), &again)) layout_done(&tree_layout, &again);
            out.data[at] ^= mask;
        }
        tree_done(&t);
        buf_done(&out);
    }
}

static void the_digest_has_every_field(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 3);
    struct tree t = some_tree(&r);
    while (t.branch.len == 0 || t.rows_len == 0 || !(t.flags & HAS_RARE) || t.rest.len == 0) {
        tree_done(&t);
        t = some_tree(&r);
    }
    uint64_t before = layout_hash(&tree_layout, 0, &t);
    uint8_t *const changed[] = {
        &t.flags,
        (uint8_t *)&t.colour,
        (uint8_t *)&t.old,
        (uint8_t *)&t.u16,
        (uint8_t *)&t.u32,
        (uint8_t *)&t.size,
        (uint8_t *)&t.u64,
        (uint8_t *)&t.any,
        t.id,
        (uint8_t *)&t.positive,
        (uint8_t *)&t.rare,
        (uint8_t *)&t.branch.text[0],
        (uint8_t *)&t.branch.leaves[0].seq,
        (uint8_t *)&t.branch.leaves[0].token.hi,
    };
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        *changed[i] ^= 1;
        assert_true(layout_hash(&tree_layout, 0, &t) != before);
        *changed[i] ^= 1;
    }
    t.rest.len--;
    assert_true(layout_hash(&tree_layout, 0, &t) != before);
    tree_done(&t);
}

static void write_seq_zero(void)
{
    struct leaf leaf = {.seq = 0, .name = bytes_str("a")};
    struct buf out;
    buf_init(&out, 100);
    layout_put(&leaf_layout, &out, &leaf);
}

static void write_unknown_colour(void)
{
    struct tree t = {.colour = COLOURS};
    struct buf out;
    buf_init(&out, 100);
    layout_put(&tree_layout, &out, &t);
}

static void the_writer_checks_its_bounds(void **state)
{
    (void)state;
    assert_true(aborts(write_seq_zero));
    assert_true(aborts(write_unknown_colour));
}

static void the_reader_refuses_what_is_out_of_bounds(void **state)
{
    (void)state;
    struct tree t = {.positive = 99}, again;
    struct buf out;
    buf_init(&out, 1000);
    layout_put(&tree_layout, &out, &t);
    assert_true(read_tree(buf_bytes(&out), &again));
    static const struct {
        size_t at;
        uint8_t value;
    } bad[] = {
        {0, 4},       // flags
        {1, COLOURS}, // colour
        {2, 2},       // old
        {29, 100},    // positive
        {36, 0x80},   // positive is below zero
        {53, 8},      // the text is longer than its member
        {57, 4},      // more leaves than the limit
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t before = out.data[bad[i].at];
        out.data[bad[i].at] = bad[i].value;
        assert_false(read_tree(buf_bytes(&out), &again));
        out.data[bad[i].at] = before;
    }
    buf_done(&out);
}

static void rows_are_read_one_by_one(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 4);
    struct tree t = some_tree(&r), again;
    while (t.rows_len < 3) {
        tree_done(&t);
        t = some_tree(&r);
    }
    struct buf out;
    buf_init(&out, 10000);
    layout_put(&tree_layout, &out, &t);
    assert_true(read_tree(buf_bytes(&out), &again));
    struct reader rows = reader_of(again.rows);
    struct leaf leaf;
    uint32_t len = 0;
    while (layout_next(&leaf_layout, &rows, &leaf))
        len++;
    assert_int_equal(len, t.rows_len);
    layout_done(&tree_layout, &again);
    tree_done(&t);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_a_struct_are_its_fields_in_order),
        cmocka_unit_test(a_written_struct_is_read_again),
        cmocka_unit_test(a_flat_layout_in_line_does_the_same),
        cmocka_unit_test(a_cut_struct_is_refused_and_a_changed_byte_is_read_or_refused),
        cmocka_unit_test(the_digest_has_every_field),
        cmocka_unit_test(the_writer_checks_its_bounds),
        cmocka_unit_test(the_reader_refuses_what_is_out_of_bounds),
        cmocka_unit_test(rows_are_read_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
