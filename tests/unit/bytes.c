// SPDX-License-Identifier: Apache-2.0
// Buffers stop at their limit, readers at the end of their input, and both remember that they did.
#include "base/bytes.h"

#include "base/memory.h"
#include "unit.h"

#include <string.h>

static void empty_bytes_are_equal_wherever_they_point(void **state)
{
    (void)state;
    assert_true(bytes_equal(BYTES_EMPTY, bytes_str("")));
    assert_false(bytes_equal(BYTES_EMPTY, bytes_str("a")));
    assert_int_equal(bytes_compare(BYTES_EMPTY, bytes_str("")), 0);
}

static void equality_looks_at_length_and_content(void **state)
{
    (void)state;
    assert_true(bytes_equal(bytes_str("abc"), bytes_of("abcd", 3)));
    assert_false(bytes_equal(bytes_str("abc"), bytes_str("abd")));
    assert_false(bytes_equal(bytes_str("abc"), bytes_str("ab")));
}

static void order_is_that_of_unsigned_bytes_shorter_first(void **state)
{
    (void)state;
    static const char *const ordered[] = {"", "a", "a/b", "aa", "b", "\x7f", "\x80", "\xff"};
    int count = sizeof ordered / sizeof *ordered;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            int order = bytes_compare(bytes_str(ordered[i]), bytes_str(ordered[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}

static void copy_lives_on_when_the_original_changes(void **state)
{
    (void)state;
    char text[] = "first";
    struct bytes copy = bytes_copy(bytes_str(text));
    memset(text, 'x', sizeof text);
    assert_true(bytes_equal(copy, bytes_str("first")));
    bytes_free(copy);
    bytes_free(bytes_copy(BYTES_EMPTY));
}

static void numbers_are_written_little_endian(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        0x01,                                           // u8
        0x03, 0x02,                                     // u16
        0x07, 0x06, 0x05, 0x04,                         // u32
        0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, // u64
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // i64
        0x02, 0x00, 0x00, 0x00, 'h',  'i',              // sized
    };
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 100);
    buf_put_u8(&b, 0x01);
    buf_put_u16(&b, 0x0203);
    buf_put_u32(&b, 0x04050607);
    buf_put_u64(&b, 0x08090a0b0c0d0e0fu);
    buf_put_i64(&b, -2);
    buf_put_sized(&b, bytes_str("hi"));
    assert_false(b.bad);
    assert_true(bytes_equal(buf_bytes(&b), bytes_of(expected, sizeof expected)));
}

static void extreme_numbers_survive_the_round_trip(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 100);
    buf_put_u8(&b, UINT8_MAX);
    buf_put_u16(&b, UINT16_MAX);
    buf_put_u32(&b, UINT32_MAX);
    buf_put_u64(&b, UINT64_MAX);
    buf_put_i64(&b, INT64_MIN);
    buf_put_i64(&b, INT64_MAX);
    struct reader r = reader_of(buf_bytes(&b));
    assert_int_equal(read_u8(&r), UINT8_MAX);
    assert_int_equal(read_u16(&r), UINT16_MAX);
    assert_int_equal(read_u32(&r), UINT32_MAX);
    assert_true(read_u64(&r) == UINT64_MAX);
    assert_true(read_i64(&r) == INT64_MIN);
    assert_true(read_i64(&r) == INT64_MAX);
    assert_true(reader_end(&r));
}

static void buffer_holds_exactly_its_limit(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 8);
    buf_put_u64(&b, 1);
    assert_false(b.bad);
    assert_int_equal(b.len, 8);
    buf_put_u8(&b, 1);
    assert_true(b.bad);
    assert_int_equal(b.len, 8);
}

static void bad_buffer_takes_nothing_more_even_if_it_would_fit(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 4);
    buf_put_u64(&b, 1);
    assert_true(b.bad);
    buf_put_u8(&b, 1);
    assert_null(buf_grow(&b, 1));
    buf_set_u32(&b, 0, 1);
    assert_int_equal(b.len, 0);
    buf_clear(&b);
    buf_put_u8(&b, 1);
    assert_false(b.bad);
    assert_int_equal(b.len, 1);
}

static void huge_request_does_not_wrap_around_the_limit(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 100);
    buf_put_u8(&b, 1);
    assert_null(buf_grow(&b, SIZE_MAX));
    assert_true(b.bad);
}

static void buffer_grows_without_changing_what_it_holds(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 1000);
    for (unsigned i = 0; i < 1000; i++)
        buf_put_u8(&b, (uint8_t)i);
    assert_false(b.bad);
    assert_int_equal(b.cap, 1000); // never more than the limit
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(b.data[i], (uint8_t)i);
}

static void putting_nothing_is_fine_even_at_the_limit(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 0);
    buf_put(&b, BYTES_EMPTY);
    assert_false(b.bad);
    assert_int_equal(b.len, 0);
}

static void set_u32_writes_over_what_is_there(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 100);
    buf_put_u32(&b, 0);
    buf_put(&b, bytes_str("tail"));
    buf_set_u32(&b, 0, 0x01020304);
    assert_true(bytes_equal(buf_bytes(&b), bytes_of("\x04\x03\x02\x01tail", 8)));
}

static void set_past_the_end(void)
{
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 100);
    buf_put_u32(&b, 0);
    buf_set_u32(&b, 1, 7);
}

static void set_u32_past_the_end_aborts(void **state)
{
    (void)state;
    assert_true(aborts(set_past_the_end));
}

static void take_hands_the_memory_over_and_keeps_the_limit(void **state)
{
    (void)state;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 4);
    buf_put(&b, bytes_str("four"));
    struct bytes taken = buf_take(&b);
    assert_int_equal(b.len, 0);
    buf_put(&b, bytes_str("new"));
    assert_true(bytes_equal(taken, bytes_str("four")));
    buf_put(&b, bytes_str("xx"));
    assert_true(b.bad);
    bytes_free(taken);
}

static void every_cut_of_an_input_is_noticed(void **state)
{
    (void)state;
    uint8_t data[1 + 2 + 4 + 8] = {0};
    for (size_t len = 0; len <= sizeof data; len++) {
        uint8_t *exact = memory_new(len); // so that a sanitizer sees a read past the cut
        memcpy(exact, data, len);
        struct reader r = reader_of(bytes_of(exact, len));
        (void)read_u8(&r);
        (void)read_u16(&r);
        (void)read_u32(&r);
        (void)read_u64(&r);
        assert_int_equal(reader_ok(&r), len == sizeof data);
        memory_free(exact);
    }
}

static void reader_past_the_end_answers_zero_from_then_on(void **state)
{
    (void)state;
    static const uint8_t data[] = {1, 2, 3};
    struct reader r = reader_of(bytes_of(data, sizeof data));
    assert_int_equal(read_u32(&r), 0);
    assert_false(reader_ok(&r));
    assert_int_equal(read_u8(&r), 0); // would fit, but the reader is bad
    assert_int_equal(read_bytes(&r, 1).len, 0);
    assert_false(reader_end(&r));
}

static void end_is_reached_only_when_nothing_is_left(void **state)
{
    (void)state;
    static const uint8_t data[] = {1, 2};
    struct reader r = reader_of(bytes_of(data, sizeof data));
    (void)read_u8(&r);
    assert_true(reader_ok(&r));
    assert_false(reader_end(&r));
    (void)read_u8(&r);
    assert_true(reader_end(&r));
    struct reader nothing = reader_of(BYTES_EMPTY);
    assert_true(reader_end(&nothing));
    assert_int_equal(read_bytes(&nothing, 0).len, 0);
    assert_true(reader_end(&nothing));
}

static void sized_bytes_are_a_view_into_the_input(void **state)
{
    (void)state;
    static const uint8_t data[] = {2, 0, 0, 0, 'h', 'i', '!'};
    struct reader r = reader_of(bytes_of(data, sizeof data));
    struct bytes view = read_sized(&r, 2);
    assert_ptr_equal(view.data, data + 4);
    assert_int_equal(view.len, 2);
    assert_int_equal(r.left, 1);
}

static void sized_bytes_over_their_limit_are_bad_even_if_present(void **state)
{
    (void)state;
    static const uint8_t data[] = {2, 0, 0, 0, 'h', 'i'};
    struct reader r = reader_of(bytes_of(data, sizeof data));
    assert_int_equal(read_sized(&r, 1).len, 0);
    assert_false(reader_ok(&r));
}

static void sized_bytes_that_claim_more_than_there_is_are_bad(void **state)
{
    (void)state;
    static const uint8_t data[] = {0xff, 0xff, 0xff, 0xff, 'h', 'i'};
    struct reader r = reader_of(bytes_of(data, sizeof data));
    assert_int_equal(read_sized(&r, SIZE_MAX).len, 0);
    assert_false(reader_ok(&r));
}

static void a_short_number_has_few_bytes_and_comes_back(void **state)
{
    (void)state;
    static const struct {
        uint64_t v;
        size_t len;
    } rows[] = {{0, 1},          {1, 1},
                {127, 1},        {128, 2},
                {16383, 2},      {16384, 3},
                {UINT32_MAX, 5}, {UINT64_C(1) << 62, 9},
                {INT64_MAX, 9},  {UINT64_C(1) << 63, 10},
                {UINT64_MAX, 10}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b;
        buf_init(&b, 16);
        buf_put_var(&b, rows[i].v);
        assert_int_equal(b.len, rows[i].len);
        struct reader r = reader_of(buf_bytes(&b));
        assert_true(read_var(&r) == rows[i].v);
        assert_true(reader_end(&r));
        r = reader_of(bytes_of(b.data, b.len - 1));
        (void)read_var(&r);
        assert_false(reader_ok(&r)); // cut short
        buf_done(&b);
    }
}

static void a_number_that_is_longer_than_needed_or_than_64_bits_is_bad(void **state)
{
    (void)state;
    static const struct bytes wrong[] = {
        {(const uint8_t *)"\x80\x00", 2},
        {(const uint8_t *)"\xff\x80\x00", 3},
        {(const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},
        {(const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct reader r = reader_of(wrong[i]);
        (void)read_var(&r);
        assert_false(reader_ok(&r));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_bytes_are_equal_wherever_they_point),
        cmocka_unit_test(equality_looks_at_length_and_content),
        cmocka_unit_test(order_is_that_of_unsigned_bytes_shorter_first),
        cmocka_unit_test(copy_lives_on_when_the_original_changes),
        cmocka_unit_test(numbers_are_written_little_endian),
        cmocka_unit_test(extreme_numbers_survive_the_round_trip),
        cmocka_unit_test(buffer_holds_exactly_its_limit),
        cmocka_unit_test(bad_buffer_takes_nothing_more_even_if_it_would_fit),
        cmocka_unit_test(huge_request_does_not_wrap_around_the_limit),
        cmocka_unit_test(buffer_grows_without_changing_what_it_holds),
        cmocka_unit_test(putting_nothing_is_fine_even_at_the_limit),
        cmocka_unit_test(set_u32_writes_over_what_is_there),
        cmocka_unit_test(set_u32_past_the_end_aborts),
        cmocka_unit_test(take_hands_the_memory_over_and_keeps_the_limit),
        cmocka_unit_test(every_cut_of_an_input_is_noticed),
        cmocka_unit_test(reader_past_the_end_answers_zero_from_then_on),
        cmocka_unit_test(end_is_reached_only_when_nothing_is_left),
        cmocka_unit_test(a_short_number_has_few_bytes_and_comes_back),
        cmocka_unit_test(a_number_that_is_longer_than_needed_or_than_64_bits_is_bad),
        cmocka_unit_test(sized_bytes_are_a_view_into_the_input),
        cmocka_unit_test(sized_bytes_over_their_limit_are_bad_even_if_present),
        cmocka_unit_test(sized_bytes_that_claim_more_than_there_is_are_bad),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
