// SPDX-License-Identifier: Apache-2.0
// Who is told that the other end of a socket is gone, when, and how often.
#include "net/hangup.h"

#include "../unit/unit.h"
#include "base/check.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20000

// What is watched is an eventfd: being told adds one to it.
static void told(void *ctx, void *what)
{
    (void)ctx;
    CHECK(eventfd_write(*(int *)what, 1) == 0);
}

static void tick(void *ctx)
{
    (void)ctx;
}

struct place {
    struct hangup *hangup;
    int ours, theirs;
    int news; // eventfd
    uint64_t seat;
};

static void place_init(struct place *p)
{
    struct hangup_config config = {.gone = told, .tick = tick};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    p->ours = pair[0];
    p->theirs = pair[1];
    p->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(p->news >= 0);
    p->hangup = hangup_new(&config);
    p->seat = hangup_sit(p->hangup, p->ours);
}

static void place_done(struct place *p)
{
    hangup_rise(p->hangup, p->seat);
    hangup_free(p->hangup);
    (void)close(p->ours);
    (void)close(p->news);
}

static void await_news(struct place *p)
{
    struct pollfd ready = {.fd = p->news, .events = POLLIN};
    eventfd_t times = 0;
    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    assert_int_equal(eventfd_read(p->news, &times), 0);
    assert_int_equal(times, 1);
}

static bool has_news(const struct place *p)
{
    struct pollfd ready = {.fd = p->news, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

// Another socket's hang-up, noticed after all that happened before it.
static void let_time_pass(struct place *p)
{
    struct place other = {.hangup = p->hangup};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    other.news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t seat = hangup_sit(p->hangup, pair[0]);
    (void)hangup_watch(p->hangup, seat, &other.news);
    (void)close(pair[1]);
    await_news(&other);
    hangup_rise(p->hangup, seat);
    (void)close(pair[0]);
    (void)close(other.news);
}

static void whoever_watches_is_told_once(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    uint64_t key = hangup_watch(p.hangup, p.seat, &p.news);
    assert_false(has_news(&p));
    (void)close(p.theirs);
    await_news(&p);
    assert_false(hangup_forget(p.hangup, key));
    let_time_pass(&p);
    assert_false(has_news(&p));
    place_done(&p);
}

static void who_has_forgotten_is_not_told(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    uint64_t key = hangup_watch(p.hangup, p.seat, &p.news);
    assert_true(hangup_forget(p.hangup, key));
    assert_false(hangup_forget(p.hangup, key));
    (void)close(p.theirs);
    let_time_pass(&p);
    assert_false(has_news(&p));
    place_done(&p);
}

// As with a request that was sent and given up while the one before it was being answered.
static void who_comes_after_the_hang_up_is_told_too(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    (void)close(p.theirs);
    let_time_pass(&p); // nobody was there to be told
    for (int i = 0; i < 3; i++) {
        (void)hangup_watch(p.hangup, p.seat, &p.news);
        await_news(&p);
    }
    place_done(&p);
}

static void a_later_watch_is_not_ended_by_an_earlier_key(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    uint64_t before = hangup_watch(p.hangup, p.seat, &p.news);
    assert_true(hangup_forget(p.hangup, before));
    uint64_t now = hangup_watch(p.hangup, p.seat, &p.news);
    assert_true(now != before);
    assert_false(hangup_forget(p.hangup, before));
    (void)close(p.theirs);
    await_news(&p);
    place_done(&p);
}

static void a_seat_that_was_given_on_knows_nothing_of_its_former_socket(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    (void)close(p.theirs);
    let_time_pass(&p);
    hangup_rise(p.hangup, p.seat);
    (void)close(p.ours);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    p.ours = pair[0];
    uint64_t seat = hangup_sit(p.hangup, p.ours);
    assert_true(seat != p.seat);
    p.seat = seat;
    (void)hangup_watch(p.hangup, p.seat, &p.news);
    let_time_pass(&p);
    assert_false(has_news(&p));
    (void)close(pair[1]);
    await_news(&p);
    place_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_watches_is_told_once),
        cmocka_unit_test(who_has_forgotten_is_not_told),
        cmocka_unit_test(who_comes_after_the_hang_up_is_told_too),
        cmocka_unit_test(a_later_watch_is_not_ended_by_an_earlier_key),
        cmocka_unit_test(a_seat_that_was_given_on_knows_nothing_of_its_former_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
