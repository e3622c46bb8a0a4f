// SPDX-License-Identifier: Apache-2.0
// Bodies that are objects of their own: how long the queue holds on to them.
#include "queue_test.h"

struct bench {
    struct rig rig;
    char name[BODY_NAME_LEN + 1];
    uint64_t seq;
};

static void bench_init(struct bench *b, const struct queue_config *config)
{
    rig_init(&b->rig, config);
    struct message m = uploaded(b->name, RIG_TIME, 42);
    struct send_row row = rig_send_message(&b->rig, &m);
    assert_int_equal(row.reason, REASON_NONE);
    b->seq = row.seq;
}

static enum body_hold hold(const struct bench *b)
{
    return machine_holds(b->rig.m, bytes_str(b->name));
}

// ... and what a snapshot brings back says the same.
static void assert_hold(const struct bench *b, enum body_hold expected)
{
    assert_int_equal(hold(b), expected);
    machine_check(b->rig.m);
    CLEANUP(buf_done) struct buf saved;
    buf_init(&saved, (size_t)1 << 20);
    machine_save(b->rig.m, &saved);
    struct machine *again = machine_new(&b->rig.queue, RIG_SHARD, &b->rig.config);
    assert_int_equal(machine_load(again, buf_bytes(&saved)), ERR_OK);
    assert_int_equal(machine_holds(again, bytes_str(b->name)), expected);
    assert_true(machine_digest(again) == machine_digest(b->rig.m));
    machine_check(again);
    machine_free(again);
}

static void names_are_parsed_as_they_are_printed(void **state)
{
    (void)state;
    struct body_name in = {INT64_MAX, {UINT64_MAX, 0xabcdef0123456789u}, {17, 1u << 31}}, out;
    char text[BODY_NAME_LEN + 2];
    body_name_print(&in, text);
    assert_int_equal(strlen(text), BODY_NAME_LEN);
    assert_true(body_name_parse(bytes_str(text), &out));
    assert_true(out.uploaded_at == in.uploaded_at && out.random[0] == in.random[0] &&
                out.random[1] == in.random[1] && hash128_equal(out.hash, in.hash));
    for (size_t i = 0; i < BODY_NAME_LEN; i++) { // every byte matters, capitals are another name
        char kept = text[i];
        for (const char *bad = "/F g"; *bad; bad++) {
            text[i] = *bad;
            assert_false(body_name_parse(bytes_str(text), &out));
        }
        text[i] = kept;
    }
    assert_false(body_name_parse(bytes_of(text, BODY_NAME_LEN - 1), &out));
    text[0] = '9'; // more than a time can be
    assert_false(body_name_parse(bytes_str(text), &out));
}

static void a_body_is_held_until_its_message_is_processed(void **state)
{
    (void)state;
    struct bench b;
    struct grant g;
    struct queue_config c = defaults();
    bench_init(&b, &c);
    rig_tick(&b.rig, BODY_AGE_MAX_MS + 1);
    assert_hold(&b, BODY_HELD);
    assert_int_equal(rig_claim(&b.rig, "w", 1, &g), 1);
    assert_hold(&b, BODY_HELD);
    (void)rig_word(&b.rig, OP_ACK, &g);
    assert_hold(&b, BODY_FREE);
    rig_done(&b.rig);
}

static void a_body_may_be_sent_until_time_forbids_it(void **state)
{
    (void)state;
    struct bench b;
    struct queue_config c = defaults();
    char other[BODY_NAME_LEN + 1];
    bench_init(&b, &c);
    struct message m = uploaded(other, RIG_TIME, 43);
    rig_tick(&b.rig, BODY_AGE_MAX_MS);
    assert_int_equal(machine_holds(b.rig.m, bytes_str(other)), BODY_YET);
    rig_tick(&b.rig, 1);
    assert_int_equal(machine_holds(b.rig.m, bytes_str(other)), BODY_FREE);
    assert_int_equal(rig_send_message(&b.rig, &m).reason, REASON_BODY_STALE);
    rig_done(&b.rig);
}

static void a_body_of_two_messages_is_held_for_both(void **state)
{
    (void)state;
    struct bench b;
    struct grant g[2];
    struct queue_config c = defaults();
    bench_init(&b, &c);
    struct message same = uploaded(b.name, RIG_TIME, 42);
    assert_int_equal(rig_send_message(&b.rig, &same).reason, REASON_NONE);
    assert_int_equal(rig_claim_lease(&b.rig, "w", 2, LEASE_MAX_MS, g), 2);
    rig_tick(&b.rig, BODY_AGE_MAX_MS + 1);
    (void)rig_word(&b.rig, OP_ACK, &g[0]);
    assert_hold(&b, BODY_HELD);
    (void)rig_word(&b.rig, OP_ACK, &g[1]);
    assert_hold(&b, BODY_FREE);
    rig_done(&b.rig);
}

static void purging_lets_bodies_of_the_backlog_go(void **state)
{
    (void)state;
    struct bench b;
    struct queue_config c = defaults();
    bench_init(&b, &c);
    rig_tick(&b.rig, BODY_AGE_MAX_MS + 1);
    struct buf payload;
    buf_init(&payload, 64);
    purge_encode(&payload, &(struct op_purge){0});
    rig_op(&b.rig, OP_PURGE, &payload);
    rig_commit(&b.rig);
    assert_hold(&b, BODY_FREE);
    rig_done(&b.rig);
}

static void a_dead_messages_body_stays_and_follows_its_redrive(void **state)
{
    (void)state;
    struct bench b;
    struct grant g;
    struct queue_config c = defaults();
    c.retries_max = 0;
    bench_init(&b, &c);
    assert_int_equal(rig_claim(&b.rig, "w", 1, &g), 1);
    (void)rig_word(&b.rig, OP_FAIL, &g);
    rig_tick(&b.rig, BODY_AGE_MAX_MS + 1);
    assert_int_equal(rig_count(&b.rig, STATE_DEAD), 1);
    assert_hold(&b, BODY_HELD);
    rig_put_redrive(&b.rig, 1);
    rig_commit(&b.rig);
    assert_hold(&b, BODY_HELD);
    assert_int_equal(rig_claim(&b.rig, "w", 1, &g), 1);
    assert_int_equal(g.seq, 2);
    (void)rig_word(&b.rig, OP_ACK, &g);
    assert_hold(&b, BODY_FREE);
    rig_done(&b.rig);
}

static void a_dead_letters_body_is_held_until_it_arrived(void **state)
{
    (void)state;
    struct bench b;
    struct grant g;
    struct queue_config c = defaults();
    c.failure_mode = FAILURE_DEAD_LETTER;
    strcpy(c.dead_letter_queue, "dlq");
    bench_init(&b, &c);
    assert_int_equal(rig_claim(&b.rig, "w", 1, &g), 1);
    (void)rig_word(&b.rig, OP_FAIL, &g);
    rig_tick(&b.rig, BODY_AGE_MAX_MS + 1);
    assert_hold(&b, BODY_HELD);
    rig_put_outbox(&b.rig, 1);
    rig_commit(&b.rig);
    assert_hold(&b, BODY_FREE);
    rig_done(&b.rig);
}

static void a_letter_whose_copy_is_too_old_does_not_arrive(void **state)
{
    (void)state;
    struct rig r;
    char name[BODY_NAME_LEN + 1];
    rig_defaults(&r);
    rig_tick(&r, BODY_AGE_MAX_MS + 1);
    for (int fresh = 0; fresh <= 1; fresh++) {
        struct op_arrive op = {.number = 1,
                               .origin = bytes_str("orders"),
                               .message = uploaded(name, RIG_TIME + fresh, 5)};
        struct buf payload;
        buf_init(&payload, 4096);
        arrive_encode(&payload, &op);
        rig_op(&r, OP_ARRIVE, &payload);
        rig_commit(&r);
        assert_int_equal(rig_reason(&r, 0), fresh ? REASON_NONE : REASON_BODY_STALE);
    }
    assert_int_equal(machine_holds(r.m, bytes_str(name)), BODY_HELD);
    rig_done(&r);
}

static void a_deleted_queue_holds_nothing(void **state)
{
    (void)state;
    struct bench b;
    struct queue_config c = defaults();
    bench_init(&b, &c);
    rig_put_plain(&b.rig, OP_DELETE);
    rig_commit(&b.rig);
    assert_hold(&b, BODY_FREE); // at once: nothing can be sent here any more
    rig_done(&b.rig);
}

// They stand before the books (80 bytes) and the digest (8): a count and one row.
static void a_snapshot_with_damaged_bodies_is_refused(void **state)
{
    (void)state;
    struct bench b;
    struct queue_config c = defaults();
    bench_init(&b, &c);
    CLEANUP(buf_done) struct buf saved;
    buf_init(&saved, (size_t)1 << 20);
    machine_save(b.rig.m, &saved);
    struct machine *again = machine_new(&b.rig.queue, RIG_SHARD, &b.rig.config);
    assert_int_equal(machine_load(again, buf_bytes(&saved)), ERR_OK);
    for (size_t i = saved.len - 8 - 80 - 24; i < saved.len - 8 - 80; i++) {
        saved.data[i] ^= 1;
        assert_int_equal(machine_load(again, buf_bytes(&saved)), ERR_CORRUPT);
        saved.data[i] ^= 1;
    }
    machine_free(again);
    rig_done(&b.rig);
}

static void what_is_no_bodys_name_is_left_alone(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_tick(&r, 2 * BODY_AGE_MAX_MS);
    assert_int_equal(machine_holds(r.m, bytes_str("something else")), BODY_HELD);
    rig_done(&r);
}

static void a_reference_must_agree_with_its_name(void **state)
{
    (void)state;
    char name[BODY_NAME_LEN + 1];
    struct message m = uploaded(name, 55, 1);
    m.reference.uploaded_at = 56;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, 4096);
    send_begin(&b, &(struct request_id){0});
    send_add(&b, &m);
    send_end(&b, 0, 1);
    struct op_send op;
    assert_int_equal(send_open(buf_bytes(&b), &op), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(names_are_parsed_as_they_are_printed),
        CASE(a_body_is_held_until_its_message_is_processed),
        CASE(a_body_may_be_sent_until_time_forbids_it),
        CASE(a_body_of_two_messages_is_held_for_both),
        CASE(purging_lets_bodies_of_the_backlog_go),
        CASE(a_dead_messages_body_stays_and_follows_its_redrive),
        CASE(a_dead_letters_body_is_held_until_it_arrived),
        CASE(a_letter_whose_copy_is_too_old_does_not_arrive),
        CASE(a_deleted_queue_holds_nothing),
        CASE(a_snapshot_with_damaged_bodies_is_refused),
        CASE(what_is_no_bodys_name_is_left_alone),
        CASE(a_reference_must_agree_with_its_name),
    };
    return RUN(tests);
}
