// SPDX-License-Identifier: Apache-2.0
// When a node asks for its next tick: never in the past, if it has nothing to do.
#include "../unit/unit.h"
#include "cluster/cluster.h"
#include "fixture.h"

#define LEASE ((int64_t)5000)

struct scene {
    struct cluster *cluster;
    int64_t now;
};

static void init(struct scene *s)
{
    struct cluster_config config;
    struct member_id self = test_member(1, 1);
    cluster_config_defaults(&config, &self, LEASE);
    *s = (struct scene){.cluster = cluster_new(&config), .now = 1000};
}

static void step(struct scene *s, const struct cluster_event *e)
{
    cluster_step(s->cluster, e, (struct interval){s->now, s->now});
}

// Answers each request: a join and a list with OK, a heartbeat with `beat`.
static void answer_all(struct scene *s, enum err beat)
{
    struct cluster_effect f;
    while (cluster_next_effect(s->cluster, &f)) {
        struct cluster_event e = {.kind = CLUSTER_ANSWER, .request = f.request};
        if (f.request == 0) continue;
        if (f.kind == CLUSTER_LIST) e.kind = CLUSTER_VIEW;
        if (f.kind == CLUSTER_HEARTBEAT) e.err = beat;
        step(s, &e);
    }
}

static void tick(struct scene *s, enum err beat)
{
    struct cluster_event e = {.kind = CLUSTER_TICK};
    step(s, &e);
    answer_all(s, beat);
}

// Follows the wishes of the node for so long, and returns how often it woke up.
static uint32_t wakes_in(struct scene *s, int64_t ms, enum err beat)
{
    uint32_t count = 0;
    for (int64_t end = s->now + ms; s->now < end; count++) {
        int64_t at = cluster_wake_at(s->cluster);
        s->now = at > s->now ? at : s->now + 1;
        tick(s, beat);
    }
    return count;
}

static void a_node_that_was_replaced_sleeps(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    tick(&s, ERR_FENCED);
    (void)wakes_in(&s, LEASE, ERR_FENCED);
    assert_true(cluster_replaced(s.cluster));
    assert_true(wakes_in(&s, 10 * LEASE, ERR_FENCED) <= 60); // five in a lease
    assert_true(cluster_wake_at(s.cluster) > s.now);
    cluster_free(s.cluster);
}

static void a_node_that_stops_without_a_session_sleeps(void **state)
{
    (void)state;
    struct scene s;
    init(&s);
    struct cluster_event stop = {.kind = CLUSTER_STOP, .deadline = s.now + LEASE};
    step(&s, &stop);
    (void)wakes_in(&s, 10, ERR_OK);
    assert_true(cluster_stopped(s.cluster));
    assert_int_equal(cluster_wake_at(s.cluster), TIME_NEVER);
    cluster_free(s.cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_was_replaced_sleeps),
        cmocka_unit_test(a_node_that_stops_without_a_session_sleeps),
    };
    return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
