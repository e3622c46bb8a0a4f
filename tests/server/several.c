// SPDX-License-Identifier: Apache-2.0
// A client of several nodes in one URL: calls are spread, go on when a node is gone, and go to the
// owners once these are known.
#include "imposter.h"
#include "nodes.h"

#include "os/clock.h"
#include "sluice_cluster.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORWARDED "\nsluice_forwarded_total "
#define STATS                                                                                      \
    "\nsluice_http_requests_total{method=\"GET\",route=\"/v1/queues/{queue}/stats\","              \
    "status=\"200\"} "
#define PROBES    5
#define REPEAT_MS 1000 // a client does not repeat a call at another node sooner
#define SHARDS    "12"
#define CALLS     300

struct several {
    struct rig *rig; // its nodes "one" and "two"
    struct node_process three;
    char url[160]; // of all three
};

static int set_up(void **state)
{
    struct several *v = calloc(1, sizeof *v);
    assert_non_null(v);
    assert_int_equal(rig_set_up((void **)&v->rig), 0);
    v->rig->one.coord = v->rig->two.coord = "store:";
    v->three = v->rig->one;
    v->three.name = "three";
    node_start(&v->rig->one);
    node_start(&v->rig->two);
    node_start(&v->three);
    (void)snprintf(v->url, sizeof v->url, "%s,%s,%s", v->rig->one.url, v->rig->two.address,
                   v->three.address);
    *state = v;
    return 0;
}

static int tear_down(void **state)
{
    struct several *v = *state;
    node_process_kill(&v->three);
    int result = rig_tear_down((void **)&v->rig);
    free(v);
    return result;
}

static void kill_all(struct several *v)
{
    node_process_kill(&v->rig->one);
    node_process_kill(&v->rig->two);
    node_process_kill(&v->three);
}

static int forwarded(const struct several *v)
{
    return node_number(&v->rig->one, "/metrics", FORWARDED) +
           node_number(&v->rig->two, "/metrics", FORWARDED) +
           node_number(&v->three, "/metrics", FORWARDED);
}

static void count_stats(const struct several *v, int count[3])
{
    const struct node_process *nodes[] = {&v->rig->one, &v->rig->two, &v->three};
    for (int i = 0; i < 3; i++) {
        int number = node_number(nodes[i], "/metrics", STATS);
        count[i] = number < 0 ? 0 : number;
    }
}

// Returns the time of the slowest call.
static int64_t call_stats(const struct several *v, int calls)
{
    struct sluice *s = NULL;
    int64_t slowest = 0;
    open_at(v->url, NULL, &s);
    for (int i = 0; i < calls; i++) {
        struct sluice_stats stats;
        int64_t began = clock_boot_ms();
        assert_int_equal(sluice_stats(s, "tasks", &stats, NULL), SLUICE_OK);
        int64_t took = clock_boot_ms() - began;
        if (took > slowest) slowest = took;
    }
    sluice_close(s);
    return slowest;
}

static int sum_of(const int count[3])
{
    return count[0] + count[1] + count[2];
}

// A client may repeat a call that gets no answer for a second, so a round with such a call shows
// nothing. A node counts a request after it has sent the answer.
static void calls_are_spread_over_the_nodes(void **state)
{
    struct several *v = *state;
    int64_t end = clock_boot_ms() + DEADLINE_MS, slowest;
    int before[3], after[3];
    do {
        count_stats(v, before);
        slowest = call_stats(v, 30);
        do
            count_stats(v, after);
        while (sum_of(after) - sum_of(before) < 30 && clock_boot_ms() < end);
        assert_true(clock_boot_ms() < end);
    } while (slowest >= REPEAT_MS || sum_of(after) - sum_of(before) > 30);
    for (int i = 0; i < 3; i++)
        assert_int_equal(after[i] - before[i], 10);
}

static void a_killed_node_fails_no_call(void **state)
{
    struct several *v = *state;
    struct sluice *s = NULL;
    use_node(&v->rig->one, "the first makes it the owner");
    open_at(v->url, NULL, &s);
    for (int i = 0; i < 20; i++) {
        if (i == 5) node_process_kill(&v->rig->one);
        if (i == 12) node_process_kill(&v->rig->two);
        send_by(s, "x");
    }
    assert_int_equal(drain(s), 21);
    sluice_close(s);
}

static void a_node_that_is_gone_does_not_prevent_the_opening(void **state)
{
    struct several *v = *state;
    struct sluice *s = NULL;
    node_process_kill(&v->rig->one);
    node_process_kill(&v->rig->two);
    for (int i = 0; i < 6; i++) {
        open_at(v->url, NULL, &s);
        sluice_close(s);
    }
    struct sluice_error error;
    node_process_kill(&v->three);
    assert_int_equal(sluice_open(v->url, &(struct sluice_options){.timeout_ms = 500}, &s, &error),
                     SLUICE_UNAVAILABLE);
    assert_non_null(strstr(error.message, "127.0.0.1:")); // names a node that it tried
}

static void without_any_node_a_send_is_unavailable_until_one_comes_back(void **state)
{
    struct several *v = *state;
    struct sluice *s = NULL;
    struct sluice_send message = {.body = "x", .body_len = 1};
    open_at(v->url, &(struct sluice_options){.timeout_ms = 1500}, &s);
    send_by(s, "x");
    kill_all(v);
    assert_int_equal(sluice_send(s, "tasks", &message, 1, NULL, NULL, NULL), SLUICE_UNAVAILABLE);
    node_start(&v->rig->two);
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    while (sluice_send(s, "tasks", &message, 1, NULL, NULL, NULL))
        assert_true(clock_boot_ms() < until);
    sluice_close(s);
    open_at(v->rig->two.url, NULL, &s);
    assert_int_equal(drain(s), 2); // what was called UNAVAILABLE did not happen
    sluice_close(s);
}

static void without_any_answer_a_send_is_unknown(void **state)
{
    struct several *v = *state;
    struct sluice *s = NULL;
    struct sluice_send message = {.body = "x", .body_len = 1};
    struct sluice_request id = {{7}};
    struct sluice_sent sent;
    open_at(v->url, &(struct sluice_options){.timeout_ms = 1500}, &s);
    node_pause(&v->rig->one);
    node_pause(&v->rig->two);
    node_pause(&v->three);
    assert_int_equal(sluice_send(s, "tasks", &message, 1, &id, &sent, NULL), SLUICE_UNKNOWN);
    assert_int_equal(sent.code, SLUICE_UNKNOWN);
    assert_int_equal(kill(v->rig->one.pid, SIGCONT), 0);
    assert_int_equal(kill(v->rig->two.pid, SIGCONT), 0);
    assert_int_equal(kill(v->three.pid, SIGCONT), 0);
    sluice_close(s);
    open_at(v->url, NULL, &s);
    assert_int_equal(sluice_send(s, "tasks", &message, 1, &id, &sent, NULL), SLUICE_OK);
    assert_int_equal(drain(s), 1); // once, whatever came of the first attempts
    sluice_close(s);
}

static void a_paused_node_delays_a_call_by_seconds_only(void **state)
{
    struct several *v = *state;
    struct sluice *s = NULL;
    struct sluice_stats stats;
    open_at(v->url, NULL, &s);
    node_pause(&v->rig->two);
    int64_t began = clock_boot_ms();
    for (int i = 0; i < 12; i++) // at least one of them goes to the paused node first
        assert_int_equal(sluice_stats(s, "tasks", &stats, NULL), SLUICE_OK);
    int64_t took = clock_boot_ms() - began;
    assert_true(took >= 1000); // one call has waited
    assert_true(took < 30000); // ... and not for the whole timeout
    assert_int_equal(kill(v->rig->two.pid, SIGCONT), 0);
    sluice_close(s);
}

static void send_group(struct sluice *s, int group)
{
    char name[16];
    struct sluice_error error = {.message = ""};
    (void)snprintf(name, sizeof name, "g%d", group);
    struct sluice_send message = {.body = "x", .body_len = 1, .group = name};
    if (sluice_send(s, "wide", &message, 1, NULL, NULL, &error)) fail_msg("%s", error.message);
}

// Returns how many messages came.
static int work_off(struct sluice *s, int max)
{
    int done = 0;
    while (done < max) {
        struct sluice_batch *batch = NULL;
        struct sluice_receive ask = {.max = 1, .wait_ms = 2000};
        assert_int_equal(sluice_receive(s, "wide", &ask, &batch, NULL), SLUICE_OK);
        const char *token = batch->len > 0 ? batch->messages[0].token : NULL;
        if (token) assert_int_equal(sluice_ack(s, "wide", &token, 1, NULL, NULL), SLUICE_OK);
        sluice_batch_free(batch);
        if (!token) break;
        done++;
    }
    return done;
}

// Receives CALLS messages, then acks each. A receive asks all shards, so it always needs the other
// owners. Returns how many ops of the acks were forwarded.
static int settle_all(const struct several *v, struct sluice *s)
{
    static char tokens[CALLS][SLUICE_TOKEN_MAX];
    size_t len = 0;
    while (len < CALLS) {
        struct sluice_batch *batch = NULL;
        struct sluice_receive ask = {.max = 10, .wait_ms = 5000};
        assert_int_equal(sluice_receive(s, "wide", &ask, &batch, NULL), SLUICE_OK);
        assert_true(batch->len > 0);
        for (size_t i = 0; i < batch->len && len < CALLS; i++)
            (void)snprintf(tokens[len++], SLUICE_TOKEN_MAX, "%s", batch->messages[i].token);
        sluice_batch_free(batch);
    }
    int before = forwarded(v);
    for (size_t i = 0; i < len; i++) {
        const char *token = tokens[i];
        assert_int_equal(sluice_ack(s, "wide", &token, 1, NULL, NULL), SLUICE_OK);
    }
    return forwarded(v) - before;
}

// Whether every shard of the queue has the owner that the plan gives it.
static bool is_settled(struct sluice *s, const char *queue, char owner[SLUICE_NODE_MAX])
{
    struct sluice_cluster *c = NULL;
    size_t owned = 0, all = 0;
    if (sluice_cluster_show(s, NULL, &c, NULL)) return false;
    for (size_t i = 0; i < c->shards_len; i++) {
        const struct sluice_shard *row = &c->shards[i];
        if (strcmp(row->queue, queue) != 0) continue;
        all++;
        owned += *row->owner && strcmp(row->owner, row->planned) == 0;
        memcpy(owner, row->owner, SLUICE_NODE_MAX);
    }
    sluice_cluster_free(c);
    return all > 0 && owned == all;
}

static void await_owners(struct several *v, const char *queue, char owner[SLUICE_NODE_MAX])
{
    struct sluice *s = NULL;
    int64_t until = clock_boot_ms() + 2 * DEADLINE_MS;
    open_at(v->url, NULL, &s);
    while (!is_settled(s, queue, owner)) {
        if (clock_boot_ms() > until) fail_msg("the shards of %s have no owners", queue);
        for (int i = 0; i < 40 && strcmp(queue, "wide") == 0; i++)
            send_group(s, i);
        if (strcmp(queue, "tasks") == 0) send_by(s, "x");
        for (int i = 0; i < 10; i++) // each message must be worked off later
            nap();
    }
    sluice_close(s);
}

static void a_client_that_learned_the_owners_is_hardly_forwarded(void **state)
{
    struct several *v = *state;
    struct sluice *s = NULL;
    struct sluice_setting wide = {"shards", SHARDS};
    char owner[SLUICE_NODE_MAX];
    assert_int_equal(sluice_queue_create(v->rig->client, "wide", &wide, 1, NULL), SLUICE_OK);
    await_owners(v, "wide", owner);
    // Clients of one node each: most of their calls are forwarded.
    int first = forwarded(v);
    const char *urls[] = {v->rig->one.url, v->rig->two.url, v->three.url};
    for (int i = 0; i < 3; i++) {
        open_at(urls[i], NULL, &s);
        for (int k = 0; k < 20; k++)
            send_group(s, k);
        sluice_close(s);
    }
    assert_true(forwarded(v) - first >= 30);
    open_at(v->url, NULL, &s);
    (void)work_off(s, 10000);
    for (int i = 0; i < CALLS / 3; i++) // learns the owners
        send_group(s, i);
    int before = forwarded(v);
    for (int i = 0; i < CALLS; i++)
        send_group(s, i);
    int sends = forwarded(v) - before;
    int settles = settle_all(v, s);
    (void)fprintf(stderr, "# forwarded ops: %d of %d sends, %d of %d acks\n", sends, CALLS, settles,
                  CALLS);
    assert_true(sends * 20 < CALLS);
    assert_true(settles * 20 < CALLS);
    sluice_close(s);
}

// The list leaves the owner out: the other nodes forward, and the client does not go to the owner.
static void an_owner_outside_of_the_list_is_reached_by_forwarding(void **state)
{
    struct several *v = *state;
    struct sluice *s = NULL;
    char url[100];
    char owner[SLUICE_NODE_MAX];
    await_owners(v, "tasks", owner);
    const struct node_process *nodes[] = {&v->rig->one, &v->rig->two, &v->three};
    for (int i = 0; i < 3; i++)
        if (strcmp(nodes[i]->name, owner) == 0) nodes[i] = nodes[2];
    (void)snprintf(url, sizeof url, "%s,%s", nodes[0]->url, nodes[1]->address);
    int before = forwarded(v);
    open_at(url, NULL, &s);
    for (int i = 0; i < 20; i++)
        send_by(s, "x");
    (void)fprintf(stderr, "# forwarded ops: %d of 20 sends\n", forwarded(v) - before);
    assert_true(forwarded(v) - before >= 10);
    sluice_close(s);
}

static void doctor_checks_every_node(void **state)
{
    struct several *v = *state;
    char command[500], line[400];
    int ways = 0;
    (void)snprintf(command, sizeof command, "%s --store %s doctor", getenv("SLUICE"), v->url);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    while (fgets(line, sizeof line, out))
        ways += strstr(line, "an answer in") != NULL;
    assert_int_equal(pclose(out), 0);
    assert_int_equal(ways, 3);
}

// A node that hears and never answers, as one that is cut off. One call waits for it. Later calls
// go to the other nodes, and probes find out whether it answers again.
static void a_silent_node_delays_one_call_and_is_probed_in_the_background(void **state)
{
    struct several *v = *state;
    struct sluice *client = NULL;
    char url[200];
    node_process_kill(&v->three);
    struct imposter *silent = imposter_start(v->three.address, SILENT);
    (void)snprintf(url, sizeof url, "%s,%s", v->rig->one.url, v->three.address);
    open_at(url, NULL, &client);
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    while (imposter_count(silent, "GET /healthz") < PROBES && clock_boot_ms() < end) {
        struct sluice_send message = {.body = "x", .body_len = 1};
        assert_int_equal(sluice_send(client, "tasks", &message, 1, NULL, NULL, NULL), SLUICE_OK);
    }
    assert_true(imposter_count(silent, "GET /healthz") >= PROBES);
    assert_true(imposter_count(silent, "POST /v1/queues") <= 1);
    imposter_stop(silent);
    node_start(&v->three);
    end = clock_boot_ms() + DEADLINE_MS;
    struct sluice_stats stats;
    do // calls go there again after a probe was answered
        assert_int_equal(sluice_stats(client, "tasks", &stats, NULL), SLUICE_OK);
    while (node_number(&v->three, "/metrics", STATS) < 1 && clock_boot_ms() < end);
    assert_true(node_number(&v->three, "/metrics", STATS) >= 1);
    sluice_close(client);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(calls_are_spread_over_the_nodes),
        TEST(a_killed_node_fails_no_call),
        TEST(a_node_that_is_gone_does_not_prevent_the_opening),
        TEST(without_any_node_a_send_is_unavailable_until_one_comes_back),
        TEST(without_any_answer_a_send_is_unknown),
        TEST(a_paused_node_delays_a_call_by_seconds_only),
        TEST(a_client_that_learned_the_owners_is_hardly_forwarded),
        TEST(an_owner_outside_of_the_list_is_reached_by_forwarding),
        TEST(doctor_checks_every_node),
        TEST(a_silent_node_delays_one_call_and_is_probed_in_the_background),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
