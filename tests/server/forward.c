// SPDX-License-Identifier: Apache-2.0
// Two nodes of one store, as behind a balancer: what the second is asked for is done by the first,
// which owns the queue, until that one is gone.
#include "nodes.h"

#include "net/http.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORWARDED "\nsluice_forwarded_total "
#define FAILED    "\nsluice_forwards_failed_total "
#define ACKED     "\nsluice_messages_acked_total "
#define OPS                                                                                        \
    "\nsluice_http_requests_total{method=\"POST\",route=\"/v1/queues/{queue}/shards\","            \
    "status=\"200\"} "
#define WAITING "\"waiting\":"
#define WAIT_MS 20000 // of a poll

// The first owns the queue, and the second knows it.
static void start_both(struct rig *r)
{
    node_start(&r->one);
    node_start(&r->two);
    use_node(&r->one, "the first");
    use_node(&r->two, "the second");
    assert_int_equal(sent_through(&r->one), 2);
}

static void await_number(const struct node_process *n, const char *path, const char *before,
                         int number)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    while (node_number(n, path, before) != number) {
        if (clock_boot_ms() > until) fail_msg("%s is not %d", before, number);
        nap();
    }
}

static void the_owner_does_what_another_node_is_asked_for(void **state)
{
    struct rig *r = *state;
    struct sluice *s = NULL;
    start_both(r);
    open_at(r->two.url, NULL, &s);
    int64_t began = clock_boot_ms();
    for (int i = 0; i < 20; i++)
        send_by(s, "x");
    assert_int_equal(drain(s), 22);
    assert_true(clock_boot_ms() - began < 42 * PAUSE_MS / 2); // without one for each
    assert_int_equal(sent_through(&r->one), 22);
    assert_int_equal(sent_through(&r->two), 0);
    assert_int_equal(node_number(&r->one, "/metrics", ACKED), 22);
    assert_true(node_number(&r->two, "/metrics", FORWARDED) >= 42);
    assert_int_equal(node_number(&r->two, "/metrics", FAILED), 0);
    sluice_close(s);
}

// What acts on single messages is an op like any other.
static void signals_cancels_and_results_go_to_the_owner(void **state)
{
    struct rig *r = *state;
    struct sluice *s = NULL;
    struct sluice_batch *b = NULL;
    struct sluice_outcome o;
    struct sluice_upgrade up;
    struct sluice_receive ask = {.max = 1};
    start_both(r);
    open_at(r->two.url, NULL, &s);
    assert_int_equal(sluice_queue_upgrade(s, "tasks", SLUICE_UPGRADE_FORCE, &up, NULL), SLUICE_OK);
    assert_int_equal(sluice_receive(s, "tasks", &ask, &b, NULL), SLUICE_OK);
    const char *held = b->messages[0].id, *token = b->messages[0].token;
    int before = node_number(&r->two, "/metrics", FORWARDED);
    struct sluice_signal what = {.kind = "ask", .ids = &held, .ids_len = 1};
    assert_int_equal(sluice_signal(s, "tasks", &what, NULL, NULL, NULL), SLUICE_OK);
    struct sluice_signal_answer answer = {.token = token, .number = 1};
    assert_int_equal(sluice_signals_ack(s, "tasks", &answer, 1, NULL, NULL), SLUICE_OK);
    struct sluice_renewal renewal = {.token = token, .has_progress = 1, .percent = 50};
    assert_int_equal(sluice_renew_with(s, "tasks", &renewal, 1, 0, NULL, NULL), SLUICE_OK);
    struct sluice_ack ack = {.token = token, .result = "42", .result_len = 2};
    assert_int_equal(sluice_ack_with(s, "tasks", &ack, 1, &o, NULL), SLUICE_OK);
    assert_string_equal(o.status, "processed");
    struct sluice_batch *rest = NULL;
    assert_int_equal(sluice_peek(s, "tasks", NULL, &rest, NULL), SLUICE_OK);
    assert_int_equal(rest->len, 1);
    const char *waits = rest->messages[0].id;
    assert_int_equal(sluice_cancel(s, "tasks", &waits, 1, NULL, &o, NULL), SLUICE_OK);
    assert_int_equal(node_number(&r->two, "/metrics", FORWARDED), before + 5);
    assert_int_equal(node_number(&r->two, "/metrics", FAILED), 0);
    sluice_batch_free(rest);
    sluice_batch_free(b);
    sluice_close(s);
}

static void every_outcome_is_forwarded(void **state)
{
    struct rig *r = *state;
    struct sluice *s = NULL;
    struct sluice_batch *batch = NULL;
    struct sluice_receive ask = {.max = 2};
    struct sluice_outcome outcome;
    start_both(r);
    open_at(r->two.url, NULL, &s);
    assert_int_equal(sluice_receive(s, "tasks", &ask, &batch, NULL), SLUICE_OK);
    assert_int_equal(batch->len, 2);
    const char *first = batch->messages[0].token, *second = batch->messages[1].token;
    assert_int_equal(sluice_renew(s, "tasks", &first, 1, 60000, &outcome, NULL), SLUICE_OK);
    assert_string_equal(outcome.status, "renewed");
    assert_int_equal(sluice_fail(s, "tasks", &first, 1, "no", &outcome, NULL), SLUICE_OK);
    assert_string_equal(outcome.status, "retrying");
    assert_int_equal(sluice_release(s, "tasks", &second, 1, 0, &outcome, NULL), SLUICE_OK);
    assert_int_equal(sluice_ack(s, "tasks", &second, 1, &outcome, NULL), SLUICE_FENCED);
    assert_string_not_equal(outcome.reason, ""); // the owner's answer, as it is
    sluice_batch_free(batch);
    sluice_close(s);
    assert_int_equal(node_number(&r->one, "/metrics", "\nsluice_messages_failed_total "), 1);
    assert_int_equal(node_number(&r->two, "/metrics", FAILED), 0);
}

static void administration_is_done_by_the_owner(void **state)
{
    struct rig *r = *state;
    struct sluice *s = NULL;
    struct sluice_setting longer = {"visibilityTimeout", "45s"};
    uint64_t count = 0;
    start_both(r);
    open_at(r->two.url, NULL, &s);
    int before = node_number(&r->one, "/metrics", OPS); // -1: none yet
    if (before < 0) before = 0;
    assert_int_equal(sluice_queue_pause(s, "tasks", NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_resume(s, "tasks", NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_set(s, "tasks", &longer, 1, NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_purge(s, "tasks", 0, &count, NULL), SLUICE_OK);
    assert_int_equal(count, 2);
    assert_true( // a busy machine may send an op again, with its id
        node_number(&r->one, "/metrics", OPS) >= before + 4);
    assert_int_equal(sluice_redrive(s, "tasks", NULL, 0, &count, NULL), SLUICE_OK);
    assert_int_equal(count, 0);
    before = node_number(&r->one, "/metrics", OPS);
    assert_int_equal(sluice_queue_delete(s, "tasks", NULL), SLUICE_OK);
    assert_true(node_number(&r->one, "/metrics", OPS) > before);
    assert_int_equal(node_number(&r->two, "/metrics", FAILED), 0);
    assert_int_equal(sluice_queue_pause(s, "tasks", NULL), SLUICE_NOT_FOUND);
    sluice_close(s);
}

static void post(const struct node_process *n, const char *path, const char *header,
                 struct http_call *call)
{
    struct http *http = http_new(NULL);
    char url[160];
    const char *lines[] = {"Content-Type: application/json", header};
    (void)snprintf(url, sizeof url, "%s/v1/queues/tasks%s", n->url, path);
    http_call_init(call, "POST", url);
    call->headers = lines;
    call->headers_len = header ? 2 : 1;
    call->body = bytes_str("{\"body\": \"x\"}");
    http_do(http, call);
    http_free(http);
}

// Ops are taken from processes that can read the store, and from no other.
static void only_a_process_that_can_read_the_store_may_send_ops(void **state)
{
    struct rig *r = *state;
    struct http_call call;
    start_both(r);
    post(&r->one, "/shards", NULL, &call);
    assert_int_equal(call.status, 403);
    http_call_done(&call);
    post(&r->one, "/shards",
         "Sluice-Forwarded: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         &call);
    assert_int_equal(call.status, 403);
    http_call_done(&call);
    assert_int_equal(sent_through(&r->one), 2);
}

static void the_owner_reports_a_mistake_as_any_node_does(void **state)
{
    struct rig *r = *state;
    struct http_call call;
    start_both(r);
    post(&r->two, "/ack", NULL, &call);
    assert_int_equal(call.status, 400);
    assert_true(
        bytes_equal(http_header(&call, "content-type"), bytes_str("application/problem+json")));
    http_call_done(&call);
    assert_int_equal(node_number(&r->two, "/metrics", FAILED), 0);
}

static void one_node_owns_all_shards(void **state)
{
    struct rig *r = *state;
    struct sluice_setting four = {"shards", "4"};
    struct sluice *one = NULL, *two = NULL;
    assert_int_equal(sluice_queue_create(r->client, "wide", &four, 1, NULL), SLUICE_OK);
    start_both(r);
    open_at(r->one.url, NULL, &one);
    open_at(r->two.url, NULL, &two);
    for (int i = 0; i < 40; i++) {
        struct sluice_send message = {.body = "x", .body_len = 1};
        assert_int_equal(sluice_send(i % 2 ? two : one, "wide", &message, 1, NULL, NULL, NULL),
                         SLUICE_OK);
    }
    assert_int_equal(sent_through(&r->two), 0);
    sluice_close(one);
    sluice_close(two);
}

extern char **environ;

static void make_certificate(const char *key, const char *certificate)
{
    const char *arguments[] = {"openssl",
                               "req",
                               "-x509",
                               "-newkey",
                               "ec",
                               "-pkeyopt",
                               "ec_paramgen_curve:P-256",
                               "-nodes",
                               "-days",
                               "2",
                               "-subj",
                               "/CN=127.0.0.1",
                               "-addext",
                               "subjectAltName=IP:127.0.0.1",
                               "-keyout",
                               key,
                               "-out",
                               certificate,
                               NULL};
    posix_spawn_file_actions_t quiet;
    pid_t pid;
    int status = 1;
    (void)posix_spawn_file_actions_init(&quiet);
    (void)posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed =
        posix_spawnp(&pid, "openssl", &quiet, NULL, (char *const *)(uintptr_t)arguments, environ);
    (void)posix_spawn_file_actions_destroy(&quiet);
    if (failed) skip(); // there is none
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void an_owner_that_speaks_tls_is_asked_by_tls(void **state)
{
    struct rig *r = *state;
    char key[SCRATCH_MAX + 40], certificate[SCRATCH_MAX + 40];
    (void)snprintf(key, sizeof key, "tls.key=%s/key.pem", r->dir);
    (void)snprintf(certificate, sizeof certificate, "tls.certificate=%s/certificate.pem", r->dir);
    const char *settings[] = {key, certificate, NULL};
    make_certificate(strchr(key, '=') + 1, strchr(certificate, '=') + 1);
    (void)setenv("SLUICE_CA", strchr(certificate, '=') + 1, 1);
    r->one.settings = r->two.settings = settings;
    r->one.tls = r->two.tls = true;
    start_both(r);
    struct sluice *s = NULL;
    open_at(r->two.url, NULL, &s);
    for (int i = 0; i < 5; i++)
        send_by(s, "x");
    assert_int_equal(drain(s), 7);
    sluice_close(s);
    assert_int_equal(sent_through(&r->one), 7);
    assert_int_equal(sent_through(&r->two), 0);
    assert_int_equal(node_number(&r->two, "/metrics", FAILED), 0);
    (void)unsetenv("SLUICE_CA");
}

static int poll_at(const struct node_process *n)
{
    static const char request[] = "POST /v1/queues/tasks/receive HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                  "Content-Length: 14\r\n\r\n{\"wait\":\"20s\"}";
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strchr(n->address, ':') + 1)),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(write(fd, request, sizeof request - 1), (ssize_t)sizeof request - 1);
    return fd;
}

static int threads_of(const struct node_process *n)
{
    char path[64], text[4096] = "";
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)n->pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    (void)fclose(f);
    return atoi(strstr(text, "Threads:") + 8);
}

static void empty(struct rig *r)
{
    struct sluice *s = NULL;
    open_at(r->one.url, NULL, &s);
    (void)drain(s);
    sluice_close(s);
}

#define POLLS 300

// But for those that the owner was too busy to answer: they wait at the second.
static void await_polls(struct rig *r)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    int waiting, failed;
    do {
        waiting = node_number(&r->one, "/v1/node", WAITING);
        failed = node_number(&r->two, "/metrics", FAILED);
        if (clock_boot_ms() > until) fail_msg("%d wait, %d do not", waiting, failed);
    } while (waiting + failed < POLLS);
}

static void await_any(const int fds[POLLS])
{
    struct pollfd polls[POLLS];
    for (int i = 0; i < POLLS; i++)
        polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    assert_true(poll(polls, POLLS, DEADLINE_MS) > 0);
}

static void long_polls_wait_at_the_owner_and_cost_no_threads(void **state)
{
    struct rig *r = *state;
    int fds[POLLS], before;
    start_both(r);
    empty(r);
    before = threads_of(&r->two);
    for (int i = 0; i < POLLS; i++)
        fds[i] = poll_at(&r->two);
    await_polls(r);
    assert_true(threads_of(&r->two) <= before + POLLS / 6); // some come and go with the load
    int64_t began = clock_boot_ms();
    use_node(&r->one, "for one of them");
    await_any(fds);
    assert_true(clock_boot_ms() - began < WAIT_MS / 2);
    for (int i = 0; i < POLLS; i++)
        (void)close(fds[i]);
    began = clock_boot_ms();
    await_number(&r->one, "/v1/node", WAITING, 0);
    assert_true(clock_boot_ms() - began < WAIT_MS / 2);
}

static void a_client_that_hangs_up_is_forgotten_at_the_owner(void **state)
{
    struct rig *r = *state;
    struct sluice *s = NULL;
    start_both(r);
    empty(r);
    int fd = poll_at(&r->two);
    await_number(&r->one, "/v1/node", WAITING, 1);
    (void)close(fd);
    int64_t began = clock_boot_ms();
    await_number(&r->one, "/v1/node", WAITING, 0);
    assert_true(clock_boot_ms() - began < WAIT_MS / 2); // it did not end by itself
    use_node(&r->one, "for another worker");
    open_at(r->two.url, NULL, &s);
    assert_int_equal(drain(s), 1); // it was not lost
    sluice_close(s);
}

// A poll at the second gets a message though the owner is not there any more, in time.
static void poll_without_owner(struct rig *r, void (*leave)(struct rig *r), int64_t within_ms)
{
    char answer[1024] = "";
    start_both(r);
    empty(r);
    int fd = poll_at(&r->two);
    await_number(&r->one, "/v1/node", WAITING, 1);
    leave(r);
    int64_t began = clock_boot_ms();
    use_node(&r->two, "for it");
    for (size_t len = 0; !strstr(answer, "for it");) {
        ssize_t got = read(fd, answer + len, sizeof answer - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
    }
    int64_t took = clock_boot_ms() - began;
    if (took > within_ms + SLACK_MS) fail_msg("it took %lld ms", (long long)took);
    (void)close(fd);
}

static void die(struct rig *r)
{
    node_process_kill(&r->one);
}

static void a_poll_goes_on_at_the_second_when_the_owner_dies(void **state)
{
    poll_without_owner(*state, die, 1000);
}

static void hang(struct rig *r)
{
    node_pause(&r->one);
}

static void a_poll_goes_on_at_the_second_when_the_owner_hangs(void **state)
{
    poll_without_owner(*state, hang, 2000); // the send's patience, and a question
}

struct cyclist {
    const char *url;
    int cycles;
};

static void *cycle(void *arg)
{
    struct cyclist *c = arg;
    struct sluice *s = NULL;
    struct sluice_receive ask = {.max = 1, .wait_ms = 5000};
    open_at(c->url, NULL, &s);
    for (int i = 0; i < c->cycles; i++) {
        struct sluice_batch *batch = NULL;
        send_by(s, "round and round");
        assert_int_equal(sluice_receive(s, "tasks", &ask, &batch, NULL), SLUICE_OK);
        assert_int_equal(batch->len, 1);
        const char *token = batch->messages[0].token;
        assert_int_equal(sluice_ack(s, "tasks", &token, 1, NULL, NULL), SLUICE_OK);
        sluice_batch_free(batch);
    }
    sluice_close(s);
    return NULL;
}

#define CYCLISTS 8
#define CYCLES   50
static void many_at_once_by_way_of_the_second_are_done_by_the_owner(void **state)
{
    struct rig *r = *state;
    start_both(r);
    struct cyclist c = {.url = r->two.url, .cycles = CYCLES};
    pthread_t threads[CYCLISTS];
    for (int i = 0; i < CYCLISTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, cycle, &c), 0);
    for (int i = 0; i < CYCLISTS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(sent_through(&r->one), 2 + CYCLISTS * CYCLES);
    assert_int_equal(sent_through(&r->two), 0);
    assert_int_equal(node_number(&r->one, "/metrics", ACKED), CYCLISTS * CYCLES);
    assert_int_equal(drain(r->client), 2); // the two that were there before
}

static void a_paused_owner_costs_a_call_a_second_at_most(void **state)
{
    struct rig *r = *state;
    struct sluice *s = NULL;
    start_both(r);
    open_at(r->two.url, NULL, &s);
    node_pause(&r->one);
    int64_t began = clock_boot_ms();
    send_by(s, "directly");
    assert_true(clock_boot_ms() - began < OWNERSHIP_LEASE_MS);
    (void)kill(r->one.pid, SIGCONT);
    sluice_close(s);
    assert_int_equal(drain(r->client), 3); // the one that was given up was not done twice
}

// The owner answers late, and no process reads the answer. It cannot know that the forwarding node
// has done the call too, because that node may have died. So the call is counted twice; there is
// one message.
static void what_was_done_after_it_was_given_up_is_counted_by_both(void **state)
{
    struct rig *r = *state;
    struct http_call call;
    start_both(r);
    post(&r->one, "/messages", NULL, &call);
    http_call_done(&call);
    await_number(&r->one, "/metrics", OPS, 1); // counted a moment after the answer
    assert_int_equal(sent_through(&r->one), 3);
    node_pause(&r->one);
    post(&r->two, "/messages", NULL, &call);
    assert_int_equal(call.status, 201);
    http_call_done(&call);
    (void)kill(r->one.pid, SIGCONT);
    await_number(&r->one, "/metrics", OPS, 2);
    assert_int_equal(sent_through(&r->two), 1);
    assert_int_equal(sent_through(&r->one), 4);
    assert_int_equal(node_number(&r->two, "/metrics", FAILED), 1);
    assert_int_equal(drain(r->client), 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_owner_does_what_another_node_is_asked_for),
        TEST(signals_cancels_and_results_go_to_the_owner),
        TEST(every_outcome_is_forwarded),
        TEST(administration_is_done_by_the_owner),
        TEST(only_a_process_that_can_read_the_store_may_send_ops),
        TEST(the_owner_reports_a_mistake_as_any_node_does),
        TEST(one_node_owns_all_shards),
        TEST(an_owner_that_speaks_tls_is_asked_by_tls),
        TEST(long_polls_wait_at_the_owner_and_cost_no_threads),
        TEST(a_client_that_hangs_up_is_forgotten_at_the_owner),
        TEST(a_poll_goes_on_at_the_second_when_the_owner_dies),
        TEST(a_poll_goes_on_at_the_second_when_the_owner_hangs),
        TEST(a_paused_owner_costs_a_call_a_second_at_most),
        TEST(what_was_done_after_it_was_given_up_is_counted_by_both),
        TEST(many_at_once_by_way_of_the_second_are_done_by_the_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
