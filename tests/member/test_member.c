// SPDX-License-Identifier: Apache-2.0
// The membership of nodes in one process: handles on one directory, and one coordination service in
// memory. No node listens, so no hint arrives.
#include "../conformance/store/support.h"
#include "api/handle.h"
#include "mem_coord.h"
#include "member/inside.h"
#include "os/clock.h"
#include "os/thread.h"
#include "queues/queues.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LEASE_MS 900
#define NODES    3

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {0};                                                           \
        enum sluice_code code = (call);                                                            \
        if (code) fail_msg("%s: %s", #call, error.message);                                        \
    } while (0)

struct fixture {
    char dir[SCRATCH_MAX];
    struct sluice *handles[NODES];
    struct membership *members[NODES];
    struct coord *service; // keeps the world
};

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    scratch_make(f->dir);
    f->service = coord_mem_new(&(struct coord_config){.lease_ms = LEASE_MS});
    *state = f;
    return 0;
}

static void stop(struct fixture *f, int node, int64_t wait_ms)
{
    membership_stop(f->members[node], wait_ms);
    f->members[node] = NULL;
    sluice_close(f->handles[node]);
    f->handles[node] = NULL;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < NODES; i++)
        stop(f, i, 0);
    coord_free(f->service);
    scratch_remove(f->dir);
    test_free(f);
    return 0;
}

static enum sluice_code try_start(struct fixture *f, int node, const char *name,
                                  struct membership_config config, struct sluice_error *error)
{
    char url[128];
    (void)snprintf(url, sizeof url, "file://%s", f->dir);
    enum sluice_code code = SLUICE_OK;
    if (!f->handles[node]) code = sluice_open(url, NULL, &f->handles[node], error);
    if (code) return code;
    if (!code) code = owner_become(f->handles[node]->engine, "http://127.0.0.1:1", name, error);
    config.take = coord_mem_again(f->service);
    if (!code) code = membership_start(f->handles[node]->engine, &config, &f->members[node], error);
    return code;
}

static void start(struct fixture *f, int node, const char *name)
{
    FINE(try_start(f, node, name, (struct membership_config){0}, &error));
}

static void make(struct fixture *f, int node, const char *queue, const char *shards)
{
    const struct sluice_setting settings[] = {{"shards", shards}};
    FINE(sluice_queue_create(f->handles[node], queue, settings, 1, &error));
}

static void send_to(struct fixture *f, int node, const char *queue)
{
    struct sluice_send message = {.body = "hello", .body_len = 5};
    struct sluice_sent sent;
    FINE(sluice_send(f->handles[node], queue, &message, 1, NULL, &sent, &error));
}

static bool owns(struct fixture *f, int node, const char *queue, uint32_t shard)
{
    struct membership_status s;
    bool mine = false;
    membership_status(f->members[node], &s);
    for (size_t i = 0; i < s.shards_len; i++)
        if (strcmp(s.shards[i].queue, queue) == 0 && s.shards[i].shard == shard)
            mine = s.shards[i].mine;
    membership_status_done(&s);
    return mine;
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 10 * 1000000}, NULL);
}

static size_t healthy(struct fixture *f, int node)
{
    struct membership_status s;
    size_t len = 0;
    membership_status(f->members[node], &s);
    for (size_t i = 0; i < s.members_len; i++)
        len += s.members[i].life == LIFE_HEALTHY;
    membership_status_done(&s);
    return len;
}

static uint64_t plan_of(struct fixture *f, int node)
{
    struct membership_status s;
    membership_status(f->members[node], &s);
    uint64_t epoch = s.plan_epoch;
    membership_status_done(&s);
    return epoch;
}

#define AWAIT(what)                                                                                \
    do {                                                                                           \
        int64_t end = clock_boot_ms() + 20000;                                                     \
        while (!(what) && clock_boot_ms() < end)                                                   \
            nap();                                                                                 \
        if (!(what)) fail_msg("never: %s", #what);                                                 \
    } while (0)

static void a_lone_node_owns_only_what_is_used(void **state)
{
    struct fixture *f = *state;
    start(f, 0, "a");
    make(f, 0, "used", "1");
    make(f, 0, "unused", "1");
    AWAIT(healthy(f, 0) == 1);
    send_to(f, 0, "used");
    AWAIT(owns(f, 0, "used", 0));
    assert_false(owns(f, 0, "unused", 0));
    assert_int_equal(plan_of(f, 0), 0);
}

static void a_second_node_gets_a_plan_and_its_share(void **state)
{
    struct fixture *f = *state;
    start(f, 0, "a");
    make(f, 0, "jobs", "4");
    send_to(f, 0, "jobs");
    start(f, 1, "b");
    AWAIT(healthy(f, 0) == 2 && healthy(f, 1) == 2);
    AWAIT(plan_of(f, 0) != 0 && plan_of(f, 1) != 0);
    struct membership_status s;
    membership_status(f->members[0], &s);
    assert_int_equal(s.shards_len, 4);
    assert_true(s.leader[0] == 'a' || s.leader[0] == 'b');
    assert_true(s.members[0].shards >= 1 && s.members[1].shards >= 1);
    membership_status_done(&s);
}

static void an_owner_that_ends_is_followed_by_another(void **state)
{
    struct fixture *f = *state;
    start(f, 0, "a");
    make(f, 0, "jobs", "1");
    send_to(f, 0, "jobs");
    AWAIT(owns(f, 0, "jobs", 0));
    start(f, 1, "b");
    AWAIT(healthy(f, 1) == 2);
    stop(f, 0, 2000);
    AWAIT((send_to(f, 1, "jobs"), owns(f, 1, "jobs", 0)));
}

static void coordination_that_fails_makes_a_node_degraded(void **state)
{
    struct fixture *f = *state;
    char why[COORD_WHY_MAX];
    int64_t ms = 0;
    start(f, 0, "a");
    make(f, 0, "jobs", "1");
    send_to(f, 0, "jobs");
    AWAIT(owns(f, 0, "jobs", 0));
    coord_mem_fail(f->service, ERR_UNAVAILABLE, false);
    AWAIT(membership_degraded(f->members[0], &ms, why));
    assert_true(why[0] != 0);
    send_to(f, 0, "jobs");
    assert_true(owns(f, 0, "jobs", 0));
    make(f, 0, "later", "1");
    send_to(f, 0, "later"); // written directly
    assert_false(owns(f, 0, "later", 0));
    coord_mem_fail(f->service, ERR_OK, false);
    AWAIT(!membership_degraded(f->members[0], NULL, NULL));
    AWAIT((send_to(f, 0, "later"), owns(f, 0, "later", 0)));
}

static void a_node_that_drains_gives_its_shards_away_until_it_is_undrained(void **state)
{
    struct fixture *f = *state;
    start(f, 0, "a");
    make(f, 0, "jobs", "1");
    send_to(f, 0, "jobs");
    AWAIT(owns(f, 0, "jobs", 0));
    start(f, 1, "b");
    AWAIT(healthy(f, 1) == 2 && plan_of(f, 1) != 0);
    membership_drain(f->members[0]);
    AWAIT((send_to(f, 1, "jobs"), owns(f, 1, "jobs", 0)));
    AWAIT(!owns(f, 0, "jobs", 0));
    membership_undrain(f->members[0]);
    AWAIT(healthy(f, 0) == 2 && healthy(f, 1) == 2);
    membership_drain(f->members[1]); // now the shard can go back
    AWAIT((send_to(f, 0, "jobs"), owns(f, 0, "jobs", 0)));
}

static void events_have_rising_numbers(void **state)
{
    struct fixture *f = *state;
    struct membership_event events[50];
    bool lost = true;
    start(f, 0, "a");
    assert_true(membership_events_wait(f->members[0], 0, 5000));
    AWAIT(healthy(f, 0) == 1);
    size_t len = membership_events(f->members[0], 0, events, 50, &lost);
    assert_true(len > 0 && !lost);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(events[i].counter, i + 1);
}

static void observe_only_plans_and_claims_nothing(void **state)
{
    struct fixture *f = *state;
    FINE(try_start(f, 0, "a", (struct membership_config){.observe_only = true}, &error));
    make(f, 0, "jobs", "2");
    send_to(f, 0, "jobs");
    AWAIT(healthy(f, 0) == 1);
    send_to(f, 0, "jobs");
    assert_false(owns(f, 0, "jobs", 0));
    struct membership_plan plan;
    FINE(membership_plan(f->members[0], &plan, &error));
    assert_int_equal(plan.len, 2);
    assert_string_equal(plan.rows[0].to, "a");
    assert_true(strlen(plan.rows[0].why) > 0);
    membership_plan_done(&plan);
}

static void a_capacity_out_of_range_is_refused(void **state)
{
    struct fixture *f = *state;
    struct sluice_error error = {0};
    enum sluice_code code =
        try_start(f, 0, "a", (struct membership_config){.capacity = 65}, &error);
    assert_int_equal(code, SLUICE_INVALID);
    assert_string_equal(error.message, "65 is not from 1 to 64");
}

// A node that accepts connections and never answers.
static int silent_node(char url[64])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 8) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(url, 64, "http://127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

static struct membership_counters counters_of(struct fixture *f, int node)
{
    struct membership_status s;
    membership_status(f->members[node], &s);
    struct membership_counters c = s.counters;
    membership_status_done(&s);
    return c;
}

static void hints_to_a_silent_node_are_bounded(void **state)
{
    struct fixture *f = *state;
    const unsigned more = 100, all = MEMBER_HINTS_WAITING_MAX + more;
    char url[64];
    int fd = silent_node(url);
    start(f, 0, "a");
    for (unsigned i = 0; i < all; i++)
        hint_post(f->members[0], url, "jobs", i, false);
    struct membership_counters c = counters_of(f, 0);
    assert_true(c.hints_dropped > 0 && c.hints_dropped <= more);
    assert_true(c.hints_sent + c.hints_dropped + MEMBER_HINTS_WAITING_MAX >= all);
    stop(f, 0, 0); // does not wait a second for each
    (void)close(fd);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_lone_node_owns_only_what_is_used),
        CASE(a_second_node_gets_a_plan_and_its_share),
        CASE(an_owner_that_ends_is_followed_by_another),
        CASE(coordination_that_fails_makes_a_node_degraded),
        CASE(a_node_that_drains_gives_its_shards_away_until_it_is_undrained),
        CASE(events_have_rising_numbers),
        CASE(observe_only_plans_and_claims_nothing),
        CASE(a_capacity_out_of_range_is_refused),
        CASE(hints_to_a_silent_node_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
