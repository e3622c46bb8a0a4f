// SPDX-License-Identifier: Apache-2.0
// Processes on one journal in a directory, left alone and killed in the middle.
#include "hammering.h"

#include "../unit/unit.h"
#include "os/entropy.h"
#include "scratch.h"

#include <inttypes.h>
#include <stdio.h>

static void hammer(struct hammer_options o, struct hammer_counts *counts)
{
    struct scratch scratch;
    char dir[SCRATCH_PATH_MAX + 16];
    assert_true(scratch_make(&scratch, NULL));
    (void)snprintf(dir, sizeof dir, "%s/store", scratch.path);
    o.dir = dir;
    bool ran = hammer_run(&o, counts);
    scratch_remove(&scratch);
    assert_true(ran);
    if (!hammer_sound(counts))
        fail_msg("seed %" PRIu64 ": lost %" PRIu64 ", doubled %" PRIu64 ", went back %" PRIu64
                 ", digests %s, acknowledged %" PRIu64,
                 o.seed, counts->lost, counts->doubled, counts->went_back,
                 counts->digests_equal ? "equal" : "differ", counts->acknowledged);
}

static void processes_share_one_history(void **state)
{
    (void)state;
    struct hammer_counts counts;
    hammer((struct hammer_options){.processes = 4, .threads = 2, .run_ms = 2000}, &counts);
    assert_int_equal(counts.killed, 0);
}

static void killed_processes_lose_and_double_nothing(void **state)
{
    (void)state;
    struct hammer_counts counts;
    struct hammer_options o = {
        .processes = 4, .threads = 2, .run_ms = 8000, .kills = true, .seed = entropy_u64()};
    hammer(o, &counts);
    assert_true(counts.killed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_share_one_history),
        cmocka_unit_test(killed_processes_lose_and_double_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
