// SPDX-License-Identifier: Apache-2.0
// Receives with acks where another node owns the queue: the whole of it is carried there, or done
// here, and each ack is done once whichever way it went.
#include "nodes.h"

#include "os/clock.h"

#include <pthread.h>
#include <string.h>

#define FORWARDED "\nsluice_forwarded_total "
#define WAIT_MS   (3 * DEADLINE_MS) // what is tested is not how soon the second takes over
#define ACKED     "\nsluice_messages_acked_total "

struct poll {
    pthread_t thread;
    struct sluice *s;
    struct sluice_batch *before; // whose messages are done
    struct sluice_batch *next;
    struct sluice_outcome acked;
    enum sluice_code code;
};

static void *poll_main(void *ctx)
{
    struct poll *p = ctx;
    const char *token = p->before->messages[0].token;
    struct sluice_receive ask = {
        .worker = "tester", .wait_ms = WAIT_MS, .acks = &token, .acks_len = 1, .acked = &p->acked};
    p->code = sluice_receive(p->s, "tasks", &ask, &p->next, NULL);
    return NULL;
}

static struct sluice_batch *receive(struct sluice *s)
{
    struct sluice_batch *b = NULL;
    struct sluice_receive ask = {.worker = "tester", .wait_ms = DEADLINE_MS};
    assert_int_equal(sluice_receive(s, "tasks", &ask, &b, NULL), SLUICE_OK);
    assert_int_equal(b->len, 1);
    return b;
}

static uint64_t processed(struct sluice *s)
{
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(s, "tasks", &stats, NULL), SLUICE_OK);
    return stats.processed;
}

static void await_processed(struct sluice *s, uint64_t count)
{
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    for (; processed(s) != count; nap())
        if (clock_boot_ms() > give_up) fail_msg("%d are not processed", (int)count);
}

// The first node owns the queue, which is empty; a receive waits at the other, or directly, with an
// ack that is done.
static void start(struct rig *r, struct poll *p, bool direct)
{
    node_start(&r->one);
    use_node(&r->one, "the first");
    node_start(&r->two);
    open_at(direct ? r->dir : r->two.url, NULL, &p->s);
    p->before = receive(p->s);
    assert_int_equal(pthread_create(&p->thread, NULL, poll_main, p), 0);
    await_processed(r->client, 1);
}

// It got this message, and its ack was told.
static void end(struct poll *p, const char *body)
{
    (void)pthread_join(p->thread, NULL);
    assert_int_equal(p->code, SLUICE_OK);
    assert_int_equal(p->acked.code, SLUICE_OK);
    assert_string_equal(p->acked.status, "processed");
    assert_int_equal(p->next->len, 1);
    assert_string_equal(p->next->messages[0].body, body);
    assert_int_equal(p->next->messages[0].attempt, 1);
    assert_int_equal(processed(p->s), 1);
    sluice_batch_free(p->before);
    sluice_batch_free(p->next);
    sluice_close(p->s);
}

static void the_owner_does_both(struct rig *r, bool direct)
{
    struct poll p = {0};
    start(r, &p, direct);
    use_node(&r->one, "the next");
    end(&p, "the next");
    assert_int_equal(node_number(&r->one, "/metrics", ACKED), 1);
    assert_int_equal(node_number(&r->two, "/metrics", ACKED), 0);
    if (!direct) assert_true(node_number(&r->two, "/metrics", FORWARDED) >= 2);
}

static void what_another_node_is_asked_for_is_done_by_the_owner(void **state)
{
    the_owner_does_both(*state, false);
}

static void what_a_direct_client_asks_for_is_done_by_the_owner(void **state)
{
    the_owner_does_both(*state, true);
}

static void when_the_owner_dies_the_second_tells_the_same(void **state)
{
    struct rig *r = *state;
    struct poll p = {0};
    start(r, &p, false);
    node_process_kill(&r->one);
    use_node(&r->two, "for it");
    end(&p, "for it");
}

static void when_the_owner_dies_a_direct_client_goes_on(void **state)
{
    struct rig *r = *state;
    struct poll p = {0};
    start(r, &p, true);
    node_process_kill(&r->one);
    use_node(&r->two, "for it");
    end(&p, "for it");
}

// The one that stops does not know whether the owner has done them, and asks by the same id.
static void a_node_that_stops_tells_acks_that_it_had_passed_on(void **state)
{
    struct rig *r = *state;
    struct poll p = {0};
    start(r, &p, false);
    assert_true(node_process_stop(&r->two));
    node_start(&r->two); // the client asks on there
    use_node(&r->one, "after that");
    end(&p, "after that");
    assert_int_equal(node_number(&r->one, "/metrics", ACKED), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_another_node_is_asked_for_is_done_by_the_owner),
        TEST(what_a_direct_client_asks_for_is_done_by_the_owner),
        TEST(when_the_owner_dies_the_second_tells_the_same),
        TEST(when_the_owner_dies_a_direct_client_goes_on),
        TEST(a_node_that_stops_tells_acks_that_it_had_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
