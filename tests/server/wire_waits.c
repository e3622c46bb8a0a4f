// SPDX-License-Identifier: Apache-2.0
// The compact encoding of polls for signals.
#include "../unit/unit.h"
#include "protocol/wire.h"

#include <string.h>

static void a_poll_comes_out_as_it_went_in(void **state)
{
    (void)state;
    const char *tokens[] = {"3f9a01cc-0-17-00112233445566778899aabbccddeeff", ""};
    const uint32_t after[] = {7, UINT32_MAX};
    struct signals_receive_in in = {.tokens = {tokens, 2}, .wait = 20000}, out;
    in.after.rows = after;
    in.after.len = 2;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 1 << 10);
    wire_put_poll(&b, &in);
    assert_true(wire_read_poll(buf_bytes(&b), &out));
    assert_int_equal(out.wait, 20000);
    assert_int_equal(out.tokens.len, 2);
    assert_int_equal(out.after.len, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(out.tokens.rows[i], tokens[i]);
        assert_int_equal(out.after.rows[i], after[i]);
    }
    wire_poll_done(&out);
    for (size_t len = 0; len < b.len; len++)
        assert_false(wire_read_poll(bytes_of(buf_bytes(&b).data, len), &out));
    buf_put_u8(&b, 0);
    assert_false(wire_read_poll(buf_bytes(&b), &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_poll_comes_out_as_it_went_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
