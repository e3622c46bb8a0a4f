// SPDX-License-Identifier: Apache-2.0
// Which watchers are notified that the peer of a socket is gone, when, and how often.
#include "net/disconnect_watch.h"

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
    struct disconnect_watch *disconnects;
    int ours, theirs;
    int news; // eventfd
    uint64_t slot;
};

static void place_init(struct place *p)
{
    struct disconnect_watch_config config = {.gone = told, .tick = tick};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    p->ours = pair[0];
    p->theirs = pair[1];
    p->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(p->news >= 0);
    p->disconnects = disconnect_watch_new(&config);
    assert_non_null(p->disconnects);
    p->slot = disconnect_watch_add(p->disconnects, p->ours);
}

static void place_done(struct place *p)
{
    disconnect_watch_remove(p->disconnects, p->slot);
    disconnect_watch_free(p->disconnects);
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
    struct place other = {.disconnects = p->disconnects};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    other.news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t slot = disconnect_watch_add(p->disconnects, pair[0]);
    (void)disconnect_watch_begin(p->disconnects, slot, &other.news);
    (void)close(pair[1]);
    await_news(&other);
    disconnect_watch_remove(p->disconnects, slot);
    (void)close(pair[0]);
    (void)close(other.news);
}

static void a_watcher_is_notified_once(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    uint64_t key = disconnect_watch_begin(p.disconnects, p.slot, &p.news);
    assert_false(has_news(&p));
    (void)close(p.theirs);
    await_news(&p);
    assert_false(disconnect_watch_end(p.disconnects, key));
    let_time_pass(&p);
    assert_false(has_news(&p));
    place_done(&p);
}

static void a_removed_watcher_is_not_notified(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    uint64_t key = disconnect_watch_begin(p.disconnects, p.slot, &p.news);
    assert_true(disconnect_watch_end(p.disconnects, key));
    assert_false(disconnect_watch_end(p.disconnects, key));
    (void)close(p.theirs);
    let_time_pass(&p);
    assert_false(has_news(&p));
    place_done(&p);
}

// As with a request that was sent and given up while the one before it was being answered.
static void a_watcher_added_after_the_disconnect_is_notified_too(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    (void)close(p.theirs);
    let_time_pass(&p); // no watcher was there to be notified
    for (int i = 0; i < 3; i++) {
        (void)disconnect_watch_begin(p.disconnects, p.slot, &p.news);
        await_news(&p);
    }
    place_done(&p);
}

static void a_later_watch_is_not_ended_by_an_earlier_key(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    uint64_t before = disconnect_watch_begin(p.disconnects, p.slot, &p.news);
    assert_true(disconnect_watch_end(p.disconnects, before));
    uint64_t now = disconnect_watch_begin(p.disconnects, p.slot, &p.news);
    assert_true(now != before);
    assert_false(disconnect_watch_end(p.disconnects, before));
    (void)close(p.theirs);
    await_news(&p);
    place_done(&p);
}

static void a_reused_slot_knows_nothing_of_its_former_socket(void **state)
{
    (void)state;
    struct place p;
    place_init(&p);
    (void)close(p.theirs);
    let_time_pass(&p);
    disconnect_watch_remove(p.disconnects, p.slot);
    (void)close(p.ours);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    p.ours = pair[0];
    uint64_t slot = disconnect_watch_add(p.disconnects, p.ours);
    assert_true(slot != p.slot);
    p.slot = slot;
    (void)disconnect_watch_begin(p.disconnects, p.slot, &p.news);
    let_time_pass(&p);
    assert_false(has_news(&p));
    (void)close(pair[1]);
    await_news(&p);
    place_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watcher_is_notified_once),
        cmocka_unit_test(a_removed_watcher_is_not_notified),
        cmocka_unit_test(a_watcher_added_after_the_disconnect_is_notified_too),
        cmocka_unit_test(a_later_watch_is_not_ended_by_an_earlier_key),
        cmocka_unit_test(a_reused_slot_knows_nothing_of_its_former_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
