// SPDX-License-Identifier: Apache-2.0
// Requests that are all ready when a thread of the server looks again. A thread of libmicrohttpd
// 0.9.75 that finds exactly 128 of them waits for another event before it serves them.
#include "net/httpd.h"

#include "../unit/unit.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEADLINE_MS 10000
#define FEWEST      120
#define MOST        136
#define GET(path)   "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

struct owner {
    struct httpd *http;
    pthread_mutex_t lock; // held: the handler of /wait stays in its thread
    atomic_int waits;
};

static size_t head(void *ctx, struct httpd_request *r)
{
    (void)ctx;
    (void)r;
    return 0;
}

static void handle(void *ctx, struct httpd_request *r)
{
    struct owner *o = ctx;
    if (strcmp(httpd_target(r), "/wait") == 0) {
        atomic_fetch_add(&o->waits, 1);
        (void)pthread_mutex_lock(&o->lock);
        (void)pthread_mutex_unlock(&o->lock);
    }
    httpd_answer(r, &(struct httpd_answer){.status = 204});
}

static int dial(const struct owner *o)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(httpd_port(o->http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void hear(int fd, int crowd)
{
    char answer[1024];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, DEADLINE_MS) != 1) fail_msg("no answer, with %d requests at once", crowd);
    assert_true(recv(fd, answer, sizeof answer, 0) > 0);
}

static void burst(struct owner *o, int first, const int *lines, int crowd)
{
    int waits = atomic_load(&o->waits);
    (void)pthread_mutex_lock(&o->lock);
    say(first, GET("/wait"));
    for (int64_t end = clock_boot_ms() + DEADLINE_MS; atomic_load(&o->waits) == waits;) {
        assert_true(clock_boot_ms() < end);
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    for (int i = 0; i < crowd; i++)
        say(lines[i], GET("/"));
    (void)pthread_mutex_unlock(&o->lock);
    hear(first, crowd);
    for (int i = 0; i < crowd; i++)
        hear(lines[i], crowd);
}

static void a_burst_of_any_number_of_requests_is_answered(void **state)
{
    (void)state;
    struct owner o = {.http = NULL};
    int lines[MOST], first;
    char why[200] = "";
    (void)pthread_mutex_init(&o.lock, NULL);
    struct httpd_config config = {
        .host = "127.0.0.1", .threads = 1, .head = head, .handle = handle, .ctx = &o};
    if (httpd_start(&config, &o.http, why, sizeof why)) fail_msg("%s", why);
    if (httpd_listen(o.http, why, sizeof why)) fail_msg("%s", why);
    first = dial(&o);
    for (int i = 0; i < MOST; i++) {
        lines[i] = dial(&o);
        say(lines[i], GET("/"));
        hear(lines[i], 1);
    }
    for (int crowd = FEWEST; crowd <= MOST; crowd++)
        burst(&o, first, lines, crowd);
    (void)close(first);
    for (int i = 0; i < MOST; i++)
        (void)close(lines[i]);
    assert_true(httpd_stop(o.http, DEADLINE_MS));
    (void)pthread_mutex_destroy(&o.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_of_any_number_of_requests_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
