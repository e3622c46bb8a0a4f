// SPDX-License-Identifier: Apache-2.0
// A request is repeated while its first attempt may still take effect. The repeat is refused
// without an entry. That says nothing about the first attempt, so the answer is UNKNOWN.
#include "fault_proxy.h"
#include "nodes.h"

#include "net/http.h"
#include "os/clock.h"
#include "protocol/shard_wire.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void set_capacity(struct rig *r, const char *capacity)
{
    struct sluice_setting setting = {"capacity", capacity};
    assert_int_equal(sluice_queue_set(r->client, "tasks", &setting, 1, NULL), SLUICE_OK);
}

// Node one owns the queue, and node two and the direct client know it. The queue is full.
static void start_full(struct rig *r)
{
    node_start(&r->one);
    node_start(&r->two);
    use_node(&r->one, "first");
    use_node(&r->two, "second");
    send_by(r->client, "third");
    assert_int_equal(sent_through(&r->one), 3);
    set_capacity(r, "3");
}

static void assert_unknown(struct sluice *s, size_t len, const struct sluice_request *request)
{
    struct sluice_send messages[] = {{.body = "a", .body_len = 1}, {.body = "b", .body_len = 1}};
    struct sluice_sent sent[2];
    struct sluice_error error;
    assert_int_equal(sluice_send(s, "tasks", messages, len, request, sent, &error), SLUICE_UNKNOWN);
    assert_int_equal(error.code, SLUICE_UNKNOWN);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(sent[i].code, SLUICE_UNKNOWN);
}

struct near {
    struct fault_proxy *proxy;
    struct sluice *s; // by way of the proxy
};

static struct near near_start(struct rig *r)
{
    struct near n = {.proxy = proxy_start(r->one.url, 1)};
    assert_non_null(n.proxy);
    open_at(proxy_url(n.proxy), NULL, &n.s);
    return n;
}

static void near_stop(struct near *n)
{
    sluice_close(n->s);
    proxy_stop(n->proxy);
}

static void a_send_is_unknown_if_its_answer_is_lost_and_its_repeat_is_refused(void **state)
{
    static const int refusals[] = {403, 429};
    struct rig *r = *state;
    struct sluice_request request = {"0 of all repeats"};
    node_start(&r->one);
    struct near n = near_start(r);
    for (uint64_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        request.bytes[0] = (uint8_t)('0' + i);
        proxy_script(n.proxy, "POST", PROXY_CUT_AFTER, 0, 1);
        proxy_script(n.proxy, "POST", PROXY_REFUSE, refusals[i], 1);
        assert_unknown(n.s, 1, &request);
        struct sluice_send message = {.body = "a", .body_len = 1};
        struct sluice_stats stats;
        assert_int_equal(sluice_send(n.s, "tasks", &message, 1, &request, NULL, NULL), SLUICE_OK);
        assert_int_equal(sluice_stats(n.s, "tasks", &stats, NULL), SLUICE_OK);
        assert_int_equal(stats.sent, i + 1); // it took effect once, at the first attempt
    }
    near_stop(&n);
}

static void a_join_whose_answer_was_lost_can_be_repeated(void **state)
{
    struct rig *r = *state;
    struct sluice_join join = {.worker = "w", .capacity = 1};
    struct sluice_worker row;
    size_t len = 0;
    node_start(&r->one);
    struct near n = near_start(r);
    proxy_script(n.proxy, "POST", PROXY_CUT_AFTER, 0, 1);
    proxy_script(n.proxy, "POST", PROXY_REFUSE, 429, 1);
    assert_int_equal(sluice_worker_join(n.s, "tasks", &join, NULL), SLUICE_UNKNOWN);
    assert_int_equal(sluice_workers(n.s, "tasks", &row, 1, &len, NULL), SLUICE_OK);
    assert_int_equal(len, 1); // it took effect
    assert_int_equal(sluice_worker_join(n.s, "tasks", &join, NULL), SLUICE_OK);
    assert_int_equal(sluice_worker_beat(n.s, "tasks", "w", NULL), SLUICE_OK);
    struct sluice *other;
    open_at(r->one.url, NULL, &other); // another process has another instance
    assert_int_equal(sluice_worker_join(other, "tasks", &join, NULL), SLUICE_CONFLICT);
    sluice_close(other);
    near_stop(&n);
}

static void a_send_is_unknown_if_it_is_lost_and_a_full_queue_refuses_its_repeat(void **state)
{
    struct rig *r = *state;
    start_full(r);
    struct near n = near_start(r);
    for (size_t len = 1; len <= 2; len++) {
        proxy_script(n.proxy, "POST", PROXY_CUT_BEFORE, 0, 1);
        assert_unknown(n.s, len, NULL);
    }
    near_stop(&n);
}

static void a_direct_send_is_unknown_if_the_owner_may_still_take_it(void **state)
{
    struct rig *r = *state;
    start_full(r);
    node_pause(&r->one);
    assert_unknown(r->client, 2, NULL);
    (void)kill(r->one.pid, SIGCONT);
}

// The queue blocks senders while it is full. The send does not wait for space: an attempt with
// another id could add the message a second time.
static void a_send_does_not_block_if_the_owner_may_still_take_it(void **state)
{
    struct rig *r = *state;
    struct sluice_setting block = {"backpressure", "block"};
    start_full(r);
    assert_int_equal(sluice_queue_set(r->client, "tasks", &block, 1, NULL), SLUICE_OK);
    node_pause(&r->one);
    int64_t began = clock_boot_ms();
    assert_unknown(r->client, 1, NULL);
    assert_true(clock_boot_ms() - began < DEADLINE_MS); // before the handle's timeout
    (void)kill(r->one.pid, SIGCONT);
}

static void post_messages(const struct node_process *n, const char *body, struct http_call *call)
{
    static const char *const lines[] = {"Content-Type: application/json"};
    struct http *http = http_new(NULL);
    char url[160];
    (void)snprintf(url, sizeof url, "%s/v1/queues/tasks/messages", n->url);
    http_call_init(call, "POST", url);
    call->headers = lines;
    call->headers_len = 1;
    call->body = bytes_str(body);
    http_do(http, call);
    http_free(http);
}

static void forwarded_while_the_owner_is_stopped(struct rig *r, const char *body)
{
    struct http_call call;
    start_full(r);
    node_pause(&r->one);
    post_messages(&r->two, body, &call);
    assert_int_equal(call.status, 504);
    http_call_done(&call);
    (void)kill(r->one.pid, SIGCONT);
}

static void a_forwarded_send_is_unknown_if_the_owner_may_still_take_it(void **state)
{
    forwarded_while_the_owner_is_stopped(*state, "{\"body\": \"a\"}");
}

static void forwarded_messages_are_unknown_if_the_owner_may_still_take_them(void **state)
{
    forwarded_while_the_owner_is_stopped(*state,
                                         "{\"messages\": [{\"body\": \"a\"}, {\"body\": \"b\"}]}");
}

#define POLL_MS (3 * SHARD_WAIT_MAX_MS) // longer than the owner waits for one request

struct poll {
    struct sluice *s;
    const struct sluice_request *request;
    pthread_t thread;
    struct sluice_batch *batch;
    _Atomic bool ended;
};

static void *poll_main(void *arg)
{
    struct poll *p = arg;
    struct sluice_receive ask = {.wait_ms = POLL_MS, .request = p->request};
    assert_int_equal(sluice_receive(p->s, "tasks", &ask, &p->batch, NULL), SLUICE_OK);
    p->ended = true;
    return NULL;
}

// Two processes receive with the same id.
static void poll_start(struct rig *r, struct poll *p, const struct sluice_request *request)
{
    p->request = request;
    open_at(r->dir, NULL, &p->s);
    assert_int_equal(pthread_create(&p->thread, NULL, poll_main, p), 0);
}

static size_t poll_end(struct poll *p)
{
    (void)pthread_join(p->thread, NULL);
    size_t len = p->batch->len;
    sluice_batch_free(p->batch);
    sluice_close(p->s);
    return len;
}

static void await_true(struct rig *r, bool (*fact)(struct rig *r, struct poll *p), struct poll *p)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    for (; !fact(r, p); nap())
        if (clock_boot_ms() > until) fail_msg("it did not happen");
}

static bool waits_at_the_owner(struct rig *r, struct poll *p)
{
    (void)p;
    return node_number(&r->one, "/v1/node", "\"waiting\":") == 1;
}

static bool has_ended(struct rig *r, struct poll *p)
{
    (void)r;
    return p->ended;
}

static void a_receive_at_the_owner_ends_when_another_one_has_its_id(void **state)
{
    struct rig *r = *state;
    struct sluice_request request = {"one of two polls"};
    struct poll first = {.ended = false}, second = {.ended = false};
    node_start(&r->one);
    use_node(&r->one, "first");
    assert_int_equal(drain(r->client), 1);
    poll_start(r, &first, &request);
    await_true(r, waits_at_the_owner, NULL);
    poll_start(r, &second, &request);
    await_true(r, has_ended, &first);
    assert_false(second.ended);
    use_node(&r->one, "for the second");
    assert_int_equal(poll_end(&first), 0);
    assert_int_equal(poll_end(&second), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_send_is_unknown_if_its_answer_is_lost_and_its_repeat_is_refused),
        TEST(a_join_whose_answer_was_lost_can_be_repeated),
        TEST(a_send_is_unknown_if_it_is_lost_and_a_full_queue_refuses_its_repeat),
        TEST(a_direct_send_is_unknown_if_the_owner_may_still_take_it),
        TEST(a_send_does_not_block_if_the_owner_may_still_take_it),
        TEST(a_receive_at_the_owner_ends_when_another_one_has_its_id),
        TEST(a_forwarded_send_is_unknown_if_the_owner_may_still_take_it),
        TEST(forwarded_messages_are_unknown_if_the_owner_may_still_take_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
