// SPDX-License-Identifier: Apache-2.0
// Every op's codec: what goes in comes out, and damage of any kind is INVALID or something else
// that is allowed, never trouble.
#include "queue_test.h"

#include "base/rng.h"
#include "queue/codec/send_codec.h"

static struct buf payload(void)
{
    struct buf b;
    buf_init(&b, (size_t)1 << 20);
    return b;
}

static const struct request_id request = {"request id 0123"};

static void put_message(struct buf *b)
{
    struct buf headers = payload();
    headers_put(&headers, bytes_str("trace"), bytes_str("abc"));
    headers_put(&headers, bytes_str("empty"), BYTES_EMPTY);
    send_add(b, &(struct message){.group = bytes_str("customer-1"),
                                  .dedup = bytes_str("order-17"),
                                  .content_type = bytes_str("application/json"),
                                  .workflow = bytes_str("checkout"),
                                  .headers = buf_bytes(&headers),
                                  .body = bytes_str("{}"),
                                  .priority = 7,
                                  .when = WHEN_DELAY,
                                  .when_ms = 1234});
    buf_done(&headers);
}

#define NAME_77                                                                                    \
    "00000000000000000055-000000000000004d0000000000000001-00000000000000030000000000000002"

static void put_send(struct buf *b)
{
    send_begin(b, &request);
    put_message(b);
    send_add(b, &(struct message){.body = bytes_str("plain"), .requires = BYTES_EMPTY});
    char name[BODY_NAME_LEN + 1];
    struct message big = uploaded(name, 55, 77);
    big.reference.len = 999;
    big.when = WHEN_DUE;
    big.when_ms = 66;
    send_add(b, &big);
    send_end(b, 0, 3);
}

static void put_claim(struct buf *b)
{
    claim_encode(b, &(struct op_claim){request, "seed of 16 byte", bytes_str("w"), 10, 5000});
}

static void put_outcome(struct buf *b)
{
    struct buf refs = payload();
    for (uint64_t i = 1; i <= 3; i++)
        lock_ref_put(&refs, &(struct lock_ref){i, {i * 7, i * 9}});
    outcome_encode(b, &(struct op_outcome){.request = request,
                                           .queue = {"queue id"},
                                           .shard = 4,
                                           .arrived_at = 99,
                                           .wait_ms = 7,
                                           .reason = bytes_str("why"),
                                           .count = 3,
                                           .refs = buf_bytes(&refs)});
    buf_done(&refs);
}

static void put_publish(struct buf *b)
{
    struct buf rows = payload();
    ticket_row_put(&rows, &(struct ticket_row){bytes_str("w1"), 3});
    ticket_row_put(&rows, &(struct ticket_row){bytes_str("w2"), 4});
    publish_encode(b,
                   &(struct op_publish){
                       .request = request, .ticket_ms = 5, .count = 2, .rows = buf_bytes(&rows)});
    buf_done(&rows);
}

static void put_arrive(struct buf *b)
{
    arrive_encode(b, &(struct op_arrive){.request = request,
                                         .source = {"source id"},
                                         .source_shard = 2,
                                         .number = 3,
                                         .origin = bytes_str("orders"),
                                         .origin_seq = 4,
                                         .retries = 5,
                                         .deliveries = 6,
                                         .cause = DEAD_DELIVERIES,
                                         .died_at = 7,
                                         .reason = bytes_str("boom"),
                                         .message = {.body = bytes_str("body")}});
}

static void put_workers(struct buf *b)
{
    struct buf rows = payload();
    worker_change_put(&rows, &(struct worker_change){.act = WORKER_JOIN,
                                                     .name = bytes_str("w1"),
                                                     .instance = 77,
                                                     .capacity = 8,
                                                     .ttl_ms = 60000,
                                                     .flags = WORKER_MAILBOX,
                                                     .labels = bytes_str("host=a7,kind=gpu")});
    worker_change_put(&rows, &(struct worker_change){
                                 .act = WORKER_BEAT, .name = bytes_str("w2"), .instance = 78});
    worker_change_put(&rows, &(struct worker_change){.act = WORKER_EVICT, .name = bytes_str("w3")});
    workers_encode(b, &(struct op_workers){request, 3, buf_bytes(&rows)});
    buf_done(&rows);
}

static void put_settle(struct buf *b)
{
    struct buf rows = payload();
    signal_answer_put(
        &rows, &(struct signal_answer){
                   .ref = {7, {1, 2}}, .number = 3, .act = SIGNAL_ACK, .answer = bytes_str("{}")});
    signal_answer_put(&rows, &(struct signal_answer){.ref = {8, {3, 4}},
                                                     .number = 1,
                                                     .act = SIGNAL_DECLINE,
                                                     .answer = bytes_str("not-listening")});
    signal_settle_encode(b, &(struct op_signal_settle){.request = request,
                                                       .queue = {"queue id"},
                                                       .shard = 4,
                                                       .arrived_at = 99,
                                                       .count = 2,
                                                       .rows = buf_bytes(&rows)});
    buf_done(&rows);
}

static void put_any(struct buf *b, uint16_t kind)
{
    const uint8_t seqs[16] = {1, 0, 0, 0, 0, 0, 0, 0, 2};
    struct op_configure configure = {.request = request, .expected = 3, .config = defaults()};
    switch (kind) {
    case OP_SEND:
        put_send(b);
        break;
    case OP_CLAIM:
    case OP_TAKE:
        put_claim(b);
        break;
    case OP_RENEW:
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
        put_outcome(b);
        break;
    case OP_PUBLISH:
        put_publish(b);
        break;
    case OP_CONFIGURE:
        configure_encode(b, &configure);
        break;
    case OP_PURGE:
        purge_encode(b, &(struct op_purge){request, true});
        break;
    case OP_REDRIVE:
        redrive_encode(b, &(struct op_redrive){request, 9, 2, bytes_of(seqs, sizeof seqs)});
        break;
    case OP_ARRIVE:
        put_arrive(b);
        break;
    case OP_OUTBOX:
        outbox_encode(b, &(struct op_outbox){request, 17});
        break;
    case OP_SPENT:
        spent_encode(b, &(struct op_spent){request, {18, 19, 20}});
        break;
    case OP_RAISE:
        raise_encode(b, &(struct op_raise){request, 2});
        break;
    case OP_WORKERS:
        put_workers(b);
        break;
    case OP_DISPATCH:
        dispatch_encode(b, &(struct op_dispatch){request, "seed of 16 byte", 5000, 17});
        break;
    case OP_PUBLISHED:
        published_encode(b, &(struct op_published){request, 17, 99, PUBLISHED_STOP});
        break;
    case OP_SIGNAL:
        signal_encode(b, &(struct op_signal){.request = request,
                                             .kind = SIGNAL_INTERRUPT,
                                             .then = THEN_RETRY,
                                             .grace_ms = 30000,
                                             .reason = bytes_str("stop"),
                                             .count = 2,
                                             .seqs = bytes_of(seqs, sizeof seqs)});
        break;
    case OP_SIGNAL_SETTLE:
        put_settle(b);
        break;
    case OP_SIGNAL_WITHDRAW:
        signal_withdraw_encode(b, &(struct op_signal_withdraw){request, request, 5});
        break;
    case OP_CANCEL:
        cancel_encode(
            b, &(struct op_cancel){request, bytes_str("why"), 2, bytes_of(seqs, sizeof seqs)});
        break;
    case OP_LOCK:
        lock_encode(b, &(struct op_lock){.request = request,
                                         .seed = "seed of 16 byte",
                                         .worker = bytes_str("redrive"),
                                         .lease_ms = 5000,
                                         .count = 2,
                                         .seqs = bytes_of(seqs, sizeof seqs)});
        break;
    default:
        plain_encode(b, &(struct op_plain){request});
        break;
    }
}

static void a_send_comes_back_as_it_went(void **state)
{
    (void)state;
    struct buf b = payload();
    put_send(&b);
    struct op_send op;
    struct message m;
    assert_int_equal(send_open(buf_bytes(&b), &op), ERR_OK);
    assert_memory_equal(&op.request, &request, sizeof request);
    assert_int_equal(op.count, 3);
    send_next(&op, &m);
    assert_true(bytes_equal(m.group, bytes_str("customer-1")));
    assert_true(bytes_equal(m.dedup, bytes_str("order-17")));
    assert_true(bytes_equal(m.content_type, bytes_str("application/json")));
    assert_true(bytes_equal(m.workflow, bytes_str("checkout")));
    assert_true(bytes_equal(m.body, bytes_str("{}")));
    assert_int_equal(m.priority, 7);
    assert_int_equal(m.when, WHEN_DELAY);
    assert_int_equal(m.when_ms, 1234);
    struct reader headers = reader_of(m.headers);
    struct bytes name, value;
    assert_true(headers_next(&headers, &name, &value));
    assert_true(bytes_equal(name, bytes_str("trace")) && bytes_equal(value, bytes_str("abc")));
    assert_true(headers_next(&headers, &name, &value));
    assert_true(bytes_equal(name, bytes_str("empty")) && value.len == 0);
    assert_false(headers_next(&headers, &name, &value));
    send_next(&op, &m);
    assert_true(bytes_equal(m.body, bytes_str("plain")));
    assert_int_equal(m.when, WHEN_NOW);
    send_next(&op, &m);
    assert_true(bytes_equal(m.reference.name, bytes_str(NAME_77)));
    assert_int_equal(message_body_len(&m), 999);
    assert_int_equal(m.reference.uploaded_at, 55);
    assert_int_equal(m.when, WHEN_DUE);
    buf_done(&b);
}

static void outcomes_and_tickets_come_back_as_they_went(void **state)
{
    (void)state;
    struct buf b = payload();
    put_outcome(&b);
    struct op_outcome op;
    assert_int_equal(outcome_decode(buf_bytes(&b), &op), ERR_OK);
    assert_int_equal(op.shard, 4);
    assert_int_equal(op.arrived_at, 99);
    assert_int_equal(op.wait_ms, 7);
    assert_true(bytes_equal(op.reason, bytes_str("why")));
    struct lock_ref ref = outcome_ref(&op, 2);
    assert_int_equal(ref.seq, 3);
    assert_int_equal(ref.token.lo, 21);
    assert_int_equal(ref.token.hi, 27);
    buf_clear(&b);
    put_publish(&b);
    struct op_publish publish;
    assert_int_equal(publish_decode(buf_bytes(&b), &publish), ERR_OK);
    struct reader rows = reader_of(publish.rows);
    struct ticket_row row;
    assert_true(ticket_row_next(&rows, &row) && ticket_row_next(&rows, &row));
    assert_int_equal(row.max, 4);
    assert_true(bytes_equal(row.worker, bytes_str("w2")));
    buf_done(&b);
}

static void the_small_ops_come_back_as_they_went(void **state)
{
    (void)state;
    struct buf b = payload();
    struct op_claim claim;
    put_claim(&b);
    assert_int_equal(claim_decode(buf_bytes(&b), &claim), ERR_OK);
    assert_memory_equal(claim.seed, "seed of 16 byte", 16);
    assert_int_equal(claim.max, 10);
    assert_int_equal(claim.lease_ms, 5000);
    buf_clear(&b);
    struct op_redrive redrive;
    put_any(&b, OP_REDRIVE);
    assert_int_equal(redrive_decode(buf_bytes(&b), &redrive), ERR_OK);
    assert_int_equal(op_seq(redrive.seqs, 1), 2);
    buf_clear(&b);
    struct op_configure configure;
    put_any(&b, OP_CONFIGURE);
    assert_int_equal(configure_decode(buf_bytes(&b), &configure), ERR_OK);
    assert_int_equal(configure.expected, 3);
    assert_int_equal(configure.config.retries_max, 5);
    buf_clear(&b);
    struct op_arrive arrive;
    put_arrive(&b);
    assert_int_equal(arrive_decode(buf_bytes(&b), &arrive), ERR_OK);
    assert_int_equal(arrive.number, 3);
    assert_int_equal(arrive.origin_seq, 4);
    assert_int_equal(arrive.retries, 5);
    assert_int_equal(arrive.cause, DEAD_DELIVERIES);
    assert_int_equal(arrive.died_at, 7);
    assert_true(bytes_equal(arrive.origin, bytes_str("orders")));
    assert_true(bytes_equal(arrive.reason, bytes_str("boom")));
    assert_true(bytes_equal(arrive.message.body, bytes_str("body")));
    buf_clear(&b);
    struct op_outbox outbox;
    put_any(&b, OP_OUTBOX);
    assert_int_equal(outbox_decode(buf_bytes(&b), &outbox), ERR_OK);
    assert_int_equal(outbox.upto, 17);
    buf_clear(&b);
    struct op_spent spent;
    put_any(&b, OP_SPENT);
    assert_int_equal(spent_decode(buf_bytes(&b), &spent), ERR_OK);
    assert_int_equal(spent.cost.writes, 18);
    assert_int_equal(spent.cost.reads, 19);
    assert_int_equal(spent.cost.deletes, 20);
    buf_clear(&b);
    struct op_raise raise;
    put_any(&b, OP_RAISE);
    assert_int_equal(raise_decode(buf_bytes(&b), &raise), ERR_OK);
    assert_int_equal(raise.to, 2);
    buf_done(&b);
}

static void the_ops_of_workers_come_back_as_they_went(void **state)
{
    (void)state;
    struct buf b = payload();
    struct op_workers op;
    struct worker_change row;
    put_workers(&b);
    assert_int_equal(workers_decode(buf_bytes(&b), &op), ERR_OK);
    assert_int_equal(op.count, 3);
    struct reader rows = reader_of(op.rows);
    assert_true(worker_change_next(&rows, &row));
    assert_int_equal(row.act, WORKER_JOIN);
    assert_int_equal(row.instance, 77);
    assert_int_equal(row.capacity, 8);
    assert_int_equal(row.ttl_ms, 60000);
    assert_int_equal(row.flags, WORKER_MAILBOX);
    assert_true(bytes_equal(row.name, bytes_str("w1")));
    assert_true(bytes_equal(row.labels, bytes_str("host=a7,kind=gpu")));
    assert_true(worker_change_next(&rows, &row) && worker_change_next(&rows, &row));
    assert_int_equal(row.act, WORKER_EVICT);
    assert_true(reader_end(&rows));
    buf_clear(&b);
    struct op_dispatch dispatch;
    put_any(&b, OP_DISPATCH);
    assert_int_equal(dispatch_decode(buf_bytes(&b), &dispatch), ERR_OK);
    assert_int_equal(dispatch.max, 17);
    assert_int_equal(dispatch.ticket_ms, 5000);
    assert_memory_equal(dispatch.seed, "seed of 16 byte", 16);
    buf_done(&b);
}

static void a_published_cursor_comes_back_and_knows_its_flags(void **state)
{
    (void)state;
    struct buf b = payload();
    struct op_published op;
    put_any(&b, OP_PUBLISHED);
    assert_int_equal(published_decode(buf_bytes(&b), &op), ERR_OK);
    assert_int_equal(op.slot, 17);
    assert_int_equal(op.sequence, 99);
    assert_int_equal(op.flags, PUBLISHED_STOP);
    assert_memory_equal(&op.request, &request, sizeof request);
    b.data[b.len - 1] = PUBLISHED_FLAGS_ALL + 1;
    assert_int_equal(published_decode(buf_bytes(&b), &op), ERR_INVALID);
    buf_done(&b);
}

static void change_row(struct buf *b, uint8_t act, uint64_t instance, uint32_t capacity,
                       int64_t ttl, uint32_t flags, const char *labels)
{
    buf_clear(b);
    op_head_put(b, &request);
    buf_put_u32(b, 1);
    buf_put_u8(b, act);
    buf_put_u64(b, instance);
    buf_put_u32(b, capacity);
    buf_put_i64(b, ttl);
    buf_put_u32(b, flags);
    buf_put_sized(b, bytes_str("w"));
    buf_put_sized(b, bytes_str(labels));
}

static enum err change_read(struct buf *b)
{
    struct op_workers op;
    return workers_decode(buf_bytes(b), &op);
}

static void a_change_of_a_worker_outside_its_limits_is_invalid(void **state)
{
    (void)state;
    const struct {
        uint8_t act;
        uint64_t instance;
        uint32_t capacity;
        int64_t ttl;
        uint32_t flags;
        const char *labels;
        enum err err;
    } rows[] = {
        {WORKER_JOIN, 1, 1, 5000, 0, "", ERR_OK},
        {WORKER_JOIN, 1, 10000, WORKER_TTL_MAX_MS, 1, "a=b", ERR_OK},
        {WORKER_JOIN, 0, 1, 5000, 0, "", ERR_INVALID},     // a worker's act without instance
        {WORKER_JOIN, 1, 0, 5000, 0, "", ERR_INVALID},     // capacity
        {WORKER_JOIN, 1, 10001, 5000, 0, "", ERR_INVALID}, // capacity
        {WORKER_JOIN, 1, 1, 4999, 0, "", ERR_INVALID},     // ttl
        {WORKER_JOIN, 1, 1, WORKER_TTL_MAX_MS + 1, 0, "", ERR_INVALID},
        {WORKER_JOIN, 1, 1, 5000, 2, "", ERR_INVALID},        // an unknown flag
        {WORKER_JOIN, 1, 1, 5000, 0, "b=1,a=1", ERR_INVALID}, // not sorted
        {WORKER_BEAT, 1, 0, 0, 0, "", ERR_OK},
        {WORKER_BEAT, 1, 1, 0, 0, "", ERR_INVALID},
        {WORKER_LEAVE, 1, 0, 0, 0, "a=b", ERR_INVALID},
        {WORKER_PAUSE, 0, 0, 0, 0, "", ERR_OK},
        {WORKER_PAUSE, 1, 0, 0, 0, "", ERR_INVALID}, // an operator's act with an instance
        {WORKER_ACT_COUNT, 0, 0, 0, 0, "", ERR_INVALID},
    };
    struct buf b = payload();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        change_row(&b, rows[i].act, rows[i].instance, rows[i].capacity, rows[i].ttl, rows[i].flags,
                   rows[i].labels);
        assert_int_equal(change_read(&b), rows[i].err);
    }
    buf_done(&b);
}

static void a_requirement_comes_back_and_must_be_canonical(void **state)
{
    (void)state;
    struct buf b = payload();
    struct op_send op;
    struct message m;
    send_begin(&b, &request);
    send_add(&b, &(struct message){.body = bytes_str("x"), .requires = bytes_str("a=1,b=2")});
    send_end(&b, 0, 1);
    assert_int_equal(send_open(buf_bytes(&b), &op), ERR_OK);
    send_next(&op, &m);
    assert_true(bytes_equal(m.requires, bytes_str("a=1,b=2")));
    assert_true(bytes_equal(m.body, bytes_str("x")));
    for (size_t i = 0; i + 1 < b.len; i++)
        if (b.data[i] == 'a' && b.data[i + 1] == '=') b.data[i] = 'c'; // c=1,b=2
    assert_int_equal(send_open(buf_bytes(&b), &op), ERR_INVALID);
    buf_done(&b);
}

static void a_message_is_found_among_the_ops_of_an_entry(void **state)
{
    (void)state;
    struct buf claim = payload(), send = payload(), arrive = payload();
    put_claim(&claim);
    put_send(&send);
    put_arrive(&arrive);
    const struct op ops[] = {{OP_CLAIM, buf_bytes(&claim)},
                             {OP_SEND, buf_bytes(&send)},
                             {OP_SEND, bytes_of(send.data, send.len - 1)}, // cannot be read
                             {OP_ARRIVE, buf_bytes(&arrive)}};
    struct message m;
    size_t op;
    assert_int_equal(ops_messages(ops, 4), 4);
    assert_true(ops_message_at(ops, 4, 1, &m, &op));
    assert_int_equal(op, 1);
    assert_true(bytes_equal(m.body, bytes_str("plain")));
    assert_true(ops_message_at(ops, 4, 3, &m, &op));
    assert_int_equal(op, 3);
    assert_true(bytes_equal(m.body, bytes_str("body")));
    assert_false(ops_message_at(ops, 4, 4, &m, &op));
    buf_done(&claim);
    buf_done(&send);
    buf_done(&arrive);
}

static enum reason apply_raw(struct rig *r, uint16_t kind, struct bytes bytes)
{
    struct buf b = payload();
    buf_put(&b, bytes);
    rig_op(r, kind, &b);
    rig_commit(r);
    return rig_reason(r, 0);
}

static void a_cut_payload_is_malformed(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    for (uint16_t kind = OP_SEND; kind < OP_KIND_END; kind++) {
        if (op_is_gone(kind)) continue;
        struct buf b = payload();
        put_any(&b, kind);
        for (size_t len = 0; len < b.len; len++)
            assert_int_equal(apply_raw(&r, kind, bytes_of(b.data, len)), REASON_MALFORMED);
        buf_put_u8(&b, 0);
        assert_int_equal(apply_raw(&r, kind, buf_bytes(&b)), REASON_MALFORMED);
        buf_done(&b);
    }
    rig_done(&r);
}

static void any_damage_leaves_a_sound_machine(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 1);
    struct rig r;
    rig_defaults(&r);
    for (int round = 0; round < 40; round++) {
        for (uint16_t kind = OP_SEND; kind < OP_KIND_END; kind++) {
            if (kind == OP_DELETE) continue;
            struct buf b = payload();
            put_any(&b, kind);
            for (uint64_t flips = rng_below(&rng, 4); flips > 0; flips--)
                b.data[rng_below(&rng, b.len)] ^= (uint8_t)rng_next(&rng);
            (void)apply_raw(&r, kind, buf_bytes(&b));
            buf_done(&b);
        }
        machine_check(r.m);
    }
    rig_done(&r);
}

static void every_reason_has_a_name_a_sentence_and_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < REASON_COUNT; i++) {
        assert_true(strlen(reason_name((enum reason)i)) > 2);
        assert_true(strlen(reason_text((enum reason)i)) > 6);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(reason_name((enum reason)i), reason_name((enum reason)k));
            assert_string_not_equal(reason_text((enum reason)i), reason_text((enum reason)k));
        }
    }
    assert_int_equal(reason_err(REASON_TOKEN_MISMATCH), ERR_FENCED);
    assert_int_equal(reason_err(REASON_DUPLICATE), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_send_comes_back_as_it_went),
        CASE(outcomes_and_tickets_come_back_as_they_went),
        CASE(the_small_ops_come_back_as_they_went),
        CASE(the_ops_of_workers_come_back_as_they_went),
        CASE(a_published_cursor_comes_back_and_knows_its_flags),
        CASE(a_change_of_a_worker_outside_its_limits_is_invalid),
        CASE(a_requirement_comes_back_and_must_be_canonical),
        CASE(a_message_is_found_among_the_ops_of_an_entry),
        CASE(a_cut_payload_is_malformed),
        CASE(any_damage_leaves_a_sound_machine),
        CASE(every_reason_has_a_name_a_sentence_and_an_error),
    };
    return RUN(tests);
}
