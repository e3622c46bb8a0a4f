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
    call_init(c, CALL_RECEIVE);
    (void)next(c, CALL_BUILD);
    call_built(c, &plan);
}

static void deliver(struct call_state *c)
{
    (void)next(c, CALL_DELIVER);
    call_delivered(c);
    (void)next(c, CALL_ANSWER);
    assert_true(call_is_over(c));
    call_done(c);
}

// The op hears twice that the shard has moved, before the claim hears it once.
static void a_pair_stays_here_if_its_claim_must(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.ops = 1, .at_once = 1, .shards = 1, .joined = true});
    assert_false(next(&c, CALL_SUBMIT_JOINED).here);
    for (int i = 0; i < 2; i++) {
        if (i > 0) assert_false(next(&c, CALL_SUBMIT).here);
        call_op_away(&c, 0, CALL_MOVED);
        (void)next(&c, CALL_FIND);
        if (i == 0) call_found(&c);
    }
    call_claim_away(&c, 0, CALL_MOVED);
    call_found(&c);
    assert_true(next(&c, CALL_SUBMIT_JOINED).here);
    nothing_next(&c);
    assert_true(call_op_ended(&c, 0, CALL_OP_DONE));
    call_claimed(&c, 0, CALL_FOUND, false);
    deliver(&c);
}

static void a_claim_without_a_result_is_made_again_in_its_shard(void **state)
{
    (void)state;
    static const enum call_away ways[] = {CALL_UNDONE, CALL_DOUBTED};
    for (int i = 0; i < 2; i++) {
        struct call_state c;
        receive(&c, (struct call_plan){.shards = 2});
        assert_int_equal(next(&c, CALL_AWAIT).index, 0);
        assert_int_equal(next(&c, CALL_AWAIT).index, 1);
        call_awaited(&c, 1, CALL_FOUND);
        assert_int_equal(next(&c, CALL_CLAIM).index, 1);
        call_awaited(&c, 0, CALL_FOUND); // the shard that it prefers
        call_claim_away(&c, 1, ways[i]);
        struct call_effect e = next(&c, CALL_CLAIM);
        assert_int_equal(e.index, 1);
        assert_true(e.here);
        call_claimed(&c, 1, CALL_FOUND, false);
        assert_int_equal(next(&c, CALL_NOTIFY).index, 0);
        deliver(&c);
    }
}

static void a_rerouted_receive_of_one_shard_begins_again(void **state)
{
    (void)state;
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct call_state c;
        receive(&c, (struct call_plan){.shards = 1});
        (void)next(&c, CALL_CLAIM);
        call_reroute(&c);
        (void)next(&c, CALL_WITHDRAW_CLAIM);
        call_withdrawn(&c, 0, cancelled);
        if (!cancelled) call_claimed(&c, 0, CALL_NOTHING, false); // it was too late
        (void)next(&c, CALL_CLAIM);
        nothing_next(&c);
        call_claimed(&c, 0, CALL_NOTHING, true);
        deliver(&c);
    }
}

static void a_rerouted_receive_of_two_shards_begins_again(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 2});
    (void)next(&c, CALL_AWAIT);
    (void)next(&c, CALL_AWAIT);
    call_reroute(&c);
    assert_int_equal(next(&c, CALL_WITHDRAW_AWAIT).index, 0);
    call_withdrawn(&c, 0, true);
    assert_int_equal(next(&c, CALL_WITHDRAW_AWAIT).index, 1);
    call_withdrawn(&c, 1, false);
    assert_int_equal(next(&c, CALL_AWAIT).index, 0);
    nothing_next(&c);
    call_awaited(&c, 1, CALL_NOTHING); // it was too late
    assert_int_equal(next(&c, CALL_AWAIT).index, 1);
    call_awaited(&c, 0, CALL_NOTHING);
    call_awaited(&c, 1, CALL_NOTHING);
    deliver(&c);
}

// A reroute withdraws what waits, so that it is made again. If that was too late and the caller
// gives up meanwhile, the shell learns that too.
static void a_cancel_after_a_reroute_withdraws_for_good(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 1});
    (void)next(&c, CALL_CLAIM);
    call_reroute(&c);
    assert_false(next(&c, CALL_WITHDRAW_CLAIM).last);
    call_withdrawn(&c, 0, false);
    nothing_next(&c);
    call_cancel(&c);
    assert_true(next(&c, CALL_WITHDRAW_CLAIM).last);
    call_withdrawn(&c, 0, false);
    nothing_next(&c);
    call_claimed(&c, 0, CALL_NOTHING, false);
    deliver(&c);
}

static void a_cancel_after_a_reroute_of_two_shards_withdraws_for_good(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 2});
    (void)next(&c, CALL_AWAIT);
    (void)next(&c, CALL_AWAIT);
    call_reroute(&c);
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(next(&c, CALL_WITHDRAW_AWAIT).last);
        call_withdrawn(&c, i, false);
    }
    nothing_next(&c);
    call_cancel(&c);
    for (uint32_t i = 0; i < 2; i++) {
        struct call_effect e = next(&c, CALL_WITHDRAW_AWAIT);
        assert_true(e.last && e.index == i);
        call_withdrawn(&c, i, i == 0);
    }
    call_awaited(&c, 1, CALL_NOTHING);
    deliver(&c);
}

static void a_part_of_a_wait_that_ends_is_followed_by_another(void **state)
{
    (void)state;
    struct call_state c;
    receive(&c, (struct call_plan){.shards = 1});
    for (int i = 0; i < 3; i++) {
        assert_false(next(&c, CALL_CLAIM).here);
        call_claimed(&c, 0, CALL_AGAIN, false);
    }
    (void)next(&c, CALL_CLAIM);
    call_claimed(&c, 0, CALL_NOTHING, true);
    deliver(&c);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
