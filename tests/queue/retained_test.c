// SPDX-License-Identifier: Apache-2.0
// What is kept of finished messages: results, reasons and bodies, and the progress of running ones.
#include "signal_rig.h"

#define HOUR INT64_C(3600000)

struct said {
    const struct grant *grant;
    const char *text; // NULL: nothing
};

// One op with a result (ack) or a progress of 40 % (renew) for each grant that says something.
static void say(struct rig *r, uint16_t kind, const struct said *rows, uint32_t len)
{
    struct buf b, refs, extras;
    bool any = false;
    buf_init(&b, (size_t)1 << 20);
    buf_init(&refs, (size_t)1 << 16);
    buf_init(&extras, (size_t)1 << 20);
    for (uint32_t i = 0; i < len; i++) {
        bool has = rows[i].text;
        struct outcome_extra extra = {0};
        if (has && kind == OP_ACK)
            extra = (struct outcome_extra){.has = EXTRA_RESULT,
                                           .content_type = bytes_str("text/plain"),
                                           .result = bytes_str(rows[i].text)};
        if (has && kind == OP_RENEW)
            extra = (struct outcome_extra){
                .has = EXTRA_PROGRESS, .percent = 40, .text = bytes_str(rows[i].text)};
        buf_put_u64(&refs, rows[i].grant->seq);
        buf_put_u64(&refs, rows[i].grant->token.lo);
        buf_put_u64(&refs, rows[i].grant->token.hi);
        outcome_extra_put(&extras, &extra);
        any = any || has;
    }
    outcome_encode(&b, &(struct op_outcome){.queue = r->queue,
                                            .shard = RIG_SHARD,
                                            .arrived_at = r->time.lo,
                                            .count = len,
                                            .refs = buf_bytes(&refs),
                                            .extras = any ? buf_bytes(&extras) : BYTES_EMPTY});
    rig_op(r, kind, &b);
    rig_commit(r);
    machine_check(r->m);
    buf_done(&refs);
    buf_done(&extras);
}

static struct op_outcome op_at(const struct rig *r, struct op_place place)
{
    struct op_outcome op = {0};
    for (size_t i = 0; i < r->log_len; i++) {
        if (r->log[i].slot != place.slot) continue;
        assert_int_equal(outcome_decode(r->log[i].ops[place.op].payload, &op), ERR_OK);
        return op;
    }
    fail();
    return op;
}

static struct bytes result_of(const struct rig *r, uint64_t seq)
{
    struct finished_view v;
    assert_true(machine_finished(r->m, seq, machine_now(r->m), &v));
    if (!v.result.slot) return BYTES_EMPTY;
    assert_true(machine_needs(r->m, v.result.slot, v.result.slot));
    assert_true(machine_signal_lives_at(r->m, v.result.slot, v.result.op));
    struct op_outcome op = op_at(r, v.result);
    return outcome_extra_of(&op, v.result.index).result;
}

static struct machine_stats stats_of(const struct rig *r)
{
    struct machine_stats stats;
    machine_stats(r->m, machine_now(r->m), &stats);
    return stats;
}

// The state survives its snapshot, byte by byte.
static void survives(const struct rig *r)
{
    struct buf before, after;
    buf_init(&before, SIZE_MAX);
    buf_init(&after, SIZE_MAX);
    machine_save(r->m, &before);
    struct machine *m = machine_new(&r->queue, RIG_SHARD, &r->config);
    assert_int_equal(machine_load(m, buf_bytes(&before)), ERR_OK);
    machine_check(m);
    machine_save(m, &after);
    assert_true(bytes_equal(buf_bytes(&before), buf_bytes(&after)));
    assert_true(machine_digest(m) == machine_digest(r->m));
    machine_free(m);
    buf_done(&before);
    buf_done(&after);
}

static struct rig rig_with(bool retain_body, int64_t retention)
{
    struct rig r;
    struct queue_config c = defaults();
    c.retain_body = retain_body;
    c.retention_ms = retention;
    rig_init(&r, &c);
    return r;
}

static void each_ack_keeps_its_own_result(void **state)
{
    (void)state;
    struct rig r = rig_with(false, HOUR);
    struct grant g[4];
    for (int i = 0; i < 4; i++)
        rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 4, g), 4);
    const struct said rows[] = {{&g[0], "one"}, {&g[1], NULL}, {&g[3], "four"}, {&g[2], "three"}};
    say(&r, OP_ACK, rows, 4);
    assert_true(bytes_equal(result_of(&r, g[0].seq), bytes_str("one")));
    assert_true(bytes_equal(result_of(&r, g[1].seq), BYTES_EMPTY));
    assert_true(bytes_equal(result_of(&r, g[2].seq), bytes_str("three")));
    assert_true(bytes_equal(result_of(&r, g[3].seq), bytes_str("four")));
    assert_int_equal(stats_of(&r).results, 3);
    assert_int_equal(stats_of(&r).result_bytes, 12);
    survives(&r);
    rig_done(&r);
}

static void a_result_goes_with_its_message(void **state)
{
    (void)state;
    struct rig r = rig_with(false, HOUR);
    struct grant g[2];
    rig_send(&r, "x", NULL);
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 2, g), 2);
    say(&r, OP_ACK, &(struct said){&g[0], "one"}, 1);
    rig_tick(&r, HOUR / 2);
    assert_int_equal(rig_claim(&r, "w", 1, &g[1]), 1); // its first lock has expired
    say(&r, OP_ACK, &(struct said){&g[1], "two"}, 1);
    rig_tick(&r, HOUR / 2);
    struct finished_view v;
    assert_false(machine_finished(r.m, g[0].seq, machine_now(r.m), &v));
    assert_true(bytes_equal(result_of(&r, g[1].seq), bytes_str("two")));
    assert_int_equal(stats_of(&r).results, 1);
    survives(&r);
    rig_tick(&r, HOUR / 2);
    assert_int_equal(stats_of(&r).results, 0);
    assert_int_equal(stats_of(&r).result_bytes, 0);
    assert_false(machine_needs(r.m, 1, machine_slot(r.m)));
    rig_done(&r);
}

static void without_retention_a_result_is_not_kept(void **state)
{
    (void)state;
    struct rig r = rig_with(true, 0);
    struct grant g;
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    say(&r, OP_ACK, &(struct said){&g, "one"}, 1);
    assert_int_equal(rig_outcome(&r, 0).status, OUTCOME_PROCESSED);
    assert_int_equal(stats_of(&r).results, 0);
    assert_false(machine_needs(r.m, 1, machine_slot(r.m)));
    rig_done(&r);
}

static void a_refused_ack_leaves_no_result(void **state)
{
    (void)state;
    struct rig r = rig_with(false, HOUR);
    struct grant g, other;
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    other = g;
    other.token.lo ^= 1;
    say(&r, OP_ACK, &(struct said){&other, "forged"}, 1);
    assert_int_equal(stats_of(&r).results, 0);
    say(&r, OP_ACK, &(struct said){&g, "true"}, 1);
    say(&r, OP_ACK, &(struct said){&g, "late"}, 1);
    assert_true(bytes_equal(result_of(&r, g.seq), bytes_str("true")));
    rig_done(&r);
}

static void the_reason_of_a_cancel_is_kept(void **state)
{
    (void)state;
    struct rig r = rig_with(false, HOUR);
    struct grant g;
    struct finished_view v;
    rig_send(&r, "x", NULL);
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    rig_signal(&r, interrupt_op(1, 0, THEN_CANCEL), 2); // ready: ends at once
    uint64_t slot = machine_slot(r.m);
    assert_true(machine_finished(r.m, 2, machine_now(r.m), &v));
    assert_int_equal(v.reason.slot, slot);
    assert_int_equal(v.result.slot, 0);
    rig_signal(&r, interrupt_op(2, 5000, THEN_CANCEL), g.seq);
    slot = machine_slot(r.m);
    rig_tick(&r, 6000);
    assert_true(machine_finished(r.m, g.seq, machine_now(r.m), &v));
    assert_int_equal(v.outcome, FINISHED_CANCELLED);
    assert_int_equal(v.reason.slot, slot);
    assert_true(machine_needs(r.m, slot, slot));
    survives(&r);
    rig_done(&r);
}

static void a_dead_letter_keeps_why_it_failed(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.failure_mode = FAILURE_DEAD_LETTER;
    (void)strcpy(c.dead_letter_queue, "dead");
    rig_init(&r, &c);
    struct grant g;
    struct finished_view v;
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(rig_word(&r, OP_FAIL, &g).status, OUTCOME_DEAD_LETTERED);
    uint64_t slot = machine_slot(r.m);
    rig_put_outbox(&r, 1);
    rig_commit(&r);
    assert_int_equal(rig_count(&r, STATE_MOVED), 1);
    assert_true(machine_finished(r.m, g.seq, machine_now(r.m), &v));
    assert_int_equal(v.reason.slot, slot);
    assert_true(machine_needs(r.m, slot, slot));
    survives(&r);
    rig_done(&r);
}

static void a_body_is_kept_if_the_queue_says_so(void **state)
{
    (void)state;
    struct rig r = rig_with(true, HOUR);
    struct grant g;
    struct finished_view v;
    rig_send(&r, "the body", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    say(&r, OP_ACK, &(struct said){&g, NULL}, 1);
    assert_true(machine_finished(r.m, g.seq, machine_now(r.m), &v));
    assert_true(bytes_equal(rig_message(&r, v.body).body, bytes_str("the body")));
    assert_true(machine_lives_at(r.m, v.body));
    assert_int_equal(stats_of(&r).retained, 1);
    survives(&r);
    rig_tick(&r, HOUR);
    assert_false(machine_lives_at(r.m, v.body));
    assert_int_equal(stats_of(&r).retained, 0);
    rig_done(&r);
}

static void finished_messages_are_listed_newest_first(void **state)
{
    (void)state;
    struct rig r = rig_with(false, HOUR);
    struct grant g[6];
    struct finished_view v[8], page[2], before;
    for (int i = 0; i < 6; i++)
        rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 6, g), 6);
    const struct said first[] = {{&g[0], "r1"}, {&g[1], NULL}, {&g[2], "r3"}}; // one row
    say(&r, OP_ACK, first, 3);
    rig_tick(&r, 10);
    say(&r, OP_ACK, &(struct said){&g[4], "r5"}, 1);
    say(&r, OP_ACK, &(struct said){&g[3], NULL}, 1);
    const uint64_t order[] = {4, 5, 3, 2, 1};
    assert_int_equal(machine_finished_list(r.m, machine_now(r.m), NULL, v, 8), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(v[i].seq, order[i]);
        assert_int_equal(v[i].result.slot > 0, order[i] % 2 == 1);
    }
    size_t at = 0;
    for (const struct finished_view *from = NULL; at < 5; from = &before) {
        size_t len = machine_finished_list(r.m, machine_now(r.m), from, page, 2);
        assert_in_range(len, 1, 2);
        for (size_t i = 0; i < len; i++, at++) {
            assert_int_equal(page[i].seq, order[at]);
            assert_int_equal(page[i].result.slot, v[at].result.slot);
            assert_int_equal(page[i].result.index, v[at].result.index);
        }
        before = page[len - 1];
    }
    assert_int_equal(machine_finished_list(r.m, machine_now(r.m), &before, page, 2), 0);
    before = (struct finished_view){.seq = 77, .at = v[0].at}; // not kept
    assert_int_equal(machine_finished_list(r.m, machine_now(r.m), &before, v, 8), 3);
    rig_done(&r);
}

static void a_delete_drops_what_is_kept(void **state)
{
    (void)state;
    struct rig r = rig_with(true, HOUR);
    struct grant g;
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    say(&r, OP_ACK, &(struct said){&g, "one"}, 1);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    assert_int_equal(stats_of(&r).results, 0);
    machine_check(r.m);
    rig_done(&r);
}

static void a_renewal_shows_the_progress_of_its_holder(void **state)
{
    (void)state;
    struct rig r = rig_with(false, HOUR);
    struct grant g;
    struct progress_view p;
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim_lease(&r, "w", 1, 5000, &g), 1);
    assert_false(machine_progress(r.m, g.seq, &p));
    say(&r, OP_RENEW, &(struct said){&g, "almost half"}, 1);
    assert_true(machine_progress(r.m, g.seq, &p));
    assert_int_equal(p.percent, 40);
    struct op_outcome op = op_at(&r, p.text);
    assert_true(bytes_equal(outcome_extra_of(&op, p.text.index).text, bytes_str("almost half")));
    assert_true(machine_needs(r.m, p.text.slot, p.text.slot));
    assert_true(machine_signal_lives_at(r.m, p.text.slot, p.text.op));
    survives(&r);
    say(&r, OP_RENEW, &(struct said){&g, NULL}, 1); // says nothing new
    assert_true(machine_progress(r.m, g.seq, &p));
    rig_tick(&r, HOUR); // the lock expires
    assert_false(machine_progress(r.m, g.seq, &p));
    survives(&r);
    rig_done(&r);
}

static void a_damaged_table_is_refused(void **state)
{
    (void)state;
    struct rig r = rig_with(true, HOUR);
    struct grant g[2];
    struct buf saved;
    rig_send(&r, "x", NULL);
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 2, g), 2);
    say(&r, OP_ACK, &(struct said){&g[0], "one"}, 1);
    buf_init(&saved, SIZE_MAX);
    machine_save(r.m, &saved);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    const size_t row = 8 + 1 + 8 + 4 + 4 + 4 + 8 + 4; // the last row, then the digest
    size_t refused = 0;
    for (size_t i = saved.len - 8 - row - 4; i < saved.len; i++) {
        saved.data[i] ^= 0x41;
        refused += machine_load(m, buf_bytes(&saved)) == ERR_CORRUPT;
        saved.data[i] ^= 0x41;
    }
    assert_int_equal(refused, row + 4 + 8);
    assert_int_equal(machine_load(m, buf_bytes(&saved)), ERR_OK);
    machine_free(m);
    buf_done(&saved);
    rig_done(&r);
}

static void the_stored_form_is_the_documented_one(void **state)
{
    (void)state;
    static const uint8_t golden[] = {
        // clang-format off
        1, 0, 0, 0, // messages with signals or progress
        1, 0, 0, 0, 0, 0, 0, 0, // message 1
        3, 0, 0, 0, // its last signal
        1, // progress
        0x28, // percent
        0x0a, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0, 0, 0, // ref
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // when
        2, 0, // its signals
        0xaa, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // the interrupt: id
        7, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // sent at
        0x30, 0x56, 0xf6, 5, 0, 0, 0, 0, // due
        2, 0, 0, 0, // number
        1, 0, // deliveries
        2, // kind
        1, // then
        2, // flags
        0xaa, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // the steer: id
        9, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // sent at
        0x80, 0xcf, 0x2c, 6, 0, 0, 0, 0, // due
        3, 0, 0, 0, // number
        1, 0, // deliveries
        0, // kind
        0, // then
        0, // flags
        3, 0, 0, 0, // signals that have ended
        0xaa, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // acked: id
        1, 0, 0, 0, 0, 0, 0, 0, // message
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // sent at
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // ended at
        6, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0, 0, 0, // row
        1, 0, 0, 0, // number
        1, 0, // deliveries
        0, // kind
        1, // state
        0xaa, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // declined: id
        1, 0, 0, 0, 0, 0, 0, 0, // message
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // sent at
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // ended at
        8, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0, 0, 0, // row
        2, 0, 0, 0, // number
        1, 0, // deliveries
        2, // kind
        2, // state
        0xaa, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // applied: id
        3, 0, 0, 0, 0, 0, 0, 0, // message
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // sent at
        0, 0xe1, 0xf5, 5, 0, 0, 0, 0, // ended at
        0, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0, 0, 0, // row
        0, 0, 0, 0, // number
        0, 0, // deliveries
        2, // kind
        6, // state
        2, 0, 0, 0, // finished messages of which more is kept
        2, 0, 0, 0, 0, 0, 0, 0, // message 2
        5, // flags
        0x0b, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0, 0, 0, // ref
        4, 0, 0, 0, // bytes
        1, 0, 0, 0, 0, 0, 0, 0, // slot of the body
        1, 0, 0, 0, // skip
        3, 0, 0, 0, 0, 0, 0, 0, // message 3
        6, // flags
        0x0c, 0, 0, 0, 0, 0, 0, 0, // slot
        0, 0, 0, 0, // op
        0, 0, 0, 0, // ref
        0, 0, 0, 0, // bytes
        1, 0, 0, 0, 0, 0, 0, 0, // slot of the body
        2, 0, 0, 0, // skip
        // clang-format on
    };
    struct rig r = rig_with(true, HOUR);
    struct grant g[3];
    for (int i = 0; i < 3; i++)
        rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w", 3, g), 3);
    rig_signal(&r, steer_op(1), g[0].seq);
    assert_int_equal(settle(&r, &g[0], 1, SIGNAL_ACK, "yes"), REASON_NONE);
    rig_signal(&r, interrupt_op(2, 30000, THEN_RETRY), g[0].seq);
    assert_int_equal(settle(&r, &g[0], 2, SIGNAL_DECLINE, "no"), REASON_NONE);
    rig_signal(&r, steer_op(3), g[0].seq);
    say(&r, OP_RENEW, &(struct said){&g[0], "half"}, 1);
    say(&r, OP_ACK, &(struct said){&g[1], "done"}, 1);
    rig_signal(&r, interrupt_op(4, 0, THEN_CANCEL), g[2].seq);
    struct buf b;
    buf_init(&b, SIZE_MAX);
    machine_save(r.m, &b);
    size_t after = 4 + 8; // no finished message of a workflow, and the digest
    assert_true(b.len > sizeof golden + after);
    const uint8_t *at = b.data + b.len - after - sizeof golden;
    assert_memory_equal(at, golden, sizeof golden);
    buf_done(&b);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ack_keeps_its_own_result),
        cmocka_unit_test(a_result_goes_with_its_message),
        cmocka_unit_test(without_retention_a_result_is_not_kept),
        cmocka_unit_test(a_refused_ack_leaves_no_result),
        cmocka_unit_test(the_reason_of_a_cancel_is_kept),
        cmocka_unit_test(a_dead_letter_keeps_why_it_failed),
        cmocka_unit_test(a_body_is_kept_if_the_queue_says_so),
        cmocka_unit_test(finished_messages_are_listed_newest_first),
        cmocka_unit_test(a_delete_drops_what_is_kept),
        cmocka_unit_test(a_renewal_shows_the_progress_of_its_holder),
        cmocka_unit_test(a_damaged_table_is_refused),
        cmocka_unit_test(the_stored_form_is_the_documented_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
