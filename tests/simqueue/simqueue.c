// SPDX-License-Identifier: Apache-2.0
// The queue's simulator, from the command line.
#include "life.h"
#include "main.h"

#include <inttypes.h>

static const struct sim_mutant mutants[] = {
    SIM_MUTANT(TOKEN_OFF),
    SIM_MUTANT(EXPIRY_OFF),
    SIM_MUTANT(ATTEMPTS_OFF),
    SIM_MUTANT(ORDER_OFF),
    SIM_MUTANT(OUTBOX_MARK_OFF),
    SIM_MUTANT(DEDUP_OFF),
    SIM_MUTANT(EPOCH_OFF),
    SIM_MUTANT(COLLECT_LIVE),
    SIM_MUTANT(SWEEP_HELD),
    SIM_MUTANT(SWEEP_UNCOMMITTED),
    SIM_MUTANT(BODY_STALE_OFF),
    SIM_MUTANT(LETTER_STALE_OFF),
    SIM_MUTANT(REFUSED_FREES),
    SIM_MUTANT(JOINED_FIRST),
    SIM_MUTANT(JOINED_APART),
    SIM_MUTANT(JOINED_NAMELESS),
    SIM_MUTANT(FENCED_APART),
    SIM_MUTANT(REFUSAL_DECIDES),
    SIM_MUTANT(DELETED_SENDS),
    SIM_MUTANT(SHARD_OFF),
    SIM_MUTANT(SOURCE_SHARD_OFF),
    SIM_MUTANT(FINISH_WITHOUT_FLOOR),
    SIM_MUTANT(RECALL_BLIND),
    SIM_MUTANT(FETCH_FLOOR_OFF),
    SIM_MUTANT(FETCH_TAIL_OFF),
    SIM_MUTANT(RULES_UNCHECKED),
    SIM_MUTANT(RULES_UNMARKED),
    SIM_MUTANT(FLOOR_CHECK_OFF),
    SIM_MUTANT(UNKNOWN_IS_FAILED),
    SIM_MUTANT(CONSUME_OFF),
    SIM_MUTANT(WORKER_NAME_OFF),
    SIM_MUTANT(WORKER_MODE_OFF),
    SIM_MUTANT(EVICT_KEEPS_LOCKS),
    SIM_MUTANT(EVICT_REJOINS),
    SIM_MUTANT(FAIR_OFF),
    SIM_MUTANT(ROOM_OFF),
    SIM_MUTANT(REQUIRES_OFF),
    SIM_MUTANT(AFFINITY_OFF),
    SIM_MUTANT(AFFINITY_CLAIMS),
    SIM_MUTANT(DISPATCH_ANY),
    SIM_MUTANT(FINISHED_MERGED),
    SIM_MUTANT(RETENTION_OFF),
    SIM_MUTANT(FLOOR_PAST_CURSOR),
    SIM_MUTANT(CURSOR_FALLS),
    SIM_MUTANT(WORKFLOW_ANY_SHARD),
    SIM_MUTANT(WORKFLOW_UNANNOUNCED),
    SIM_MUTANT(WORKFLOW_LAST_OFF),
    SIM_MUTANT(WORKFLOW_FAILED_IS_DONE),
    SIM_MUTANT(WORKFLOW_ENDS_EARLY),
    SIM_MUTANT(CANCEL_LOCKED),
    SIM_MUTANT(LOCK_TURN_OFF),
    SIM_MUTANT(SIGNAL_TOKEN_OFF),
    SIM_MUTANT(SIGNAL_ORDER_OFF),
    SIM_MUTANT(SIGNAL_AGAIN),
    SIM_MUTANT(SIGNAL_FORGOTTEN),
    SIM_MUTANT(SIGNAL_ONCE_STAYS),
    SIM_MUTANT(SIGNAL_COLLECTED),
    SIM_MUTANT(LISTEN_ASLEEP),
    SIM_MUTANT(LISTEN_LOCK_OFF),
    SIM_MUTANT(INTERRUPT_ENDLESS),
    SIM_MUTANT(RESULT_OTHER),
    SIM_MUTANT(LISTEN_WAKES_PAST),
};

static void set_crowd(struct runner_options *o)
{
    o->scenario = SCENE_CROWD;
}

static void print_case(const struct runner_options *o, const struct runner_sum *sum)
{
    const char *promise = o->scenario == SCENE_CROWD ? "let one of a hundred workers win"
                                                     : "keep every promise of the queue";
    printf("%s (%" PRIu64 " commits, %" PRIu64 " messages)", promise, sum->commits, sum->messages);
}

static void print_joined(const struct runner_sum *sum)
{
    static const char *const names[JOINED_FIGURES] = {
        [JOINED_ASKED] = "asked",         [JOINED_IN_TURN] = "in turn",
        [JOINED_SENT] = "sent",           [JOINED_AGAIN] = "sent again",
        [JOINED_ALONE] = "again alone",   [JOINED_LOST] = "answers lost",
        [JOINED_CRASHED] = "crashed",     [JOINED_ENTRIES] = "entries",
        [JOINED_GIVEN] = "given",         [JOINED_REFUSED] = "refused",
        [JOINED_BOTH] = "refused, given", [JOINED_STRICT] = "done, given, strict",
        [JOINED_EXPIRED] = "expired",     [JOINED_REPEATS] = "repeated",
        [JOINED_FENCED] = "fenced"};
    printf("acks with a receive:");
    for (size_t i = 0; i < JOINED_FIGURES; i++)
        printf("%s %" PRIu64 " %s", i > 0 ? "," : "", sum->figures[i], names[i]);
    printf("\n");
}

static void print_sum(const struct runner_options *o, const struct runner_sum *sum, double seconds)
{
    printf("%.0f commits/s, %" PRIu64 " steps, %" PRIu64 " commits, %" PRIu64 " messages, %" PRIu64
           " letters, %" PRIu64 " slots dropped\n",
           (double)sum->commits / seconds, sum->steps, sum->commits, sum->messages, sum->letters,
           sum->dropped);
    if (o->scenario == SCENE_USUAL) print_joined(sum);
}

int main(int argc, char **argv)
{
    static const struct sim_program program = {.name = "simqueue",
                                               .flag = "--crowd",
                                               .set_flag = set_crowd,
                                               .mutants = mutants,
                                               .mutants_len = sizeof mutants / sizeof *mutants,
                                               .case_seeds = 100,
                                               .round_seeds = 500,
                                               .print_case = print_case,
                                               .print_sum = print_sum};
    return sim_main(&program, argc, argv);
}
