// SPDX-License-Identifier: Apache-2.0
// Queues of several shards at two nodes: each shard has one owner, and what is wrong with it is
// found out once, not once for each.
#include "nodes.h"

#include "os/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SHARDS_MANY "16"
#define MANY        64 // messages of one call: some for each shard
#define QUEUES      20
#define CALLS       4  // at each node, of each queue
#define EACH        12 // messages of such a call

static void make_wide(struct rig *r, const char *queue, const char *shards)
{
    struct sluice_setting wide = {"shards", shards};
    assert_int_equal(sluice_queue_create(r->client, queue, &wide, 1, NULL), SLUICE_OK);
}

// Each of a group of its own, so that they go to all shards. Answers how long it took.
static int64_t send_wide(struct sluice *s, const char *queue, size_t len)
{
    static _Atomic unsigned number;
    struct sluice_send messages[MANY];
    char groups[MANY][24];
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(groups[i], sizeof groups[i], "%u", atomic_fetch_add(&number, 1));
        messages[i] = (struct sluice_send){.body = "x", .body_len = 1, .group = groups[i]};
    }
    int64_t began = clock_boot_ms();
    struct sluice_error error = {.code = SLUICE_OK};
    if (sluice_send(s, queue, messages, len, NULL, NULL, &error)) fail_msg("%s", error.message);
    return clock_boot_ms() - began;
}

static void a_paused_owner_costs_a_second_whatever_it_owns(void **state)
{
    struct rig *r = *state;
    static const char *const queues[] = {"wide", "wider", "widest"};
    struct sluice *one = NULL, *two = NULL;
    struct sluice_options patient = {.timeout_ms = 60000};
    node_start(&r->one);
    node_start(&r->two);
    open_at(r->one.url, NULL, &one);
    open_at(r->two.url, &patient, &two);
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        make_wide(r, queues[i], SHARDS_MANY);
        (void)send_wide(one, queues[i], MANY);
        (void)send_wide(two, queues[i], MANY);
    }
    assert_int_equal(sent_through(&r->two), 0);
    node_pause(&r->one);
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        int64_t took = send_wide(two, queues[i], MANY);
        print_message("# %s: %" PRId64 " ms\n", queues[i], took);
        if (took > 1000 + SLACK_MS) fail_msg("%s: it took %" PRId64 " ms", queues[i], took);
    }
    (void)kill(r->one.pid, SIGCONT);
    sluice_close(one);
    sluice_close(two);
}

#define SHARDS 4
#define OWN    3 // messages that a node surely has itself, of MANY
#define OPS                                                                                        \
    "\nsluice_http_requests_total{method=\"POST\",route=\"/v1/queues/{queue}/shards\","            \
    "status=\"200\"} "

// Every shard of the queue has an owner. Counts the shards of each node.
static void count_owned(struct rig *r, const char *queue, int *one, int *two)
{
    *one = *two = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard_runner *runner = runner_open_of(r, queue, SHARDS, i);
        struct runner_owner o;
        struct owner_name name;
        assert_int_equal(runner_sync(runner), ERR_OK);
        runner_owner(runner, &o);
        assert_true(owner_parse(o.address, &name));
        *one += strcmp(name.node, "one") == 0;
        *two += strcmp(name.node, "two") == 0;
        runner_close(runner);
    }
}

static size_t drain_all(struct sluice *s, const char *queue)
{
    size_t count = 0;
    struct sluice_receive ask = {.max = 64};
    for (;;) {
        struct sluice_batch *batch = NULL;
        assert_int_equal(sluice_receive(s, queue, &ask, &batch, NULL), SLUICE_OK);
        size_t len = batch->len;
        for (size_t i = 0; i < len; i++) {
            const char *token = batch->messages[i].token;
            assert_int_equal(sluice_ack(s, queue, &token, 1, NULL, NULL), SLUICE_OK);
        }
        sluice_batch_free(batch);
        count += len;
        if (len == 0) return count;
    }
}

// A node that has a message itself receives it without a request to the other one.
static void receive_own(struct rig *r, struct sluice *one)
{
    struct sluice_receive ask = {.max = 1};
    int asked = node_number(&r->two, "/metrics", OPS);
    for (int i = 0; i < OWN; i++) {
        struct sluice_batch *batch = NULL;
        assert_int_equal(sluice_receive(one, "wide", &ask, &batch, NULL), SLUICE_OK);
        assert_int_equal(batch->len, 1);
        const char *token = batch->messages[0].token;
        assert_int_equal(sluice_ack(one, "wide", &token, 1, NULL, NULL), SLUICE_OK);
        sluice_batch_free(batch);
    }
    assert_int_equal(node_number(&r->two, "/metrics", OPS), asked);
}

struct consumer {
    struct sluice *handle;
    size_t got;
};

// Receives and acks until two seconds pass without a message.
static void *work_wide(void *arg)
{
    struct consumer *w = arg;
    struct sluice_receive ask = {.max = 4, .wait_ms = 2000};
    for (size_t len = 1; len > 0;) {
        struct sluice_batch *batch = NULL;
        assert_int_equal(sluice_receive(w->handle, "wide", &ask, &batch, NULL), SLUICE_OK);
        len = batch->len;
        for (size_t i = 0; i < len; i++) {
            const char *token = batch->messages[i].token;
            assert_int_equal(sluice_ack(w->handle, "wide", &token, 1, NULL, NULL), SLUICE_OK);
        }
        w->got += len;
        sluice_batch_free(batch);
    }
    return NULL;
}

// A receive at either node waits at both owners, and each message is served by the owner of its
// shard.
static void a_receive_waits_at_several_owners(void **state)
{
    struct rig *r = *state;
    struct sluice *one = NULL, *two = NULL;
    int owned_one, owned_two;
    make_wide(r, "wide", "4");
    r->one.coord = r->two.coord = "store:";
    node_start(&r->one);
    node_start(&r->two);
    open_at(r->one.url, NULL, &one);
    open_at(r->two.url, NULL, &two);
    size_t sent = 0;
    int64_t until = clock_boot_ms() + 60000;
    do { // the first node has all of them, until the plan gives some to the second
        nap();
        (void)send_wide(one, "wide", EACH);
        sent += EACH;
        count_owned(r, "wide", &owned_one, &owned_two);
        assert_true(clock_boot_ms() < until);
    } while (owned_two == 0 || owned_one + owned_two < SHARDS);
    int before = owned_two;
    (void)send_wide(one, "wide", MANY);
    receive_own(r, one);
    assert_int_equal(drain_all(one, "wide"), sent + MANY - OWN);
    struct consumer consumers[] = {{.handle = one}, {.handle = two}};
    pthread_t threads[2];
    int before_one = sent_through(&r->one), before_two = sent_through(&r->two);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_wide, &consumers[i]), 0);
    int64_t took = 0;
    for (int i = 0; i < CALLS_LEN; i++)
        took += send_wide(i % 2 ? one : two, "wide", EACH);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(consumers[0].got + consumers[1].got, CALLS_LEN * EACH);
    assert_true(took < CALLS_LEN * PAUSE_MS / 2); // no node wrote beside an owner
    assert_true(sent_through(&r->one) > before_one);
    assert_true(sent_through(&r->two) > before_two);
    count_owned(r, "wide", &owned_one, &owned_two);
    assert_true(owned_two >= before); // and none fought for a shard
    sluice_close(one);
    sluice_close(two);
}

struct user {
    struct rig *rig;
    const struct node_process *node;
    pthread_barrier_t *together;
};

static void *use_all(void *arg)
{
    struct user *u = arg;
    struct sluice *s = NULL;
    struct sluice_options patient = {.timeout_ms = 60000};
    char queue[24];
    open_at(u->node->url, &patient, &s);
    for (int i = 0; i < QUEUES; i++) {
        (void)snprintf(queue, sizeof queue, "fresh-%d", i);
        (void)pthread_barrier_wait(u->together);
        for (int k = 0; k < CALLS; k++)
            (void)send_wide(s, queue, EACH);
    }
    sluice_close(s);
    return NULL;
}

static void shards_first_used_through_both_at_once_have_one_owner_each(void **state)
{
    struct rig *r = *state;
    pthread_barrier_t together;
    struct user users[] = {{r, &r->one, &together}, {r, &r->two, &together}};
    struct sluice *at[2] = {NULL, NULL};
    pthread_t threads[2];
    char queue[24];
    for (int i = 0; i < QUEUES; i++) {
        (void)snprintf(queue, sizeof queue, "fresh-%d", i);
        make_wide(r, queue, "4");
    }
    node_start(&r->one);
    node_start(&r->two);
    (void)pthread_barrier_init(&together, NULL, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_all, &users[i]), 0);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&together);
    open_at(r->one.url, NULL, &at[0]);
    open_at(r->two.url, NULL, &at[1]);
    int slow = 0;
    for (int i = 0; i < 4 * QUEUES; i++) { // two calls after another at each
        (void)snprintf(queue, sizeof queue, "fresh-%d", i / 4);
        slow += send_wide(at[i / 2 % 2], queue, EACH) >= PAUSE_MS;
    }
    print_message("# %d slow calls\n", slow);
    assert_true(slow < QUEUES); // others use this machine too; of two owners one would pause
    for (int i = 0; i < QUEUES; i++) {
        int owned_one, owned_two;
        (void)snprintf(queue, sizeof queue, "fresh-%d", i);
        count_owned(r, queue, &owned_one, &owned_two);
        assert_int_equal(owned_one + owned_two, SHARDS);
        assert_int_equal(drain_all(at[0], queue), (2 * CALLS + 4) * EACH);
    }
    sluice_close(at[0]);
    sluice_close(at[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_paused_owner_costs_a_second_whatever_it_owns),
        TEST(a_receive_waits_at_several_owners),
        TEST(shards_first_used_through_both_at_once_have_one_owner_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
