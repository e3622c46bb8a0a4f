// SPDX-License-Identifier: Apache-2.0
// Bytes that two readers could take for different requests are refused, and nothing after them on
// the same connection is believed. Raw sockets: no client would send these.
#include "rig.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define HOST   "Host: 127.0.0.1\r\n"
#define SEND   "POST /v1/queues/tasks/messages HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\n"
#define HIDDEN "POST /v1/queues/tasks/messages HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx"

// All that comes until the other end closes. False: it did not, or said nothing.
static bool hear_all(int fd, char *to, size_t to_len)
{
    size_t len = 0;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, DEADLINE_MS) <= 0) return false;
        ssize_t n = recv(fd, to + len, to_len - len - 1, 0);
        if (n <= 0) return len > 0;
        len += (size_t)n;
        to[len] = '\0';
    }
}

static void send_raw(const struct rig *r, const char *text, size_t len, char *answer, size_t max)
{
    int fd = dial(r);
    assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
    answer[0] = '\0';
    if (!hear_all(fd, answer, max)) fail_msg("no answer and an end to: %s", text);
    (void)close(fd);
}

static void expect_refused(const struct rig *r, const char *text, const char *field)
{
    char answer[4096], wanted[80];
    send_raw(r, text, strlen(text), answer, sizeof answer);
    (void)snprintf(wanted, sizeof wanted, "\"field\":\"%s\"", field);
    if (strncmp(answer, "HTTP/1.1 400 ", 13) != 0) fail_msg("%s\nwas answered: %s", text, answer);
    if (!strstr(answer, "application/problem+json") || !strstr(answer, wanted))
        fail_msg("%s\nwas answered: %s", text, answer);
    if (strstr(answer + 13, "HTTP/1.1")) fail_msg("%s\nwas answered twice: %s", text, answer);
}

static int64_t sent(struct rig *r)
{
    assert_int_equal(get(r, "/v1/queues/tasks/stats"), 200);
    return got_number("sent");
}

static void a_body_has_one_end(void **state)
{
    (void)state;
    static const struct {
        const char *head, *body, *field;
    } cases[] = {
        {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", "Transfer-Encoding"},
        {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", "Transfer-Encoding"},
        {"Content-Length: 5\r\nContent-Length: 5\r\n", "hello", "Content-Length"},
        {"Content-Length: 0\r\nContent-Length: 5\r\n", "hello", "Content-Length"},
        {"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n",
         "transfer-encoding"},
        {"Transfer-Encoding: identity\r\n", "hello", "Transfer-Encoding"},
        {"Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", "Transfer-Encoding"},
        {"Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", "Transfer-Encoding"},
        {"Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n", "Transfer-Encoding"},
        {"Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", "Transfer-Encoding"},
        {"Transfer-Encoding : chunked\r\n", "0\r\n\r\n", "Transfer-Encoding?"},
    };
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        (void)snprintf(text, sizeof text, SEND "%s\r\n%s" HIDDEN, cases[i].head, cases[i].body);
        expect_refused(&r, text, cases[i].field);
    }
    expect_refused(&r,
                   "POST /v1/queues/tasks/messages HTTP/1.0\r\n" HOST
                   "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN,
                   "Transfer-Encoding");
    assert_int_equal(sent(&r), 0);
    rig_stop(&r);
}

// The library answers these itself, and not as we would; but it does not go on.
static void a_length_is_a_number(void **state)
{
    (void)state;
    static const char *const lengths[] = {
        "+5", "-5", "5x", "", "0x5", "5, 5", "99999999999999999999999"};
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char text[1000], answer[4096];
        (void)snprintf(text, sizeof text, SEND "Content-Length: %s\r\n\r\nhello" HIDDEN,
                       lengths[i]);
        send_raw(&r, text, strlen(text), answer, sizeof answer);
        if (strncmp(answer, "HTTP/1.1 4", 10) != 0) fail_msg("%s\nanswered %s", text, answer);
    }
    assert_int_equal(sent(&r), 0);
    rig_stop(&r);
}

static void a_line_ends_with_cr_and_lf_and_is_one_line(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "GET /healthz HTTP/1.1\n" HOST "\r\n" HIDDEN,
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\nX: y\r\n\r\n" HIDDEN,
        "GET /healthz HTTP/1.1\r\n" HOST "X: y\n\r\n" HIDDEN,
        "GET /healthz HTTP/1.1\r\n" HOST "X: y\r\n\n" HIDDEN,
        "GET /healthz HTTP/1.1\nHost: 127.0.0.1\n\n" HIDDEN,
        "GET /healthz HTTP/1.1\r\n" HOST "X: y\r\n z\r\n\r\n" HIDDEN,
        "GET /healthz HTTP/1.1\r\n" HOST "X: y\r\n\tz\r\nA: b\r\n\r\n" HIDDEN,
        "GET /healthz HTTP/1.1\r\n" HOST "X: y\r\n Content-Length: 3\r\n\r\nxyz" HIDDEN,
        "GET /healthz HTTP/1.1\r\n" HOST ": y\r\n\r\n" HIDDEN,
        "GET  /healthz HTTP/1.1\r\n" HOST "\r\n" HIDDEN,
    };
    struct rig r;
    rig_start(&r);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_refused(&r, texts[i], "headers");
    expect_refused(&r, "GET /healthz HTTP/1.1\r\n" HOST "X : y\r\n\r\n" HIDDEN, "X?");
    expect_refused(&r, "GET /healthz HTTP/1.1\r\n X: y\r\n" HOST "\r\n" HIDDEN, "?X");
    expect_refused(&r, "GET /healthz HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n" HIDDEN, "X");
    expect_refused(&r, "GET /healthz HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n" HIDDEN, "X");
    expect_refused(&r, "G\xffT /healthz HTTP/1.1\r\n" HOST "\r\n" HIDDEN, "method");
    expect_refused(&r, "GET /health\x01z HTTP/1.1\r\n" HOST "\r\n" HIDDEN, "path");
    expect_refused(&r, "GET  /healthz HTTP/1.0\r\n\r\n" HIDDEN, "headers");
    expect_refused(&r, "GET /healthz HTTP/1.1\r\n" HOST HOST "\r\n" HIDDEN, "Host");
    assert_int_equal(sent(&r), 0);
    rig_stop(&r);
}

static void a_zero_byte_hides_nothing(void **state)
{
    (void)state;
    static const char in_field[] = "GET /healthz HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n" HIDDEN;
    static const char before[] = "GET /healthz HTTP/1.1\r\nX: a\0b\r\n" HOST "\r\n" HIDDEN;
    static const char in_path[] = "GET /healthz\0/x HTTP/1.1\r\n" HOST "\r\n" HIDDEN;
    struct rig r;
    char answer[4096];
    rig_start(&r);
    send_raw(&r, in_field, sizeof in_field - 1, answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 400 "));
    send_raw(&r, before, sizeof before - 1, answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 400 "));
    send_raw(&r, in_path, sizeof in_path - 1, answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 400 "));
    assert_int_equal(sent(&r), 0);
    rig_stop(&r);
}

// However it is cut into packets: the head's layout decides, not its arrival.
static void what_is_right_is_taken_byte_by_byte_and_one_after_another(void **state)
{
    (void)state;
    static const char text[] = SEND "X-Empty:\r\nX-Spaces: \t a b \t\r\nTransfer-Encoding: "
                                    "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    struct rig r;
    struct reply reply;
    rig_start(&r);
    int fd = dial(&r);
    for (size_t i = 0; text[i]; i++) {
        say(fd, (char[]){text[i], '\0'});
        if (i % 7 == 0) (void)poll(NULL, 0, 1);
    }
    hear(fd, false, &reply);
    assert_int_equal(reply.status, 201);
    reply_done(&reply);
    for (int i = 0; i < 3; i++) {
        say(fd, SEND "Content-Length: 5\r\n\r\nhello");
        hear(fd, false, &reply);
        assert_int_equal(reply.status, 201);
        reply_done(&reply);
    }
    (void)close(fd);
    assert_int_equal(sent(&r), 4);
    rig_stop(&r);
}

// Three at once, as some clients do: the answers come in their order.
static void requests_that_follow_each_other_at_once_are_told_apart(void **state)
{
    (void)state;
    struct rig r;
    char answers[4096] = "";
    rig_start(&r);
    int fd = dial(&r);
    say(fd, SEND "Content-Length: 5\r\n\r\nhello" SEND
                 "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n"
                 "GET /healthz HTTP/1.1\r\n" HOST "X-Last: 1\r\n\r\n");
    hear_until(fd, answers, sizeof answers, "alive");
    (void)close(fd);
    assert_int_equal(sent(&r), 2);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_has_one_end),
        cmocka_unit_test(a_length_is_a_number),
        cmocka_unit_test(a_line_ends_with_cr_and_lf_and_is_one_line),
        cmocka_unit_test(a_zero_byte_hides_nothing),
        cmocka_unit_test(what_is_right_is_taken_byte_by_byte_and_one_after_another),
        cmocka_unit_test(requests_that_follow_each_other_at_once_are_told_apart),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
