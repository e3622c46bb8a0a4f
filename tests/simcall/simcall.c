// SPDX-License-Identifier: Apache-2.0
// The call simulator, from the command line.
#include "life.h"
#include "main.h"

#include <inttypes.h>

static const struct sim_mutant mutants[] = {
    SIM_MUTANT(CALL_RECALL_ANY),
    SIM_MUTANT(CALL_ROUND_OFF),
    SIM_MUTANT(CALL_ROUND_ONCE),
    SIM_MUTANT(CALL_NOTIFY_OFF),
    SIM_MUTANT(CALL_TURN_OFF),
    SIM_MUTANT(CALL_ANSWER_TWICE),
    SIM_MUTANT(CALL_ANSWER_EARLY),
    SIM_MUTANT(CALL_CANCEL_OFF),
    SIM_MUTANT(CALL_CLAIM_DROPPED),
    SIM_MUTANT(CALL_UNKNOWN_ONCE),
    SIM_MUTANT(CALL_AWAIT_LEFT),
    SIM_MUTANT(CALL_AWAIT_FIRST),
    SIM_MUTANT(CALL_RACE_ENDS),
    SIM_MUTANT(CALL_OPS_SWAPPED),
    SIM_MUTANT(CALL_PAUSE_OFF),
    SIM_MUTANT(CALL_DOUBT_LOST),
    SIM_MUTANT(CALL_MOVED_LOST),
    SIM_MUTANT(CALL_REROUTE_ENDS),
    SIM_MUTANT(CALL_LOOK_SKIPS),
    SIM_MUTANT(CALL_LOOK_STALE),
    SIM_MUTANT(LISTEN_ASLEEP),
    SIM_MUTANT(LISTEN_LOCK_OFF),
    SIM_MUTANT(CANCEL_SLOW),
    SIM_MUTANT(LISTEN_WAKES_PAST),
    SIM_MUTANT(CALL_SERVED_LEFT),
    SIM_MUTANT(CALL_SERVED_MOVED),
    SIM_MUTANT(CALL_SERVED_NOTIFY_OFF),
};

static void print_case(const struct runner_options *o, const struct runner_sum *sum)
{
    (void)o;
    printf("keep every promise of a call (%" PRIu64 " commits, %" PRIu64 " messages)", sum->commits,
           sum->messages);
}

static void print_sum(const struct runner_options *o, const struct runner_sum *sum, double seconds)
{
    (void)o;
    printf("%.0f commits/s, %" PRIu64 " steps, %" PRIu64 " commits, %" PRIu64 " messages\n",
           (double)sum->commits / seconds, sum->steps, sum->commits, sum->messages);
    static const char *const names[FIGURES] = {
        [FIGURE_SENDS] = "sends",           [FIGURE_SETTLES] = "settles",
        [FIGURE_RECEIVES] = "receives",     [FIGURE_CHANGES] = "changes",
        [FIGURE_READS] = "reads",           [FIGURE_FOLLOWS] = "follows",
        [FIGURE_EVENTS] = "events",         [FIGURE_LISTENS] = "listens",
        [FIGURE_SIGNALS] = "signals",       [FIGURE_HEARD] = "heard",
        [FIGURE_CANCELLED] = "cancelled",   [FIGURE_CLOSED] = "closed",
        [FIGURE_CRASHED] = "crashed",       [FIGURE_PAUSED] = "pauses",
        [FIGURE_AGAIN] = "ops again",       [FIGURE_GIVEN] = "given",
        [FIGURE_RECALLED] = "recalled",     [FIGURE_TWICE] = "ids in two shards",
        [FIGURE_NOTIFIED] = "passed on",    [FIGURE_UNKNOWN] = "unknown",
        [FIGURE_ASKED] = "asked of owners", [FIGURE_DOUBTED] = "in doubt",
        [FIGURE_MOVED] = "moved",           [FIGURE_LIES] = "false answers",
        [FIGURE_REROUTED] = "rerouted"};
    for (size_t i = 0; i < FIGURES; i++)
        printf("%s%" PRIu64 " %s", i > 0 ? ", " : "", sum->figures[i], names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct sim_program program = {.name = "simcall",
                                               .mutants = mutants,
                                               .mutants_len = sizeof mutants / sizeof *mutants,
                                               .case_seeds = 500,
                                               .round_seeds = 10000,
                                               .print_case = print_case,
                                               .print_sum = print_sum};
    return sim_main(&program, argc, argv);
}
