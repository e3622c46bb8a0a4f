// SPDX-License-Identifier: Apache-2.0
// The owner's dispatch at two handles of one shard: only the owner proposes it, one at a time, and
// a receive that waits comes first.
#include "rig.h"

#include <string.h>

#define LONG_MS (INT64_C(3600) * 1000)

struct pair {
    struct store *store;
    struct rig a; // the owner
    struct rig b;
};

static struct pair pair_new(enum dispatch dispatch)
{
    struct shard_config c = rig_config();
    struct pair p = {.store = store_mem_new()};
    c.birth.dispatch = dispatch;
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

static void join(struct rig *r, const char *name, uint32_t capacity)
{
    rig_does(r, rig_worker(r, name, capacity, LONG_MS));
}

static bool dispatch(struct rig *r)
{
    uint8_t seed[16] = {1};
    bool may = shard_may_dispatch(r->shard);
    bool did = shard_dispatch(r->shard, seed, rig_time(r));
    assert_int_equal(may, did);
    return did;
}

static uint64_t tickets_of(struct rig *r)
{
    struct machine_stats stats;
    machine_stats(shard_machine(r->shard), rig_time(r).lo, &stats);
    return stats.tickets;
}

static void only_the_owner_proposes_a_dispatch(void **state)
{
    (void)state;
    struct pair p = pair_new(DISPATCH_TICKETS);
    join(&p.a, "w", 2);
    assert_false(dispatch(&p.a)); // no message
    rig_sent(&p.a, "x");
    rig_look(&p.b);
    assert_false(dispatch(&p.b));
    assert_true(dispatch(&p.a));
    assert_false(dispatch(&p.a)); // one is under way
    rig_settle(&p.a);
    assert_int_equal(tickets_of(&p.a), 1);
    assert_false(dispatch(&p.a));
    rig_sent(&p.a, "y");
    assert_true(dispatch(&p.a));
    rig_settle(&p.a);
    assert_int_equal(tickets_of(&p.a), 2);
    rig_sent(&p.a, "z");
    assert_false(dispatch(&p.a)); // no room
    pair_done(&p);
}

static void a_receive_that_waits_comes_before_a_ticket(void **state)
{
    (void)state;
    struct pair p = pair_new(DISPATCH_TICKETS);
    join(&p.a, "w", 2);
    uint64_t waits = rig_receive(&p.a, "v", 1, LONG_MS);
    rig_settle(&p.a);
    uint64_t sent = rig_send(&p.a, "x");
    assert_false(dispatch(&p.a));
    rig_settle(&p.a);
    (void)rig_answer(&p.a, sent);
    assert_int_equal(rig_answer(&p.a, waits).count, 1);
    assert_int_equal(tickets_of(&p.a), 0);
    pair_done(&p);
}

// With a backlog some claim is always under way. It takes its most, and tickets have the rest.
static void a_claim_under_way_leaves_the_rest_to_tickets(void **state)
{
    (void)state;
    struct pair p = pair_new(DISPATCH_TICKETS);
    for (int i = 0; i < 3; i++)
        rig_sent(&p.a, "x");
    join(&p.a, "w", 5);
    uint64_t all = rig_receive(&p.a, "v", 3, 0);
    assert_false(dispatch(&p.a)); // the claim may take all three
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, all).count, 3);
    for (int i = 0; i < 3; i++)
        rig_sent(&p.a, "y");
    uint64_t one = rig_receive(&p.a, "v", 1, 0);
    assert_true(dispatch(&p.a));
    rig_settle(&p.a);
    assert_int_equal(rig_answer(&p.a, one).count, 1);
    assert_int_equal(tickets_of(&p.a), 2);
    pair_done(&p);
}

static void a_dispatch_of_a_former_owner_has_no_effect(void **state)
{
    (void)state;
    struct pair p = pair_new(DISPATCH_TICKETS);
    join(&p.a, "w", 2);
    rig_sent(&p.a, "x");
    assert_true(dispatch(&p.a));
    struct request put = rig_until_append(&p.a);
    rig_look(&p.b);
    rig_does(&p.b, rig_own(&p.b, 2));
    rig_serve(&p.a, &put, FATE_OK);
    rig_settle(&p.a);
    rig_look(&p.b);
    assert_int_equal(tickets_of(&p.b), 0);
    assert_false(dispatch(&p.a)); // it owns the shard no more, and waits for no answer
    assert_true(dispatch(&p.b));
    rig_settle(&p.b);
    assert_int_equal(tickets_of(&p.b), 1);
    pair_done(&p);
}

static void an_owner_with_idle_workers_keeps_the_time(void **state)
{
    (void)state;
    struct pair p = pair_new(DISPATCH_TICKETS);
    join(&p.a, "w", 1);
    rig_sent(&p.a, "x");
    struct rig_answer held = rig_claimed(&p.a, "v", 1);
    assert_int_equal(held.count, 1);
    assert_int_equal(shard_wake_at(p.a.shard), machine_wake_at(shard_machine(p.a.shard)));
    pair_done(&p);
}

static void put_slowly(struct rig *r)
{
    uint64_t sent = rig_send(r, "x");
    struct request put = rig_until_append(r);
    rig_pass(r, 40);
    rig_serve(r, &put, FATE_OK);
    rig_settle(r);
    (void)rig_answer(r, sent);
}

// The journal waits a moment for callers that submit together. While the time is held for a LIST of
// mailboxes, the moment would not end, and the round that lists next waits for this commit.
static void an_op_does_not_wait_for_others_while_the_time_is_held(void **state)
{
    (void)state;
    struct shard_config c = rig_config();
    struct store *store = store_mem_new();
    c.journal.high_latency = true;
    struct rig r = rig_on(store, &c);
    rig_does(&r, rig_own(&r, 1));
    for (int i = 0; i < 8; i++)
        put_slowly(&r);
    assert_int_equal(rig_claimed(&r, "v", 1).count, 1);
    int64_t due = machine_wake_at(shard_machine(r.shard));
    shard_listed(r.shard, rig_time(&r).lo, rig_time(&r));
    rig_pass(&r, due - rig_time(&r).lo + 10);
    (void)rig_send(&r, "1");
    struct request put = rig_until_append(&r);
    (void)rig_send(&r, "2");
    rig_serve(&r, &put, FATE_OK); // the caller of the first one may submit again
    rig_pass(&r, 30);
    (void)rig_until_append(&r);
    rig_done(&r);
    store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_owner_proposes_a_dispatch),
        cmocka_unit_test(a_receive_that_waits_comes_before_a_ticket),
        cmocka_unit_test(an_op_does_not_wait_for_others_while_the_time_is_held),
        cmocka_unit_test(a_claim_under_way_leaves_the_rest_to_tickets),
        cmocka_unit_test(a_dispatch_of_a_former_owner_has_no_effect),
        cmocka_unit_test(an_owner_with_idle_workers_keeps_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
