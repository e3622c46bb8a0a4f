// SPDX-License-Identifier: Apache-2.0
// Sending: what is taken, delayed, recognised or refused; and what a backlog costs.
#include "queue_test.h"

static void a_delayed_message_waits_for_its_moment(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    rig_defaults(&r);
    rig_send_message(&r, &(struct message){.when = WHEN_DELAY, .when_ms = 500});
    rig_send_message(&r, &(struct message){.when = WHEN_DUE, .when_ms = RIG_TIME + 200});
    assert_int_equal(rig_count(&r, STATE_DELAYED), 2);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 0);
    assert_int_equal(machine_wake_at(r.m), RIG_TIME + 200);
    rig_tick(&r, 200);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(g.seq, 2);
    rig_tick(&r, 300);
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(g.seq, 1);
    rig_done(&r);
}

static void a_due_time_too_far_away_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    struct message m = {.when = WHEN_DUE, .when_ms = RIG_TIME + DELAY_MAX_MS + 1};
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_OUT_OF_RANGE);
    rig_done(&r);
}

static void a_duplicate_send_answers_the_first_messages_number(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    rig_defaults(&r);
    struct message m = {.dedup = bytes_str("order-17"), .body = bytes_str("x")};
    struct send_row first = rig_send_message(&r, &m), second = rig_send_message(&r, &m);
    assert_int_equal(first.reason, REASON_NONE);
    assert_int_equal(second.reason, REASON_DUPLICATE);
    assert_int_equal(second.seq, first.seq);
    assert_int_equal(r.results[0].err, ERR_OK);
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_ACK, &g);
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_DUPLICATE); // also when it is done
    rig_tick(&r, 5 * 60 * 1000);
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_NONE);
    rig_done(&r);
}

static void a_full_queue_refuses_and_takes_again_when_there_is_room(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.capacity = 2;
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "1", NULL);
    rig_send(&r, "2", NULL);
    assert_int_equal(rig_send(&r, "3", NULL).reason, REASON_FULL);
    assert_int_equal(r.results[0].err, ERR_LIMIT);
    assert_int_equal(machine_refuses(r.m, OP_SEND, 1), REASON_FULL);
    rig_claim(&r, "w", 1, &g);
    assert_int_equal(rig_send(&r, "3", NULL).reason, REASON_FULL); // a locked one counts
    rig_word(&r, OP_ACK, &g);
    assert_int_equal(rig_send(&r, "3", NULL).reason, REASON_NONE);
    rig_done(&r);
}

static void dedup_keys_are_bounded_by_capacity(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.capacity = 1;
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    struct message m = {.dedup = bytes_str("a")};
    rig_send_message(&r, &m);
    rig_claim(&r, "w", 1, &g);
    rig_word(&r, OP_ACK, &g);
    m.dedup = bytes_str("b");
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_DEDUP_FULL);
    m.dedup = BYTES_EMPTY;
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_NONE);
    rig_done(&r);
}

static void a_body_over_the_limit_is_refused_inline_or_referred_to(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.message_bytes_max = 10;
    struct rig r;
    rig_init(&r, &c);
    assert_int_equal(rig_send(&r, "ten bytes!", NULL).reason, REASON_NONE);
    assert_int_equal(rig_send(&r, "eleven bytes", NULL).reason, REASON_TOO_LARGE);
    char name[BODY_NAME_LEN + 1];
    struct message m = uploaded(name, RIG_TIME, 1);
    m.reference.len = 11;
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_TOO_LARGE);
    m.reference.len = 10;
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_NONE);
    rig_done(&r);
}

static void a_body_uploaded_too_long_ago_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_tick(&r, BODY_AGE_MAX_MS);
    char name[BODY_NAME_LEN + 1];
    struct message m = uploaded(name, RIG_TIME - 1, 1);
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_BODY_STALE);
    m = uploaded(name, RIG_TIME, 1);
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_NONE);
    rig_done(&r);
}

static void each_message_of_a_batch_has_its_own_answer(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.message_bytes_max = 5;
    struct rig r;
    rig_init(&r, &c);
    struct buf b;
    buf_init(&b, 4096);
    send_begin(&b, &(struct request_id){0});
    const char *bodies[] = {"a", "b", "much too long", "c"};
    for (size_t i = 0; i < 4; i++)
        send_add(&b, &(struct message){.body = bytes_str(bodies[i])});
    send_end(&b, 0, 4);
    rig_op(&r, OP_SEND, &b);
    rig_commit(&r);
    struct result result;
    struct send_row row;
    assert_int_equal(result_open(rig_body(&r, 0), OP_SEND, &result), ERR_OK);
    const uint64_t seqs[] = {1, 2, 0, 3};
    for (size_t i = 0; i < 4; i++) {
        row = (struct send_row){.seq = 99}; // the reader needs nothing of what it gave out before
        assert_true(send_row_next(&result, &row));
        assert_int_equal(row.seq, seqs[i]);
        assert_int_equal(row.reason, i == 2 ? REASON_TOO_LARGE : REASON_NONE);
    }
    assert_false(send_row_next(&result, &row));
    struct grant g[3];
    assert_int_equal(rig_claim(&r, "w", 3, g), 3);
    assert_true(bytes_equal(rig_message(&r, g[2].place).body, bytes_str("c")));
    rig_done(&r);
}

static struct machine_stats stats_of(const struct rig *r)
{
    struct machine_stats stats;
    machine_stats(r->m, machine_now(r->m), &stats);
    return stats;
}

static void plain_messages_cost_ranges_and_no_records(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    for (int i = 0; i < 10 * PLACE_SPAN; i++)
        rig_send(&r, "x", "any group");
    assert_int_equal(stats_of(&r).records, 0);
    assert_int_equal(stats_of(&r).ranges, 10);
    rig_done(&r);
}

static void every_body_is_found_although_ranges_break(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    char body[32];
    for (int i = 1; i <= 40; i++) {
        (void)snprintf(body, sizeof body, "body %d", i);
        struct message m = {.body = bytes_str(body)};
        if (i % 7 == 0) m.priority = 1;
        rig_send_message(&r, &m);
        if (i % 5 == 0) rig_tick(&r, 1);
        if (i % 11 == 0) rig_commit_void(&r);
    }
    struct grant g[40];
    assert_int_equal(rig_claim(&r, "w", 40, g), 40);
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(body, sizeof body, "body %d", (int)g[i].seq);
        assert_true(bytes_equal(rig_message(&r, g[i].place).body, bytes_str(body)));
    }
    rig_done(&r);
}

static void slots_are_needed_until_their_messages_are_done(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    rig_defaults(&r);
    for (int i = 0; i < 3 * PLACE_SPAN; i++)
        rig_send(&r, "x", NULL);
    uint64_t last = machine_slot(r.m);
    for (int i = 0; i < 3 * PLACE_SPAN; i++) {
        assert_true(machine_needs(r.m, 1, last));
        assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
        assert_true(machine_needs(r.m, (uint64_t)i + 1, (uint64_t)i + 1));
        rig_word(&r, OP_ACK, &g);
    }
    assert_false(machine_needs(r.m, 1, last));
    assert_false(machine_needs(r.m, 1, UINT64_MAX));
    rig_done(&r);
}

static void messages_can_be_listed_by_state(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[2];
    rig_defaults(&r);
    for (int i = 0; i < 8; i++)
        rig_send_message(&r, &(struct message){.priority = (uint8_t)(i % 3 == 0)});
    rig_claim(&r, "w", 2, g);
    struct message_view v[10];
    assert_int_equal(machine_list(r.m, STATE_LOCKED, 0, 0, v, 10), 2);
    assert_int_equal(machine_list(r.m, STATE_READY, 0, 0, v, 10), 6);
    for (size_t i = 1; i < 6; i++)
        assert_true(v[i].seq > v[i - 1].seq);
    uint64_t after = v[2].seq;
    assert_int_equal(machine_list(r.m, STATE_READY, after, 0, v, 2), 2);
    assert_true(v[0].seq > after);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_delayed_message_waits_for_its_moment),
        CASE(a_due_time_too_far_away_is_refused),
        CASE(a_duplicate_send_answers_the_first_messages_number),
        CASE(a_full_queue_refuses_and_takes_again_when_there_is_room),
        CASE(dedup_keys_are_bounded_by_capacity),
        CASE(a_body_over_the_limit_is_refused_inline_or_referred_to),
        CASE(a_body_uploaded_too_long_ago_is_refused),
        CASE(each_message_of_a_batch_has_its_own_answer),
        CASE(plain_messages_cost_ranges_and_no_records),
        CASE(every_body_is_found_although_ranges_break),
        CASE(slots_are_needed_until_their_messages_are_done),
        CASE(messages_can_be_listed_by_state),
    };
    return RUN(tests);
}
