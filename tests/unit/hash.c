// SPDX-License-Identifier: Apache-2.0
// Hashes are on disk and decide which shard a message goes to: they must never change.
#include "base/hash.h"

#include "unit.h"

// For the empty input the published values of XXH3; for the rest what the library gave when the
// format was fixed.
static void hash128_is_xxh3(void **state)
{
    (void)state;
    struct hash128 empty = hash128_of(BYTES_EMPTY);
    assert_int_equal(empty.lo, 0x6001c324468d497fu);
    assert_int_equal(empty.hi, 0x99aa06d3014798d8u);
    struct hash128 text = hash128_of(bytes_str("sluice"));
    assert_int_equal(text.lo, 0x28d6b41d9413a19du);
    assert_int_equal(text.hi, 0xadbab6796a85b841u);
}

static void hash64_is_xxh3_and_depends_on_its_seed(void **state)
{
    (void)state;
    assert_int_equal(hash64_of(BYTES_EMPTY, 0), 0x2d06800538d394c2u);
    assert_int_equal(hash64_of(bytes_str("sluice"), 0), 0x7e13095f1588691du);
    assert_int_not_equal(hash64_of(bytes_str("sluice"), 0), hash64_of(bytes_str("sluice"), 1));
}

static void one_flipped_bit_changes_the_hash(void **state)
{
    (void)state;
    uint8_t data[300] = {0};
    struct hash128 before = hash128_of(bytes_of(data, sizeof data));
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_false(hash128_equal(before, hash128_of(bytes_of(data, sizeof data))));
        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    assert_true(hash128_equal(before, hash128_of(bytes_of(data, sizeof data))));
}

static void equality_looks_at_both_halves(void **state)
{
    (void)state;
    struct hash128 a = {.lo = 1, .hi = 2};
    assert_true(hash128_equal(a, (struct hash128){.lo = 1, .hi = 2}));
    assert_false(hash128_equal(a, (struct hash128){.lo = 1, .hi = 3}));
    assert_false(hash128_equal(a, (struct hash128){.lo = 3, .hi = 2}));
}

static void written_hash_is_sixteen_bytes_low_half_first(void **state)
{
    (void)state;
    static const uint8_t expected[16] = {8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9};
    struct hash128 h = {.lo = 0x0102030405060708u, .hi = 0x090a0b0c0d0e0f10u};
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 16);
    buf_put_hash128(&b, h);
    assert_true(bytes_equal(buf_bytes(&b), bytes_of(expected, sizeof expected)));
    struct reader r = reader_of(buf_bytes(&b));
    assert_true(hash128_equal(read_hash128(&r), h));
    assert_true(reader_end(&r));
}

static void cut_hash_does_not_read(void **state)
{
    (void)state;
    static const uint8_t cut[15];
    struct reader r = reader_of(bytes_of(cut, sizeof cut));
    (void)read_hash128(&r);
    assert_false(reader_ok(&r));
}

static void mix_is_stable_and_depends_on_order(void **state)
{
    (void)state;
    assert_int_equal(hash64_mix(1, 2), 0x30883360cc68d7b1u);
    assert_int_not_equal(hash64_mix(1, 2), hash64_mix(2, 1));
    assert_int_not_equal(hash64_mix(0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash128_is_xxh3),
        cmocka_unit_test(hash64_is_xxh3_and_depends_on_its_seed),
        cmocka_unit_test(one_flipped_bit_changes_the_hash),
        cmocka_unit_test(equality_looks_at_both_halves),
        cmocka_unit_test(written_hash_is_sixteen_bytes_low_half_first),
        cmocka_unit_test(cut_hash_does_not_read),
        cmocka_unit_test(mix_is_stable_and_depends_on_order),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
