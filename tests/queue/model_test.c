// SPDX-License-Identifier: Apache-2.0
// The machine against the model: queue-model [first seed [how many]].
#include "base/hash.h"
#include "stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ENTRIES 150

static uint64_t first_seed = 1;
static uint64_t seeds = 300;

static void machine_and_model_agree_on_random_op_streams(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        char trouble[STREAM_TROUBLE_MAX] = "";
        if (!stream_run(seed, ENTRIES, trouble))
            fail_msg("seed %llu: %s", (unsigned long long)seed, trouble);
    }
}

static void machine_and_model_agree_when_the_rules_are_raised(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        char trouble[STREAM_TROUBLE_MAX] = "";
        if (!stream_run_raised(seed, ENTRIES, trouble))
            fail_msg("seed %llu: %s", (unsigned long long)seed, trouble);
    }
}

// The values of these tests must never change: stored journals must give the same digests,
// snapshots and event ids. They were made by the last program that had ops 24 and 25. The streams
// have neither. That program also gave the values of earlier releases, for streams with these ops.
static void version_1_folds_as_before_there_were_versions(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 0));
    assert_int_equal(all, UINT64_C(0x143be71b20e0d45b));
}

// The same promise for the versions up to 3, with `consume` switched on and off.
static void version_3_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 3));
    assert_int_equal(all, UINT64_C(0x9e1fb194bcbab775));
}

// The same promise for version 6, with signals, results and progress.
static void version_6_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 6));
    assert_int_equal(all, UINT64_C(0x3b6b7f873e5bbec4));
}

// The same promise for version 4, with the registry of workers and the owner's dispatch.
static void version_4_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 4));
    assert_int_equal(all, UINT64_C(0xeb3dde024a67733f));
}

// The same promise for version 5, with the publisher's cursor and workflows.
static void version_5_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 5));
    assert_int_equal(all, UINT64_C(0x0135d497eb9149c4));
}

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2) seeds = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_and_model_agree_on_random_op_streams),
        cmocka_unit_test(machine_and_model_agree_when_the_rules_are_raised),
        cmocka_unit_test(version_6_folds_as_in_its_first_release),
        cmocka_unit_test(version_5_folds_as_in_its_first_release),
        cmocka_unit_test(version_4_folds_as_in_its_first_release),
        cmocka_unit_test(version_3_folds_as_in_its_first_release),
        cmocka_unit_test(version_1_folds_as_before_there_were_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
