// SPDX-License-Identifier: Apache-2.0
// The features an earlier S3 queue listed as done (worker registry, leadership by epoch, dispatch
// and tickets, lock management), one test each, on the store named by the argument.
#include "bench.h"

#include <stdio.h>
#include <string.h>

static const char *backend;

static void registry_with_heartbeats(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *one = spec_new(b, "tasks", "one", NULL);
    struct client *two = spec_new(b, "tasks", "two", NULL);
    assert_int_equal(spec_register(one, 4, 60000), REASON_NONE);
    assert_int_equal(spec_register(two, 4, 60000), REASON_NONE);
    assert_int_equal(spec_stats(two).workers, 2);
    bench_pass(b, 35000);
    assert_int_equal(spec_beat(one), REASON_NONE);
    bench_pass(b, 35000);
    spec_send(one, "any entry moves the time on");
    assert_int_equal(spec_stats(one).workers, 1); // two is cleaned up
    bench_pass(b, 35000);
    spec_send(one, "another one");
    assert_int_equal(spec_stats(one).workers, 0);
    assert_int_equal(spec_register(one, 4, 60000), REASON_NONE); // a return is welcome
    assert_int_equal(spec_unregister(one), REASON_NONE);         // and so is a farewell
    assert_int_equal(spec_stats(two).workers, 0);
    bench_close(b);
}

static void leadership_by_epoch(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *old = spec_new(b, "tasks", "old", NULL);
    struct client *young = spec_new(b, "tasks", "young", NULL);
    struct journal_owner late = {.coord = "spec", .token = 1};
    spec_own(old, 1);                                                    // promoted
    assert_int_equal(runner_own(young->runner, 0, &late), ERR_CONFLICT); // that epoch is over
    assert_int_equal(runner_own(young->runner, 1, &late), ERR_FENCED);   // the token is not newer
    spec_own(young, 2);                                                  // demotes the former
    late.token = 3;
    assert_int_equal(runner_own(old->runner, 1, &late), ERR_FENCED); // it spoke in its old epoch
    assert_int_equal(runner_own(old->runner, 1, &late),
                     ERR_CONFLICT); // and now without a former owner
    bench_close(b);
}

static void former_coordinator_dispatches_in_vain(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *old = spec_new(b, "tasks", "old", NULL);
    struct client *young = spec_new(b, "tasks", "young", NULL);
    struct client *w = spec_new(b, "tasks", "worker", NULL);
    spec_own(old, 1);
    assert_int_equal(spec_register(w, 4, 60000), REASON_NONE);
    spec_send(w, "a job");
    spec_look(old);
    spec_own(young, 2);
    assert_true(runner_dispatch(old->runner)); // it has not heard of its successor
    spec_look(old);
    assert_int_equal(spec_stats(w).tickets, 0);
    assert_int_equal(spec_stats(w).counts[STATE_READY], 1);
    assert_false(spec_dispatch(old)); // by now it has
    assert_true(spec_dispatch(young));
    assert_int_equal(spec_stats(w).tickets, 1);
    bench_close(b);
}

// A coordinator and a worker with room for so many.
struct team {
    struct bench *bench;
    struct client *boss;
    struct client *worker;
};

static struct team team_new(uint32_t capacity, int64_t ttl_ms)
{
    struct team c = {.bench = bench_open(backend)};
    c.boss = spec_new(c.bench, "tasks", "boss", NULL);
    c.worker = spec_new(c.bench, "tasks", "worker", NULL);
    spec_own(c.boss, 1);
    assert_int_equal(spec_register(c.worker, capacity, ttl_ms), REASON_NONE);
    return c;
}

static void owner_alone_dispatches(void **state)
{
    (void)state;
    struct team c = team_new(4, 60000);
    spec_send(c.worker, "a job");
    assert_false(spec_dispatch(c.worker));
    assert_int_equal(spec_stats(c.worker).tickets, 0);
    assert_true(spec_dispatch(c.boss));
    assert_int_equal(spec_stats(c.worker).tickets, 1);
    bench_close(c.bench);
}

static void tickets_come_in_order(void **state)
{
    (void)state;
    struct team c = team_new(3, 60000);
    for (int i = 0; i < 5; i++)
        spec_send(c.worker, "a job");
    assert_true(spec_dispatch(c.boss));
    struct event e[8];
    assert_int_equal(spec_events(c.worker, EVENT_TICKETS_PUBLISHED, e, 8), 3); // its room
    struct held_message m[8];
    assert_int_equal(spec_take(c.worker, m, 8), 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(e[i].order, i + 1);
        assert_int_equal(m[i].order, i + 1);
        assert_int_equal(m[i].seq, i + 1);
        assert_int_equal(spec_ack(c.worker, &m[i]), REASON_NONE);
    }
    assert_true(spec_dispatch(c.boss));
    assert_int_equal(spec_take(c.worker, m, 8), 2);
    assert_int_equal(m[0].order, 4);
    assert_int_equal(m[0].seq, 4);
    bench_close(c.bench);
}

static void tickets_follow_strict_order(void **state)
{
    (void)state;
    struct bench *b = bench_open(backend);
    struct client *boss = spec_new(b, "tasks", "boss", "orderingGuarantee=true", NULL);
    struct client *one = spec_new(b, "tasks", "one", "orderingGuarantee=true", NULL);
    struct client *two = spec_new(b, "tasks", "two", "orderingGuarantee=true", NULL);
    spec_own(boss, 1);
    assert_int_equal(spec_register(one, 4, 600000), REASON_NONE);
    assert_int_equal(spec_register(two, 4, 600000), REASON_NONE);
    for (int i = 0; i < 4; i++)
        spec_send(one, "a job");
    for (uint64_t i = 1; i <= 4; i++) {
        struct held_message m[4];
        (void)spec_dispatch(boss);
        assert_int_equal(spec_stats(boss).tickets, 1); // never two open ones
        struct client *holder = one;
        if (spec_take(one, m, 4) == 0) {
            holder = two;
            assert_int_equal(spec_take(two, m, 4), 1);
        }
        assert_int_equal(m[0].seq, i);
        assert_int_equal(m[0].order, i);
        assert_false(spec_dispatch(boss));
        assert_int_equal(spec_ack(holder, &m[0]), REASON_NONE);
    }
    bench_close(b);
}

// What the worker would read from its tickets, without taking them up.
static void peek_ticket(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    struct grant g;
    struct held_message *out = ctx;
    assert_int_equal(machine_tickets(m, bytes_str("worker"), &g, 1), 1);
    *out = (struct held_message){.seq = g.seq, .token = g.token, .deadline = g.deadline};
}

static void ticket_is_taken_up_by_its_first_renewal(void **state)
{
    (void)state;
    struct team c = team_new(1, 600000);
    uint64_t seq = spec_send(c.worker, "a job");
    assert_true(spec_dispatch(c.boss));
    struct held_message m;
    struct message_view view;
    spec_look(c.worker);
    runner_inspect(c.worker->runner, peek_ticket, &m);
    assert_int_equal(spec_find(c.worker, seq, &view), ERR_OK);
    assert_true(view.ticket);
    assert_int_equal(view.deliveries, 0);
    assert_int_equal(spec_renew(c.worker, &m, 0), REASON_NONE);
    assert_true(spec_until(c.worker) >= m.deadline + 20000); // now for the visibility timeout
    assert_int_equal(spec_find(c.worker, seq, &view), ERR_OK);
    assert_false(view.ticket);
    assert_int_equal(view.deliveries, 1);
    bench_pass(c.bench, 10000); // past the ticket's deadline
    assert_int_equal(spec_ack(c.worker, &m), REASON_NONE);
    bench_close(c.bench);
}

static void ticket_is_taken_up_by_take(void **state)
{
    (void)state;
    struct team c = team_new(1, 600000);
    spec_send(c.worker, "a job");
    assert_true(spec_dispatch(c.boss));
    struct held_message m;
    assert_int_equal(spec_take(c.worker, &m, 1), 1);
    assert_int_equal(m.deliveries, 1);
    assert_int_equal(spec_stats(c.worker).tickets, 0);
    assert_int_equal(spec_stats(c.worker).counts[STATE_LOCKED], 1);
    bench_pass(c.bench, 10000);
    assert_int_equal(spec_ack(c.worker, &m), REASON_NONE);
    bench_close(c.bench);
}

// After the tickets went back: the first message is first again, and has no attempt against it.
static void is_as_before(struct team *c, uint64_t first)
{
    struct client *other = spec_new(c->bench, "tasks", "other", NULL);
    struct held_message m;
    assert_true(spec_claim_one(other, &m));
    assert_int_equal(m.seq, first);
    assert_int_equal(m.deliveries, 1);
    assert_int_equal(m.retries, 0);
}

static void tickets_of_a_stalled_worker_return(void **state)
{
    (void)state;
    struct team c = team_new(2, 600000); // its heartbeats are good, but it takes nothing up
    uint64_t first = spec_send(c.worker, "first");
    spec_send(c.worker, "second");
    spec_send(c.worker, "third");
    assert_true(spec_dispatch(c.boss));
    struct held_message stale;
    spec_look(c.worker);
    runner_inspect(c.worker->runner, peek_ticket, &stale);
    bench_pass(c.bench, 6000);
    is_as_before(&c, first);
    assert_int_equal(spec_events(c.boss, EVENT_TICKETS_RECOVERED, NULL, 0), 2);
    assert_int_not_equal(spec_renew(c.worker, &stale, 0), REASON_NONE); // too late to take it up
    bench_close(c.bench);
}

static void operator_recovers_tickets(void **state)
{
    (void)state;
    struct team c = team_new(2, 600000);
    uint64_t first = spec_send(c.worker, "first");
    spec_send(c.worker, "second");
    assert_true(spec_dispatch(c.boss));
    assert_int_equal(spec_evict(c.boss, "unknown"), REASON_UNKNOWN_WORKER);
    assert_int_equal(spec_evict(c.boss, "worker"), REASON_NONE);
    assert_int_equal(spec_stats(c.boss).tickets, 0);
    assert_int_equal(spec_events(c.boss, EVENT_TICKETS_RECOVERED, NULL, 0), 2);
    is_as_before(&c, first);
    bench_close(c.bench);
}

static void tickets_first_then_claims(void **state)
{
    (void)state;
    struct team c = team_new(1, 600000);
    uint64_t first = spec_send(c.worker, "first");
    assert_true(spec_dispatch(c.boss));
    uint64_t second = spec_send(c.worker, "second");
    struct held_message m[4];
    assert_int_equal(spec_claim(c.worker, m, 4), 2);
    assert_int_equal(m[0].seq, first);
    assert_true(m[0].order > 0); // by its ticket
    assert_int_equal(m[1].seq, second);
    assert_int_equal(m[1].order, 0); // directly
    bench_close(c.bench);
}

struct refusal {
    struct bench *bench;
    struct client *w;
    struct held_message m;
};

static struct refusal refusal_begin(const char *mode)
{
    struct refusal r = {.bench = bench_open(backend)};
    r.w = spec_new(r.bench, "tasks", "one", mode, "failureStrategy.maxRetries=0",
                   "failureStrategy.deadLetterQueue=tasks_dlq", NULL);
    spec_send(r.w, "a job");
    assert_true(spec_claim_one(r.w, &r.m));
    return r;
}

static void renewal_is_rejected(struct refusal *r, enum reason reason)
{
    struct event e[4];
    size_t before = spec_events(r->w, EVENT_LOCK_RENEWAL_REJECTED, NULL, 0);
    assert_true(before < 4);
    assert_int_equal(spec_renew(r->w, &r->m, 0), reason);
    assert_int_equal(spec_events(r->w, EVENT_LOCK_RENEWAL_REJECTED, e, 4), before + 1);
    assert_int_equal(e[before].reason, reason);
    assert_int_equal(e[before].seq, r->m.seq);
    assert_int_equal(spec_events(r->w, EVENT_LOCK_RENEWED, NULL, 0), 0);
}

static void rejected_after_release(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=hybrid");
    assert_int_equal(spec_release(r.w, &r.m), REASON_NONE);
    renewal_is_rejected(&r, REASON_LOCK_RELEASED);
    bench_close(r.bench);
}

static void rejected_after_expiry(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=dead-letter");
    bench_pass(r.bench, 31000);
    renewal_is_rejected(&r, REASON_LOCK_EXPIRED);
    bench_close(r.bench);
}

static void rejected_when_processed(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=hybrid");
    assert_int_equal(spec_ack(r.w, &r.m), REASON_NONE);
    renewal_is_rejected(&r, REASON_TERMINAL);
    bench_close(r.bench);
}

static void rejected_when_dead(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=retry");
    assert_int_equal(spec_fail(r.w, &r.m, "no"), REASON_NONE);
    assert_int_equal(spec_state(r.w, r.m.seq, NULL), STATE_DEAD);
    renewal_is_rejected(&r, REASON_TERMINAL);
    bench_close(r.bench);
}

static void rejected_when_moved(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=dead-letter");
    struct client *dlq = spec_new(r.bench, "tasks_dlq", "undertaker", NULL);
    assert_int_equal(spec_fail(r.w, &r.m, "no"), REASON_NONE);
    renewal_is_rejected(&r, REASON_TERMINAL); // on its way
    assert_int_equal(spec_carry(r.w, dlq), 1);
    assert_int_equal(spec_stats(r.w).counts[STATE_MOVED], 1);
    renewal_is_rejected(&r, REASON_TERMINAL); // and there
    bench_close(r.bench);
}

static void rejected_with_another_token(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=hybrid");
    struct held_message mine = r.m;
    r.m.token.lo ^= 1;
    renewal_is_rejected(&r, REASON_TOKEN_MISMATCH);
    assert_int_equal(spec_renew(r.w, &mine, 0), REASON_NONE); // the right one still holds
    bench_close(r.bench);
}

static void rejected_when_not_processing(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=hybrid");
    r.m.seq = spec_send(r.w, "no worker has this one");
    renewal_is_rejected(&r, REASON_NOT_LOCKED);
    bench_close(r.bench);
}

static void rejected_for_an_unknown_message(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=hybrid");
    r.m.seq = 4711;
    renewal_is_rejected(&r, REASON_UNKNOWN_MESSAGE);
    bench_close(r.bench);
}

static void renewal_is_an_event(void **state)
{
    (void)state;
    struct refusal r = refusal_begin("failureStrategy.mode=hybrid");
    bench_pass(r.bench, 10000);
    assert_int_equal(spec_renew(r.w, &r.m, 60000), REASON_NONE);
    struct event e;
    assert_int_equal(spec_events(r.w, EVENT_LOCK_RENEWED, &e, 1), 1);
    assert_int_equal(e.seq, r.m.seq);
    assert_int_equal(e.until, spec_until(r.w));
    assert_int_equal(spec_events(r.w, EVENT_LOCK_RENEWAL_REJECTED, NULL, 0), 0);
    bench_close(r.bench);
}

#define FEATURE(title, test)                                                                       \
    {                                                                                              \
        .name = title, .test_func = test                                                           \
    }

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        FEATURE("Worker registry with heartbeats and automatic cleanup", registry_with_heartbeats),
        FEATURE("Leadership by epoch: promotion and demotion", leadership_by_epoch),
        FEATURE("A former coordinator's dispatch has no effect",
                former_coordinator_dispatches_in_vain),
        FEATURE("Only the owner dispatches", owner_alone_dispatches),
        FEATURE("Tickets come in order, with their order index", tickets_come_in_order),
        FEATURE("Tickets of a strict queue follow one another", tickets_follow_strict_order),
        FEATURE("A ticket is taken up by its first renewal",
                ticket_is_taken_up_by_its_first_renewal),
        FEATURE("A ticket is taken up by take", ticket_is_taken_up_by_take),
        FEATURE("Tickets of a stalled worker return to their place",
                tickets_of_a_stalled_worker_return),
        FEATURE("An operator recovers a worker's tickets", operator_recovers_tickets),
        FEATURE("A worker takes its tickets first and claims directly otherwise",
                tickets_first_then_claims),
        FEATURE("Renewal is rejected after release", rejected_after_release),
        FEATURE("Renewal is rejected after expiry", rejected_after_expiry),
        FEATURE("Renewal is rejected when processed", rejected_when_processed),
        FEATURE("Renewal is rejected when dead", rejected_when_dead),
        FEATURE("Renewal is rejected when moved", rejected_when_moved),
        FEATURE("Renewal is rejected with another token", rejected_with_another_token),
        FEATURE("Renewal is rejected when not processing", rejected_when_not_processing),
        FEATURE("Renewal is rejected for an unknown message", rejected_for_an_unknown_message),
        FEATURE("A renewal is an event", renewal_is_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
