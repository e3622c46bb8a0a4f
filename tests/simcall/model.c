// SPDX-License-Identifier: Apache-2.0
// The call model step by step, where seeds rarely come: events of two threads that overtake each
// other.
#include "../unit/unit.h"
#include "call/step.h"

static struct call_effect next(struct call_state *c, enum call_effect_kind kind)
{
    struct call_effect e;
    assert_true(call_next(c, &e));
    assert_int_equal(e.kind, kind);
    return e;
}

static void nothing_next(struct call_state *c)
{
    struct call_effect e;
    assert_false(call_next(c, &e));
}

static void receive(struct call_state *c, struct call_plan plan)
{
    plan.has_turn = true;
    call_init(c, STEP_RECEIVE);
    (void)next(c, STEP_BUILD);
    call_built(c, &plan);
}

static void deliver(struct call_state *c)
{
    (void)next(c, STEP_DELIVER);
    call_delivered(c);
    (void)next(c, STEP_ANSWER);
    assert_true(call_is_over(c));
    call_done(c);
}

// The op hears twice that the shard has moved, before the claim hears it once.
static void a_pair_stays_here_if_its_claim_must(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.ops = 1, .at_once = 1, .shards = 1, .joined = true});
    assert_false(next(&c, STEP_SUBMIT_JOINED).here);
    for (int i = 0; i < 2; i++) {
        if (i > 0) assert_false(next(&c, STEP_SUBMIT).here);
        call_op_returned(&c, 0, STEP_MOVED);
        (void)next(&c, STEP_FIND);
        if (i == 0) call_found(&c);
    }
    call_claim_returned(&c, 0, STEP_MOVED);
    call_found(&c);
    assert_true(next(&c, STEP_SUBMIT_JOINED).here);
    nothing_next(&c);
    assert_true(call_op_ended(&c, 0, STEP_OP_DONE));
    call_claimed(&c, 0, STEP_FOUND, false);
    deliver(&c);
}

static void a_claim_without_a_result_is_made_again_in_its_shard(void **state)
{
    (void)state;
    static const enum call_return ways[] = {STEP_UNDONE, STEP_DOUBTED};
    for (int i = 0; i < 2; i++) {
        struct call_state c;
        receive(&c, (struct call_plan){.shards = 2});
        assert_int_equal(next(&c, STEP_AWAIT).index, 0);
        assert_int_equal(next(&c, STEP_AWAIT).index, 1);
        call_awaited(&c, 1, STEP_FOUND);
        assert_int_equal(next(&c, STEP_CLAIM).index, 1);
        call_awaited(&c, 0, STEP_FOUND); // the shard that it prefers
        call_claim_returned(&c, 1, ways[i]);
        struct call_effect e = next(&c, STEP_CLAIM);
        assert_int_equal(e.index, 1);
        assert_true(e.here);
        call_claimed(&c, 1, STEP_FOUND, false);
        assert_int_equal(next(&c, STEP_NOTIFY).index, 0);
        deliver(&c);
    }
}

static void a_rerouted_receive_of_one_shard_begins_again(void **state)
{
    (void)state;
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct call_state c;
        receive(&c, (struct call_plan){.shards = 1});
        (void)next(&c, STEP_CLAIM);
        call_reroute(&c);
        (void)next(&c, STEP_WITHDRAW_CLAIM);
        call_withdrawn(&c, 0, cancelled);
        if (!cancelled) call_claimed(&c, 0, STEP_NOTHING, false); // it was too late
        (void)next(&c, STEP_CLAIM);
        nothing_next(&c);
        call_claimed(&c, 0, STEP_NOTHING, true);
        deliver(&c);
    }
}

static void a_rerouted_receive_of_two_shards_begins_again(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 2});
    (void)next(&c, STEP_AWAIT);
    (void)next(&c, STEP_AWAIT);
    call_reroute(&c);
    assert_int_equal(next(&c, STEP_WITHDRAW_AWAIT).index, 0);
    call_withdrawn(&c, 0, true);
    assert_int_equal(next(&c, STEP_WITHDRAW_AWAIT).index, 1);
    call_withdrawn(&c, 1, false);
    assert_int_equal(next(&c, STEP_AWAIT).index, 0);
    nothing_next(&c);
    call_awaited(&c, 1, STEP_NOTHING); // it was too late
    assert_int_equal(next(&c, STEP_AWAIT).index, 1);
    call_awaited(&c, 0, STEP_NOTHING);
    call_awaited(&c, 1, STEP_NOTHING);
    deliver(&c);
}

// A reroute withdraws what waits, so that it is made again. If that was too late and the caller
// gives up meanwhile, the shell learns that too.
static void a_cancel_after_a_reroute_withdraws_for_good(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 1});
    (void)next(&c, STEP_CLAIM);
    call_reroute(&c);
    assert_false(next(&c, STEP_WITHDRAW_CLAIM).last);
    call_withdrawn(&c, 0, false);
    nothing_next(&c);
    call_cancel(&c);
    assert_true(next(&c, STEP_WITHDRAW_CLAIM).last);
    call_withdrawn(&c, 0, false);
    nothing_next(&c);
    call_claimed(&c, 0, STEP_NOTHING, false);
    deliver(&c);
}

static void a_cancel_after_a_reroute_of_two_shards_withdraws_for_good(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 2});
    (void)next(&c, STEP_AWAIT);
    (void)next(&c, STEP_AWAIT);
    call_reroute(&c);
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(next(&c, STEP_WITHDRAW_AWAIT).last);
        call_withdrawn(&c, i, false);
    }
    nothing_next(&c);
    call_cancel(&c);
    for (uint32_t i = 0; i < 2; i++) {
        struct call_effect e = next(&c, STEP_WITHDRAW_AWAIT);
        assert_true(e.last && e.index == i);
        call_withdrawn(&c, i, i == 0);
    }
    call_awaited(&c, 1, STEP_NOTHING);
    deliver(&c);
}

static void a_part_of_a_wait_that_ends_is_followed_by_another(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 1});
    for (int i = 0; i < 3; i++) {
        assert_false(next(&c, STEP_CLAIM).here);
        call_claimed(&c, 0, STEP_AGAIN, false);
    }
    (void)next(&c, STEP_CLAIM);
    call_claimed(&c, 0, STEP_NOTHING, true);
    deliver(&c);
}

static void served(struct call_state *c, struct call_plan plan)
{
    call_init(c, STEP_SERVED);
    (void)next(c, STEP_BUILD);
    call_built(c, &plan);
}

static void answer(struct call_state *c, bool undone)
{
    (void)next(c, STEP_ANSWER);
    assert_int_equal(c->undone, undone);
    assert_true(call_is_over(c));
    call_done(c);
}

static void a_served_await_names_all_shards_that_have_something(void **state)
{
    (void)state;
    struct call_state c;
    served(&c, (struct call_plan){.shards = 3, .awaits_only = true});
    assert_true(next(&c, STEP_AWAIT).here);
    call_awaited(&c, 0, STEP_FOUND);
    for (uint32_t i = 1; i < 3; i++)
        assert_int_equal(next(&c, STEP_AWAIT).index, i);
    assert_int_equal(next(&c, STEP_NOTIFY).index, 0);
    for (uint32_t i = 1; i < 3; i++) {
        struct call_effect e = next(&c, STEP_WITHDRAW_AWAIT);
        assert_true(e.last && e.index == i);
        call_withdrawn(&c, i, i == 1);
    }
    nothing_next(&c);
    call_awaited(&c, 2, STEP_FOUND); // it was too late
    assert_int_equal(next(&c, STEP_NOTIFY).index, 2);
    answer(&c, false);
}

static void a_served_await_whose_caller_is_gone_is_undone(void **state)
{
    (void)state;
    struct call_state c;
    served(&c, (struct call_plan){.shards = 2, .awaits_only = true});
    (void)next(&c, STEP_AWAIT);
    (void)next(&c, STEP_AWAIT);
    call_reroute(&c); // it stays here
    nothing_next(&c);
    call_cancel(&c);
    for (uint32_t i = 0; i < 2; i++) {
        (void)next(&c, STEP_WITHDRAW_AWAIT);
        call_withdrawn(&c, i, true);
    }
    answer(&c, true);
}

static void signals_that_a_served_call_found_are_there_for_all(void **state)
{
    (void)state;
    struct call_state c;
    served(&c, (struct call_plan){.shards = 1, .awaits_only = true, .shared = true});
    (void)next(&c, STEP_AWAIT);
    call_awaited(&c, 0, STEP_FOUND);
    answer(&c, false);
}

static void a_served_op_without_a_result_is_not_repeated(void **state)
{
    (void)state;
    struct call_state c;
    served(&c, (struct call_plan){.ops = 1, .at_once = 1});
    assert_true(next(&c, STEP_SUBMIT).here);
    assert_true(call_op_ended(&c, 0, STEP_OP_UNKNOWN));
    answer(&c, false);
}

static void a_served_pair_is_answered_after_its_op(void **state)
{
    (void)state;
    struct call_state c;
    served(&c, (struct call_plan){.ops = 1, .at_once = 1, .shards = 1, .joined = true});
    assert_true(next(&c, STEP_SUBMIT_JOINED).here);
    call_cancel(&c);
    assert_true(next(&c, STEP_WITHDRAW_CLAIM).last);
    call_withdrawn(&c, 0, true);
    nothing_next(&c);
    assert_true(call_op_ended(&c, 0, STEP_OP_DONE));
    answer(&c, true);
}

static void a_served_call_of_a_shard_that_has_moved_does_nothing(void **state)
{
    (void)state;
    struct call_state c;
    call_init(&c, STEP_SERVED);
    (void)next(&c, STEP_BUILD);
    call_moved(&c);
    assert_true(c.moved);
    answer(&c, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_stays_here_if_its_claim_must),
        cmocka_unit_test(a_claim_without_a_result_is_made_again_in_its_shard),
        cmocka_unit_test(a_rerouted_receive_of_one_shard_begins_again),
        cmocka_unit_test(a_rerouted_receive_of_two_shards_begins_again),
        cmocka_unit_test(a_cancel_after_a_reroute_withdraws_for_good),
        cmocka_unit_test(a_cancel_after_a_reroute_of_two_shards_withdraws_for_good),
        cmocka_unit_test(a_part_of_a_wait_that_ends_is_followed_by_another),
        cmocka_unit_test(a_served_await_names_all_shards_that_have_something),
        cmocka_unit_test(a_served_await_whose_caller_is_gone_is_undone),
        cmocka_unit_test(signals_that_a_served_call_found_are_there_for_all),
        cmocka_unit_test(a_served_op_without_a_result_is_not_repeated),
        cmocka_unit_test(a_served_pair_is_answered_after_its_op),
        cmocka_unit_test(a_served_call_of_a_shard_that_has_moved_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
