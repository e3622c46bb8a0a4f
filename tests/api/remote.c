// SPDX-License-Identifier: Apache-2.0
// The library by way of a node whose answers get lost, that restarts, that is away: what is done is
// done once, and what is not known is not called failed. The node is real, in this process, on a
// directory; a proxy in between loses what it is told to.
#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "fault_proxy.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "server/server.h"
#include "sluice.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_MS 10000

struct rig {
    char dir[SCRATCH_MAX];
    struct sluice *behind; // what the node serves
    struct server *node;
    char address[64];
    struct fault_proxy *proxy;
    struct sluice *s; // by way of the proxy
};

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        enum sluice_code code_ = (call);                                                           \
        if (code_) fail_msg("%s: %s", sluice_code_name(code_), error.message);                     \
    } while (0)

// On the port it had before, if it had one. Not one of those that the system hands out: while the
// node is away, the system could give it to any client socket.
static void node_start(struct rig *r)
{
    bool first = !r->address[0];
    enum sluice_code code = SLUICE_UNAVAILABLE;
    struct server_config config = {.listen = r->address, .node = "one"};
    FINE(sluice_open(r->dir, NULL, &r->behind, &error));
    for (int i = 0; code == SLUICE_UNAVAILABLE && i < (first ? 100 : 1); i++) {
        uint16_t any;
        entropy_fill(&any, sizeof any);
        if (first)
            (void)snprintf(r->address, sizeof r->address, "127.0.0.1:%d", 12000 + any % 18000);
        code = server_start(&config, r->behind, &r->node, NULL);
    }
    if (code) fail_msg("no node at %s: %s", r->address, sluice_code_name(code));
}

static void node_stop(struct rig *r)
{
    assert_true(server_stop(r->node, DEADLINE_MS));
    sluice_close(r->behind);
    r->node = NULL;
    r->behind = NULL;
}

// One of little patience may lose it with the first question, on a busy machine.
static struct sluice *client(const char *url, int64_t timeout_ms)
{
    struct sluice *s = NULL;
    struct sluice_options options = {.timeout_ms = timeout_ms};
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (sluice_open(url, &options, &s, NULL) == SLUICE_UNAVAILABLE)
        assert_true(clock_boot_ms() < give_up);
    assert_non_null(s);
    return s;
}

static void rig_start(struct rig *r)
{
    char url[80];
    *r = (struct rig){0};
    scratch_make(r->dir);
    node_start(r);
    (void)snprintf(url, sizeof url, "http://%s", r->address);
    r->proxy = proxy_start(url, 1);
    assert_non_null(r->proxy);
    r->s = client(proxy_url(r->proxy), TIMEOUT_MS);
    FINE(sluice_queue_create(r->s, "tasks", NULL, 0, &error));
}

static void rig_stop(struct rig *r)
{
    sluice_close(r->s);
    proxy_stop(r->proxy);
    if (r->node) node_stop(r);
    scratch_remove(r->dir);
}

// Without the proxy, which hands on only what has an end.
static struct sluice *direct_client(const struct rig *r)
{
    char url[80];
    (void)snprintf(url, sizeof url, "http://%s", r->address);
    return client(url, TIMEOUT_MS);
}

static void send_text(struct sluice *s, const char *text)
{
    struct sluice_send m = {.body = text, .body_len = strlen(text)};
    FINE(sluice_send(s, "tasks", &m, 1, NULL, NULL, &error));
}

static struct sluice_batch *receive(struct sluice *s, uint32_t max)
{
    struct sluice_batch *b = NULL;
    struct sluice_receive ask = {.worker = "tester", .max = max, .wait_ms = 5000};
    FINE(sluice_receive(s, "tasks", &ask, &b, &error));
    return b;
}

static struct sluice_stats stats_of(struct sluice *s)
{
    struct sluice_stats stats;
    FINE(sluice_stats(s, "tasks", &stats, &error));
    return stats;
}

// Each way in which a request or its answer can be lost, once; 0: the status of a refusal.
static const struct {
    enum proxy_fault fault;
    int status;
} losses[] = {{PROXY_CUT_BEFORE, 0},     {PROXY_RESET_BEFORE, 0},   {PROXY_CUT_INSIDE, 0},
              {PROXY_CUT_AFTER, 0},      {PROXY_RESET_AFTER, 0},    {PROXY_TRUNCATE, 0},
              {PROXY_REFUSE, 502},       {PROXY_REFUSE, 503},       {PROXY_REFUSE, 504},
              {PROXY_REFUSE_AFTER, 502}, {PROXY_REFUSE_AFTER, 503}, {PROXY_REFUSE_AFTER, 504}};
#define LOSSES (sizeof losses / sizeof *losses)

static void lose(struct rig *r, size_t which, uint32_t count)
{
    proxy_script(r->proxy, "POST", losses[which].fault, losses[which].status, count);
}

static void send_whose_answer_was_lost_is_sent_once(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < LOSSES; i++) {
        uint64_t before = proxy_requests(r.proxy, "POST");
        lose(&r, i, 2);
        send_text(r.s, "once");
        assert_true(proxy_requests(r.proxy, "POST") >= before + 3);
        assert_int_equal(stats_of(r.s).sent, i + 1);
    }
    rig_stop(&r);
}

static void work_with_a_loss(size_t which)
{
    struct rig r;
    rig_start(&r);
    send_text(r.s, "one");
    lose(&r, which, 1);
    struct sluice_batch *b = receive(r.s, 1);
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].attempt, 1);
    const char *token = b->messages[0].token;
    struct sluice_outcome outcome;
    lose(&r, which, 1);
    FINE(sluice_ack(r.s, "tasks", &token, 1, &outcome, &error));
    assert_string_equal(outcome.status, "processed");
    sluice_batch_free(b);
    rig_stop(&r);
}

static void work_whose_answers_were_lost_is_done_with_the_same_locks(void **state)
{
    (void)state;
    for (size_t i = 0; i < LOSSES; i++)
        work_with_a_loss(i);
}

static void acks_of_a_receive_whose_answer_was_lost_are_done_once(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    send_text(r.s, "first");
    struct sluice_batch *b = receive(r.s, 1);
    for (size_t i = 0; i < LOSSES; i++) {
        send_text(r.s, "next");
        struct sluice_batch *next = NULL;
        const char *token = b->messages[0].token;
        struct sluice_outcome acked;
        struct sluice_receive ask = {
            .worker = "tester", .wait_ms = 5000, .acks = &token, .acks_len = 1, .acked = &acked};
        lose(&r, i, 1);
        FINE(sluice_receive(r.s, "tasks", &ask, &next, &error));
        assert_string_equal(acked.status, "processed");
        assert_int_equal(next->len, 1);
        assert_int_equal(next->messages[0].attempt, 1);
        sluice_batch_free(b);
        b = next;
    }
    assert_int_equal(stats_of(r.s).processed, LOSSES);
    assert_int_equal(stats_of(r.s).locked, 1);
    sluice_batch_free(b);
    rig_stop(&r);
}

static void what_cannot_be_known_is_unknown_and_may_be_sent_again(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    struct sluice *hasty = client(proxy_url(r.proxy), 300);
    struct sluice_request request = {"sixteen bytes..."};
    struct sluice_send m = {.body = "once", .body_len = 4};
    struct sluice_sent sent;
    struct sluice_error why;
    proxy_script(r.proxy, "POST", PROXY_CUT_AFTER, 0, UINT32_MAX);
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    enum sluice_code code;
    do // it was not even sent
        code = sluice_send(hasty, "tasks", &m, 1, &request, &sent, &why);
    while (code == SLUICE_UNAVAILABLE && clock_boot_ms() < give_up);
    assert_int_equal(code, SLUICE_UNKNOWN);
    assert_int_equal(sent.code, SLUICE_UNKNOWN);
    assert_int_equal(why.code, SLUICE_UNKNOWN);
    sluice_close(hasty);
    proxy_calm(r.proxy);
    struct sluice *direct = client(r.dir, TIMEOUT_MS); // the id holds wherever it is sent
    FINE(sluice_send(direct, "tasks", &m, 1, &request, &sent, &error));
    assert_int_equal(stats_of(direct).sent, 1);
    sluice_close(direct);
    rig_stop(&r);
}

static void what_never_arrived_is_unavailable(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    char url[80];
    (void)snprintf(url, sizeof url, "http://%s", r.address);
    struct sluice *hasty = client(url, 300);
    node_stop(&r);
    struct sluice_send m = {.body = "x", .body_len = 1};
    struct sluice_error why;
    assert_int_equal(sluice_send(hasty, "tasks", &m, 1, NULL, NULL, &why), SLUICE_UNAVAILABLE);
    assert_non_null(strstr(why.message, r.address));
    struct sluice_stats stats; // reading changes nothing: never unknown
    assert_int_equal(sluice_stats(hasty, "tasks", &stats, &why), SLUICE_UNAVAILABLE);
    sluice_close(hasty);
    struct sluice *none = NULL;
    struct sluice_options short_time = {.timeout_ms = 300};
    assert_int_equal(sluice_open(url, &short_time, &none, &why), SLUICE_UNAVAILABLE);
    node_start(&r);
    rig_stop(&r);
}

static void *restart(void *arg)
{
    struct rig *r = arg;
    node_stop(r);
    node_start(r);
    return NULL;
}

static void node_that_restarts_is_survived(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    for (int round = 0; round < 3; round++) {
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, restart, &r), 0);
        for (int i = 0; i < 20; i++) {
            send_text(r.s, "x");
            struct sluice_batch *b = receive(r.s, 1);
            assert_int_equal(b->len, 1);
            const char *token = b->messages[0].token;
            FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
            sluice_batch_free(b);
        }
        assert_int_equal(pthread_join(other, NULL), 0);
    }
    assert_int_equal(stats_of(r.s).processed, 60);
    assert_int_equal(stats_of(r.s).sent, 60);
    rig_stop(&r);
}

static void same_error(const struct sluice_error *a, const struct sluice_error *b)
{
    assert_int_equal(a->code, b->code);
    assert_string_equal(a->reason, b->reason);
    assert_string_equal(a->field, b->field);
    assert_string_equal(a->message, b->message);
}

static void refusals_are_the_same_as_on_a_store(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    struct sluice *both[2] = {r.s, r.behind};
    struct sluice_error e[2];
#define BOTH(expected, call)                                                                       \
    do {                                                                                           \
        for (int i = 0; i < 2; i++) {                                                              \
            struct sluice *s = both[i];                                                            \
            struct sluice_error *error = &e[i];                                                    \
            *error = (struct sluice_error){.code = SLUICE_OK};                                     \
            assert_int_equal((call), expected);                                                    \
        }                                                                                          \
        same_error(&e[0], &e[1]);                                                                  \
    } while (0)
    struct sluice_send m = {.body = "x", .body_len = 1}, odd = {.priority = 77};
    struct sluice_setting random = {"orderingMode", "random"};
    struct sluice_batch *b;
    struct sluice_stats stats;
    struct sluice_queue_info *info;
    struct sluice_outcome outcome;
    const char
        *nonsense = "nonsense",
        *long_name =
            "a name of a worker that has more bytes than any worker is allowed to have, which are "
            "no "
            "more than one hundred and twenty-eight of them, which is more than enough of them";
    BOTH(SLUICE_NOT_FOUND, sluice_send(s, "nowhere", &m, 1, NULL, NULL, error));
    BOTH(SLUICE_INVALID, sluice_send(s, "../up", &m, 1, NULL, NULL, error));
    BOTH(SLUICE_INVALID, sluice_send(s, "tasks", &odd, 1, NULL, NULL, error));
    BOTH(SLUICE_INVALID, sluice_queue_create(s, "other", &random, 1, error));
    BOTH(SLUICE_CONFLICT,
         sluice_queue_create(s, "tasks", &(struct sluice_setting){"shards", "2"}, 1, error));
    BOTH(SLUICE_NOT_FOUND, sluice_stats(s, "nowhere", &stats, error));
    BOTH(SLUICE_NOT_FOUND, sluice_queue_show(s, "nowhere", &info, error));
    BOTH(SLUICE_NOT_FOUND, sluice_queue_delete(s, "nowhere", error));
    BOTH(SLUICE_NOT_FOUND, sluice_receive(s, "nowhere", NULL, &b, error));
    BOTH(SLUICE_INVALID,
         sluice_receive(s, "tasks", &(struct sluice_receive){.worker = long_name}, &b, error));
    BOTH(SLUICE_INVALID, sluice_ack(s, "tasks", &nonsense, 1, &outcome, error));
    BOTH(SLUICE_INVALID, sluice_renew(s, "tasks", &nonsense, 1, -5, &outcome, error));
    BOTH(SLUICE_INVALID, sluice_show(s, "tasks", "nonsense", &b, error));
    BOTH(SLUICE_NOT_FOUND, sluice_show(s, "tasks", "00000000-0-1", &b, error));
    BOTH(SLUICE_INVALID, sluice_peek(s, "tasks", &(struct sluice_peek){.state = "odd"}, &b, error));
    rig_stop(&r);
}

static void queue_is_shown_as_on_a_store(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    struct sluice_setting settings[] = {{"visibilityTimeout", "90s"},
                                        {"failureStrategy.backoff.jitter", "0.25"},
                                        {"failureStrategy.mode", "dead-letter"},
                                        {"failureStrategy.deadLetterQueue", "2024"}};
    FINE(sluice_queue_create(r.s, "other", settings, 4, &error));
    struct sluice_queue_info *far = NULL, *near = NULL;
    FINE(sluice_queue_show(r.s, "other", &far, &error));
    FINE(sluice_queue_show(r.behind, "other", &near, &error));
    assert_string_equal(far->name, near->name);
    assert_string_equal(far->id, near->id);
    assert_int_equal(far->settings_len, near->settings_len);
    for (size_t i = 0; i < far->settings_len; i++) {
        assert_string_equal(far->settings[i].key, near->settings[i].key);
        assert_string_equal(far->settings[i].value, near->settings[i].value);
    }
    sluice_queue_info_free(far);
    sluice_queue_info_free(near);
    struct sluice_names *names = NULL;
    FINE(sluice_queue_list(r.s, &names, &error));
    assert_int_equal(names->len, 3);
    assert_string_equal(names->names[0], "2024");
    sluice_names_free(names);
    rig_stop(&r);
}

static void many_messages_are_several_requests(void **state)
{
    (void)state;
    enum { MANY = 12000, BODY = 1000 }; // parts of several ops each
    struct rig r;
    rig_start(&r);
    struct sluice_send *all = calloc(MANY, sizeof *all);
    struct sluice_sent *sent = calloc(MANY, sizeof *sent);
    static const char body[BODY];
    struct sluice_request request = {"sixteen bytes..."};
    for (int i = 0; i < MANY; i++)
        all[i] = (struct sluice_send){.body = body, .body_len = BODY};
    for (int round = 0; round < 2; round++) { // the second time nothing is sent
        FINE(sluice_send(r.s, "tasks", all, MANY, &request, sent, &error));
        for (int i = 0; i < MANY; i++)
            assert_true(sent[i].code == SLUICE_OK && sent[i].id[0]);
        assert_string_not_equal(sent[0].id, sent[MANY - 1].id);
        assert_int_equal(stats_of(r.s).sent, MANY);
    }
    free(sent);
    free(all);
    rig_stop(&r);
}

static void large_body_travels_unharmed(void **state)
{
    (void)state;
    size_t len = (size_t)20 << 20;
    struct rig r;
    rig_start(&r);
    FINE(sluice_queue_set(r.s, "tasks", &(struct sluice_setting){"maxMessageBytes", "33554432"}, 1,
                          &error));
    char *body = malloc(len);
    for (size_t i = 0; i < len; i++)
        body[i] = (char)(i * 31 >> 3);
    struct sluice_send m = {.body = body, .body_len = len};
    FINE(sluice_send(r.s, "tasks", &m, 1, NULL, NULL, &error));
    struct sluice_batch *b = receive(r.s, 1);
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].body_len, len);
    assert_memory_equal(b->messages[0].body, body, len);
    sluice_batch_free(b);
    free(body);
    rig_stop(&r);
}

static void next_is(struct sluice_events *events, const char *type)
{
    struct sluice_event e;
    FINE(sluice_events_next(events, TIMEOUT_MS, &e, &error));
    assert_string_equal(e.type, type);
}

static void events_go_on_after_the_node_restarted(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    struct sluice_events *events = NULL;
    struct sluice_event e;
    struct sluice_error why;
    send_text(r.s, "a");
    struct sluice *s = direct_client(&r);
    FINE(sluice_events_open(s, "tasks", 0, &events, &error));
    next_is(events, "message-enqueued");
    assert_int_equal(sluice_events_next(events, 0, &e, &why), SLUICE_NOT_FOUND);
    restart(&r);
    send_text(r.s, "b");
    sluice_batch_free(receive(r.s, 2));
    next_is(events, "message-enqueued");
    next_is(events, "message-claimed");
    next_is(events, "message-claimed");
    assert_int_equal(sluice_events_next(events, 0, &e, &why), SLUICE_NOT_FOUND);
    sluice_events_close(events);
    assert_int_equal(sluice_events_open(s, "nowhere", 0, &events, &why), SLUICE_NOT_FOUND);
    sluice_close(s);
    rig_stop(&r);
}

static void events_are_the_same_as_on_a_store(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    FINE(sluice_queue_create(r.s, "four", &(struct sluice_setting){"shards", "4"}, 1, &error));
    struct sluice_send m[300];
    for (int i = 0; i < 300; i++)
        m[i] = (struct sluice_send){.body = "x", .body_len = 1};
    FINE(sluice_send(r.s, "four", m, 300, NULL, NULL, &error));
    struct sluice_events *far = NULL, *near = NULL;
    struct sluice_event a, b;
    struct sluice *s = direct_client(&r);
    FINE(sluice_events_open(s, "four", 0, &far, &error));
    FINE(sluice_events_open(r.behind, "four", 0, &near, &error));
    uint64_t far_sum = 0, near_sum = 0;
    for (int i = 0; i < 300; i++) { // in any order of the shards
        FINE(sluice_events_next(far, 0, &a, &error));
        FINE(sluice_events_next(near, 0, &b, &error));
        assert_string_equal(a.type, b.type);
        for (const char *at = a.id; *at; at++)
            far_sum += (uint64_t)*at * (uint64_t)(at - a.id + 1);
        for (const char *at = b.id; *at; at++)
            near_sum += (uint64_t)*at * (uint64_t)(at - b.id + 1);
    }
    assert_int_equal(far_sum, near_sum);
    assert_int_equal(sluice_events_next(far, 0, &a, NULL), SLUICE_NOT_FOUND);
    sluice_events_close(far);
    sluice_events_close(near);
    sluice_close(s);
    rig_stop(&r);
}

static void url_with_a_user_is_refused_and_not_repeated(void **state)
{
    (void)state;
    struct sluice *s = NULL;
    struct sluice_error why;
    assert_int_equal(sluice_open("http://s3cret@127.0.0.1:1", NULL, &s, &why), SLUICE_INVALID);
    assert_null(strstr(why.message, "s3cret"));
    assert_non_null(strstr(why.message, "SLUICE_TOKEN"));
    const char *wrong[] = {"http://", "http:///x", "http://h:1/?a=b", "http://h:1#x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sluice_open(wrong[i], NULL, &s, &why), SLUICE_INVALID);
    struct sluice_options odd = {.token = "a\r\nb"};
    assert_int_equal(sluice_open("http://127.0.0.1:1", &odd, &s, &why), SLUICE_INVALID);
}

static void handle_is_refused_in_a_child(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    pid_t child = fork();
    if (child == 0) {
        struct sluice_stats stats;
        _exit(sluice_stats(r.s, "tasks", &stats, NULL) == SLUICE_INVALID ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rig_stop(&r);
}

struct checks {
    int seen;
    int failed;
};

static void note(void *ctx, const char *check, enum sluice_health health, const char *detail)
{
    struct checks *c = ctx;
    (void)check, (void)detail;
    c->seen++;
    if (health == SLUICE_FAILED) c->failed++;
}

static void doctor_examines_the_node(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    struct checks c = {0};
    FINE(sluice_doctor(proxy_url(r.proxy), note, &c, &error));
    assert_true(c.seen >= 7);
    assert_int_equal(c.failed, 0);
    rig_stop(&r);
}

static void lease_is_shorter_by_the_way(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    send_text(r.s, "x");
    struct proxy_faults slow = {.delay_ms = 400};
    proxy_set(r.proxy, &slow);
    proxy_script(r.proxy, "POST", PROXY_DELAY, 0, 1);
    struct sluice_batch *b = receive(r.s, 1);
    assert_int_equal(b->len, 1);
    assert_true(b->messages[0].lease_ms <= 30000 - 400);
    assert_true(b->messages[0].lease_ms > 20000);
    sluice_batch_free(b);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send_whose_answer_was_lost_is_sent_once),
        cmocka_unit_test(work_whose_answers_were_lost_is_done_with_the_same_locks),
        cmocka_unit_test(acks_of_a_receive_whose_answer_was_lost_are_done_once),
        cmocka_unit_test(what_cannot_be_known_is_unknown_and_may_be_sent_again),
        cmocka_unit_test(what_never_arrived_is_unavailable),
        cmocka_unit_test(node_that_restarts_is_survived),
        cmocka_unit_test(refusals_are_the_same_as_on_a_store),
        cmocka_unit_test(queue_is_shown_as_on_a_store),
        cmocka_unit_test(many_messages_are_several_requests),
        cmocka_unit_test(large_body_travels_unharmed),
        cmocka_unit_test(events_go_on_after_the_node_restarted),
        cmocka_unit_test(events_are_the_same_as_on_a_store),
        cmocka_unit_test(url_with_a_user_is_refused_and_not_repeated),
        cmocka_unit_test(handle_is_refused_in_a_child),
        cmocka_unit_test(doctor_examines_the_node),
        cmocka_unit_test(lease_is_shorter_by_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
