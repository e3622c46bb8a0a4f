// SPDX-License-Identifier: Apache-2.0
// The mailbox's simulator, from the command line.
#include "../sim/main.h"
#include "base/memory.h"
#include "world.h"

#include <inttypes.h>

static const struct sim_mutant mutants[] = {
    SIM_MUTANT(MAILBOX_DIRECT_OTHER_ID), SIM_MUTANT(MAILBOX_UNANSWERED),
    SIM_MUTANT(MAILBOX_TICKET_REPEATED), SIM_MUTANT(MAILBOX_UNTAKEN),
    SIM_MUTANT(MAILBOX_ARRIVAL_OFF),     SIM_MUTANT(MAILBOX_ANSWER_UNKNOWN),
    SIM_MUTANT(MAILBOX_LIMIT_OFF),       SIM_MUTANT(MAILBOX_MARK_OLD),
    SIM_MUTANT(MAILBOX_ANSWERED_AGAIN),  SIM_MUTANT(MAILBOX_SEEN_OFF),
    SIM_MUTANT(MAILBOX_WAKES_PAST),
};

enum figure { TICKETS, BY_BOX, BY_DIRECT, CLAIMS, DEATHS, CHANGES, MARKS, FIGURES };

static void count(struct runner_sum *sum, const struct world *w)
{
    sum->steps += w->steps;
    sum->commits += w->commits;
    sum->messages += w->sent;
    sum->figures[TICKETS] += w->tickets;
    sum->figures[BY_BOX] += w->by_box;
    sum->figures[BY_DIRECT] += w->by_direct;
    sum->figures[CLAIMS] += w->claims;
    sum->figures[DEATHS] += w->deaths;
    sum->figures[CHANGES] += w->changes;
    sum->figures[MARKS] += w->marks;
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
    (void)snprintf(out, out_len, "by-box=%" PRIu64 " direct=%" PRIu64 " claims=%" PRIu64,
                   sum->figures[BY_BOX], sum->figures[BY_DIRECT], sum->figures[CLAIMS]);
}

static void print_case(const struct runner_options *o, const struct runner_sum *sum)
{
    (void)o;
    printf("keep every promise (%" PRIu64 " messages by mailbox, %" PRIu64 " direct commits)",
           sum->figures[BY_BOX], sum->figures[BY_DIRECT]);
}

static void print_sum(const struct runner_options *o, const struct runner_sum *sum, double seconds)
{
    static const char *const names[FIGURES] = {[TICKETS] = "tickets",
                                               [BY_BOX] = "messages by mailbox",
                                               [BY_DIRECT] = "direct commits",
                                               [CLAIMS] = "direct claims",
                                               [DEATHS] = "deaths",
                                               [CHANGES] = "changes of owner",
                                               [MARKS] = "marks"};
    double seeds = (double)sum->seeds;
    (void)o, (void)seconds;
    printf("for each seed: %.0f steps, %.1f commits, %.1f messages", (double)sum->steps / seeds,
           (double)sum->commits / seeds, (double)sum->messages / seeds);
    for (size_t i = 0; i < FIGURES; i++)
        printf(", %.1f %s", (double)sum->figures[i] / seeds, names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct sim_program program = {.name = "simmailbox",
                                               .mutants = mutants,
                                               .mutants_len = sizeof mutants / sizeof *mutants,
                                               .case_seeds = 500,
                                               .round_seeds = 2000,
                                               .print_case = print_case,
                                               .print_sum = print_sum};
    return sim_main(&program, argc, argv);
}
