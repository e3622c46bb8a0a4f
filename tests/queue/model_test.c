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

// From the first release on, the value must never change: stored journals must give the same
// digests, snapshots and event ids.
static void version_1_folds_as_in_its_first_release(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (uint64_t seed = 1; seed <= 100; seed++)
        all = hash64_mix(all, stream_fingerprint(seed, ENTRIES));
    assert_int_equal(all, UINT64_C(0x42da58d2e8a8077b));
}

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2) seeds = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machine_and_model_agree_on_random_op_streams),
        cmocka_unit_test(version_1_folds_as_in_its_first_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
