// SPDX-License-Identifier: Apache-2.0
// Any bytes as the ops of signals, as a cancel, and as an ack with results: what is accepted has
// one encoding.
#include "base/check.h"
#include "fuzz.h"
#include "queue/codec/ops_signals.h"

#define BUFFER_MAX ((size_t)4 << 20)

static void same(struct bytes input, struct buf *again)
{
    CHECK(!again->bad && bytes_equal(buf_bytes(again), input));
    buf_clear(again);
}

static void read_as_ops(struct bytes input)
{
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, BUFFER_MAX);
    struct op_signal signal;
    if (!signal_decode(input, &signal)) {
        signal_encode(&again, &signal);
        same(input, &again);
    }
    struct op_signal_settle settle;
    if (!signal_settle_decode(input, &settle)) {
        signal_settle_encode(&again, &settle);
        same(input, &again);
    }
    struct op_signal_withdraw withdraw;
    if (!signal_withdraw_decode(input, &withdraw)) {
        signal_withdraw_encode(&again, &withdraw);
        same(input, &again);
    }
    struct op_cancel cancel;
    if (!cancel_decode(input, &cancel)) {
        cancel_encode(&again, &cancel);
        same(input, &again);
    }
    struct op_outcome outcome;
    if (!outcome_decode(input, &outcome)) {
        outcome_encode(&again, &outcome);
        same(input, &again);
        for (uint32_t i = 0; i < outcome.count; i++)
            (void)outcome_extra_of(&outcome, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    read_as_ops(bytes_of(data, len));
    return 0;
}
