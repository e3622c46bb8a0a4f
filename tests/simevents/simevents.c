// SPDX-License-Identifier: Apache-2.0
// The simulator of the publisher of events, from the command line.
#include "../sim/main.h"
#include "base/memory.h"
#include "world.h"

#include <inttypes.h>

static const struct sim_mutant mutants[] = {
    SIM_MUTANT(PUBLISHER_CURSOR_EARLY), SIM_MUTANT(PUBLISHER_SETTLE_OFF),
    SIM_MUTANT(PUBLISHER_TAIL_TRUSTED), SIM_MUTANT(PUBLISHER_GAP_SILENT),
    SIM_MUTANT(PUBLISHER_WINDOW_OFF),   SIM_MUTANT(BUS_DEDUP_OFF),
    SIM_MUTANT(PUBLISHER_WAKES_PAST),   SIM_MUTANT(BUS_SILENCE_UNSEEN),
    SIM_MUTANT(BUS_NAME_IGNORED),
};

enum figure {
    PUBLISHES,
    STORED,
    DUPLICATES,
    FORGOTTEN,
    GAPS,
    HEALED,
    OUTAGES,
    SLEEPS,
    WAKES,
    FIGURES
};

static void count(struct runner_sum *sum, const struct world *w)
{
    sum->steps += w->steps;
    sum->commits += w->commits;
    sum->messages += w->mix.events;
    sum->figures[PUBLISHES] += w->publishes;
    sum->figures[STORED] += w->stored;
    sum->figures[DUPLICATES] += w->duplicates;
    sum->figures[FORGOTTEN] += w->forgotten;
    sum->figures[GAPS] += w->gaps;
    sum->figures[HEALED] += w->healed_tails;
    sum->figures[OUTAGES] += w->outages;
    sum->figures[SLEEPS] += w->sleeps;
    sum->figures[WAKES] += w->wakes;
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
    (void)snprintf(out, out_len, "stored=%" PRIu64 " forgotten=%" PRIu64 " healed=%" PRIu64,
                   sum->figures[STORED], sum->figures[FORGOTTEN], sum->figures[HEALED]);
}

static void print_case(const struct runner_options *o, const struct runner_sum *sum)
{
    (void)o;
    printf("lose no event (%" PRIu64 " stored, %" PRIu64 " forgotten by the bus)",
           sum->figures[STORED], sum->figures[FORGOTTEN]);
}

static void print_sum(const struct runner_options *o, const struct runner_sum *sum, double seconds)
{
    static const char *const names[FIGURES] = {
        [PUBLISHES] = "publishes", [STORED] = "stored", [DUPLICATES] = "duplicates",
        [FORGOTTEN] = "forgotten", [GAPS] = "gaps",     [HEALED] = "healed tails",
        [OUTAGES] = "outages",     [SLEEPS] = "sleeps", [WAKES] = "wake-ups"};
    double seeds = (double)sum->seeds;
    (void)o, (void)seconds;
    printf("for each seed: %.0f steps, %.1f commits, %.1f events", (double)sum->steps / seeds,
           (double)sum->commits / seeds, (double)sum->messages / seeds);
    for (size_t i = 0; i < FIGURES; i++)
        printf(", %.1f %s", (double)sum->figures[i] / seeds, names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct sim_program program = {.name = "simevents",
                                               .mutants = mutants,
                                               .mutants_len = sizeof mutants / sizeof *mutants,
                                               .case_seeds = 500,
                                               .round_seeds = 2000,
                                               .print_case = print_case,
                                               .print_sum = print_sum};
    return sim_main(&program, argc, argv);
}
