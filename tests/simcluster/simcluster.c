// SPDX-License-Identifier: Apache-2.0
// The cluster's simulator, from the command line.
#include "../sim/main.h"
#include "base/memory.h"
#include "world.h"

#include <inttypes.h>

static const struct sim_mutant mutants[] = {
    SIM_MUTANT(STALE_PLAN),       SIM_MUTANT(LEASE_AFTER_END),   SIM_MUTANT(UNKNOWN_LEADS),
    SIM_MUTANT(COLD_START_ASKS),  SIM_MUTANT(TRANSFER_UNFENCED), SIM_MUTANT(DEGRADED_CLAIMS),
    SIM_MUTANT(MOVES_CAP_OFF),    SIM_MUTANT(INCARNATION_OFF),   SIM_MUTANT(RELEASE_OFF),
    SIM_MUTANT(CLAIM_ONCE),       SIM_MUTANT(OWN_TOKEN_OFF),     SIM_MUTANT(OWNER_EPOCH_OFF),
    SIM_MUTANT(LEAD_EPOCH_STAYS), SIM_MUTANT(UNUSED_CLAIMED),    SIM_MUTANT(PLAN_WAKES_PAST),
    SIM_MUTANT(COLD_START_RANKS), SIM_MUTANT(LOSS_UNTOLD),       SIM_MUTANT(QUEUE_BOUND_OFF),
    SIM_MUTANT(REACH_IGNORED),    SIM_MUTANT(REACH_FOREVER),     SIM_MUTANT(TRAFFIC_NO_GAIN),
    SIM_MUTANT(CLAIM_FORGOTTEN),
};

enum figure { ELECTIONS, PLANS, MOVES, OWNS, FENCED, FIGURES };

static void count(struct runner_sum *sum, const struct world *w)
{
    sum->steps += w->steps;
    sum->figures[ELECTIONS] += w->elections;
    sum->figures[PLANS] += w->plans;
    sum->figures[MOVES] += w->moves;
    sum->figures[OWNS] += w->owns;
    sum->figures[FENCED] += w->fenced;
    for (uint32_t i = 0; i < w->mix.shards; i++)
        sum->commits += w->logs[i].commits;
}

bool world_try(uint64_t seed, const struct runner_options *o, struct buf *all,
               struct runner_sum *sum, uint64_t *hash)
{
    struct world *w = NEW(struct world);
    world_init(w, seed, o->trace ? stdout : NULL, all);
    if (o->tap) w->trace.prefix = "# ";
    world_run(w);
    count(sum, w);
    bool held = runner_note(seed, &w->trace, &w->findings, o, sum);
    *hash = w->trace.hash;
    world_done(w);
    memory_free(w);
    return held;
}

void world_figures(const struct runner_sum *sum, char *out, size_t out_len)
{
    (void)snprintf(out, out_len, "elections=%" PRIu64 " moves=%" PRIu64 " owns=%" PRIu64,
                   sum->figures[ELECTIONS], sum->figures[MOVES], sum->figures[OWNS]);
}

static void print_case(const struct runner_options *o, const struct runner_sum *sum)
{
    (void)o;
    printf("keep every promise (%" PRIu64 " elections, %" PRIu64 " owns, %" PRIu64 " commits)",
           sum->figures[ELECTIONS], sum->figures[OWNS], sum->commits);
}

static void print_sum(const struct runner_options *o, const struct runner_sum *sum, double seconds)
{
    static const char *const names[FIGURES] = {[ELECTIONS] = "elections",
                                               [PLANS] = "plans",
                                               [MOVES] = "moves",
                                               [OWNS] = "owns",
                                               [FENCED] = "fenced entries"};
    double seeds = (double)sum->seeds;
    (void)o, (void)seconds;
    printf("for each seed: %.0f steps, %.1f commits", (double)sum->steps / seeds,
           (double)sum->commits / seeds);
    for (size_t i = 0; i < FIGURES; i++)
        printf(", %.1f %s", (double)sum->figures[i] / seeds, names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct sim_program program = {.name = "simcluster",
                                               .mutants = mutants,
                                               .mutants_len = sizeof mutants / sizeof *mutants,
                                               .case_seeds = 500,
                                               .round_seeds = 2000,
                                               .print_case = print_case,
                                               .print_sum = print_sum};
    return sim_main(&program, argc, argv);
}
