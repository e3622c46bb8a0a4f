// SPDX-License-Identifier: Apache-2.0
// Receives that wait, clients that hang up, streams of events, and stopping in the middle of it.
#include "rig.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CROWD 500

static const struct ask long_poll = {
    .method = "POST", .path = "/v1/queues/tasks/receive", .body = "{\"wait\": \"20s\"}"};

static int start_waiting(const struct rig *r)
{
    int fd = dial(r);
    say_request(fd, &long_poll);
    return fd;
}

static void await_waiting(struct rig *r, int64_t count)
{
    int64_t give_up = now_ms() + DEADLINE_MS;
    do {
        assert_int_equal(get(r, "/v1/node"), 200);
        if (now_ms() > give_up) fail_msg("%d wait, not %d", (int)got_number("waiting"), (int)count);
    } while (got_number("waiting") != count);
}

static void a_send_wakes_one_that_waits(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    int fd = start_waiting(&r);
    await_waiting(&r, 1);
    int64_t began = now_ms();
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"wake up\"}"), 201);
    hear(fd, false, &reply);
    assert_true(now_ms() - began < 5000);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "wake up"));
    reply_done(&reply);
    (void)close(fd);
    rig_stop(&r);
}

static void a_wait_that_brings_nothing_ends_empty_in_time(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    int64_t began = now_ms();
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{\"wait\": 300}"), 200);
    assert_int_equal(got_len("messages"), 0);
    assert_true(now_ms() - began >= 299);
    assert_true(now_ms() - began < 10000);
    rig_stop(&r);
}

static void one_that_hung_up_gets_nothing(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    int gone = start_waiting(&r);
    await_waiting(&r, 1);
    (void)close(gone);
    int64_t began = now_ms();
    await_waiting(&r, 0); // noticed before anything is sent
    assert_true(now_ms() - began < 10000);
    int fd = start_waiting(&r);
    await_waiting(&r, 1);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"mine\"}"), 201);
    hear(fd, false, &reply);
    assert_non_null(strstr(reply.body, "mine"));
    assert_non_null(strstr(reply.body, "\"attempt\":1"));
    reply_done(&reply);
    (void)close(fd);
    rig_stop(&r);
}

// However the hang-up and the send meet: when the answer was already on its way, the lock brings
// the message back, and else the node does.
static void a_hang_up_that_meets_a_send_loses_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    assert_int_equal(call(&r, "PATCH", "/v1/queues/tasks", "{\"visibilityTimeout\": \"1s\"}"), 200);
    for (int i = 0; i < 10; i++) {
        struct reply reply;
        char ack[300];
        int fd = start_waiting(&r), sender = dial(&r);
        await_waiting(&r, 1);
        say_request(sender, &(struct ask){.method = "POST",
                                          .path = "/v1/queues/tasks/messages",
                                          .type = "text/plain",
                                          .body = "x"});
        (void)close(fd);
        hear(sender, false, &reply);
        assert_int_equal(reply.status, 201);
        reply_done(&reply);
        (void)close(sender);
        const char *mine = "{\"wait\": \"20s\", \"visibility\": \"1m\"}"; // time to ack it
        assert_int_equal(post(&r, "/v1/queues/tasks/receive", mine), 200);
        assert_int_equal(got_len("messages"), 1);
        (void)snprintf(ack, sizeof ack, "{\"token\": \"%s\"}", got_text("messages.0.token"));
        assert_int_equal(post(&r, "/v1/queues/tasks/ack", ack), 200);
    }
    rig_stop(&r);
}

// More than the network takes at once, for a client that does not read.
static void an_answer_that_did_not_arrive_is_taken_back(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    size_t size = 1000000;
    int few = 4096;
    char *big = malloc(size);
    rig_start(&r);
    memset(big, 'x', size);
    for (int i = 0; i < 10; i++) {
        struct ask send = {.method = "POST",
                           .path = "/v1/queues/tasks/messages",
                           .type = "text/plain",
                           .body = big,
                           .body_len = size};
        ask(&r, &send, &reply);
        assert_int_equal(reply.status, 201);
        reply_done(&reply);
    }
    free(big);
    int fd = dial(&r);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few), 0);
    say_request(fd, &(struct ask){.method = "POST",
                                  .path = "/v1/queues/tasks/receive",
                                  .body = "{\"max\": 10}"});
    do
        assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    while (got_number("locked") < 10);
    char begun[16];
    assert_true(recv(fd, begun, sizeof begun, 0) > 0);
    (void)close(fd);
    int64_t began = now_ms();
    do
        assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    while (got_number("ready") < 10 && now_ms() - began < DEADLINE_MS);
    assert_true(now_ms() - began < DEADLINE_MS); // the locks would last 30 s
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    assert_int_equal(got_number("messages.0.retries"), 0);
    rig_stop(&r);
}

static void each_of_a_crowd_gets_one(void **state)
{
    (void)state;
    struct rig r;
    static int lines[CROWD];
    static bool seen[CROWD];
    rig_start(&r);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < CROWD; i++)
        lines[i] = start_waiting(&r);
    await_waiting(&r, CROWD);
    CLEANUP(buf_done) struct buf body;
    buf_init(&body, 1 << 20);
    buf_put(&body, bytes_str("{\"messages\": ["));
    for (int i = 0; i < CROWD; i++) {
        char one[64];
        (void)snprintf(one, sizeof one, "%s{\"body\": \"number %d.\"}", i > 0 ? "," : "", i);
        buf_put(&body, bytes_str(one));
    }
    buf_put(&body, bytes_str("]}"));
    buf_put_u8(&body, 0);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", (const char *)body.data), 200);
    for (int i = 0; i < CROWD; i++) {
        struct reply reply;
        hear(lines[i], false, &reply);
        const char *number = strstr(reply.body, "number ");
        assert_non_null(number);
        int which = atoi(number + 7);
        assert_true(which >= 0 && which < CROWD && !seen[which]);
        seen[which] = true;
        reply_done(&reply);
        (void)close(lines[i]);
    }
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("locked"), CROWD);
    rig_stop(&r);
}

static void stopping_answers_those_that_wait_and_those_that_send(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    int fd = start_waiting(&r), idle = dial(&r);
    await_waiting(&r, 1);
    int64_t began = now_ms();
    assert_true(server_stop(r.server, DEADLINE_MS));
    assert_true(now_ms() - began < 5000);
    r.server = NULL;
    hear(fd, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply_header(&reply, "Connection"), "close");
    assert_non_null(strstr(reply.body, "\"messages\":[]"));
    reply_done(&reply);
    assert_true(hears_end(idle));
    (void)close(fd);
    (void)close(idle);
    rig_stop(&r);
}

struct sender {
    struct rig *rig;
    int fd;
    int answered;
    int cut;
};

// Sends one after another until the node is gone. What was answered was done.
static void *send_until_end(void *arg)
{
    struct sender *s = arg;
    char text[4096];
    for (;;) {
        say_request(s->fd, &(struct ask){.method = "POST",
                                         .path = "/v1/queues/tasks/messages",
                                         .type = "text/plain",
                                         .body = "x"});
        ssize_t n = recv(s->fd, text, sizeof text - 1, 0);
        if (n <= 0) break;
        text[n] = '\0';
        if (strncmp(text, "HTTP/1.1 201", 12) != 0) break;
        s->answered++;
        if (strstr(text, "Connection: close")) break;
    }
    return NULL;
}

static void nothing_answered_is_lost_by_stopping_under_load(void **state)
{
    (void)state;
    struct rig r;
    struct sender senders[4];
    pthread_t threads[4];
    int answered = 0;
    rig_start(&r);
    for (int i = 0; i < 4; i++) {
        senders[i] = (struct sender){.rig = &r, .fd = dial(&r)};
        assert_int_equal(pthread_create(&threads[i], NULL, send_until_end, &senders[i]), 0);
    }
    do
        assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    while (got_number("sent") < 50);
    assert_true(server_stop(r.server, DEADLINE_MS));
    r.server = NULL;
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        answered += senders[i].answered;
        (void)close(senders[i].fd);
    }
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(r.store, "tasks", &stats, NULL), SLUICE_OK);
    assert_true(answered >= 40);
    assert_true(stats.sent >= (uint64_t)answered);
    rig_stop(&r);
}

static int open_stream(struct rig *r, const char *query, const char *last)
{
    char path[200], headers[200] = "";
    int fd = dial(r);
    (void)snprintf(path, sizeof path, "/v1/queues/tasks/events%.160s", query);
    if (last) (void)snprintf(headers, sizeof headers, "Last-Event-ID: %.160s\r\n", last);
    say_request(fd, &(struct ask){.method = "GET", .path = path, .headers = headers});
    return fd;
}

static void events_stream_and_go_on_where_they_stopped(void **state)
{
    (void)state;
    struct rig r;
    static char text[1 << 16];
    char last[64] = "";
    rig_start(&r);
    const char *three = "{\"messages\": [{\"body\": \"1\"}, {\"body\": \"2\"}, {\"body\": \"3\"}]}";
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", three), 200);
    int fd = open_stream(&r, "?type=message-enqueued", NULL);
    text[0] = '\0';
    hear_until(fd, text, sizeof text, "text/event-stream");
    hear_until(fd, text, sizeof text, "-0-3\"");
    (void)close(fd);
    // The place after the second of the three, which one entry holds.
    const char *second = strstr(strstr(text, "\nid: ") + 1, "\nid: ");
    (void)snprintf(last, sizeof last, "%.*s", (int)strcspn(second + 5, "\n"), second + 5);
    fd = open_stream(&r, "?type=message-enqueued", last);
    text[0] = '\0';
    hear_until(fd, text, sizeof text, "-0-3\"");
    assert_null(strstr(text, "-0-1\""));
    assert_null(strstr(text, "-0-2\""));
    // And it goes on live.
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"4\"}"), 201);
    hear_until(fd, text, sizeof text, "-0-4\"");
    (void)close(fd);
    rig_stop(&r);
}

static void events_are_filtered_and_can_begin_now(void **state)
{
    (void)state;
    struct rig r;
    static char text[1 << 16];
    char body[300], query[200];
    rig_start(&r);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"old\"}"), 201);
    int now = open_stream(&r, "?from=now", NULL);
    text[0] = '\0';
    hear_until(now, text, sizeof text, "retry:");
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", NULL), 200);
    (void)snprintf(query, sizeof query, "?message=%s&type=message-outcome&type=message-claimed",
                   got_text("messages.0.id"));
    (void)snprintf(body, sizeof body, "{\"token\": \"%s\"}", got_text("messages.0.token"));
    hear_until(now, text, sizeof text, "message-claimed");
    assert_null(strstr(text, "message-enqueued"));
    (void)close(now);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"other\"}"), 201);
    assert_int_equal(post(&r, "/v1/queues/tasks/ack", body), 200);
    int fd = open_stream(&r, query, NULL);
    text[0] = '\0';
    hear_until(fd, text, sizeof text, "message-outcome");
    assert_non_null(strstr(text, "message-claimed"));
    assert_null(strstr(text, "message-enqueued"));
    (void)close(fd);
    assert_int_equal(get(&r, "/v1/queues/tasks/events?type=nonsense"), 400);
    assert_int_equal(get(&r, "/v1/queues/tasks/events?from=here"), 400);
    assert_int_equal(get(&r, "/v1/queues/nothing/events"), 404);
    rig_stop(&r);
}

static void streams_are_limited_and_end_with_their_client(void **state)
{
    (void)state;
    struct rig r;
    static char text[4096];
    rig_start_with(&r, &(struct server_config){.streams_max = 1});
    int fd = open_stream(&r, "", NULL);
    text[0] = '\0';
    hear_until(fd, text, sizeof text, "retry:");
    assert_int_equal(get(&r, "/v1/queues/tasks/events"), 429);
    (void)close(fd);
    int64_t give_up = now_ms() + DEADLINE_MS;
    for (bool open = false; !open;) {
        struct reply reply;
        ask(&r, &(struct ask){.method = "HEAD", .path = "/v1/queues/tasks/events"}, &reply);
        open = reply.status == 200;
        reply_done(&reply);
        assert_true(now_ms() < give_up);
    }
    rig_stop(&r);
}

// More events than a stream and the sockets' buffers hold.
static void send_many(struct rig *r)
{
    enum { EACH = 5000, TIMES = 10 };
    static const char one[] = "{\"body\":\"x\"},";
    static char body[EACH * sizeof one + 100];
    char *at = body + sprintf(body, "{\"messages\":[");
    for (int i = 0; i < EACH; i++)
        at += sprintf(at, "%s", one);
    (void)strcpy(at - 1, "]}");
    for (int i = 0; i < TIMES; i++)
        assert_int_equal(post(r, "/v1/queues/tasks/messages", body), 200);
}

// From another address than dial's: another client.
static int dial_as_another_client(const struct rig *r)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(r->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int64_t metric(struct rig *r, const char *line)
{
    struct reply reply;
    ask(r, &(struct ask){.method = "GET", .path = "/metrics"}, &reply);
    const char *at = strstr(reply.body, line);
    assert_non_null(at);
    int64_t value = (int64_t)strtod(at + strlen(line), NULL);
    reply_done(&reply);
    return value;
}

struct written {
    struct rig *rig;
    int64_t events; // at the last look
    int64_t since_ms;
};

// Nothing was written for a second although there is more.
static bool streams_are_full(void *ctx)
{
    struct written *w = ctx;
    int64_t events = metric(w->rig, "\nsluice_events_written_total ");
    if (events != w->events) *w = (struct written){w->rig, events, now_ms()};
    return events > 0 && now_ms() - w->since_ms > 1000;
}

static bool two_streams_are_open(void *ctx)
{
    return metric(ctx, "\nsluice_event_streams ") <= 2;
}

// A write waits 30 s for a client that does not read, which is longer than this test does.
static void a_stream_that_lost_its_place_ends_although_its_client_does_not_read(void **state)
{
    (void)state;
    struct rig r;
    static char text[4096];
    int unread[2], little = 4096;
    rig_start_with(&r, &(struct server_config){.streams_max = 2});
    send_many(&r);
    for (int i = 0; i < 2; i++) {
        unread[i] = open_stream(&r, "", NULL);
        (void)setsockopt(unread[i], SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    }
    struct written w = {.rig = &r};
    await(streams_are_full, &w, "neither stream can be written to");
    int fd = dial_as_another_client(&r);
    say_request(fd, &(struct ask){.method = "GET", .path = "/v1/queues/tasks/events?from=now"});
    text[0] = '\0';
    hear_until(fd, text, sizeof text, "retry:");
    await(two_streams_are_open, &r, "the newer of the two has ended");
    (void)close(fd);
    for (int i = 0; i < 2; i++)
        (void)close(unread[i]);
    rig_stop(&r);
}

static void a_stream_over_several_shards_goes_on_too(void **state)
{
    (void)state;
    struct rig r;
    static char text[1 << 16], again[1 << 16];
    char last[128];
    rig_start(&r);
    assert_int_equal(call(&r, "PUT", "/v1/queues/wide", "{\"shards\": 2}"), 201);
    for (int i = 0; i < 8; i++) {
        char body[100];
        (void)snprintf(body, sizeof body, "{\"body\": \"x\", \"group\": \"g%d\"}", i);
        assert_int_equal(post(&r, "/v1/queues/wide/messages", body), 201);
    }
    int fd = dial(&r);
    say_request(
        fd, &(struct ask){.method = "GET", .path = "/v1/queues/wide/events?type=message-enqueued"});
    char *from = text;
    text[0] = '\0';
    for (int i = 0; i < 5; i++) { // five of the eight
        hear_until(fd, from, sizeof text - (size_t)(from - text), "\nevent: ");
        (void)snprintf(last, sizeof last, "%s", strstr(from, "\nid: ") + 5);
        last[strcspn(last, "\n")] = '\0';
        from = strstr(from, "\nevent: ") + 8;
    }
    (void)close(fd);
    assert_non_null(strchr(last, '_'));
    char header[200];
    (void)snprintf(header, sizeof header, "Last-Event-ID: %s\r\n", last);
    fd = dial(&r);
    say_request(fd, &(struct ask){.method = "GET",
                                  .path = "/v1/queues/wide/events?type=message-enqueued",
                                  .headers = header});
    assert_int_equal(post(&r, "/v1/queues/wide/messages",
                          "{\"body\": \"x\", \"group\": \"g0\", \"dedup\": \"end\"}"),
                     201);
    char end[100];
    (void)snprintf(end, sizeof end, "\"message\":\"%s\"", got_text("id"));
    again[0] = '\0';
    from = again;
    for (int i = 0; i < 4; i++) { // the three that were missed, and the last, in any order
        hear_until(fd, from, sizeof again - (size_t)(from - again), "event: message-enqueued");
        from = strstr(from, "event: message-enqueued") + 1;
    }
    hear_until(fd, again, sizeof again, end);
    assert_null(strstr(from, "event: message-enqueued"));
    (void)close(fd);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_wakes_one_that_waits),
        cmocka_unit_test(a_wait_that_brings_nothing_ends_empty_in_time),
        cmocka_unit_test(one_that_hung_up_gets_nothing),
        cmocka_unit_test(a_hang_up_that_meets_a_send_loses_nothing),
        cmocka_unit_test(an_answer_that_did_not_arrive_is_taken_back),
        cmocka_unit_test(each_of_a_crowd_gets_one),
        cmocka_unit_test(stopping_answers_those_that_wait_and_those_that_send),
        cmocka_unit_test(nothing_answered_is_lost_by_stopping_under_load),
        cmocka_unit_test(events_stream_and_go_on_where_they_stopped),
        cmocka_unit_test(events_are_filtered_and_can_begin_now),
        cmocka_unit_test(streams_are_limited_and_end_with_their_client),
        cmocka_unit_test(a_stream_that_lost_its_place_ends_although_its_client_does_not_read),
        cmocka_unit_test(a_stream_over_several_shards_goes_on_too),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
