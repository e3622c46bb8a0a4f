// SPDX-License-Identifier: Apache-2.0
// The front door: what a request is refused for before its body is read, what bodies may take, and
// which pages of a browser may ask.
#include "rig.h"
#include "server/tokens.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SEND                                                                                       \
    "POST /v1/queues/tasks/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"

static struct tokens *one_token(char secret[TOKEN_SECRET_MAX])
{
    struct tokens *t = tokens_new();
    char hash[TOKEN_HASH_MAX], value[200], why[256];
    token_make(secret, hash);
    (void)snprintf(value, sizeof value, "%s scope=read queue=*", hash);
    assert_true(tokens_add(t, "reader", value, why, sizeof why));
    return t;
}

static void start_with_token(struct rig *r, char secret[TOKEN_SECRET_MAX])
{
    struct sluice_error error;
    struct server_config config = {.listen = "127.0.0.1:0", .tokens = one_token(secret)};
    *r = (struct rig){.line = -1};
    assert_int_equal(sluice_open("mem:", NULL, &r->store, &error), SLUICE_OK);
    assert_int_equal(sluice_queue_create(r->store, "tasks", NULL, 0, &error), SLUICE_OK);
    assert_int_equal(server_start(&config, r->store, &r->server, &error), SLUICE_OK);
    r->port = (uint16_t)atoi(strrchr(server_address(r->server), ':') + 1);
}

static void a_client_without_the_right_to_send_is_refused_before_the_body(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *host;
        bool token;
        int status;
    } cases[] = {
        {"POST /v1/queues/tasks/messages", "127.0.0.1", false, 401},
        {"POST /v1/queues/tasks/messages", "127.0.0.1", true, 403},
        {"POST /nothing", "127.0.0.1", true, 404},
        {"BREW /v1/queues/tasks/messages", "127.0.0.1", true, 405},
        {"POST /v1/queues/.x/messages", "127.0.0.1", true, 400},
        {"POST /v1/queues/tasks/messages", "127.0.0.1\r\nOrigin: http://evil.example", true, 403},
    };
    struct rig r;
    char secret[TOKEN_SECRET_MAX], text[1000];
    start_with_token(&r, secret);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply reply;
        int fd = dial(&r);
        (void)snprintf(text, sizeof text,
                       "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
                       "Content-Length: 80000000\r\n\r\n",
                       cases[i].line, cases[i].host, cases[i].token ? secret : "wrong");
        say(fd, text);
        hear(fd, false, &reply); // although nothing of the body was sent
        if (reply.status != cases[i].status) fail_msg("%s\nanswered %d", text, reply.status);
        assert_string_equal(reply_header(&reply, "Connection"), "close");
        assert_string_equal(reply_header(&reply, "Content-Type"), "application/problem+json");
        reply_done(&reply);
        assert_true(hears_end(fd));
        (void)close(fd);
    }
    rig_stop(&r);
}

static void an_expect_header_without_the_right_is_refused_at_once(void **state)
{
    (void)state;
    struct rig r;
    char answer[2000] = "";
    rig_start(&r);
    int fd = dial(&r);
    say(fd, "POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
            "Content-Length: 10\r\n\r\n");
    hear_until(fd, answer, sizeof answer, "unknown-path");
    assert_int_equal(strncmp(answer, "HTTP/1.1 404", 12), 0); // and no 100
    (void)close(fd);
    rig_stop(&r);
}

static void a_small_body_of_a_refused_request_is_read_and_the_connection_kept(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    static char body[10000];
    memset(body, 'x', sizeof body);
    rig_start(&r);
    struct ask a = {.method = "POST", .path = "/nothing", .body = body, .body_len = sizeof body};
    for (int i = 0; i < 3; i++) {
        ask(&r, &a, &reply);
        assert_int_equal(reply.status, 404);
        assert_string_equal(reply_header(&reply, "Connection"), "");
        reply_done(&reply);
    }
    assert_int_equal(get(&r, "/healthz"), 200);
    rig_stop(&r);
}

static void each_request_has_its_own_largest_body(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        int status;
    } cases[] = {
        {"PUT", "/v1/queues/other", 413},          {"POST", "/v1/queues/tasks/pause", 413},
        {"POST", "/v1/queues/tasks/purge", 413},   {"DELETE", "/v1/queues/tasks", 413},
        {"POST", "/v1/queues/tasks/ack", 400},     {"POST", "/v1/queues/tasks/receive", 400},
        {"POST", "/v1/queues/tasks/messages", 201}};
    struct rig r;
    struct reply reply;
    static char body[17 * KIB];
    memset(body, 'x', sizeof body);
    rig_start(&r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ask a = {.method = cases[i].method,
                        .path = cases[i].path,
                        .type = "text/plain",
                        .body = body,
                        .body_len = sizeof body};
        ask(&r, &a, &reply);
        if (reply.status != cases[i].status) fail_msg("%s: %d", cases[i].path, reply.status);
        reply_done(&reply);
    }
    rig_stop(&r);
}

static void a_body_that_does_not_come_is_cut_off(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.body_ms = 1000});
    int64_t began = now_ms();
    int fd = dial(&r);
    say(fd, SEND "Content-Length: 100000\r\n\r\nx");
    char byte;
    while (recv(fd, &byte, 1, MSG_DONTWAIT) != 0) {
        say(fd, "x"); // a byte now and then does not help
        (void)poll(NULL, 0, 100);
        if (now_ms() - began > DEADLINE_MS) fail_msg("it was heard for %d ms", DEADLINE_MS);
    }
    assert_true(now_ms() - began >= 900);
    (void)close(fd);
    rig_stop(&r);
}

static int64_t metric(struct rig *r, const char *name)
{
    struct reply reply;
    char line[100];
    ask(r, &(struct ask){.method = "GET", .path = "/metrics"}, &reply);
    assert_int_equal(reply.status, 200);
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(reply.body, line);
    if (!at) fail_msg("there is no %s", name);
    int64_t value = (int64_t)strtod(at + strlen(line), NULL);
    reply_done(&reply);
    return value;
}

static void allow_large(struct rig *r)
{
    assert_int_equal(call(r, "PATCH", "/v1/queues/tasks", "{\"maxMessageBytes\": 8388608}"), 200);
}

static size_t resident(void)
{
    unsigned long all, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &pages), 2);
    (void)fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

// A sanitizer keeps what was freed, and shadows of it.
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define MEASURES_MEMORY false
#elif defined __has_feature
#define MEASURES_MEMORY (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define MEASURES_MEMORY true
#endif

#define CROWD 48

static bool nothing_taken(void *ctx)
{
    return metric(ctx, "sluice_http_body_memory_bytes") == 0;
}

static bool much_taken(void *ctx)
{
    return metric(ctx, "sluice_http_body_memory_bytes") > (int64_t)(2 * MIB); // half are three
}

struct growth {
    struct rig *rig;
    int64_t refused;
};

static bool some_refused(void *ctx)
{
    struct growth *g = ctx;
    return metric(g->rig, "sluice_http_no_room_total") > g->refused;
}

// Each says that it will send little or nothing of it, or does not say, and sends a lot.
static void say_half(int fd, const char *megabyte, bool chunked)
{
    say(fd, chunked ? SEND "Transfer-Encoding: chunked\r\n\r\n200000\r\n"
                    : SEND "Content-Length: 2097152\r\n\r\n");
    size_t sent = 0;
    while (sent < MIB) {
        ssize_t n = send(fd, megabyte + sent, MIB - sent, MSG_NOSIGNAL);
        if (n <= 0) return; // it was refused already
        sent += (size_t)n;
    }
}

struct attempt {
    struct rig *rig;
    const struct ask *ask;
};

// The node may still read what a closed connection sent, and reserve memory for it.
static bool stored(void *ctx)
{
    struct attempt *a = ctx;
    struct reply reply;
    ask(a->rig, a->ask, &reply);
    bool refused = reply.status == 503;
    if (refused) assert_non_null(strstr(reply.body, "\"reason\":\"no-room\""));
    if (!refused) assert_int_equal(reply.status, 201);
    reply_done(&reply);
    return !refused;
}

static void half_sent_bodies_take_no_more_than_they_may(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    int fds[CROWD];
    char *megabyte = malloc(4 * MIB);
    memset(megabyte, 'x', 4 * MIB);
    rig_start_with(&r, &(struct server_config){.body_max = 4 * MIB, .body_memory_max = 8 * MIB});
    allow_large(&r);
    size_t before = resident();
    for (int i = 0; i < CROWD; i++) {
        fds[i] = dial(&r);
        say_half(fds[i], megabyte, i % 2 == 0);
        assert_true(metric(&r, "sluice_http_body_memory_bytes") <= (int64_t)(8 * MIB));
    }
    if (MEASURES_MEMORY && resident() > before + 24 * MIB)
        fail_msg("%zu KiB more than before", (resident() - before) / KIB);
    // There is no room for another of them, and there is for a small one.
    struct growth g = {&r, metric(&r, "sluice_http_no_room_total")};
    struct ask large = {.method = "POST",
                        .path = "/v1/queues/tasks/messages",
                        .type = "text/plain",
                        .body = megabyte,
                        .body_len = 4 * MIB};
    await(much_taken, &r, "those that came first have their room");
    ask(&r, &large, &reply);
    assert_int_equal(reply.status, 503);
    assert_string_equal(reply_header(&reply, "Retry-After"), "1");
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/problem+json");
    assert_non_null(strstr(reply.body, "\"reason\":\"no-room\""));
    reply_done(&reply);
    await(some_refused, &g, "it is counted");
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\": \"small\"}"), 201);
    // It comes back when they go.
    for (int i = 0; i < CROWD; i++)
        (void)close(fds[i]);
    await(stored, &(struct attempt){&r, &large}, "there is room for a large body again");
    await(nothing_taken, &r, "all is given back");
    free(megabyte);
    rig_stop(&r);
}

static void say_two_megabytes(int fd)
{
    static char block[MIB + 1];
    memset(block, 'x', MIB);
    say(fd, SEND "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 2; i++) {
        say(fd, "100000\r\n");
        say(fd, block);
        say(fd, "\r\n");
    }
}

static void end_body(int fd, int status)
{
    struct reply reply;
    say(fd, "0\r\n\r\n");
    hear(fd, false, &reply);
    if (reply.status != status) fail_msg("%s", reply.body);
    reply_done(&reply);
    say_request(fd, &(struct ask){.method = "GET", .path = "/healthz"});
    hear(fd, false, &reply); // the connection is in step
    assert_int_equal(reply.status, 200);
    reply_done(&reply);
}

static bool two_megabytes_taken(void *ctx)
{
    return metric(ctx, "sluice_http_body_memory_bytes") >= (int64_t)(2 * MIB);
}

// Refused when it turns out: in the middle of a body that had begun well. There are 3 MiB for both.
static void a_body_that_finds_no_more_room_is_refused_at_its_end(void **state)
{
    (void)state;
    struct rig r;
    rig_start_with(&r, &(struct server_config){.body_max = 3 * MIB, .body_memory_max = 4 * MIB});
    allow_large(&r);
    int first = dial(&r), second = dial(&r);
    say_two_megabytes(first);
    await(two_megabytes_taken, &r, "the first has its room");
    say_two_megabytes(second);
    end_body(second, 503);
    end_body(first, 201);
    (void)close(first);
    (void)close(second);
    rig_stop(&r);
}

static void what_decides_is_said_once(void **state)
{
    (void)state;
    static const char *const names[] = {"Authorization", "Content-Type",   "Sluice-Request",
                                        "Last-Event-ID", "Sec-Fetch-Site", "Sec-Fetch-Mode",
                                        "Origin"};
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct reply reply;
        char headers[200], wanted[80];
        (void)snprintf(headers, sizeof headers, "%s: a\r\n%s: a\r\n", names[i], names[i]);
        ask(&r, &(struct ask){.method = "GET", .path = "/v1/queues", .headers = headers}, &reply);
        (void)snprintf(wanted, sizeof wanted, "\"field\":\"%s\"", names[i]);
        if (reply.status != 400 || !strstr(reply.body, wanted)) fail_msg("%s", reply.body);
        reply_done(&reply);
    }
    assert_int_equal(get(&r, "/v1/queues?stats=1&stats=1"), 400);
    assert_string_equal(got_text("field"), "stats");
    assert_int_equal(get(&r, "/v1/queues/tasks/messages?max=1&state=ready&max=1"), 400);
    assert_string_equal(got_text("field"), "max");
    rig_stop(&r);
}

static void a_header_is_utf_8(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    rig_start(&r);
    struct ask a = {.method = "POST",
                    .path = "/v1/queues/tasks/messages",
                    .headers = "Sluice-Header-Name: J\xfcrgen\r\n",
                    .type = "text/plain",
                    .body = "x"};
    ask(&r, &a, &reply);
    assert_int_equal(reply.status, 400);
    assert_non_null(strstr(reply.body, "\"field\":\"Sluice-Header-Name\""));
    reply_done(&reply);
    a.headers = "Sluice-Header-Name: J\xc3\xbcrgen\r\n";
    ask(&r, &a, &reply);
    assert_int_equal(reply.status, 201);
    reply_done(&reply);
    rig_stop(&r);
}

// times: a piece, so often
static int head_of(struct rig *r, const char *begin, const char *piece, int times, const char *end)
{
    struct reply reply;
    int fd = dial(r);
    size_t len = strlen(piece) * (size_t)times;
    char *text = malloc(len + 1);
    for (int i = 0; i < times; i++)
        memcpy(text + (size_t)i * strlen(piece), piece, strlen(piece));
    text[len] = '\0';
    say(fd, begin);
    say(fd, text);
    say(fd, end);
    hear(fd, false, &reply);
    int status = reply.status;
    if (status != 200 && !strstr(reply.head, "application/problem+json"))
        fail_msg("%d times %s: %s", times, piece, reply.head);
    reply_done(&reply);
    (void)close(fd);
    free(text);
    return status;
}

static void a_head_that_is_too_much_gets_a_problem(void **state)
{
    (void)state;
    static const char get_[] = "GET /healthz", line[] = " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    static const char head[] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    static const char open[] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ";
    static const char close_[] = "\r\n\r\n", end[] = "\r\n";
    char rest[80], question[40];
    struct rig r;
    rig_start(&r);
    (void)snprintf(rest, sizeof rest, "%s\r\n", line);
    (void)snprintf(question, sizeof question, "%s?", get_);
    assert_int_equal(head_of(&r, question, "a=1&", 64, rest), 200);
    assert_int_equal(head_of(&r, question, "a=1&", 65, rest), 414);
    assert_int_equal(head_of(&r, question, "a&", 4000, rest), 414);
    assert_int_equal(head_of(&r, question, "a=1&", 3000, rest), 414);
    assert_int_equal(head_of(&r, get_, "x", 8200, rest), 414);
    assert_int_equal(head_of(&r, head, "X: y\r\n", 99, end), 200);
    assert_int_equal(head_of(&r, head, "X: y\r\n", 100, end), 431);
    assert_int_equal(head_of(&r, head, "X: y\r\n", 200, end), 431);
    assert_int_equal(head_of(&r, open, "y", 16000, close_), 200);
    assert_int_equal(head_of(&r, open, "y", 16400, close_), 431);
    assert_int_equal(head_of(&r, open, "y", 20000, close_), 431);
    rig_stop(&r);
}

static void pages_of_other_sites_see_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *path, *headers;
        int status;
    } cases[] = {
        {"/v1/queues", "Sec-Fetch-Site: cross-site\r\n", 403},
        {"/v1/queues", "Sec-Fetch-Site: same-site\r\n", 403}, // another port of the same name
        {"/v1/queues", "Sec-Fetch-Site: same-origin\r\n", 200},
        {"/v1/queues", "Sec-Fetch-Site: none\r\n", 200}, // typed by a person
        {"/v1/queues", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 403},
        {"/v1/queues/tasks/events", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n", 403},
        {"/healthz", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403},
        {"/", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 200},
        {"/", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403},
        {"/", "Sec-Fetch-Site: cross-site\r\n", 403},
        {"/assets/style.css", "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\n", 200},
        {"/assets/style.css", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403},
    };
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply reply;
        ask(&r, &(struct ask){.method = "GET", .path = cases[i].path, .headers = cases[i].headers},
            &reply);
        if (reply.status != cases[i].status)
            fail_msg("%s %s: %d", cases[i].path, cases[i].headers, reply.status);
        reply_done(&reply);
    }
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_without_the_right_to_send_is_refused_before_the_body),
        cmocka_unit_test(an_expect_header_without_the_right_is_refused_at_once),
        cmocka_unit_test(a_small_body_of_a_refused_request_is_read_and_the_connection_kept),
        cmocka_unit_test(each_request_has_its_own_largest_body),
        cmocka_unit_test(a_body_that_does_not_come_is_cut_off),
        cmocka_unit_test(half_sent_bodies_take_no_more_than_they_may),
        cmocka_unit_test(a_body_that_finds_no_more_room_is_refused_at_its_end),
        cmocka_unit_test(what_decides_is_said_once),
        cmocka_unit_test(a_header_is_utf_8),
        cmocka_unit_test(a_head_that_is_too_much_gets_a_problem),
        cmocka_unit_test(pages_of_other_sites_see_nothing),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
