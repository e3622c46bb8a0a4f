// SPDX-License-Identifier: Apache-2.0
// The codecs of signals, of cancel, and of what acks and renewals carry: what goes in comes out,
// and a value outside its limits is invalid. codec_test.c cuts and damages all of them.
#include "queue_test.h"

static const struct request_id request = {"request id 0123"};
static const uint8_t seqs[16] = {1, 0, 0, 0, 0, 0, 0, 0, 2};

static struct buf payload(void)
{
    struct buf b;
    buf_init(&b, (size_t)1 << 20);
    return b;
}

static struct op_signal steer(void)
{
    return (struct op_signal){.request = request,
                              .kind = SIGNAL_STEER,
                              .flags = SIGNAL_ONCE,
                              .ttl_ms = 5000,
                              .payload = bytes_str("{\"speed\":2}"),
                              .count = 2,
                              .seqs = bytes_of(seqs, sizeof seqs)};
}

static void a_signal_comes_back_as_it_went(void **state)
{
    (void)state;
    struct buf b = payload();
    struct op_signal in = steer(), out;
    signal_encode(&b, &in);
    assert_int_equal(signal_decode(buf_bytes(&b), &out), ERR_OK);
    assert_memory_equal(&out.request, &request, sizeof request);
    assert_int_equal(out.kind, SIGNAL_STEER);
    assert_int_equal(out.flags, SIGNAL_ONCE);
    assert_int_equal(out.ttl_ms, 5000);
    assert_true(bytes_equal(out.payload, in.payload));
    assert_int_equal(out.target, SIGNAL_TO_MESSAGES);
    assert_int_equal(out.count, 2);
    assert_int_equal(op_seq(out.seqs, 0), 1);
    assert_int_equal(op_seq(out.seqs, 1), 2);
    buf_clear(&b);
    in = (struct op_signal){.request = request,
                            .kind = SIGNAL_INTERRUPT,
                            .then = THEN_DEAD_LETTER,
                            .grace_ms = 30000,
                            .reason = bytes_str("too slow"),
                            .target = SIGNAL_TO_WORKER,
                            .name = bytes_str("w1")};
    signal_encode(&b, &in);
    assert_int_equal(signal_decode(buf_bytes(&b), &out), ERR_OK);
    assert_int_equal(out.then, THEN_DEAD_LETTER);
    assert_int_equal(out.grace_ms, 30000);
    assert_true(bytes_equal(out.reason, in.reason));
    assert_true(bytes_equal(out.name, in.name));
    assert_int_equal(out.count, 0);
    assert_int_equal(out.after, 0);
    assert_memory_equal(&out.signal, &request, sizeof request);
    buf_clear(&b);
    in.signal = (struct request_id){.bytes = {9, 8}};
    in.after = 10000;
    signal_encode(&b, &in);
    assert_int_equal(signal_decode(buf_bytes(&b), &out), ERR_OK);
    assert_int_equal(out.after, 10000);
    assert_memory_equal(&out.request, &request, sizeof request);
    assert_memory_equal(&out.signal, &in.signal, sizeof in.signal);
    b.data[b.len - 24] ^= 10000 & 255;
    b.data[b.len - 23] ^= 10000 >> 8;
    assert_int_equal(signal_decode(buf_bytes(&b), &out), ERR_INVALID); // after 0
    buf_done(&b);
}

#define AT_KIND  17 // after the version and the request id
#define AT_FLAGS 18
#define AT_THEN  19
#define AT_TTL   20
#define AT_GRACE 28

static enum err with(size_t at, uint8_t value)
{
    struct buf b = payload();
    struct op_signal op = steer();
    signal_encode(&b, &op);
    b.data[at] = value;
    enum err err = signal_decode(buf_bytes(&b), &op);
    buf_done(&b);
    return err;
}

static void a_signal_outside_its_limits_is_invalid(void **state)
{
    (void)state;
    assert_int_equal(with(AT_KIND, SIGNAL_ASK), ERR_OK);
    assert_int_equal(with(AT_KIND, SIGNAL_INTERRUPT), ERR_INVALID); // it takes no payload
    assert_int_equal(with(AT_KIND, SIGNAL_KIND_COUNT), ERR_INVALID);
    assert_int_equal(with(AT_FLAGS, SIGNAL_FLAGS_ALL), ERR_OK);
    assert_int_equal(with(AT_FLAGS, SIGNAL_FLAGS_ALL + 1), ERR_INVALID);
    assert_int_equal(with(AT_THEN, THEN_RETRY), ERR_INVALID); // only of an interrupt
    assert_int_equal(with(AT_TTL + 7, 0x80), ERR_INVALID);    // negative
    assert_int_equal(with(AT_TTL + 5, 1), ERR_INVALID);       // more than 7 days
    assert_int_equal(with(AT_GRACE, 1), ERR_INVALID);
    struct op_signal op;
    struct buf b = payload();
    op = steer();
    signal_encode(&b, &op);
    memset(b.data + 1, 0, sizeof request); // a signal needs an id
    assert_int_equal(signal_decode(buf_bytes(&b), &op), ERR_INVALID);
    buf_done(&b);
}

static void the_ends_of_signals_come_back_as_they_went(void **state)
{
    (void)state;
    struct buf b = payload(), rows = payload();
    signal_answer_put(&rows,
                      &(struct signal_answer){{7, {1, 2}}, 3, SIGNAL_ACK, bytes_str("half done")});
    signal_answer_put(
        &rows, &(struct signal_answer){{8, {3, 4}}, 1, SIGNAL_DECLINE, bytes_str("not-listening")});
    signal_settle_encode(
        &b, &(struct op_signal_settle){request, {"queue id"}, 4, 99, 2, buf_bytes(&rows)});
    struct op_signal_settle op;
    struct signal_answer row;
    assert_int_equal(signal_settle_decode(buf_bytes(&b), &op), ERR_OK);
    assert_int_equal(op.shard, 4);
    assert_int_equal(op.arrived_at, 99);
    struct reader r = reader_of(op.rows);
    assert_true(signal_answer_next(&r, &row));
    assert_int_equal(row.ref.seq, 7);
    assert_int_equal(row.ref.token.hi, 2);
    assert_int_equal(row.number, 3);
    assert_true(bytes_equal(row.answer, bytes_str("half done")));
    assert_true(signal_answer_next(&r, &row));
    assert_int_equal(row.act, SIGNAL_DECLINE);
    assert_true(reader_end(&r));
    buf_clear(&b);
    struct op_signal_withdraw withdraw;
    signal_withdraw_encode(&b, &(struct op_signal_withdraw){request, {"the signal's id"}, 5});
    assert_int_equal(signal_withdraw_decode(buf_bytes(&b), &withdraw), ERR_OK);
    assert_memory_equal(withdraw.signal.bytes, "the signal's id", 16);
    assert_int_equal(withdraw.seq, 5);
    buf_done(&b);
    buf_done(&rows);
}

static void a_cancel_comes_back_as_it_went(void **state)
{
    (void)state;
    struct buf b = payload();
    struct op_cancel op;
    cancel_encode(
        &b, &(struct op_cancel){request, bytes_str("not needed"), 2, bytes_of(seqs, sizeof seqs)});
    assert_int_equal(cancel_decode(buf_bytes(&b), &op), ERR_OK);
    assert_true(bytes_equal(op.reason, bytes_str("not needed")));
    assert_int_equal(op_seq(op.seqs, 1), 2);
    buf_done(&b);
}

static struct op_outcome outcome(struct buf *refs, struct bytes extras)
{
    buf_clear(refs);
    for (uint64_t i = 1; i <= 2; i++)
        lock_ref_put(refs, &(struct lock_ref){i, {i * 7, i * 9}});
    return (struct op_outcome){.request = request,
                               .queue = {"queue id"},
                               .count = 2,
                               .refs = buf_bytes(refs),
                               .extras = extras};
}

static void an_ack_carries_results(void **state)
{
    (void)state;
    struct buf b = payload(), refs = payload(), extras = payload();
    struct op_outcome op = outcome(&refs, BYTES_EMPTY), out;
    outcome_encode(&b, &op);
    size_t plain = b.len;
    outcome_extra_put(&extras, &(struct outcome_extra){0});
    outcome_extra_put(&extras, &(struct outcome_extra){.has = EXTRA_RESULT,
                                                       .content_type = bytes_str("text/plain"),
                                                       .result = bytes_str("42")});
    op = outcome(&refs, buf_bytes(&extras));
    buf_clear(&b);
    outcome_encode(&b, &op);
    struct op as_op = {OP_ACK, buf_bytes(&b)};
    struct request_id id;
    assert_true(op_request(&as_op, &id));
    assert_memory_equal(&id, &request, sizeof id);
    assert_int_equal(outcome_decode(buf_bytes(&b), &out), ERR_OK);
    assert_int_equal(outcome_extra_of(&out, 0).has, 0);
    struct outcome_extra extra = outcome_extra_of(&out, 1);
    assert_int_equal(extra.has, EXTRA_RESULT);
    assert_true(bytes_equal(extra.content_type, bytes_str("text/plain")));
    assert_true(bytes_equal(extra.result, bytes_str("42")));
    for (size_t len = 0; len < b.len; len++) // an ack without results is whole, too
        assert_int_equal(outcome_decode(bytes_of(b.data, len), &out),
                         len == plain ? ERR_OK : ERR_INVALID);
    buf_done(&b);
    buf_done(&refs);
    buf_done(&extras);
}

static void a_renew_carries_progress(void **state)
{
    (void)state;
    struct buf b = payload(), refs = payload(), extras = payload();
    outcome_extra_put(&extras, &(struct outcome_extra){.has = EXTRA_PROGRESS,
                                                       .percent = 40,
                                                       .text = bytes_str("page 4 of 10")});
    outcome_extra_put(&extras, &(struct outcome_extra){0});
    struct op_outcome op = outcome(&refs, buf_bytes(&extras)), out;
    outcome_encode(&b, &op);
    assert_int_equal(outcome_decode(buf_bytes(&b), &out), ERR_OK);
    struct outcome_extra extra = outcome_extra_of(&out, 0);
    assert_int_equal(extra.percent, 40);
    assert_true(bytes_equal(extra.text, bytes_str("page 4 of 10")));
    size_t percent_at = b.len - extras.len + 1;
    b.data[percent_at] = PROGRESS_PERCENT_MAX + 1;
    assert_int_equal(outcome_decode(buf_bytes(&b), &out), ERR_INVALID);
    buf_clear(&b);
    buf_clear(&extras);
    outcome_extra_put(&extras, &(struct outcome_extra){0});
    outcome_extra_put(&extras, &(struct outcome_extra){0});
    op = outcome(&refs,
                 buf_bytes(&extras)); // it says nothing: an ack without extras is its only form
    outcome_encode(&b, &op);
    assert_int_equal(outcome_decode(buf_bytes(&b), &out), ERR_INVALID);
    buf_done(&b);
    buf_done(&refs);
    buf_done(&extras);
}

// The stored form of each op, written by hand after docs/format.md. It must never change.
// clang-format off
static const uint8_t golden_signal[] = {
    1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x30, 0x75, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0x73, 0x6c, 0x6f, 0x77,
    0, 0, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0,
    0, 9, 0, 0, 0, 0, 0, 0, 0,
};
static const uint8_t golden_settle[] = {
    1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
    5, 3, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0,
    0, 7, 0, 0, 0, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 0,
    0, 0x22, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 0,
    0, 0, 0x6e, 0x6f,
};
static const uint8_t golden_withdraw[] = {
    1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 7, 0, 0, 0, 0, 0, 0, 0,
};
static const uint8_t golden_cancel[] = {
    1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 3, 0, 0, 0, 0x6f, 0x6c, 0x64, 1, 0, 0, 0, 7, 0, 0, 0,
    0, 0, 0, 0,
};
static const uint8_t golden_ack[] = {
    1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
    5, 3, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0,
    0, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0,
    0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0x33, 0, 0,
    0, 0, 0, 0, 0, 0x44, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0,
    0, 0, 0x61, 0x2f, 0x62, 2, 0, 0, 0, 0x34, 0x32, 0,
};
static const uint8_t golden_renew[] = {
    1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
    5, 3, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0,
    0, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0,
    0, 0, 0, 0, 0, 2, 0x28, 4, 0, 0, 0, 0x68, 0x61, 0x6c, 0x66,
};
// clang-format on

#define IS_GOLDEN(b, name)                                                                         \
    do {                                                                                           \
        assert_int_equal((b).len, sizeof golden_##name);                                           \
        assert_memory_equal((b).data, golden_##name, (b).len);                                     \
        buf_clear(&(b));                                                                           \
    } while (0)

static void put_pair(struct buf *refs, uint64_t seq, uint64_t lo, uint64_t hi)
{
    lock_ref_put(refs, &(struct lock_ref){seq, {lo, hi}});
}

static void the_stored_form_of_each_op_is_the_documented_one(void **state)
{
    (void)state;
    const struct request_id id = {.bytes = {1}};
    struct queue_id queue;
    struct buf b, rows;
    memset(queue.bytes, 5, sizeof queue.bytes);
    buf_init(&b, 4096);
    buf_init(&rows, 4096);
    buf_put_u64(&rows, 7);
    buf_put_u64(&rows, 9);
    signal_encode(&b, &(struct op_signal){.request = id,
                                          .kind = SIGNAL_INTERRUPT,
                                          .then = THEN_RETRY,
                                          .grace_ms = 30000,
                                          .reason = bytes_str("slow"),
                                          .count = 2,
                                          .seqs = buf_bytes(&rows)});
    IS_GOLDEN(b, signal);
    cancel_encode(
        &b, &(struct op_cancel){id, bytes_str("old"), 1, bytes_of(rows.data, sizeof(uint64_t))});
    IS_GOLDEN(b, cancel);
    buf_clear(&rows);
    signal_answer_put(
        &rows, &(struct signal_answer){{7, {0x11, 0x22}}, 4, SIGNAL_DECLINE, bytes_str("no")});
    signal_settle_encode(&b, &(struct op_signal_settle){id, queue, 3, 1000, 1, buf_bytes(&rows)});
    IS_GOLDEN(b, settle);
    signal_withdraw_encode(&b, &(struct op_signal_withdraw){id, {.bytes = {2}}, 7});
    IS_GOLDEN(b, withdraw);
    struct buf extras;
    buf_init(&extras, 4096);
    buf_clear(&rows);
    put_pair(&rows, 7, 0x11, 0x22);
    outcome_extra_put(
        &extras,
        &(struct outcome_extra){.has = EXTRA_PROGRESS, .percent = 40, .text = bytes_str("half")});
    struct op_outcome op = {.request = id,
                            .queue = queue,
                            .shard = 3,
                            .arrived_at = 1000,
                            .count = 1,
                            .refs = buf_bytes(&rows),
                            .extras = buf_bytes(&extras)};
    outcome_encode(&b, &op);
    IS_GOLDEN(b, renew);
    buf_clear(&extras);
    put_pair(&rows, 8, 0x33, 0x44);
    outcome_extra_put(&extras, &(struct outcome_extra){.has = EXTRA_RESULT,
                                                       .content_type = bytes_str("a/b"),
                                                       .result = bytes_str("42")});
    outcome_extra_put(&extras, &(struct outcome_extra){0});
    op.count = 2;
    op.refs = buf_bytes(&rows);
    op.extras = buf_bytes(&extras);
    outcome_encode(&b, &op);
    IS_GOLDEN(b, ack);
    buf_done(&b);
    buf_done(&rows);
    buf_done(&extras);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_stored_form_of_each_op_is_the_documented_one),
        CASE(a_signal_comes_back_as_it_went),
        CASE(a_signal_outside_its_limits_is_invalid),
        CASE(the_ends_of_signals_come_back_as_they_went),
        CASE(a_cancel_comes_back_as_it_went),
        CASE(an_ack_carries_results),
        CASE(a_renew_carries_progress),
    };
    return RUN(tests);
}
