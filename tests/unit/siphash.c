// SPDX-License-Identifier: Apache-2.0
// Lock tokens come from here: the function must be the published one, and depend on all it is
// given.
#include "base/siphash.h"

#include "unit.h"

static const uint8_t key[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void known_input_gives_the_reference_output(void **state)
{
    (void)state;
    // SipHash-2-4, 128 bits, of the bytes 00 .. 0f under the key 00 .. 0f, as OpenSSL computes it.
    struct hash128 h = siphash128(key, 0x0706050403020100u, 0x0f0e0d0c0b0a0908u);
    assert_int_equal(h.lo, 0xbb54b067caa4e26eu);
    assert_int_equal(h.hi, 0x77052385bf1533fdu);
}

static void every_bit_of_key_and_input_counts(void **state)
{
    (void)state;
    struct hash128 before = siphash128(key, 1, 2);
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_false(hash128_equal(before, siphash128(key, 1 ^ (UINT64_C(1) << bit), 2)));
        assert_false(hash128_equal(before, siphash128(key, 1, 2 ^ (UINT64_C(1) << bit))));
    }
    for (unsigned bit = 0; bit < 128; bit++) {
        uint8_t other[16];
        for (size_t i = 0; i < 16; i++)
            other[i] = key[i];
        other[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_false(hash128_equal(before, siphash128(other, 1, 2)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_input_gives_the_reference_output),
        cmocka_unit_test(every_bit_of_key_and_input_counts),
    };
    return cmocka_run_group_tests_name("siphash", tests, NULL, NULL);
}
