// SPDX-License-Identifier: Apache-2.0
// When an entry is proposed beside other writers of the same journal: turns and courtesy.
#include "fixture.h"

static void a_single_writer_that_rests_now_and_then_never_waits_nor_reads(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_high_latency(1);
    struct writer h = fixture_writer(&s, &c);
    for (int i = 0; i < 100; i++) {
        writer_commit(&h);
        writer_take_none(&h);
        if (i % 5 == 0) writer_pass(&h, 3 * PUT_MS);
    }
    writer_dismiss(&h);
    fixture_close(&s);
}

// A winner that does not stop never sees the writers that lose.
static void a_writer_that_never_rests_pauses_rarely_to_let_others_write(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_high_latency(1);
    struct writer h = fixture_writer(&s, &c);
    int pauses = 0;
    for (int i = 0; i < 500; i++) {
        uint64_t ticket = writer_ask(&h);
        if (journal_wake_at(h.journal) != TIME_NEVER) {
            writer_take_none(&h);
            assert_int_equal(writer_pass_until_woken(&h), 2 * PUT_MS);
            writer_expect_reads(&h, 1);
            pauses++;
        }
        writer_put(&h);
        writer_heard(&h, ticket, ERR_OK);
    }
    assert_in_range(pauses, 5, 8); // after 8, 16, 32, 64, 128, 128 ...
    writer_dismiss(&h);
    fixture_close(&s);
}

static void loser_waits_then_looks_for_the_tail_then_proposes(void **state)
{
    (void)state;
    int64_t longest = 0;
    for (uint64_t seed = 1; seed <= 40; seed += 2) {
        struct fixture s;
        fixture_open(&s);
        struct journal_config one = config_high_latency(seed),
                              other = config_high_latency(seed + 1);
        struct writer a = fixture_writer(&s, &one), b = fixture_writer(&s, &other);
        uint64_t ticket = writer_ask(&a);
        struct request q = writer_take_append(&a);
        writer_commit(&b);
        writer_commit(&b);
        writer_answer(&a, &q, ERR_OK);
        int64_t lost_at = s.now;
        struct request first;
        while (!writer_take(&a, &first))
            writer_pass_until_woken(&a);
        if (s.now - lost_at > longest) longest = s.now - lost_at;
        assert_int_equal(first.kind, REQUEST_READ_LOG);
        writer_answer(&a, &first, ERR_OK);
        writer_expect_reads(&a, 2); // b's other commit, and that nothing follows
        writer_put(&a);
        writer_heard(&a, ticket, ERR_OK);
        writer_dismiss(&a);
        writer_dismiss(&b);
        fixture_close(&s);
    }
    assert_in_range(longest, PUT_MS / 2, 4 * PUT_MS); // scaled by the put that was lost
}

// Its lower bound leaps when the clock becomes better known: that is not how long the put took.
static void clock_that_becomes_better_known_makes_no_writer_wait_longer(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    s.blur = 1000;
    struct journal_config one = config_high_latency(1), other = config_high_latency(2);
    struct writer a = fixture_writer(&s, &one), b = fixture_writer(&s, &other);
    (void)writer_ask(&a);
    struct request q = writer_take_append(&a);
    s.now += PUT_MS;
    writer_commit(&b);
    s.blur = 0;
    writer_answer(&a, &q, ERR_OK); // lost
    struct request read;
    int64_t lost_at = s.now;
    while (!writer_take(&a, &read))
        writer_pass_until_woken(&a);
    assert_in_range(s.now - lost_at, 0, 4 * PUT_MS);
    writer_dismiss(&a);
    writer_dismiss(&b);
    fixture_close(&s);
}

static void winner_steps_aside_after_a_few_commits(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_high_latency(1), other = config_high_latency(2);
    struct writer a = fixture_writer(&s, &one), b = fixture_writer(&s, &other);
    writer_commit(&b);
    writer_catch_up(&a);
    writer_commit(&a); // it has just looked
    writer_commit(&a);
    writer_commit(&a);
    writer_ask(&a);
    writer_take_none(&a);
    assert_in_range(writer_pass_until_woken(&a), PUT_MS, 48 * PUT_MS);
    writer_expect_reads(&a, 1);
    (void)writer_take_append(&a);
    writer_dismiss(&a);
    writer_dismiss(&b);
    fixture_close(&s);
}

// The store of these tests returns one slot for each read.
static void a_writer_far_behind_reads_on_to_the_tail_where_puts_are_cheap(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_plain(1), other = config_plain(2);
    struct writer a = fixture_writer(&s, &one), b = fixture_writer(&s, &other);
    for (int i = 0; i < 10; i++)
        writer_commit(&b);
    writer_pass(&a, 1000);
    uint64_t ticket = writer_ask(&a);
    writer_put(&a); // lost
    writer_expect_reads(&a, 1);
    writer_put(&a);              // lost again: b may have committed more
    writer_expect_reads(&a, 10); // its other nine entries, and that nothing follows
    writer_put(&a);
    writer_heard(&a, ticket, ERR_OK);
    writer_dismiss(&a);
    writer_dismiss(&b);
    fixture_close(&s);
}

static void a_writer_that_loses_a_race_proposes_at_once_where_puts_are_cheap(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_plain(1), other = config_plain(2);
    struct writer a = fixture_writer(&s, &one), b = fixture_writer(&s, &other);
    uint64_t ticket = writer_ask(&a);
    for (int i = 0; i < 5; i++) {
        struct request q = writer_take_append(&a);
        writer_commit(&b);
        writer_answer(&a, &q, ERR_OK); // lost
        writer_expect_reads(&a, 1);
    }
    writer_put(&a);
    writer_heard(&a, ticket, ERR_OK);
    writer_dismiss(&a);
    writer_dismiss(&b);
    fixture_close(&s);
}

// Another writer commits about two entries in the time of three requests, without end.
static void a_writer_far_behind_reaches_a_tail_that_moves(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_plain(1), other = config_plain(2);
    struct writer a = fixture_writer(&s, &one), b = fixture_writer(&s, &other);
    for (int i = 0; i < 30; i++)
        writer_commit(&b);
    uint64_t ticket = writer_ask(&a);
    struct journal_reply r = {0};
    for (int i = 0; i < 300 && !journal_next_reply(a.journal, &r); i++) {
        struct request q;
        assert_true(writer_take(&a, &q));
        if (rng_chance(&s.rng, 6667)) {
            writer_commit(&b); // takes as long as the request
        } else {
            s.now += PUT_MS;
        }
        writer_answer(&a, &q, ERR_OK);
    }
    assert_int_equal(r.ticket, ticket);
    writer_dismiss(&a);
    writer_dismiss(&b);
    fixture_close(&s);
}

static void a_writer_in_doubt_reads_the_slot_at_once(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_high_latency(1);
    struct writer h = fixture_writer(&s, &c);
    uint64_t ticket = writer_ask(&h);
    struct request q = writer_take_append(&h);
    struct bucket_answer ignore_answer;
    bucket_answer_init(&ignore_answer);
    bucket_perform(&s.bucket, &q, s.now, &ignore_answer); // it lands
    bucket_answer_done(&ignore_answer);
    writer_answer(&h, &q, ERR_UNKNOWN);
    writer_pass_until_woken(&h);
    writer_put(&h); // refused: the slot is taken, by our own entry
    writer_expect_reads(&h, 1);
    writer_heard(&h, ticket, ERR_OK);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void own(struct writer *h)
{
    struct journal_owner owner = {.token = 1};
    uint64_t ticket = ++h->fixture->tickets;
    journal_own(h->journal, ticket, journal_epoch(h->journal), &owner, TIME_NEVER,
                fixture_instant(h->fixture));
    writer_put(h);
    writer_heard(h, ticket, ERR_OK);
    assert_true(journal_is_owner(h->journal));
}

static void direct_writer_pauses_beside_a_live_owner(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_plain(1), other = config_plain(2);
    struct writer owner = fixture_writer(&s, &one), direct = fixture_writer(&s, &other);
    own(&owner);
    writer_catch_up(&direct);
    writer_commit(&direct);
    writer_ask(&direct);
    writer_take_none(&direct);
    assert_int_equal(writer_pass_until_woken(&direct), 1000);
    writer_put(&direct);
    writer_catch_up(&owner);
    writer_commit(&owner); // the owner does not
    writer_commit(&owner);
    writer_dismiss(&owner);
    writer_dismiss(&direct);
    fixture_close(&s);
}

static void no_writer_pauses_for_an_owner_that_stopped_writing(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_plain(1), other = config_plain(2);
    struct writer owner = fixture_writer(&s, &one), direct = fixture_writer(&s, &other);
    own(&owner);
    writer_catch_up(&direct);
    writer_pass(&direct, 5001);
    writer_commit(&direct);
    writer_commit(&direct);
    writer_dismiss(&owner);
    writer_dismiss(&direct);
    fixture_close(&s);
}

static void no_writer_pauses_for_an_owner_that_does_not_answer_until_it_writes_again(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_plain(1), other = config_plain(2);
    struct writer owner = fixture_writer(&s, &one), direct = fixture_writer(&s, &other);
    own(&owner);
    writer_catch_up(&direct);
    writer_commit(&owner); // which the other has not read yet
    journal_owner_away(direct.journal, fixture_instant(&s));
    writer_catch_up(&direct);
    writer_commit(&direct);
    writer_commit(&direct);
    writer_pass(&owner, 1);
    writer_catch_up(&owner);
    writer_commit(&owner);
    writer_catch_up(&direct);
    writer_commit(&direct);
    writer_ask(&direct);
    writer_take_none(&direct);
    assert_int_equal(writer_pass_until_woken(&direct), 1000);
    writer_put(&direct);
    writer_dismiss(&owner);
    writer_dismiss(&direct);
    fixture_close(&s);
}

static void op_that_waits_out_a_pause_goes_when_the_owner_does_not_answer(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config one = config_plain(1), other = config_plain(2);
    struct writer owner = fixture_writer(&s, &one), direct = fixture_writer(&s, &other);
    own(&owner);
    writer_catch_up(&direct);
    writer_commit(&direct);
    writer_ask(&direct);
    writer_take_none(&direct);
    journal_owner_away(direct.journal, fixture_instant(&s));
    writer_put(&direct);
    writer_dismiss(&owner);
    writer_dismiss(&direct);
    fixture_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_writer_that_rests_now_and_then_never_waits_nor_reads),
        cmocka_unit_test(a_writer_that_never_rests_pauses_rarely_to_let_others_write),
        cmocka_unit_test(loser_waits_then_looks_for_the_tail_then_proposes),
        cmocka_unit_test(clock_that_becomes_better_known_makes_no_writer_wait_longer),
        cmocka_unit_test(winner_steps_aside_after_a_few_commits),
        cmocka_unit_test(a_writer_far_behind_reads_on_to_the_tail_where_puts_are_cheap),
        cmocka_unit_test(a_writer_that_loses_a_race_proposes_at_once_where_puts_are_cheap),
        cmocka_unit_test(a_writer_far_behind_reaches_a_tail_that_moves),
        cmocka_unit_test(a_writer_in_doubt_reads_the_slot_at_once),
        cmocka_unit_test(direct_writer_pauses_beside_a_live_owner),
        cmocka_unit_test(no_writer_pauses_for_an_owner_that_stopped_writing),
        cmocka_unit_test(no_writer_pauses_for_an_owner_that_does_not_answer_until_it_writes_again),
        cmocka_unit_test(op_that_waits_out_a_pause_goes_when_the_owner_does_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
