// SPDX-License-Identifier: Apache-2.0
// Owner-only consumption (`consume=owner`) at two handles of one shard: only the owner's entries
// hand out messages, and another handle refuses a claim without an entry.
#include "rig.h"

#include <string.h>

#define LONG_MS (INT64_C(3600) * 1000)

struct pair {
    struct store *store;
    struct rig a; // the first owner
    struct rig b;
};

static struct pair pair_new(void)
{
    struct shard_config c = rig_config();
    struct pair p = {.store = store_mem_new()};
    c.birth.consume = CONSUME_OWNER;
    p.a = rig_on(p.store, &c);
    p.b = rig_on(p.store, &c);
    rig_does(&p.a, rig_own(&p.a, 1));
    rig_look(&p.b);
    return p;
}

static void pair_done(struct pair *p)
{
    rig_done(&p->a);
    rig_done(&p->b);
    store_free(p->store);
}

static uint64_t refused_claims(struct rig *r)
{
    struct machine_stats stats;
    machine_stats(shard_machine(r->shard), rig_time(r).lo, &stats);
    return stats.refused;
}

static void only_the_owner_hands_out_messages(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.b, "x"); // any process may send
    rig_look(&p.a);
    uint64_t slot = rig_slot(&p.a);
    uint64_t ticket = rig_receive(&p.b, "w", 1, 0);
    rig_settle(&p.b);
    struct rig_answer got = rig_answer(&p.b, ticket);
    assert_int_equal(got.err, ERR_FENCED);
    assert_int_equal(got.reason, REASON_NOT_OWNER);
    rig_look(&p.a);
    assert_int_equal(rig_slot(&p.a), slot); // nothing was written
    got = rig_claimed(&p.a, "w", 1);
    assert_int_equal(got.count, 1);
    rig_look(&p.b);
    rig_pass(&p.b, 5000);                             // a direct writer pauses for the owner
    rig_does(&p.b, rig_word(&p.b, OP_ACK, &got, "")); // the holder of the token acks anywhere
    assert_int_equal(refused_claims(&p.b), 0);
    pair_done(&p);
}

static void without_an_owner_a_receive_is_refused_after_a_short_wait(void **state)
{
    (void)state;
    struct shard_config c = rig_config();
    c.birth.consume = CONSUME_OWNER;
    struct store *s = store_mem_new();
    struct rig r = rig_on(s, &c);
    rig_sent(&r, "x");
    uint64_t slot = rig_slot(&r), ticket = rig_receive(&r, "w", 1, LONG_MS);
    rig_settle(&r);
    rig_no_answer(&r);
    rig_pass(&r, 1000);
    rig_settle(&r);
    assert_int_equal(rig_answer(&r, ticket).reason, REASON_NOT_OWNER);
    assert_int_equal(rig_slot(&r), slot);
    rig_done(&r);
    store_free(s);
}

static void a_receive_that_waits_is_served_when_its_handle_becomes_the_owner(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "x");
    rig_look(&p.b);
    uint64_t ticket = rig_receive(&p.b, "w", 1, LONG_MS);
    rig_settle(&p.b);
    rig_no_answer(&p.b);
    uint64_t own = rig_own(&p.b, 2);
    rig_settle(&p.b);
    struct rig_answer got;
    assert_int_equal(rig_answer(&p.b, own).err, ERR_OK);
    assert_true(rig_answered(&p.b, ticket, &got));
    assert_int_equal(got.count, 1);
    pair_done(&p);
}

// The handle becomes the owner in the step in which the wait ends. It has not looked for messages
// as the owner yet, so it must not answer that there are none.
static void a_wait_that_ends_as_its_handle_becomes_the_owner_is_served(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "x");
    rig_look(&p.b);
    uint64_t ticket = rig_receive(&p.b, "w", 1, 20);
    rig_settle(&p.b);
    rig_no_answer(&p.b);
    uint64_t own = rig_own(&p.b, 2);
    struct request put = rig_until_append(&p.b);
    store_mem_step(p.store, 20); // no tick: the answer of the store comes first
    rig_serve(&p.b, &put, FATE_OK);
    rig_settle(&p.b);
    struct rig_answer got;
    assert_int_equal(rig_answer(&p.b, own).err, ERR_OK);
    assert_true(rig_answered(&p.b, ticket, &got));
    assert_int_equal(got.count, 1);
    pair_done(&p);
}

static void the_waits_of_a_former_owner_end_at_once(void **state)
{
    (void)state;
    struct pair p = pair_new();
    uint64_t ticket = rig_receive(&p.a, "w", 1, LONG_MS);
    rig_settle(&p.a);
    rig_no_answer(&p.a);
    rig_does(&p.b, rig_own(&p.b, 2));
    rig_look(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket).reason, REASON_NOT_OWNER);
    assert_int_equal(shard_waiting(p.a.shard), 0);
    pair_done(&p);
}

// The entry of a former owner is void. Its claim must not be proposed again as a direct one.
static void a_claim_of_a_former_owner_is_not_proposed_again(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "x");
    rig_look(&p.b);
    uint64_t ticket = rig_receive(&p.a, "w", 1, 0);
    struct request put = rig_until_append(&p.a);
    rig_does(&p.b, rig_own(&p.b, 2));
    rig_serve(&p.a, &put, FATE_OK);
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, ticket).reason, REASON_NOT_OWNER);
    assert_int_equal(rig_claimed(&p.b, "v", 1).count, 1);
    assert_int_equal(refused_claims(&p.b), 0);
    pair_done(&p);
}

// The claim was proposed before its writer had read that the setting is on.
static void a_direct_claim_that_comes_after_the_switch_is_refused_by_the_fold(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config c = rig_config();
    struct rig a = rig_on(s, &c), b = rig_on(s, &c);
    rig_sent(&a, "x");
    rig_look(&b);
    uint64_t ticket = rig_receive(&b, "w", 1, 0);
    struct request put = rig_until_append(&b);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 4096);
    struct op_configure op = {.request = rig_request(), .config = c.birth};
    op.config.consume = CONSUME_OWNER;
    configure_encode(&payload, &op);
    shard_submit(a.shard, 2000, (struct op){OP_CONFIGURE, buf_bytes(&payload)}, TIME_NEVER,
                 rig_time(&a));
    rig_does(&a, 2000);
    rig_serve(&b, &put, FATE_OK);
    rig_settle(&b);
    assert_int_equal(rig_answer(&b, ticket).reason, REASON_NOT_OWNER);
    rig_look(&a);
    assert_int_equal(refused_claims(&a), 1);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// The ack is done, and the claim behind it is refused: they share an entry only at the owner.
static void acks_with_a_receive_are_done_where_the_receive_is_refused(void **state)
{
    (void)state;
    struct pair p = pair_new();
    rig_sent(&p.a, "x");
    rig_sent(&p.a, "y");
    struct rig_answer held = rig_claimed(&p.a, "w", 1);
    rig_look(&p.b);
    uint64_t ticket = rig_receive_acking(&p.b, &held, 0);
    rig_settle(&p.b);
    rig_pass(&p.b, 1000);
    rig_settle(&p.b);
    assert_int_equal(rig_answer(&p.b, ticket - 1).err, ERR_OK);
    assert_int_equal(rig_answer(&p.b, ticket).reason, REASON_NOT_OWNER);
    assert_int_equal(refused_claims(&p.b), 0);
    pair_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_owner_hands_out_messages),
        cmocka_unit_test(without_an_owner_a_receive_is_refused_after_a_short_wait),
        cmocka_unit_test(a_receive_that_waits_is_served_when_its_handle_becomes_the_owner),
        cmocka_unit_test(a_wait_that_ends_as_its_handle_becomes_the_owner_is_served),
        cmocka_unit_test(the_waits_of_a_former_owner_end_at_once),
        cmocka_unit_test(a_claim_of_a_former_owner_is_not_proposed_again),
        cmocka_unit_test(a_direct_claim_that_comes_after_the_switch_is_refused_by_the_fold),
        cmocka_unit_test(acks_with_a_receive_are_done_where_the_receive_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
