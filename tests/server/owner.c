// SPDX-License-Identifier: Apache-2.0
// Which node owns a shard, and what becomes of calls when owners are killed, stopped and replaced:
// nodes as processes of their own on one directory, and a direct client beside them.
#include "queues/owner.h"
#include "nodes.h"
#include "os/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t count_others(struct rig *r)
{
    struct shard_counters t;
    assert_int_equal(runner_sync(r->runner), ERR_OK);
    runner_counters(r->runner, &t);
    return t.others;
}

static void an_address_comes_back_as_it_was_printed(void **state)
{
    (void)state;
    struct owner_name name = {"http://10.0.0.1:7333", "n-1", "0123456789abcdef"}, back;
    char text[JOURNAL_ADDRESS_MAX + 1];
    assert_true(owner_print(&name, text));
    assert_string_equal(text, "http://10.0.0.1:7333 n-1 0123456789abcdef");
    assert_true(owner_parse(text, &back));
    assert_string_equal(back.url, name.url);
    assert_string_equal(back.node, name.node);
    assert_string_equal(back.incarnation, name.incarnation);
    assert_true(owner_parse("https://h n i", &back));
    static const char *const bad[] = {"",
                                      "http://h",
                                      "http://h n",
                                      "http://h n ",
                                      "ftp://h n i",
                                      "http://h  n i",
                                      "http://h n i j",
                                      "http://h n\n i",
                                      "http://h/path n i",
                                      "http://h/ n i",
                                      "http://h? n i",
                                      "http://u@h n i",
                                      "http://h\\@x n i",
                                      "http://h:70000 n i",
                                      "http://h: n i",
                                      "http://[::1 n i",
                                      " n i"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (owner_parse(bad[i], &back)) fail_msg("\"%s\" was taken", bad[i]);
    (void)snprintf(name.node, sizeof name.node, "two words");
    assert_false(owner_print(&name, text));
    memset(name.node, 'n', 230);
    name.node[230] = 0;
    assert_false(owner_print(&name, text)); // together they are too long
}

static void a_node_owns_the_shard_it_works_on(void **state)
{
    struct rig *r = *state;
    struct owner_name name;
    node_start(&r->one);
    assert_int_equal(owner_now(r, &name).epoch, 0); // no call used it yet
    use_node(&r->one, "a");
    struct runner_owner o = owner_now(r, &name);
    assert_int_equal(o.epoch, 1);
    assert_int_equal(o.token, 1);
    assert_string_equal(name.node, "one");
    assert_string_equal(name.url, r->one.url);
    use_node(&r->one, "b");
    assert_int_equal(owner_now(r, &name).epoch, 1);
}

static void looking_at_a_queue_does_not_make_an_owner(void **state)
{
    struct rig *r = *state;
    struct owner_name name;
    struct sluice *s = NULL;
    struct sluice_stats stats;
    node_start(&r->one);
    open_at(r->one.url, NULL, &s);
    assert_int_equal(sluice_stats(s, "tasks", &stats, NULL), SLUICE_OK);
    sluice_close(s);
    assert_int_equal(owner_now(r, &name).epoch, 0);
}

static void an_idle_owner_writes_nothing(void **state)
{
    struct rig *r = *state;
    node_start(&r->one);
    use_node(&r->one, "a");
    uint64_t before = count_others(r);
    (void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL); // to see nothing
    assert_int_equal(count_others(r), before);
}

static void a_restart_under_the_same_name_takes_over_at_once(void **state)
{
    struct rig *r = *state;
    struct owner_name name, again;
    node_start(&r->one);
    use_node(&r->one, "a");
    (void)owner_now(r, &name);
    for (uint64_t life = 2; life < 5; life++) {
        node_process_kill(&r->one);
        node_start(&r->one);
        int64_t began = clock_boot_ms();
        for (int i = 0; i < CALLS_LEN; i++)
            use_node(&r->one, "b"); // without the pauses of a direct writer
        assert_true(clock_boot_ms() - began < CALLS_LEN * PAUSE_MS / 2);
        struct runner_owner o = owner_now(r, &again);
        assert_int_equal(o.epoch, life);
        assert_string_equal(again.url, r->one.url);
        assert_string_not_equal(again.incarnation, name.incarnation);
    }
}

static void await_owner(struct rig *r, const struct node_process *use, const char *node,
                        int64_t within_ms)
{
    struct owner_name name;
    int64_t until = clock_boot_ms() + within_ms;
    do {
        nap();
        use_node(use, "again");
        (void)owner_now(r, &name);
        if (clock_boot_ms() > until) fail_msg("%s still owns", name.node);
    } while (strcmp(name.node, node) != 0);
}

static void a_second_node_takes_over_only_after_the_first_died(void **state)
{
    struct rig *r = *state;
    struct owner_name name;
    node_start(&r->one);
    node_start(&r->two);
    use_node(&r->one, "a");
    int64_t idle =
        clock_boot_ms() + OWNERSHIP_LEASE_MS + 200; // an owner that answers need not write
    while (clock_boot_ms() < idle)
        nap();
    use_node(&r->two, "b");
    use_node(&r->two, "c"); // it can do its work all the same
    (void)owner_now(r, &name);
    assert_string_equal(name.node, "one");
    node_process_kill(&r->one);
    await_owner(r, &r->two, "two", STATED_MS + SLACK_MS);
    assert_int_equal(owner_now(r, &name).epoch, 2);
    node_start(&r->one);
    use_node(&r->one, "d");
    (void)owner_now(r, &name);
    assert_string_equal(name.node, "two"); // which lives
}

struct sender {
    const struct node_process *node;
    int sent;
    enum sluice_code worst;
};

static void *send_on(void *arg)
{
    struct sender *w = arg;
    struct sluice *s = NULL;
    open_at(w->node->url, NULL, &s);
    for (int i = 0; i < 5; i++) {
        struct sluice_send message = {.body = "x", .body_len = 1};
        enum sluice_code code = sluice_send(s, "tasks", &message, 1, NULL, NULL, NULL);
        if (!code) w->sent++;
        if (code) w->worst = code;
    }
    sluice_close(s);
    return NULL;
}

static void a_node_that_was_stopped_is_fenced_and_serves_on(void **state)
{
    struct rig *r = *state;
    struct owner_name name;
    pthread_t thread;
    struct sender late = {.node = &r->one};
    int sent = 0;
    node_start(&r->one);
    node_start(&r->two);
    use_node(&r->one, "a");
    sent++;
    struct sluice *connected = NULL; // so that its call is on its way while no node answers
    open_at(r->one.url, NULL, &connected);
    send_by(connected, "b");
    sent++;
    node_pause(&r->one);
    struct sluice *two = NULL;
    open_at(r->two.url, NULL, &two);
    int64_t until = clock_boot_ms() + STATED_MS + SLACK_MS;
    do {
        nap();
        send_by(two, "c");
        sent++;
        (void)owner_now(r, &name);
        assert_true(clock_boot_ms() < until);
    } while (strcmp(name.node, "two") != 0);
    sluice_close(two);
    (void)kill(r->one.pid, SIGCONT);
    assert_int_equal(pthread_create(&thread, NULL, send_on, &late), 0);
    send_by(connected, "d"); // it believes that it owns, and learns better
    sent++;
    (void)pthread_join(thread, NULL);
    sluice_close(connected);
    assert_int_equal(late.worst, SLUICE_OK);
    sent += late.sent;
    (void)owner_now(r, &name);
    assert_string_equal(name.node, "two");
    assert_int_equal(drain(r->client), sent);
}

static void a_direct_client_works_through_the_owner(void **state)
{
    struct rig *r = *state;
    node_start(&r->one);
    use_node(&r->one, "first");
    for (int i = 0; i < 20; i++)
        send_by(r->client, "x");
    assert_int_equal(sent_through(&r->one), 21);
    assert_int_equal(drain(r->client), 21);
    assert_int_equal(node_number(&r->one, "/metrics", "\nsluice_messages_acked_total "), 21);
}

static void a_client_that_was_told_to_does_it_itself(void **state)
{
    struct rig *r = *state;
    struct sluice *own = NULL;
    struct sluice_options direct = {.direct = 1};
    node_start(&r->one);
    use_node(&r->one, "first");
    open_at(r->dir, &direct, &own);
    send_by(own, "x");
    sluice_close(own);
    (void)setenv("SLUICE_FORWARD", "off", 1);
    open_at(r->dir, NULL, &own);
    (void)unsetenv("SLUICE_FORWARD");
    send_by(own, "y");
    sluice_close(own);
    assert_int_equal(sent_through(&r->one), 1);
    assert_int_equal(drain(r->client), 3);
}

static void a_client_finds_an_owner_that_came_later(void **state)
{
    struct rig *r = *state;
    send_by(r->client, "there is none");
    node_start(&r->one);
    use_node(&r->one, "now there is");
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    while (sent_through(&r->one) < 2) { // what it writes itself tells it
        send_by(r->client, "x");
        assert_true(clock_boot_ms() < until);
    }
}

static void a_killed_owner_costs_its_clients_a_second_at_most(void **state)
{
    struct rig *r = *state;
    node_start(&r->one);
    use_node(&r->one, "first");
    send_by(r->client, "through it");
    node_process_kill(&r->one);
    int64_t began = clock_boot_ms();
    send_by(r->client, "directly");
    assert_true(clock_boot_ms() - began < OWNERSHIP_LEASE_MS); // not when it is replaced
    began = clock_boot_ms();
    for (int i = 0; i < CALLS_LEN; i++)
        send_by(r->client, "more"); // without the pauses one makes beside a live owner
    assert_true(clock_boot_ms() - began < CALLS_LEN * PAUSE_MS / 2);
    assert_int_equal(drain(r->client), 3 + CALLS_LEN);
}

static void a_stopped_owner_costs_its_clients_a_second_at_most(void **state)
{
    struct rig *r = *state;
    node_start(&r->one);
    use_node(&r->one, "first");
    send_by(r->client, "through it");
    node_pause(&r->one);
    int64_t began = clock_boot_ms();
    send_by(r->client, "directly");
    int64_t took = clock_boot_ms() - began;
    if (took >= OWNERSHIP_LEASE_MS) fail_msg("it took %" PRId64 " ms", took);
    (void)kill(r->one.pid, SIGCONT);
    // The one that was given up is done by the owner now, or was: with the same request id.
    assert_int_equal(drain(r->client), 3);
}

struct receiver {
    struct rig *rig;
    size_t got;
    _Atomic bool begun;
};

static void *receive_on(void *arg)
{
    struct receiver *w = arg;
    struct sluice_batch *batch = NULL;
    struct sluice_receive ask = {.max = 1, .wait_ms = 10000};
    w->begun = true;
    assert_int_equal(sluice_receive(w->rig->client, "tasks", &ask, &batch, NULL), SLUICE_OK);
    w->got = batch->len;
    sluice_batch_free(batch);
    return NULL;
}

static void a_receive_goes_on_when_the_owner_dies(void **state)
{
    struct rig *r = *state;
    pthread_t thread;
    struct receiver w = {.rig = r};
    node_start(&r->one);
    use_node(&r->one, "first");
    assert_int_equal(drain(r->client), 1);
    assert_int_equal(pthread_create(&thread, NULL, receive_on, &w), 0);
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    while (node_number(&r->one, "/v1/node", "\"waiting\":") == 0)
        assert_true(clock_boot_ms() < until);
    node_process_kill(&r->one);
    int64_t began = clock_boot_ms();
    struct sluice *other = NULL;
    struct sluice_options direct = {.direct = 1};
    open_at(r->dir, &direct, &other);
    send_by(other, "for it");
    (void)pthread_join(thread, NULL);
    assert_int_equal(w.got, 1);
    assert_true(clock_boot_ms() - began < OWNERSHIP_LEASE_MS);
    sluice_close(other);
}

struct crowd {
    struct rig *rig;
    int number;
    int sent;
    _Atomic bool *over;
};

static void *send_until_over(void *arg)
{
    struct crowd *c = arg;
    while (!*c->over) {
        char body[32];
        (void)snprintf(body, sizeof body, "%d-%d", c->number, c->sent);
        send_by(c->rig->client, body); // whatever happens to the owner
        c->sent++;
        nap();
    }
    return NULL;
}

static void nothing_is_lost_or_doubled_while_owners_are_killed_and_stopped(void **state)
{
    struct rig *r = *state;
    struct crowd crowd[4];
    pthread_t threads[4];
    _Atomic bool over = false;
    size_t sent = 4;
    node_start(&r->one);
    for (int i = 0; i < 4; i++) {
        crowd[i] = (struct crowd){.rig = r, .number = i, .over = &over};
        assert_int_equal(pthread_create(&threads[i], NULL, send_until_over, &crowd[i]), 0);
    }
    for (int life = 0; life < 4; life++) {
        use_node(&r->one, "owns again");
        for (int i = 0; i < 20; i++)
            nap();
        if (life % 2 == 0) node_pause(&r->one);
        for (int i = 0; i < 40; i++)
            nap();
        node_process_kill(&r->one);
        node_start(&r->one);
    }
    over = true;
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        sent += (size_t)crowd[i].sent;
    }
    assert_int_equal(drain(r->client), sent);
}

static void a_node_with_another_queue_of_that_name_is_not_asked(void **state)
{
    struct rig *r = *state;
    char other[SCRATCH_MAX], address[JOURNAL_ADDRESS_MAX + 1];
    struct sluice *second = NULL;
    struct sluice_stats stats;
    scratch_make(other);
    open_at(other, NULL, &second);
    assert_int_equal(sluice_queue_create(second, "tasks", NULL, 0, NULL), SLUICE_OK);
    r->one.store = other;
    node_start(&r->one);
    // As on another machine, whose node listens on 127.0.0.1 too.
    struct owner_name name = {.node = "one", .incarnation = "1"};
    (void)snprintf(name.url, sizeof name.url, "%s", r->one.url);
    assert_true(owner_print(&name, address));
    struct journal_owner owner = {.token = 1, .address = bytes_str(address)};
    assert_int_equal(runner_own(r->runner, 0, &owner), ERR_OK);
    send_by(r->client, "stays here");
    assert_int_equal(sluice_stats(r->client, "tasks", &stats, NULL), SLUICE_OK);
    assert_int_equal(stats.sent, 1);
    assert_int_equal(sluice_stats(second, "tasks", &stats, NULL), SLUICE_OK);
    assert_int_equal(stats.sent, 0);
    node_process_kill(&r->one);
    sluice_close(second);
    scratch_remove(other);
}

static enum err send_at(struct shard_runner *r)
{
    struct kept_reply answer;
    struct buf payload;
    struct request_id id = {{0}};
    id.bytes[0] = 7;
    buf_init(&payload, 4096);
    send_begin(&payload, &id);
    send_add(&payload, &(struct message){.body = bytes_str("x")});
    send_end(&payload, 0, 1);
    kept_reply_init(&answer);
    enum err err = runner_do(r, (struct op){OP_SEND, buf_bytes(&payload)}, &answer);
    kept_reply_done(&answer);
    buf_done(&payload);
    return err;
}

static void an_op_of_a_replaced_owner_is_proposed_again_directly(void **state)
{
    struct rig *r = *state;
    struct shard_runner *first = r->runner;
    struct store *store = r->store;
    struct journal_owner owner = {.token = 1, .address = bytes_str("a")};
    struct runner_owner o;
    assert_int_equal(runner_own(first, 0, &owner), ERR_OK);
    runner_open_here(r);
    owner = (struct journal_owner){.token = 2, .address = bytes_str("b")};
    assert_int_equal(runner_own(r->runner, 1, &owner), ERR_OK);
    runner_owner(first, &o);
    assert_true(o.mine); // so it thinks
    assert_int_equal(send_at(first), ERR_OK);
    runner_owner(first, &o);
    assert_false(o.mine);
    assert_int_equal(o.epoch, 2);
    runner_close(first);
    store_free(store);
    assert_int_equal(drain(r->client), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_comes_back_as_it_was_printed),
        TEST(an_op_of_a_replaced_owner_is_proposed_again_directly),
        TEST(a_node_owns_the_shard_it_works_on),
        TEST(looking_at_a_queue_does_not_make_an_owner),
        TEST(an_idle_owner_writes_nothing),
        TEST(a_restart_under_the_same_name_takes_over_at_once),
        TEST(a_second_node_takes_over_only_after_the_first_died),
        TEST(a_node_that_was_stopped_is_fenced_and_serves_on),
        TEST(a_direct_client_works_through_the_owner),
        TEST(a_client_that_was_told_to_does_it_itself),
        TEST(a_client_finds_an_owner_that_came_later),
        TEST(a_killed_owner_costs_its_clients_a_second_at_most),
        TEST(a_stopped_owner_costs_its_clients_a_second_at_most),
        TEST(a_receive_goes_on_when_the_owner_dies),
        TEST(nothing_is_lost_or_doubled_while_owners_are_killed_and_stopped),
        TEST(a_node_with_another_queue_of_that_name_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
