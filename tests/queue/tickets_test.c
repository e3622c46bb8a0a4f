// SPDX-License-Identifier: Apache-2.0
// Tickets: granted by the owner, taken up by their worker, or returned to their place.
#include "fleet.h"

static void start(struct rig *r, int messages)
{
    rig_defaults(r);
    for (int i = 0; i < messages; i++)
        rig_send(r, "x", NULL);
    rig_put_worker(r, "w1", 2, 10000);
    rig_put_worker(r, "w2", 2, 60000);
    rig_commit(r);
}

static uint32_t publish(struct rig *r, const char *worker, uint32_t max, struct grant *out)
{
    rig_put_publish(r, worker, max, 1000);
    rig_commit(r);
    return rig_grants(r, 0, out, 16);
}

static void tickets_follow_the_order_and_the_workers_capacity(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[16];
    start(&r, 5);
    assert_int_equal(publish(&r, "w1", 9, g), 2);
    assert_int_equal(g[0].seq, 1);
    assert_int_equal(g[1].seq, 2);
    assert_true(g[1].order > g[0].order);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_PUBLISHED), 2);
    assert_int_equal(publish(&r, "w2", 1, g), 1);
    assert_int_equal(g[0].seq, 3);
    assert_int_equal(publish(&r, "w1", 1, g), 0);
    assert_int_equal(machine_tickets(r.m, bytes_str("w1"), g, 16), 2);
    rig_done(&r);
}

static void a_ticket_is_hidden_from_others_and_taken_up_by_its_worker(void **state)
{
    (void)state;
    struct rig r;
    struct grant ticket[16], g[16];
    start(&r, 1);
    publish(&r, "w1", 1, ticket);
    assert_int_equal(ticket[0].deliveries, 0);
    assert_int_equal(rig_claim(&r, "w2", 1, g), 0);
    rig_put_claim(&r, OP_TAKE, "w1", 5, 0);
    rig_commit(&r);
    assert_int_equal(rig_grants(&r, 0, g, 16), 1);
    assert_true(hash128_equal(g[0].token, ticket[0].token));
    assert_int_equal(g[0].deliveries, 1);
    assert_int_equal(g[0].deadline, machine_now(r.m) + 30000);
    assert_int_equal(rig_events(&r, EVENT_MESSAGE_CLAIMED), 1);
    rig_done(&r);
}

static void a_claim_takes_tickets_first_and_then_what_is_ready(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[16];
    start(&r, 3);
    publish(&r, "w1", 1, g);
    publish(&r, "w2", 1, g);
    assert_int_equal(rig_claim(&r, "w2", 5, g), 2);
    assert_int_equal(g[0].seq, 2);
    assert_int_equal(g[1].seq, 3);
    rig_done(&r);
}

static void a_first_renewal_takes_a_ticket_up(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[16];
    start(&r, 1);
    publish(&r, "w1", 1, g);
    assert_int_equal(rig_word(&r, OP_RENEW, &g[0]).reason, REASON_NONE);
    struct message_view v;
    assert_int_equal(machine_find(r.m, 1, 0, &v), ERR_OK);
    assert_false(v.ticket);
    assert_int_equal(v.deliveries, 1);
    rig_done(&r);
}

static void an_untaken_ticket_returns_to_its_place_with_no_attempt_counted(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[16];
    start(&r, 2);
    publish(&r, "w1", 1, g);
    rig_tick(&r, 1000);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 1);
    assert_int_equal(rig_event(&r, EVENT_TICKETS_RECOVERED, 0)->reason, REASON_LOCK_EXPIRED);
    assert_int_equal(rig_events(&r, EVENT_LOCK_EXPIRED), 0);
    assert_int_equal(rig_word(&r, OP_RENEW, &g[0]).reason, REASON_LOCK_EXPIRED);
    assert_int_equal(rig_claim(&r, "w2", 1, g), 1);
    assert_int_equal(g[0].seq, 1);
    assert_int_equal(g[0].deliveries, 1);
    assert_int_equal(g[0].retries, 0);
    rig_done(&r);
}

static void tickets_of_a_dead_worker_are_recovered(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[16];
    start(&r, 2);
    rig_put_publish(&r, "w1", 2, 50000);
    rig_commit(&r);
    assert_int_equal(machine_wake_at(r.m), RIG_TIME + 10000);
    rig_tick(&r, 10000); // its registration ends before the tickets do
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 2);
    assert_int_equal(rig_event(&r, EVENT_TICKETS_RECOVERED, 1)->reason, REASON_UNKNOWN_WORKER);
    assert_int_equal(rig_claim(&r, "w2", 2, g), 2);
    assert_int_equal(publish(&r, "w1", 1, g), 0);
    assert_int_equal(rig_reason(&r, 0), REASON_UNKNOWN_WORKER);
    rig_done(&r);
}

static void a_heartbeat_in_the_last_moment_keeps_a_workers_tickets(void **state)
{
    (void)state;
    struct rig r;
    start(&r, 1);
    rig_put_publish(&r, "w1", 1, 50000);
    rig_commit(&r);
    r.time.lo = r.time.hi = RIG_TIME + 10000;
    assert_int_equal(fleet_act(&r, WORKER_BEAT, "w1", RIG_INSTANCE), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 0);
    rig_done(&r);
}

static void tickets_of_an_evicted_worker_return_at_once(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[16];
    start(&r, 2);
    publish(&r, "w1", 1, g);
    assert_int_equal(fleet_act(&r, WORKER_EVICT, "w1", 0), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 1);
    assert_int_equal(rig_event(&r, EVENT_TICKETS_RECOVERED, 0)->reason, REASON_WORKER_EVICTED);
    assert_int_equal(rig_word(&r, OP_RENEW, &g[0]).reason, REASON_LOCK_RELEASED);
    assert_int_equal(rig_claim(&r, "w2", 1, g), 1);
    assert_int_equal(g[0].seq, 1);
    rig_done(&r);
}

static void a_leaving_worker_returns_its_tickets_and_keeps_its_locks(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[16], lock;
    start(&r, 2);
    rig_claim(&r, "w1", 1, &lock);
    publish(&r, "w1", 1, g);
    assert_int_equal(fleet_act(&r, WORKER_LEAVE, "w1", RIG_INSTANCE), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 1);
    assert_int_equal(rig_word(&r, OP_ACK, &lock).reason, REASON_NONE);
    machine_check(r.m);
    rig_done(&r);
}

static void only_the_owner_publishes(void **state)
{
    (void)state;
    struct rig r;
    start(&r, 1);
    r.epoch = 0;
    rig_put_publish(&r, "w1", 1, 0);
    rig_commit(&r);
    assert_int_equal(rig_reason(&r, 0), REASON_NOT_OWNER);
    rig_done(&r);
}

static void a_strict_scope_has_one_ticket_at_a_time(void **state)
{
    (void)state;
    struct queue_config c = defaults();
    c.ordering_guarantee = true;
    struct rig r;
    struct grant g[16];
    rig_init(&r, &c);
    rig_send(&r, "1", NULL);
    rig_send(&r, "2", NULL);
    rig_put_worker(&r, "w1", 9, 60000);
    rig_commit(&r);
    assert_int_equal(publish(&r, "w1", 9, g), 1);
    assert_int_equal(rig_claim(&r, "w2", 9, g + 1), 0);
    rig_tick(&r, 1000);
    assert_int_equal(rig_claim(&r, "w2", 9, g), 1);
    assert_int_equal(g[0].seq, 1);
    rig_done(&r);
}

static void workers_are_listed_by_name(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    start(&r, 1);
    rig_claim(&r, "unregistered", 1, &g);
    struct worker_view v;
    assert_true(machine_worker(r.m, 0, &v));
    assert_true(bytes_equal(v.name, bytes_str("unregistered")));
    assert_int_equal(v.capacity, 0);
    assert_int_equal(v.open, 1);
    assert_true(machine_worker(r.m, 1, &v));
    assert_true(bytes_equal(v.name, bytes_str("w1")));
    assert_true(machine_worker(r.m, 2, &v));
    assert_false(machine_worker(r.m, 3, &v));
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(tickets_follow_the_order_and_the_workers_capacity),
        CASE(a_ticket_is_hidden_from_others_and_taken_up_by_its_worker),
        CASE(a_claim_takes_tickets_first_and_then_what_is_ready),
        CASE(a_first_renewal_takes_a_ticket_up),
        CASE(an_untaken_ticket_returns_to_its_place_with_no_attempt_counted),
        CASE(tickets_of_a_dead_worker_are_recovered),
        CASE(a_heartbeat_in_the_last_moment_keeps_a_workers_tickets),
        CASE(tickets_of_an_evicted_worker_return_at_once),
        CASE(a_leaving_worker_returns_its_tickets_and_keeps_its_locks),
        CASE(only_the_owner_publishes),
        CASE(a_strict_scope_has_one_ticket_at_a_time),
        CASE(workers_are_listed_by_name),
    };
    return RUN(tests);
}
