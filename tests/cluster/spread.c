// SPDX-License-Identifier: Apache-2.0
// Placement: each queue is spread over the members, and the traffic of the members is evened out.
#include "../unit/unit.h"
#include "base/rng.h"
#include "placement_rig.h"

// Queues of 12 shards, created one after another, each planned before the next one.
static struct setup *queues_of_twelve(size_t members, uint32_t queues)
{
    struct setup *s = setup_new(members, 0);
    for (uint32_t i = 0; i < 12 * queues; i++) {
        s->shards[i] = (struct shard_key){.shard = i % 12};
        s->shards[i].queue[1] = (uint8_t)(i / 12);
    }
    for (uint32_t q = 1; q <= queues; q++) {
        s->in.shards_len = (size_t)12 * q;
        s->in.now += s->in.options.round_ms;
        (void)next(s);
    }
    return s;
}

static void every_queue_is_spread_evenly_over_the_members(void **state)
{
    (void)state;
    static const size_t members[] = {3, 5};
    static const uint32_t queues[] = {1, 3, 10};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 3; k++) {
            struct setup *s = queues_of_twelve(members[i], queues[k]);
            uint32_t most = 0, least = 12, busiest = 0, idlest = UINT32_MAX;
            printf("# %2u queues of 12 shards on %zu nodes: all", queues[k], members[i]);
            for (uint32_t m = 0; m < members[i]; m++) {
                printf(" %u", s->loads[m]);
                busiest = s->loads[m] > busiest ? s->loads[m] : busiest;
                idlest = s->loads[m] < idlest ? s->loads[m] : idlest;
                for (uint32_t q = 0; q < queues[k]; q++) {
                    uint32_t has = queue_count(s, q, m);
                    most = has > most ? has : most;
                    least = has < least ? has : least;
                }
            }
            printf("; of one queue %u to %u\n", least, most);
            assert_int_equal(most, (12 + members[i] - 1) / members[i]);
            assert_int_equal(least, 12 / members[i]);
            assert_true(busiest - idlest <= 1);
            setup_free(s);
        }
}

// The plan of a release that bounded only the shards of all queues together.
static void an_uneven_queue_is_spread_although_the_loads_are_even(void **state)
{
    (void)state;
    struct setup *s = setup_new(3, 12);
    for (uint32_t i = 0; i < 12; i++)
        s->shards[i] = (struct shard_key){.queue = {0, (uint8_t)(i / 4)}, .shard = i % 4};
    (void)next(s);
    for (uint32_t i = 0; i < 12; i++)
        s->plan.rows[i].owner = i / 4; // each queue at one node
    s->in.now += s->in.options.round_ms;
    assert_true(next(s) > 0);
    assert_true(count_reason(s, MOVE_QUEUE_BOUND) > 0);
    assert_queues_even(s);
    assert_balanced(s);
    s->in.now += s->in.options.round_ms;
    assert_int_equal(next(s), 0);
    setup_free(s);
}

static uint32_t traffic_of(const struct setup *s, uint32_t member)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < s->plan.rows_len; i++)
        sum += s->plan.rows[i].owner == member ? s->in.traffic[i] : 0;
    return sum;
}

// 30 queues of one shard on three nodes. The queues of the first node have all the traffic.
static struct setup *hot_node(uint32_t *traffic, uint32_t hot)
{
    struct setup *s = setup_new(3, 30);
    for (uint32_t i = 0; i < 30; i++)
        s->shards[i] = (struct shard_key){.queue = {0, (uint8_t)i}};
    (void)next(s);
    for (uint32_t i = 0; i < 30; i++)
        traffic[i] = s->plan.rows[i].owner == 0 ? hot : 0;
    s->in.traffic = traffic;
    s->in.now += s->in.options.round_ms;
    return s;
}

static void a_node_with_all_the_traffic_gives_busy_shards_away(void **state)
{
    (void)state;
    uint32_t traffic[30];
    struct setup *s = hot_node(traffic, 100);
    assert_true(next(s) > 0);
    assert_int_equal(count_reason(s, MOVE_TRAFFIC), s->plan.moves);
    assert_true(traffic_of(s, 0) <= 1000 * 125 / 300 + 100);
    assert_true(traffic_of(s, 1) > 0 && traffic_of(s, 2) > 0);
    assert_balanced(s);
    char text[PLACEMENT_REASON_MAX];
    for (size_t i = 0; i < s->plan.rows_len; i++)
        if (s->plan.rows[i].reason == MOVE_TRAFFIC) plan_explain(&s->plan, &s->plan.rows[i], text);
    assert_non_null(strstr(text, "the traffic of node-0000 and node-000"));
    setup_free(s);
}

static void little_traffic_moves_nothing(void **state)
{
    (void)state;
    uint32_t traffic[30];
    struct setup *s = hot_node(traffic, 4); // 40 a second
    assert_int_equal(next(s), 0);
    setup_free(s);
}

// The hysteresis: after the moves, a traffic that varies by a tenth moves nothing more.
static void traffic_that_varies_a_little_moves_nothing(void **state)
{
    (void)state;
    uint32_t traffic[30];
    struct rng r;
    rng_init(&r, 5);
    struct setup *s = hot_node(traffic, 100);
    (void)next(s);
    for (int round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < 30; i++)
            if (traffic[i] > 0) traffic[i] = (uint32_t)rng_range(&r, 90, 110);
        s->in.now += s->in.options.cool_down_ms;
        assert_int_equal(next(s), 0);
    }
    setup_free(s);
}

static void traffic_waits_until_the_last_moves_have_cooled_down(void **state)
{
    (void)state;
    uint32_t traffic[30];
    struct setup *s = hot_node(traffic, 100);
    (void)next(s);
    for (uint32_t i = 0; i < 30; i++)
        traffic[i] = s->plan.rows[i].owner == 1 ? 100 : 0; // another node is the busy one
    s->in.now += s->in.options.cool_down_ms - 1;
    assert_int_equal(next(s), 0);
    s->in.now += 1;
    assert_true(next(s) > 0);
    setup_free(s);
}

// Both shards of a queue that has its share at each node: the busy and the idle one change places.
static void a_busy_shard_is_exchanged_within_its_queue(void **state)
{
    (void)state;
    uint32_t traffic[4] = {0};
    struct setup *s = setup_new(2, 4);
    for (uint32_t i = 0; i < 4; i++)
        s->shards[i] = (struct shard_key){.queue = {0, (uint8_t)(i / 2)}, .shard = i % 2};
    (void)next(s);
    for (uint32_t i = 0; i < 4; i++)
        traffic[i] = s->plan.rows[i].owner == 0 ? 500 : 0;
    s->in.traffic = traffic;
    s->in.now += s->in.options.round_ms;
    assert_int_equal(next(s), 2);
    assert_int_equal(count_reason(s, MOVE_TRAFFIC), 2);
    assert_int_equal(traffic_of(s, 0), 500);
    assert_int_equal(traffic_of(s, 1), 500);
    assert_queues_even(s);
    setup_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_queue_is_spread_evenly_over_the_members),
        cmocka_unit_test(an_uneven_queue_is_spread_although_the_loads_are_even),
        cmocka_unit_test(a_node_with_all_the_traffic_gives_busy_shards_away),
        cmocka_unit_test(little_traffic_moves_nothing),
        cmocka_unit_test(traffic_that_varies_a_little_moves_nothing),
        cmocka_unit_test(traffic_waits_until_the_last_moves_have_cooled_down),
        cmocka_unit_test(a_busy_shard_is_exchanged_within_its_queue),
    };
    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
