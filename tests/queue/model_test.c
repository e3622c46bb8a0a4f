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

// The value was made by the last program that had no version of the rules. It must never change:
// stored journals of version 1 must give the same digests, snapshots and event ids.
static void version_1_folds_as_before_there_were_versions(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 0));
    assert_true(all == UINT64_C(0xc9a30b4c60b97e38));
}

// The same promise for the versions up to 3, with `consume` switched on and off.
static void version_3_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 3));
    assert_true(all == UINT64_C(0xc74fc551fbd53c4c));
}

// The same promise for version 6, with signals, results and progress.
static void version_6_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 6));
    assert_true(all == UINT64_C(0x0e7c7d9e72ca1035));
}

// The same promise for version 4, without its ops about workers. The value was made by the last
// program that did not know version 5.
static void version_4_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 4));
    assert_true(all == UINT64_C(0x13eb6c6d94710d8d));
}

// The same promise for version 5, with the publisher's cursor and workflows.
static void version_5_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES, 5));
    assert_true(all == UINT64_C(0x80000490b3ccfcb3));
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
