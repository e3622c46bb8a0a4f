// SPDX-License-Identifier: Apache-2.0
// Results that a peer or a mailbox object may have, and this program does not write.
#include "queue_test.h"

static void damaged_results_are_invalid(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[3];
    rig_defaults(&r);
    for (int i = 0; i < 3; i++)
        rig_send(&r, "x", NULL);
    rig_claim(&r, "w", 3, g);
    struct bytes body = rig_body(&r, 0);
    struct result result;
    for (size_t len = 0; len < body.len; len++) {
        enum err err = result_open(bytes_of(body.data, len), OP_CLAIM, &result);
        assert_int_equal(err, len == 1 ? ERR_OK : ERR_INVALID);
    }
    const uint8_t huge[] = {0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(result_open(bytes_of(huge, sizeof huge), OP_SEND, &result), ERR_INVALID);
    const uint8_t none[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(result_open(bytes_of(none, sizeof none), OP_SEND, &result), ERR_INVALID);
    rig_done(&r);
}

static void put_two_rows(struct buf *b, uint16_t kind)
{
    const struct outcome_row outcome = {.reason = REASON_TOKEN_MISMATCH, .until = 7};
    const struct signal_row signal = {.seq = 1, .number = 1, .until = 7};
    result_begin(b, REASON_NONE);
    buf_put_u32(b, 2);
    size_t rows_at = b->len;
    for (uint64_t row = 1; row <= 2; row++) {
        if (kind == OP_SEND) send_row_put(b, rows_at, REASON_NONE, row);
        if (kind == OP_ACK) outcome_row_put(b, rows_at, &outcome);
        if (kind == OP_SIGNAL_SETTLE) worker_reason_put(b, rows_at, REASON_TOKEN_MISMATCH);
        if (kind == OP_SIGNAL) signal_row_put(b, &signal);
    }
}

// A newer program has reasons, statuses and states that this one does not know. One such row must
// not let the other rows of its run count as applied.
static void a_result_with_an_unknown_value_is_invalid(void **state)
{
    (void)state;
    const struct {
        uint16_t kind;
        size_t at; // of an enum
    } values[] = {{OP_SEND, 9},    {OP_ACK, 9},     {OP_ACK, 10},
                  {OP_SIGNAL, 17}, {OP_SIGNAL, 18}, {OP_SIGNAL_SETTLE, 9}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct result result;
        struct buf b;
        buf_init(&b, SIZE_MAX);
        put_two_rows(&b, values[i].kind);
        assert_int_equal(result_open(buf_bytes(&b), values[i].kind, &result), ERR_OK);
        b.data[values[i].at] = 255;
        assert_int_equal(result_open(buf_bytes(&b), values[i].kind, &result), ERR_INVALID);
        buf_done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(damaged_results_are_invalid),
        CASE(a_result_with_an_unknown_value_is_invalid),
    };
    return RUN(tests);
}
