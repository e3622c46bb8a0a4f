// SPDX-License-Identifier: Apache-2.0
// Order: fifo and lifo, strict and best-effort, groups, priority.
#include "queue_test.h"

static struct queue_config ordered(enum ordering_mode mode, bool strict)
{
    struct queue_config c = defaults();
    c.ordering_mode = mode;
    c.ordering_guarantee = strict;
    c.backoff = (struct backoff_config){1000, 1000, 1000, 0};
    return c;
}

static void start(struct rig *r, enum ordering_mode mode, bool strict, int messages)
{
    struct queue_config c = ordered(mode, strict);
    rig_init(r, &c);
    for (int i = 0; i < messages; i++)
        rig_send(r, "x", NULL);
}

static uint64_t claim_seq(struct rig *r, struct grant *g)
{
    return rig_claim(r, "w", 1, g) == 1 ? g->seq : 0;
}

static void fifo_is_the_default_and_gives_the_oldest_first(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    for (int i = 0; i < 5; i++)
        rig_send(&r, "x", NULL);
    struct grant g[5];
    assert_int_equal(rig_claim(&r, "w", 5, g), 5);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(g[i].seq, i + 1);
    rig_done(&r);
}

static void lifo_gives_the_newest_first(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[5];
    start(&r, ORDERING_LIFO, false, 5);
    assert_int_equal(rig_claim(&r, "w", 5, g), 5);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(g[i].seq, 5 - i);
    rig_done(&r);
}

static void strict_fifo_delivers_one_at_a_time_in_order(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[5];
    start(&r, ORDERING_FIFO, true, 3);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        assert_int_equal(rig_claim(&r, "w", 5, g), 1);
        assert_int_equal(g[0].seq, seq);
        assert_int_equal(rig_claim(&r, "other", 5, g + 1), 0);
        rig_word(&r, OP_ACK, g);
    }
    rig_done(&r);
}

static void strict_order_holds_over_retry_and_expiry(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    start(&r, ORDERING_FIFO, true, 2);
    assert_int_equal(claim_seq(&r, &g), 1);
    rig_word(&r, OP_FAIL, &g);
    assert_int_equal(claim_seq(&r, &g), 0); // waits for its retry, and so does all behind it
    rig_tick(&r, 1000);
    assert_int_equal(claim_seq(&r, &g), 1);
    rig_tick(&r, 30000); // expires
    assert_int_equal(claim_seq(&r, &g), 1);
    rig_word(&r, OP_RELEASE, &g);
    assert_int_equal(claim_seq(&r, &g), 1);
    rig_word(&r, OP_ACK, &g);
    assert_int_equal(claim_seq(&r, &g), 2);
    rig_done(&r);
}

static void strict_order_moves_on_when_the_first_is_dead(void **state)
{
    (void)state;
    struct queue_config c = ordered(ORDERING_FIFO, true);
    c.retries_max = 0;
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "x", NULL);
    rig_send(&r, "y", NULL);
    assert_int_equal(claim_seq(&r, &g), 1);
    rig_word(&r, OP_FAIL, &g);
    assert_int_equal(claim_seq(&r, &g), 2);
    rig_done(&r);
}

static void strict_lifo_gives_the_newest_but_keeps_an_open_message_first(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    start(&r, ORDERING_LIFO, true, 2);
    assert_int_equal(claim_seq(&r, &g), 2);
    rig_send(&r, "newer", NULL);
    rig_word(&r, OP_FAIL, &g);
    assert_int_equal(claim_seq(&r, &g), 0);
    rig_tick(&r, 1000);
    assert_int_equal(claim_seq(&r, &g), 2);
    rig_word(&r, OP_ACK, &g);
    assert_int_equal(claim_seq(&r, &g), 3);
    rig_done(&r);
}

static void groups_run_in_parallel_each_in_its_own_order(void **state)
{
    (void)state;
    struct queue_config c = ordered(ORDERING_FIFO, true);
    struct rig r;
    struct grant g[8], one;
    rig_init(&r, &c);
    const char *groups[] = {"a", "a", "b", NULL, "b", NULL};
    for (size_t i = 0; i < 6; i++)
        rig_send(&r, "x", groups[i]);
    assert_int_equal(rig_claim(&r, "w", 8, g), 3);
    assert_int_equal(g[0].seq, 1);
    assert_int_equal(g[1].seq, 3);
    assert_int_equal(g[2].seq, 4);
    rig_word(&r, OP_ACK, &g[1]);
    assert_int_equal(claim_seq(&r, &one), 5);
    rig_word(&r, OP_ACK, &g[2]);
    assert_int_equal(claim_seq(&r, &one), 6);
    rig_word(&r, OP_ACK, &g[0]);
    assert_int_equal(claim_seq(&r, &one), 2);
    machine_check(r.m);
    rig_done(&r);
}

static void groups_mean_nothing_to_a_best_effort_queue(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[3];
    rig_defaults(&r);
    for (int i = 0; i < 3; i++)
        rig_send(&r, "x", "same");
    assert_int_equal(rig_claim(&r, "w", 3, g), 3);
    rig_done(&r);
}

static void best_effort_says_once_per_batch_that_it_overtakes(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[4], all[4];
    start(&r, ORDERING_FIFO, false, 6);
    rig_claim(&r, "w1", 1, g);
    assert_int_equal(rig_events(&r, EVENT_ORDERING_BEST_EFFORT), 0);
    rig_claim(&r, "w2", 3, all);
    assert_int_equal(rig_events(&r, EVENT_ORDERING_BEST_EFFORT), 1);
    assert_int_equal(rig_event(&r, EVENT_ORDERING_BEST_EFFORT, 0)->count, 1);
    rig_word(&r, OP_RELEASE, g);
    rig_claim(&r, "w1", 1, g); // the oldest: it overtakes none
    assert_int_equal(g[0].seq, 1);
    assert_int_equal(rig_events(&r, EVENT_ORDERING_BEST_EFFORT), 0);
    rig_done(&r);
}

static void a_strict_queue_never_says_that_it_overtakes(void **state)
{
    (void)state;
    struct queue_config c = ordered(ORDERING_FIFO, true);
    struct rig r;
    struct grant g;
    rig_init(&r, &c);
    rig_send(&r, "x", "a");
    rig_send(&r, "x", "b");
    claim_seq(&r, &g);
    claim_seq(&r, &g);
    assert_int_equal(rig_events(&r, EVENT_ORDERING_BEST_EFFORT), 0);
    rig_done(&r);
}

static void an_expired_message_returns_to_its_old_place(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    start(&r, ORDERING_FIFO, false, 3);
    assert_int_equal(claim_seq(&r, &g), 1);
    rig_tick(&r, 30000);
    assert_int_equal(claim_seq(&r, &g), 1);
    assert_int_equal(claim_seq(&r, &g), 2);
    rig_done(&r);
}

static void a_higher_priority_goes_first_and_then_order_counts(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[6];
    rig_defaults(&r);
    const uint8_t priorities[] = {0, 3, 9, 3, 0, 9};
    for (size_t i = 0; i < 6; i++)
        rig_send_message(&r, &(struct message){.priority = priorities[i]});
    assert_int_equal(rig_claim(&r, "w", 6, g), 6);
    const uint64_t order[] = {3, 6, 2, 4, 1, 5};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(g[i].seq, order[i]);
    rig_done(&r);
}

static void a_strict_queue_takes_neither_priority_nor_delay(void **state)
{
    (void)state;
    struct rig r;
    start(&r, ORDERING_FIFO, true, 0);
    struct message m = {.priority = 1};
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_STRICT_PRIORITY);
    m = (struct message){.when = WHEN_DELAY, .when_ms = 5};
    assert_int_equal(rig_send_message(&r, &m).reason, REASON_STRICT_DELAY);
    rig_done(&r);
}

static void changing_the_ordering_mode_turns_the_queue_around(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    start(&r, ORDERING_FIFO, false, 4);
    rig_send_message(&r, &(struct message){.priority = 0, .when = WHEN_DUE, .when_ms = 0});
    assert_int_equal(claim_seq(&r, &g), 1);
    struct queue_config c = ordered(ORDERING_LIFO, false);
    rig_put_configure(&r, &c);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    assert_int_equal(claim_seq(&r, &g), 5);
    assert_int_equal(claim_seq(&r, &g), 4);
    machine_check(r.m);
    rig_done(&r);
}

static void strict_order_holds_over_a_backlog_larger_than_any_range(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    start(&r, ORDERING_FIFO, true, 5 * PLACE_SPAN);
    for (uint64_t seq = 1; seq <= 5 * PLACE_SPAN; seq++) {
        assert_int_equal(claim_seq(&r, &g), seq);
        rig_word(&r, OP_ACK, &g);
    }
    rig_done(&r);
}

// Records that were never delivered are the smallest. A limit against false counts must allow them.
static void many_ready_records_survive_a_snapshot(void **state)
{
    (void)state;
    struct rig r;
    struct buf saved;
    rig_defaults(&r);
    for (int i = 0; i < 1000; i++)
        (void)rig_send_message(&r, &(struct message){.body = bytes_str("x"), .priority = 3});
    buf_init(&saved, (size_t)1 << 20);
    machine_save(r.m, &saved);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(m, buf_bytes(&saved)), ERR_OK);
    assert_true(machine_digest(m) == machine_digest(r.m));
    machine_check(m);
    machine_free(m);
    buf_done(&saved);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(fifo_is_the_default_and_gives_the_oldest_first),
        CASE(lifo_gives_the_newest_first),
        CASE(strict_fifo_delivers_one_at_a_time_in_order),
        CASE(strict_order_holds_over_retry_and_expiry),
        CASE(strict_order_moves_on_when_the_first_is_dead),
        CASE(strict_lifo_gives_the_newest_but_keeps_an_open_message_first),
        CASE(groups_run_in_parallel_each_in_its_own_order),
        CASE(groups_mean_nothing_to_a_best_effort_queue),
        CASE(best_effort_says_once_per_batch_that_it_overtakes),
        CASE(a_strict_queue_never_says_that_it_overtakes),
        CASE(an_expired_message_returns_to_its_old_place),
        CASE(a_higher_priority_goes_first_and_then_order_counts),
        CASE(a_strict_queue_takes_neither_priority_nor_delay),
        CASE(changing_the_ordering_mode_turns_the_queue_around),
        CASE(strict_order_holds_over_a_backlog_larger_than_any_range),
        CASE(many_ready_records_survive_a_snapshot),
    };
    return RUN(tests);
}
