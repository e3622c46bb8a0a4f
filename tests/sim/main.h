// SPDX-License-Identifier: Apache-2.0
// The command line of every simulator: one seed, many, seeds until stopped, and the same as test
// cases. A simulator is built twice: as it is, and as <name>-mutants, which can take one rule out
// of the code (--mutant) and must notice.
#pragma once

#include "base/mutant.h"
#include "runner.h"

struct sim_mutant {
    const char *name;
    enum mutant mutant;
};
#define SIM_MUTANT(name)                                                                           \
    {                                                                                              \
#name, MUTANT_##name                                                                       \
    }

struct sim_program {
    const char *name;
    const char *flag; // an option of its own, such as "--lying"; NULL: none
    void (*set_flag)(struct runner_options *o);
    const struct sim_mutant *mutants;
    size_t mutants_len;
    uint64_t case_seeds;  // seeds of one test case
    uint64_t round_seeds; // seeds of one round of --until-stopped
    // Prints what a test case says after its seeds, without a new line.
    void (*print_case)(const struct runner_options *o, const struct runner_sum *sum);
    // Prints the figures of many seeds after their number, with a new line.
    void (*print_sum)(const struct runner_options *o, const struct runner_sum *sum, double seconds);
    // Prints the test cases of the flag and returns whether they passed. NULL: they are the usual.
    bool (*tap_flag)(uint64_t first, uint64_t last, const struct runner_options *o);
};

int sim_main(const struct sim_program *p, int argc, char **argv);
