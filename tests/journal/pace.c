// SPDX-License-Identifier: Apache-2.0
// When an entry is proposed: budget, company, and how often what is in doubt is sent again.
#include "fixture.h"

static void ops_beyond_the_budget_wait_and_share_an_entry(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_plain(1);
    c.puts_per_second = 2;
    struct writer h = fixture_writer(&s, &c);
    writer_commit(&h); // a second's worth is there from the beginning
    writer_commit(&h);
    uint64_t third = writer_ask(&h), fourth = writer_ask(&h);
    writer_take_none(&h);
    int64_t waited = writer_pass_until_woken(&h);
    assert_in_range(waited, 300, 500); // half a second for a put, less what the first two took
    uint64_t slot = journal_slot(h.journal);
    writer_put(&h);
    writer_heard(&h, third, ERR_OK);
    writer_heard(&h, fourth, ERR_OK);
    assert_int_equal(journal_slot(h.journal), slot + 1);
    writer_pass(&h, 10000); // and no more than a second's worth is saved up
    writer_commit(&h);
    writer_commit(&h);
    writer_ask(&h);
    writer_take_none(&h);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void op_held_back_past_its_deadline_was_never_sent(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_plain(1);
    c.puts_per_second = 1;
    struct writer h = fixture_writer(&s, &c);
    writer_commit(&h);
    uint64_t ticket = writer_ask_until(&h, s.now + 100);
    assert_int_equal(journal_wake_at(h.journal), s.now + 100);
    writer_pass_until_woken(&h);
    writer_heard(&h, ticket, ERR_UNAVAILABLE);
    writer_pass(&h, 5000);
    writer_take_none(&h);
    assert_int_equal(journal_slot(h.journal), 1);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void put_in_doubt_is_sent_again_only_with_credit(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_plain(1);
    c.puts_per_second = 1;
    struct writer h = fixture_writer(&s, &c);
    writer_ask(&h);
    int64_t sent = s.now;
    struct request q = writer_take_append(&h);
    writer_answer(&h, &q, ERR_UNKNOWN);
    writer_take_none(&h);
    writer_pass_until_woken(&h);
    assert_true(s.now - sent >= 1000);
    writer_put(&h);
    assert_int_equal(journal_slot(h.journal), 1);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void snapshots_are_charged_but_never_wait(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_plain(1);
    c.puts_per_second = 1;
    c.rules.snapshot_every = 1;
    struct writer h = fixture_writer(&s, &c);
    writer_commit(&h);
    struct request q;
    assert_true(writer_take(&h, &q)); // though the only put of this second is spent
    assert_int_equal(q.kind, REQUEST_PUT_NEW);
    writer_ask(&h);
    assert_true(writer_pass_until_woken(&h) > 1000); // the next entry pays for both
    (void)writer_take_append(&h);
    writer_dismiss(&h);
    fixture_close(&s);
}

static bool always_idle(void *ctx, const struct op *op, int64_t now)
{
    (void)ctx, (void)op, (void)now;
    return true;
}

static void what_needs_no_entry_does_not_wait_for_credit(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_plain(1);
    c.puts_per_second = 1;
    struct writer h = {.fixture = &s, .registers = registers_new(600000)};
    struct fold fold = registers_fold(h.registers);
    fold.idle = always_idle;
    h.journal = journal_new(&c, &fold);
    journal_start(h.journal, fixture_instant(&s));
    struct request q;
    while (writer_take(&h, &q))
        writer_answer(&h, &q, ERR_OK);
    journal_charge(h.journal, 1);
    uint64_t ticket = writer_ask(&h);
    writer_heard(&h, ticket, ERR_OK);
    writer_take_none(&h);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void puts_of_other_processes_draw_from_the_budget_and_debts_are_forgiven(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_plain(1);
    c.puts_per_second = 10;
    struct writer h = fixture_writer(&s, &c);
    journal_charge(h.journal, 1000000);
    writer_ask(&h);
    assert_in_range(writer_pass_until_woken(&h), 1000, 1200);
    (void)writer_take_append(&h);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void callers_answered_together_are_waited_for_a_moment(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_high_latency(1);
    struct writer h = fixture_writer(&s, &c);
    writer_commit(&h); // now it knows how long a put takes
    journal_hold(h.journal);
    writer_ask(&h);
    writer_ask(&h);
    journal_release(h.journal, fixture_instant(&s));
    writer_put(&h);
    writer_ask(&h); // the first of the two is back
    writer_take_none(&h);
    writer_ask(&h);
    (void)writer_take_append(&h); // and the other: no reason to wait any longer
    writer_dismiss(&h);
    fixture_close(&s);
}

static void callers_that_stay_away_cost_a_fraction_of_a_put(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_high_latency(1);
    struct writer h = fixture_writer(&s, &c);
    writer_commit(&h);
    journal_hold(h.journal);
    writer_ask(&h);
    writer_ask(&h);
    journal_release(h.journal, fixture_instant(&s));
    writer_put(&h);
    writer_ask(&h);
    writer_take_none(&h);
    assert_in_range(writer_pass_until_woken(&h), 1, PUT_MS / 4);
    (void)writer_take_append(&h);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void a_commit_waits_for_no_joiners_on_a_fast_store(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    struct journal_config c = config_plain(1);
    struct writer h = fixture_writer(&s, &c);
    writer_commit(&h);
    journal_hold(h.journal);
    writer_ask(&h);
    writer_ask(&h);
    journal_release(h.journal, fixture_instant(&s));
    writer_put(&h);
    writer_ask(&h);
    (void)writer_take_append(&h);
    writer_dismiss(&h);
    fixture_close(&s);
}

static void what_is_in_doubt_is_sent_again_at_random_and_ever_more_rarely(void **state)
{
    (void)state;
    struct fixture s;
    fixture_open(&s);
    int64_t longest = 0, shortest = INT64_MAX;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct journal_config c = config_plain(seed);
        struct writer h = fixture_writer(&s, &c);
        writer_ask(&h);
        int64_t waited = 0;
        for (int i = 0; i < 12; i++) {
            struct request q;
            waited = 0;
            while (!writer_take(&h, &q))
                waited += writer_pass_until_woken(&h);
            assert_int_equal(q.kind, REQUEST_APPEND);
            writer_answer(&h, &q, ERR_UNKNOWN);
            assert_true(waited <= c.retry_max_ms);
        }
        if (waited > longest) longest = waited;
        if (waited < shortest) shortest = waited;
        struct request q;
        while (!writer_take(&h, &q))
            writer_pass_until_woken(&h);
        writer_answer(&h, &q, ERR_OK); // it is back
        assert_true(journal_slot(h.journal) > 0 || writer_take(&h, &q));
        writer_dismiss(&h);
    }
    assert_true(longest > 1500); // spread over the whole width
    assert_true(shortest < 500);
    fixture_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_beyond_the_budget_wait_and_share_an_entry),
        cmocka_unit_test(op_held_back_past_its_deadline_was_never_sent),
        cmocka_unit_test(put_in_doubt_is_sent_again_only_with_credit),
        cmocka_unit_test(snapshots_are_charged_but_never_wait),
        cmocka_unit_test(what_needs_no_entry_does_not_wait_for_credit),
        cmocka_unit_test(puts_of_other_processes_draw_from_the_budget_and_debts_are_forgiven),
        cmocka_unit_test(callers_answered_together_are_waited_for_a_moment),
        cmocka_unit_test(callers_that_stay_away_cost_a_fraction_of_a_put),
        cmocka_unit_test(a_commit_waits_for_no_joiners_on_a_fast_store),
        cmocka_unit_test(what_is_in_doubt_is_sent_again_at_random_and_ever_more_rarely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
