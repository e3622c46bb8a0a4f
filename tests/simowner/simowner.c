// SPDX-License-Identifier: Apache-2.0
// The simulator of owners, from the command line.
#include "../sim/main.h"
#include "base/memory.h"
#include "world.h"

#include <inttypes.h>

static const struct sim_mutant mutants[] = {
    SIM_MUTANT(OWNERSHIP_PROVEN_TAKEN),
    SIM_MUTANT(OWNERSHIP_UNASKED_TAKEN),
    SIM_MUTANT(OWNERSHIP_DOUBT_TAKEN),
    SIM_MUTANT(OWNERSHIP_LEASE_OFF),
    SIM_MUTANT(OWNERSHIP_SILENT_LEFT),
    SIM_MUTANT(OWNERSHIP_WAITS_FOREVER),
    SIM_MUTANT(OWNERSHIP_ASKS_OFTEN),
    SIM_MUTANT(OWNERSHIP_WAKES_PAST),
    SIM_MUTANT(OWNERSHIP_CLIENT_TAKES),
    SIM_MUTANT(OWNERSHIP_CLIENT_ASKS),
    SIM_MUTANT(OWNERSHIP_JOINING_TAKES),
    SIM_MUTANT(OWNERSHIP_MEMBER_TAKES),
    SIM_MUTANT(OWNERSHIP_UNREAD_TAKEN),
    SIM_MUTANT(OWNERSHIP_DELETED_TAKEN),
    SIM_MUTANT(OWNERSHIP_RESTART_WAITS),
    SIM_MUTANT(ROUTE_AWAY),
    SIM_MUTANT(ROUTE_TOKEN_ANYWHERE),
    SIM_MUTANT(ROUTE_TOKENLESS),
    SIM_MUTANT(ROUTE_LARGE),
    SIM_MUTANT(ROUTE_AGAIN),
    SIM_MUTANT(ROUTE_NEVER),
    SIM_MUTANT(OWNERSHIP_OLD_ANSWER),
    SIM_MUTANT(OWNERSHIP_CLIENT_TRUSTS),
};

enum figure { TAKES, REPLACED, ASKS, FORWARDS, DIRECT, FIGURES };

bool world_try(uint64_t seed, const struct runner_options *o, struct buf *all,
               struct runner_sum *sum, uint64_t *hash)
{
    struct world *w = NEW(struct world);
    world_init(w, seed, o->trace ? stdout : NULL, all);
    if (o->tap) w->trace.prefix = "# ";
    world_run(w);
    sum->steps += w->steps;
    sum->figures[TAKES] += w->takes;
    sum->figures[REPLACED] += w->replaced;
    sum->figures[ASKS] += w->asks;
    sum->figures[FORWARDS] += w->forwards;
    sum->figures[DIRECT] += w->direct;
    bool held = runner_note(seed, &w->trace, &w->findings, o, sum);
    *hash = w->trace.hash;
    world_done(w);
    memory_free(w);
    return held;
}

void world_figures(const struct runner_sum *sum, char *out, size_t out_len)
{
    (void)snprintf(out, out_len, "takes=%" PRIu64 " asks=%" PRIu64 " forwards=%" PRIu64,
                   sum->figures[TAKES], sum->figures[ASKS], sum->figures[FORWARDS]);
}

static void print_case(const struct runner_options *o, const struct runner_sum *sum)
{
    (void)o;
    printf("keep every promise (%" PRIu64 " takes, %" PRIu64 " forwards)", sum->figures[TAKES],
           sum->figures[FORWARDS]);
}

static void print_sum(const struct runner_options *o, const struct runner_sum *sum, double seconds)
{
    static const char *const names[FIGURES] = {[TAKES] = "takes",
                                               [REPLACED] = "owners replaced",
                                               [ASKS] = "challenges",
                                               [FORWARDS] = "ops at owners",
                                               [DIRECT] = "direct ops"};
    (void)o, (void)seconds;
    printf("for each seed: %.0f steps", (double)sum->steps / (double)sum->seeds);
    for (size_t i = 0; i < FIGURES; i++)
        printf(", %.1f %s", (double)sum->figures[i] / (double)sum->seeds, names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct sim_program program = {.name = "simowner",
                                               .mutants = mutants,
                                               .mutants_len = sizeof mutants / sizeof *mutants,
                                               .case_seeds = 500,
                                               .round_seeds = 2000,
                                               .print_case = print_case,
                                               .print_sum = print_sum};
    return sim_main(&program, argc, argv);
}
