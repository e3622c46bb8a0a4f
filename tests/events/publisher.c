// SPDX-License-Identifier: Apache-2.0
// The pauses of a publisher whose bus does not answer. The simulator (tests/simevents) has the
// rest.
#include "events/publisher.h"

#include "../unit/unit.h"

#define ATTEMPTS 20
#define FIRST    4 // attempts whose pauses are compared: later ones differ by more

// Writes the pauses after each failed attempt.
static void fail_often(uint64_t seed, int64_t pauses[ATTEMPTS])
{
    struct publisher *p = publisher_new(&(struct publisher_config){.seed = seed});
    struct publisher_effect e;
    int64_t now = 1000;
    publisher_bus(p, now, true);
    publisher_own(p, now, NULL);
    for (size_t i = 0; i < ATTEMPTS; i++) {
        assert_true(publisher_next(p, now, &e) && e.kind == PUBLISHER_SYNC);
        publisher_synced(p, now, e.tag, &(struct publisher_tail){.err = ERR_UNAVAILABLE});
        int64_t wake = publisher_wake_at(p);
        assert_false(wake > now + 1 && publisher_next(p, wake - 1, &e)); // not before
        pauses[i] = wake - now;
        now = wake;
    }
    publisher_free(p);
}

static void pauses_grow_to_a_bound_and_are_random(void **state)
{
    int64_t one[ATTEMPTS], other[ATTEMPTS];
    bool differ = false;
    (void)state;
    fail_often(1, one);
    fail_often(2, other);
    assert_true(one[0] >= PUBLISHER_BACKOFF_MIN_MS / 2);
    for (size_t i = 0; i < ATTEMPTS; i++) {
        assert_true(one[i] <= PUBLISHER_BACKOFF_MAX_MS);
        differ = differ || one[i] != other[i];
    }
    for (size_t i = 2; i < FIRST + 2; i++)
        assert_true(one[i] > one[i - 2]); // each doubles, and is random by at most a half
    assert_true(one[ATTEMPTS - 1] >= PUBLISHER_BACKOFF_MAX_MS / 2);
    assert_true(differ);
}

static void a_connection_that_comes_back_ends_the_pauses(void **state)
{
    struct publisher *p = publisher_new(&(struct publisher_config){.seed = 1});
    struct publisher_effect e;
    (void)state;
    publisher_bus(p, 0, true);
    publisher_own(p, 0, NULL);
    for (int64_t now = 0, i = 0; i < ATTEMPTS; i++, now = publisher_wake_at(p)) {
        assert_true(publisher_next(p, now, &e));
        publisher_synced(p, now, e.tag, &(struct publisher_tail){.err = ERR_UNAVAILABLE});
    }
    int64_t now = publisher_wake_at(p) - 1;
    assert_false(publisher_next(p, now, &e));
    publisher_bus(p, now, false);
    assert_true(publisher_wake_at(p) == INT64_MAX);
    publisher_bus(p, now, true);
    assert_true(publisher_next(p, now, &e) && e.kind == PUBLISHER_SYNC);
    publisher_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow_to_a_bound_and_are_random),
        cmocka_unit_test(a_connection_that_comes_back_ends_the_pauses),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
