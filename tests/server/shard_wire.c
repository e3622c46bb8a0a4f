// SPDX-License-Identifier: Apache-2.0
// What a process asks the owner of a shard, and the owner's answer: what goes in comes out. And the
// table of where a part of a call is done.
#include "protocol/shard_wire.h"
#include "../unit/unit.h"

#include <stdio.h>
#include <string.h>

#define BYTES_MAX 65536

static struct shard_ask ask_of(enum shard_ask_kind kind)
{
    struct shard_ask ask = {.kind = kind,
                            .queue.bytes = "0123456789abcde",
                            .shard = 70000,
                            .wait_ms = SHARD_WAIT_MAX_MS,
                            .flags = kind == SHARD_SUBMIT  ? SHARD_ASK_TELLS
                                     : kind == SHARD_CLAIM ? SHARD_ASK_REPEATS
                                                           : 0,
                            .op = {OP_ACK, bytes_str("an op\xff")},
                            .worker = bytes_str("me"),
                            .claim = {.request.bytes = "request of mine",
                                      .seed = {1, 2, 3},
                                      .worker = bytes_str("me"),
                                      .max = CLAIM_COUNT_MAX,
                                      .lease_ms = LEASE_MAX_MS}};
    return ask;
}

static void put(struct buf *b, const struct shard_ask *ask)
{
    static const uint32_t shards[] = {3, UINT32_MAX, 0};
    buf_init(b, BYTES_MAX);
    if (ask->kind == SHARD_AWAIT)
        shard_ask_put_await(b, ask, shards, 3);
    else
        shard_ask_put(b, ask);
}

static void same_claim(const struct op_claim *a, const struct op_claim *b)
{
    assert_memory_equal(a->request.bytes, b->request.bytes, sizeof a->request.bytes);
    assert_memory_equal(a->seed, b->seed, sizeof a->seed);
    assert_true(bytes_equal(a->worker, b->worker));
    assert_int_equal(a->max, b->max);
    assert_int_equal(a->lease_ms, b->lease_ms);
}

static void asks_of_every_kind_come_out_as_they_went_in(void **state)
{
    (void)state;
    for (int kind = SHARD_SUBMIT; kind <= SHARD_AWAIT; kind++) {
        struct shard_ask ask = ask_of((enum shard_ask_kind)kind), out;
        CLEANUP(buf_done) struct buf b;
        put(&b, &ask);
        assert_true(shard_ask_read(buf_bytes(&b), &out));
        assert_int_equal(out.kind, ask.kind);
        assert_memory_equal(out.queue.bytes, ask.queue.bytes, sizeof ask.queue.bytes);
        assert_int_equal(out.shard, ask.shard);
        assert_int_equal(out.wait_ms, ask.wait_ms);
        assert_int_equal(out.flags, ask.flags);
        if (kind == SHARD_SUBMIT || kind == SHARD_SUBMIT_CLAIM) {
            assert_int_equal(out.op.kind, OP_ACK);
            assert_true(bytes_equal(out.op.payload, ask.op.payload));
        }
        if (kind == SHARD_CLAIM || kind == SHARD_SUBMIT_CLAIM) same_claim(&out.claim, &ask.claim);
        if (kind != SHARD_AWAIT) continue;
        assert_true(bytes_equal(out.worker, ask.worker));
        assert_int_equal(out.shards_len, 3);
        assert_int_equal(shard_ask_await(&out, 0), 3);
        assert_int_equal(shard_ask_await(&out, 1), UINT32_MAX);
        assert_int_equal(shard_ask_await(&out, 2), 0);
    }
}

static void an_ask_that_was_cut_or_extended_is_refused(void **state)
{
    (void)state;
    for (int kind = SHARD_SUBMIT; kind <= SHARD_AWAIT; kind++) {
        struct shard_ask ask = ask_of((enum shard_ask_kind)kind), out;
        CLEANUP(buf_done) struct buf b;
        put(&b, &ask);
        for (size_t len = 0; len < b.len; len++)
            assert_false(shard_ask_read(bytes_of(b.data, len), &out));
        buf_put_u8(&b, 0);
        assert_false(shard_ask_read(buf_bytes(&b), &out));
    }
}

static void a_version_kind_or_flag_that_is_not_known_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 0}, {0, 2}, {1, 0}, {1, 6}, {29, 0xff}, {30, 8}}; // 29: a negative wait
    struct shard_ask ask = ask_of(SHARD_SUBMIT), out;
    CLEANUP(buf_done) struct buf b;
    put(&b, &ask);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t before = b.data[wrong[i].at];
        b.data[wrong[i].at] = wrong[i].value;
        if (shard_ask_read(buf_bytes(&b), &out))
            fail_msg("byte %zu = %u was accepted", wrong[i].at, wrong[i].value);
        b.data[wrong[i].at] = before;
    }
    assert_true(shard_ask_read(buf_bytes(&b), &out));
}

static void a_poll_for_signals_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct listen_ask asks[] = {{{7, {1, 2}}, 3}, {{9, {4, 5}}, 0}};
    struct shard_listen what = {.asks = asks, .len = 2}, end = {.signal = {{1, 2, 3}}, .seq = 17};
    struct shard_ask ask = ask_of(SHARD_LISTEN), out;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, BYTES_MAX);
    ask.wait_ms = 9;
    shard_ask_put_listen(&b, &ask, &what);
    assert_true(shard_ask_read(buf_bytes(&b), &out));
    assert_int_equal(out.tokens_len, 2);
    assert_int_equal(shard_ask_token(&out, 1).ref.seq, 9);
    assert_int_equal(shard_ask_token(&out, 0).after, 3);
    for (size_t len = 0; len < b.len; len++)
        assert_false(shard_ask_read(bytes_of(b.data, len), &out));
    buf_clear(&b);
    shard_ask_put_listen(&b, &ask, &end);
    assert_true(shard_ask_read(buf_bytes(&b), &out));
    assert_int_equal(out.tokens_len, 0);
    assert_int_equal(out.seq, 17);
    assert_memory_equal(out.signal.bytes, end.signal.bytes, 16);
}

static void signals_of_an_answer_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct kept_reply a;
    struct shard_part part;
    bool moved;
    kept_reply_init(&a);
    a.signals = kept_signals_new(2);
    a.signals->rows[0] = (struct signal_delivery){.index = 3, .reason = REASON_LOCK_EXPIRED};
    a.signals->rows[1] = (struct signal_delivery){
        .view = {.seq = 7, .number = 2, .kind = SIGNAL_ASK, .sent_at = 1900, .deliveries = 1},
        .text = bytes_str("how far"),
        .kept = true};
    struct buf b;
    buf_init(&b, BYTES_MAX);
    shard_answer_begin(&b, false, 1);
    shard_answer_put(&b, ERR_OK, false, &a);
    for (size_t len = 0; len < b.len; len++) {
        struct buf cut;
        buf_init(&cut, BYTES_MAX);
        buf_put(&cut, bytes_of(b.data, len));
        assert_false(shard_answer_read(&cut, &moved, &part, 1));
        kept_reply_done(&part.answer);
        buf_done(&cut);
    }
    assert_true(shard_answer_read(&b, &moved, &part, 1));
    assert_int_equal(part.answer.signals->len, 2);
    assert_int_equal(part.answer.signals->rows[0].reason, REASON_LOCK_EXPIRED);
    const struct signal_delivery *row = &part.answer.signals->rows[1];
    assert_int_equal(row->view.number, 2);
    assert_int_equal(row->view.kind, SIGNAL_ASK);
    assert_true(row->kept && bytes_equal(row->text, bytes_str("how far")));
    kept_reply_done(&part.answer);
    kept_reply_done(&a);
    buf_done(&b);
}

static void put_claimed(struct buf *to)
{
    CLEANUP(buf_done) struct buf headers;
    buf_init(&headers, BYTES_MAX);
    headers_put(&headers, bytes_str("colour"), bytes_str("green"));
    struct delivery rows[] = {
        {.grant = {.seq = 7,
                   .place = {9, 2},
                   .token = {1, 2},
                   .fence = 3,
                   .deadline = 1900,
                   .deliveries = 4,
                   .retries = 5},
         .sent_at = 1800,
         .dead_letter_headers_len = headers.len,
         .message = {.priority = 9,
                     .group = bytes_str("g"),
                     .dedup = bytes_str("d"),
                     .content_type = bytes_str("text/plain"),
                     .workflow = bytes_str("w"),
                     .headers = buf_bytes(&headers),
                     .body = bytes_of("\0\xff", 2)}},
        {.grant = {.seq = 8, .order = UINT64_MAX},
         .message = {.reference = {bytes_str("an object"), (uint64_t)5 << 30, 1700}}}};
    struct kept_reply a;
    kept_reply_init(&a);
    buf_put(&a.body, bytes_str("granted"));
    a.deliveries = rows;
    a.deliveries_len = 2;
    size_t before = to->len;
    shard_answer_put(to, ERR_OK, false, &a);
    assert_true(to->len - before <= shard_answer_weight(&a) + 64);
    a.deliveries = NULL;
    a.deliveries_len = 0;
    kept_reply_done(&a);
}

static void same_deliveries(const struct kept_reply *a)
{
    assert_int_equal(a->deliveries_len, 2);
    const struct delivery *one = &a->deliveries[0], *two = &a->deliveries[1];
    assert_int_equal(one->grant.seq, 7);
    assert_int_equal(one->grant.place.slot, 9);
    assert_int_equal(one->grant.place.skip, 2);
    assert_true(hash128_equal(one->grant.token, (struct hash128){1, 2}));
    assert_int_equal(one->grant.fence, 3);
    assert_int_equal(one->grant.deadline, 1900);
    assert_int_equal(one->grant.deliveries, 4);
    assert_int_equal(one->grant.retries, 5);
    assert_int_equal(one->sent_at, 1800);
    assert_int_equal(one->dead_letter_headers_len, one->message.headers.len);
    assert_int_equal(one->message.priority, 9);
    assert_true(bytes_equal(one->message.group, bytes_str("g")));
    assert_true(bytes_equal(one->message.dedup, bytes_str("d")));
    assert_true(bytes_equal(one->message.content_type, bytes_str("text/plain")));
    assert_true(bytes_equal(one->message.workflow, bytes_str("w")));
    assert_true(headers_ok(one->message.headers) && one->message.headers.len > 0);
    assert_true(bytes_equal(one->message.body, bytes_of("\0\xff", 2)));
    assert_true(two->grant.order == UINT64_MAX);
    assert_true(bytes_equal(two->message.reference.name, bytes_str("an object")));
    assert_true(two->message.reference.len == (uint64_t)5 << 30);
    assert_int_equal(two->message.reference.uploaded_at, 1700);
}

// An op that the store failed, and the claim behind it.
static void put_pair(struct buf *to)
{
    struct kept_reply a;
    kept_reply_init(&a);
    buf_init(to, BYTES_MAX);
    shard_answer_begin(to, false, 2);
    char why[] = "the store is slow";
    a.why = why;
    shard_answer_put(to, ERR_UNKNOWN, true, &a);
    a.why = NULL;
    put_claimed(to);
    kept_reply_done(&a);
}

static void release(struct shard_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++)
        kept_reply_done(&parts[i].answer);
}

static void an_answer_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct shard_part parts[SHARD_PARTS_MAX];
    CLEANUP(buf_done) struct buf b;
    bool moved = true;
    put_pair(&b);
    assert_true(shard_answer_read(&b, &moved, parts, 2));
    assert_false(moved);
    assert_int_equal(b.len, 0); // it is the last part's now
    assert_int_equal(parts[0].err, ERR_UNKNOWN);
    assert_true(parts[0].remembered);
    assert_string_equal(parts[0].answer.why, "the store is slow");
    assert_int_equal(parts[0].answer.body.len, 0);
    assert_int_equal(parts[1].err, ERR_OK);
    assert_false(parts[1].remembered);
    assert_null(parts[1].answer.why);
    assert_true(bytes_equal(buf_bytes(&parts[1].answer.body), bytes_str("granted")));
    same_deliveries(&parts[1].answer);
    release(parts, 2);
}

static void a_node_that_does_not_own_the_shard_answers_without_parts(void **state)
{
    (void)state;
    for (uint8_t len = 1; len <= SHARD_PARTS_MAX; len++) {
        struct shard_part parts[SHARD_PARTS_MAX];
        CLEANUP(buf_done) struct buf b;
        bool moved = false;
        buf_init(&b, BYTES_MAX);
        shard_answer_begin(&b, true, 0);
        assert_true(shard_answer_read(&b, &moved, parts, len));
        assert_true(moved);
        release(parts, len);
    }
}

static void an_answer_that_was_cut_or_has_other_parts_is_refused(void **state)
{
    (void)state;
    struct shard_part parts[SHARD_PARTS_MAX];
    CLEANUP(buf_done) struct buf all;
    bool moved;
    put_pair(&all);
    for (size_t len = 0; len <= all.len; len++) {
        CLEANUP(buf_done) struct buf b;
        uint8_t wanted = len < all.len ? 2 : 1; // the whole answer, read as one part
        buf_init(&b, BYTES_MAX);
        buf_put(&b, bytes_of(all.data, len));
        assert_false(shard_answer_read(&b, &moved, parts, wanted));
        release(parts, wanted);
    }
}

static void awaited_shards_come_out_as_they_went_in(void **state)
{
    (void)state;
    static const struct shard_await_row rows[] = {{4, ERR_OK}, {UINT32_MAX, ERR_UNAVAILABLE}};
    struct shard_await_row out[2];
    for (size_t len = 0; len <= 2; len++) {
        CLEANUP(buf_done) struct buf b;
        bool moved = true;
        buf_init(&b, BYTES_MAX);
        shard_awaited_put(&b, false, rows, len);
        assert_int_equal(shard_awaited_read(buf_bytes(&b), &moved, out, 2), len);
        assert_false(moved);
        for (size_t i = 0; i < len; i++) {
            assert_int_equal(out[i].shard, rows[i].shard);
            assert_int_equal(out[i].err, rows[i].err);
        }
        if (len > 0)
            assert_true(shard_awaited_read(buf_bytes(&b), &moved, out, len - 1) == SIZE_MAX);
        for (size_t cut = 0; cut < b.len; cut++)
            assert_true(shard_awaited_read(bytes_of(b.data, cut), &moved, out, 2) == SIZE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_of_every_kind_come_out_as_they_went_in),
        cmocka_unit_test(an_ask_that_was_cut_or_extended_is_refused),
        cmocka_unit_test(a_version_kind_or_flag_that_is_not_known_is_refused),
        cmocka_unit_test(a_poll_for_signals_comes_out_as_it_went_in),
        cmocka_unit_test(signals_of_an_answer_come_out_as_they_went_in),
        cmocka_unit_test(an_answer_comes_out_as_it_went_in),
        cmocka_unit_test(a_node_that_does_not_own_the_shard_answers_without_parts),
        cmocka_unit_test(an_answer_that_was_cut_or_has_other_parts_is_refused),
        cmocka_unit_test(awaited_shards_come_out_as_they_went_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
