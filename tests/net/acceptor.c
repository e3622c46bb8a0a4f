// SPDX-License-Identifier: Apache-2.0
// Which connections are accepted, which wait, and what happens without a free descriptor.
#include "net/acceptor.h"

#include "../unit/unit.h"
#include "net/listen.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#define DEADLINE_MS 20000
#define TAKEN_MAX   8

struct rig {
    struct acceptor acceptor;
    uint16_t port;
    bool refuses;
    int taken[TAKEN_MAX];
    atomic_int taken_len;
    atomic_int refused;
};

static bool take(void *ctx, int fd, const struct sockaddr *from, socklen_t from_len)
{
    struct rig *r = ctx;
    if (r->refuses || from->sa_family != AF_INET || from_len != sizeof(struct sockaddr_in)) {
        atomic_fetch_add(&r->refused, 1);
        (void)close(fd);
        return false;
    }
    int at = atomic_load(&r->taken_len);
    r->taken[at % TAKEN_MAX] = fd;
    atomic_store(&r->taken_len, at + 1);
    return true;
}

static void start(struct rig *r, unsigned most)
{
    char why[200] = "";
    int fd = listen_bind("127.0.0.1", 0, &r->port, why, sizeof why);
    if (fd < 0 || !listen_begin(fd, "127.0.0.1", why, sizeof why)) fail_msg("%s", why);
    struct acceptor_config config = {
        .listener = fd, .connections_max = most, .take = take, .ctx = r};
    assert_int_equal(acceptor_init(&r->acceptor, &config), ERR_OK);
}

static void stop(struct rig *r)
{
    acceptor_close(&r->acceptor);
    for (int i = 0; i < atomic_load(&r->taken_len); i++)
        (void)close(r->taken[i]);
    acceptor_done(&r->acceptor);
}

static int new_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static bool dial(const struct rig *r, int fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(r->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
}

static int knock(const struct rig *r)
{
    int fd = new_socket();
    if (dial(r, fd)) return fd;
    (void)close(fd);
    return -1;
}

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void await_count(const atomic_int *count, int wanted)
{
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (atomic_load(count) < wanted) {
        if (clock_boot_ms() > give_up) fail_msg("%d of %d", atomic_load(count), wanted);
        pause_ms(1);
    }
}

static bool hears_end(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;
    return poll(&p, 1, DEADLINE_MS) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

static void a_connection_over_the_limit_waits_until_another_ends(void **state)
{
    (void)state;
    struct rig r = {.port = 0};
    int fds[3];
    start(&r, 2);
    for (int i = 0; i < 3; i++)
        fds[i] = knock(&r);
    await_count(&r.taken_len, 2);
    struct pollfd third = {.fd = fds[2], .events = POLLIN};
    assert_int_equal(poll(&third, 1, 50), 0); // neither taken nor closed
    assert_int_equal(atomic_load(&r.taken_len), 2);
    acceptor_ended(&r.acceptor);
    await_count(&r.taken_len, 3);
    stop(&r);
    for (int i = 0; i < 3; i++)
        (void)close(fds[i]);
}

static void what_is_taken_does_not_block(void **state)
{
    (void)state;
    struct rig r = {.port = 0};
    start(&r, 1);
    int fd = knock(&r);
    await_count(&r.taken_len, 1);
    assert_true(fcntl(r.taken[0], F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(r.taken[0], F_GETFD) & FD_CLOEXEC);
    stop(&r);
    (void)close(fd);
}

static void a_refused_connection_takes_no_place(void **state)
{
    (void)state;
    struct rig r = {.refuses = true};
    start(&r, 1);
    for (int i = 0; i < 5; i++) {
        int fd = knock(&r);
        assert_true(hears_end(fd));
        (void)close(fd);
    }
    assert_int_equal(atomic_load(&r.refused), 5);
    stop(&r);
}

static void a_closed_acceptor_accepts_no_connection(void **state)
{
    (void)state;
    struct rig r = {.port = 0};
    start(&r, 1);
    int first = knock(&r);
    await_count(&r.taken_len, 1);
    int second = knock(&r); // waits, and will not be accepted
    acceptor_close(&r.acceptor);
    assert_true(hears_end(second));
    assert_int_equal(knock(&r), -1);
    assert_int_equal(atomic_load(&r.taken_len), 1);
    acceptor_ended(&r.acceptor); // may still be told of
    acceptor_done(&r.acceptor);
    (void)close(r.taken[0]);
    (void)close(first);
    (void)close(second);
}

static int64_t cpu_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void without_files_it_pauses_and_gets_over_it(void **state)
{
    (void)state;
    struct rig r = {.port = 0};
    struct rlimit files, none;
    start(&r, 2);
    int fd = knock(&r);
    await_count(&r.taken_len, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    int late = new_socket();
    none = files;
    none.rlim_cur = (rlim_t)late + 1; // it has the lowest number that was free
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool connected = dial(&r, late);
    int64_t before = cpu_ms();
    pause_ms(300);
    int64_t spent = cpu_ms() - before;
    int taken = atomic_load(&r.taken_len);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_true(connected);
    assert_int_equal(taken, 1);
    assert_in_range(spent, 0, 50);
    await_count(&r.taken_len, 2);
    stop(&r);
    (void)close(fd);
    (void)close(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_over_the_limit_waits_until_another_ends),
        cmocka_unit_test(what_is_taken_does_not_block),
        cmocka_unit_test(a_refused_connection_takes_no_place),
        cmocka_unit_test(a_closed_acceptor_accepts_no_connection),
        cmocka_unit_test(without_files_it_pauses_and_gets_over_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
