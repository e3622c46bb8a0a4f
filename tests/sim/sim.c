// SPDX-License-Identifier: Apache-2.0
// The journal's simulator, from the command line.
#include "main.h"

#include <inttypes.h>

static const struct sim_mutant mutants[] = {
    SIM_MUTANT(FLOOR_CHECK_OFF),
    SIM_MUTANT(RECENT_LOOK),
    SIM_MUTANT(RECENT_CHAIN),
    SIM_MUTANT(ENTRY_HASH_OFF),
    SIM_MUTANT(SESSION_OFF),
    SIM_MUTANT(UNKNOWN_IS_FAILED),
    SIM_MUTANT(REPLAY_GAP_IS_TAIL),
    SIM_MUTANT(EPOCH_OFF),
    SIM_MUTANT(COLLECT_LIVE),
    SIM_MUTANT(COLLECT_YOUNG),
    SIM_MUTANT(FLOOR_WITHOUT_PROOF),
    SIM_MUTANT(FINISH_WITHOUT_FLOOR),
    SIM_MUTANT(LOOK_OFF),
    SIM_MUTANT(PROOF_OFF),
    SIM_MUTANT(JOURNAL_WAKES_PAST),
    SIM_MUTANT(VIEW_OLD),
};

static void set_lying(struct runner_options *o)
{
    o->lying = true;
}

static void print_case(const struct runner_options *o, const struct runner_sum *sum)
{
    printf("keep every promise%s (%" PRIu64 " commits)", o->lying ? " on lying stores" : "",
           sum->commits);
}

static void print_sum(const struct runner_options *o, const struct runner_sum *sum, double seconds)
{
    printf("%.0f commits/s, %" PRIu64 " steps, %" PRIu64 " commits, %" PRIu64
           " slots dropped, %" PRIu64 " created again\n",
           (double)sum->commits / seconds, sum->steps, sum->commits, sum->dropped, sum->zombies);
    if (o->lying)
        printf("lies in %" PRIu64 " worlds; two versions of a slot folded in %" PRIu64
               ", a handle halted in %" PRIu64 ", one escaped through a snapshot in %" PRIu64 "\n",
               sum->lies, sum->forks, sum->halted, sum->escapes);
}

static bool tap_lying(uint64_t first, uint64_t last, const struct runner_options *o)
{
    struct runner_sum sum;
    bool held = run_seeds(first, last, o, &sum);
    bool seen = sum.forks > 0 && sum.halted > 0;
    printf("1..2\n%s 1 - handles that folded different versions of a slot do not go on together "
           "(%" PRIu64 " worlds, %" PRIu64 " with two versions)\n",
           held ? "ok" : "not ok", sum.seeds, sum.forks);
    printf("%s 2 - lying stores are noticed: a handle halted in %" PRIu64 " worlds\n",
           seen ? "ok" : "not ok", sum.halted);
    return held && seen;
}

int main(int argc, char **argv)
{
    static const struct sim_program program = {.name = "sim",
                                               .flag = "--lying",
                                               .set_flag = set_lying,
                                               .mutants = mutants,
                                               .mutants_len = sizeof mutants / sizeof *mutants,
                                               .case_seeds = 100,
                                               .round_seeds = 2000,
                                               .print_case = print_case,
                                               .print_sum = print_sum,
                                               .tap_flag = tap_lying};
    return sim_main(&program, argc, argv);
}
