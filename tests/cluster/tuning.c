// SPDX-License-Identifier: Apache-2.0
// The settings of a cluster: defaults, texts and differences.
#include "cluster/tuning.h"

#include "../unit/unit.h"
#include "cluster/cluster.h"

#include <string.h>

static void defaults_follow_the_lease(void **state)
{
    (void)state;
    char text[TUNING_TEXT_MAX];
    struct tuning none = {0}, all = tuning_with(&none, 15000);
    tuning_print(&all, text);
    assert_string_equal(
        text, "lease=15s observe=15s coolDown=90s moves=auto movePause=2s moveCoolDown=1m");
}

static void settings_take_the_place_of_defaults(void **state)
{
    (void)state;
    char text[TUNING_TEXT_MAX];
    struct tuning given = {.lease_ms = 7000, // the service has granted another one
                           .observe_ms = 20000,
                           .cool_down_ms = 120000,
                           .moves = 3,
                           .move_pause_ms = 1500,
                           .move_cool_down_ms = 5000};
    struct tuning all = tuning_with(&given, 10000);
    tuning_print(&all, text);
    assert_string_equal(
        text, "lease=10s observe=20s coolDown=2m moves=3 movePause=1500ms moveCoolDown=5s");
    struct cluster_config config;
    struct member_id self = {.name = "a"};
    cluster_config_defaults(&config, &self, 10000);
    tuning_apply(&given, &config);
    assert_int_equal(config.life.lease_ms, 10000);
    assert_int_equal(config.election.observe_ms, 20000);
    assert_int_equal(config.election.cool_down_ms, 120000);
    assert_int_equal(config.moves_max, 3);
    assert_int_equal(config.move_round_ms, 1500);
    assert_int_equal(config.move_cool_down_ms, 5000);
}

static void an_observation_is_never_shorter_than_the_granted_lease(void **state)
{
    (void)state;
    struct cluster_config config;
    struct member_id self = {.name = "a"};
    struct tuning given = {.observe_ms = 6000};
    cluster_config_defaults(&config, &self, 10000);
    tuning_apply(&given, &config);
    assert_int_equal(config.election.observe_ms, 10000);
}

static void texts_differ_by_the_value_of_a_key_that_both_have(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *differs; // NULL: they do not
    } rows[] = {
        {"lease=5s moves=auto", "lease=5s moves=auto", NULL},
        {"lease=5s moves=auto", "moves=auto lease=5s", NULL},
        {"lease=5s moves=auto", "lease=15s moves=auto", "lease=5s and lease=15s"},
        {"lease=5s moves=auto", "lease=5s moves=4", "moves=auto and moves=4"},
        {"lease=5s moves=auto", "lease=5s newer=1", NULL},
        {"lease=5s", "leases=9s", NULL},
        {"lease=5s", "", NULL},
        {"", "lease=5s", NULL},
        {"lease=5s", "   lease   =", "lease=5s and lease"},
        {"", "", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[TUNING_DIFFERS_MAX];
        assert_int_equal(tuning_differs(rows[i].a, rows[i].b, what), rows[i].differs != NULL);
        if (rows[i].differs) assert_string_equal(what, rows[i].differs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_follow_the_lease),
        cmocka_unit_test(settings_take_the_place_of_defaults),
        cmocka_unit_test(an_observation_is_never_shorter_than_the_granted_lease),
        cmocka_unit_test(texts_differ_by_the_value_of_a_key_that_both_have),
    };
    return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
