// SPDX-License-Identifier: Apache-2.0
// The face of the queue's simulator: one seed, many, seeds until stopped, and the same as test
// cases. Built twice: simqueue runs the queue as it is, simqueue-mutants can take one rule out of
// it (--mutant) and must notice.
#include "base/mutant.h"
#include "life.h"
#include "runner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SLUICE_MUTANTS
enum mutant mutant_active = MUTANT_NONE;

static const struct {
    const char *name;
    enum mutant mutant;
} mutants[] = {
    {"TOKEN_OFF", MUTANT_TOKEN_OFF},
    {"EXPIRY_OFF", MUTANT_EXPIRY_OFF},
    {"ATTEMPTS_OFF", MUTANT_ATTEMPTS_OFF},
    {"ORDER_OFF", MUTANT_ORDER_OFF},
    {"OUTBOX_MARK_OFF", MUTANT_OUTBOX_MARK_OFF},
    {"DEDUP_OFF", MUTANT_DEDUP_OFF},
    {"EPOCH_OFF", MUTANT_EPOCH_OFF},
    {"COLLECT_LIVE", MUTANT_COLLECT_LIVE},
    {"SWEEP_HELD", MUTANT_SWEEP_HELD},
    {"SWEEP_UNCOMMITTED", MUTANT_SWEEP_UNCOMMITTED},
    {"BODY_STALE_OFF", MUTANT_BODY_STALE_OFF},
    {"LETTER_STALE_OFF", MUTANT_LETTER_STALE_OFF},
    {"REFUSED_FREES", MUTANT_REFUSED_FREES},
    {"JOINED_FIRST", MUTANT_JOINED_FIRST},
    {"JOINED_APART", MUTANT_JOINED_APART},
    {"JOINED_NAMELESS", MUTANT_JOINED_NAMELESS},
    {"FENCED_APART", MUTANT_FENCED_APART},
    {"REFUSAL_DECIDES", MUTANT_REFUSAL_DECIDES},
    {"DELETED_SENDS", MUTANT_DELETED_SENDS},
    {"SHARD_OFF", MUTANT_SHARD_OFF},
    {"SOURCE_SHARD_OFF", MUTANT_SOURCE_SHARD_OFF},
    {"FINISH_WITHOUT_FLOOR", MUTANT_FINISH_WITHOUT_FLOOR},
    {"RECALL_BLIND", MUTANT_RECALL_BLIND},
    {"FETCH_FLOOR_OFF", MUTANT_FETCH_FLOOR_OFF},
    {"FETCH_TAIL_OFF", MUTANT_FETCH_TAIL_OFF},
    {"RULES_UNCHECKED", MUTANT_RULES_UNCHECKED},
    {"RULES_UNMARKED", MUTANT_RULES_UNMARKED},
    {"FLOOR_CHECK_OFF", MUTANT_FLOOR_CHECK_OFF},
    {"UNKNOWN_IS_FAILED", MUTANT_UNKNOWN_IS_FAILED},
};

static bool set_mutant(const char *name)
{
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        if (strcmp(mutants[i].name, name) != 0) continue;
        mutant_active = mutants[i].mutant;
        return true;
    }
    return false;
}
#else
static bool set_mutant(const char *name)
{
    (void)name;
    return false;
}
#endif

#define TAP_BATCH 100

struct settings {
    struct runner_options run;
    uint64_t first;
    uint64_t last;
    uint64_t twice;
    bool one;
    bool many;
    bool until_stopped;
    bool tap;
    const char *mutant;
};

static int usage(void)
{
    (void)fputs(
        "usage: simqueue [--seed N [--trace]] [--seeds A..B | --count N | --until-stopped]\n"
        "                [--crowd] [--jobs N] [--keep-going] [--quiet] [--tap] [--twice N]\n"
        "       simqueue-mutants --mutant NAME with any of these\n",
        stderr);
    return 2;
}

static bool parse_range(const char *text, struct settings *s)
{
    char *end;
    s->first = strtoull(text, &end, 10);
    if (strncmp(end, "..", 2) != 0) return false;
    s->last = strtoull(end + 2, &end, 10);
    s->many = true;
    return *end == 0 && s->last >= s->first;
}

static bool parse_valued(const char *name, const char *value, struct settings *s)
{
    if (!value) return false;
    if (strcmp(name, "--seeds") == 0) return parse_range(value, s);
    if (strcmp(name, "--mutant") == 0) {
        s->mutant = value;
        return set_mutant(value);
    }
    char *end;
    uint64_t number = strtoull(value, &end, 10);
    if (*value == 0 || *end != 0) return false;
    if (strcmp(name, "--seed") == 0) {
        s->one = true;
        s->first = number;
    } else if (strcmp(name, "--count") == 0) {
        s->many = number > 0;
        s->first = 1;
        s->last = number;
    } else if (strcmp(name, "--twice") == 0) {
        s->twice = number;
    } else if (strcmp(name, "--jobs") == 0) {
        s->run.jobs = (uint32_t)number;
    } else {
        return false;
    }
    return true;
}

static bool parse(int argc, char **argv, struct settings *s)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--trace") == 0) {
            s->run.trace = true;
        } else if (strcmp(name, "--crowd") == 0) {
            s->run.scenario = SCENE_CROWD;
        } else if (strcmp(name, "--keep-going") == 0) {
            s->run.keep_going = true;
        } else if (strcmp(name, "--quiet") == 0) {
            s->run.quiet = true;
        } else if (strcmp(name, "--until-stopped") == 0) {
            s->until_stopped = true;
        } else if (strcmp(name, "--tap") == 0) {
            s->tap = true;
        } else if (!parse_valued(name, argv[++i < argc ? i : argc], s)) {
            return false;
        }
    }
    return s->run.jobs > 0 && (s->one || s->many || s->until_stopped || s->twice);
}

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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

static bool run_many(const struct settings *s)
{
    struct runner_sum sum;
    double start = seconds();
    bool held = run_seeds(s->first, s->last, &s->run, &sum);
    double took = seconds() - start;
    printf("%" PRIu64 " seeds, %" PRIu64 " broken; %.0f seeds/min, %.0f commits/s, %" PRIu64
           " steps, %" PRIu64 " commits, %" PRIu64 " messages, %" PRIu64 " letters, %" PRIu64
           " slots dropped\n",
           sum.seeds, sum.broken, (double)sum.seeds * 60 / took, (double)sum.commits / took,
           sum.steps, sum.commits, sum.messages, sum.letters, sum.dropped);
    if (s->run.scenario == SCENE_USUAL) print_joined(&sum);
    if (sum.broken > 0)
        printf("first broken: seed %" PRIu64 " (%s)\n", sum.broken_first, sum.invariant);
    (void)fflush(stdout);
    return held;
}

// Starts where no test run has been: the wall clock is the seed of the seeds, and each batch says
// where it is.
static bool run_until_stopped(struct settings *s)
{
    const uint64_t batch = 500;
    for (s->first = (uint64_t)time(NULL) * 1000;; s->first += batch) {
        s->last = s->first + batch - 1;
        printf("seeds %" PRIu64 "..%" PRIu64 ": ", s->first, s->last);
        (void)fflush(stdout);
        if (!run_many(s)) return false;
    }
}

static bool tap_seeds(const struct settings *s)
{
    uint64_t cases = (s->last - s->first) / TAP_BATCH + 1;
    bool held = true;
    const char *promise = s->run.scenario == SCENE_CROWD
                              ? "a hundred workers, one message, one winner"
                              : "keep every promise of the queue";
    printf("1..%" PRIu64 "\n", cases);
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t first = s->first + i * TAP_BATCH;
        uint64_t last = first + TAP_BATCH - 1 < s->last ? first + TAP_BATCH - 1 : s->last;
        struct runner_sum sum;
        bool ok = run_seeds(first, last, &s->run, &sum);
        held = held && ok;
        printf("%s %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64 ": %s (%" PRIu64
               " commits, %" PRIu64 " messages)\n",
               ok ? "ok" : "not ok", i + 1, first, last, promise, sum.commits, sum.messages);
        (void)fflush(stdout);
    }
    return held;
}

static bool tap_mutant(const struct settings *s)
{
    struct runner_options quiet = s->run;
    quiet.quiet = true;
    struct runner_sum sum;
    bool killed = !run_seeds(s->first, s->last, &quiet, &sum);
    printf("1..1\n");
    if (killed) {
        printf("ok 1 - %s is killed by seed %" PRIu64 " of %" PRIu64 " allowed (%s)\n", s->mutant,
               sum.broken_first, s->last, sum.invariant);
    } else {
        printf("not ok 1 - %s survives %" PRIu64 " seeds\n", s->mutant, sum.seeds);
    }
    return killed;
}

static bool tap_twice(const struct settings *s)
{
    size_t len = 0;
    bool same = run_twice(s->twice, &s->run, &len);
    printf("1..1\n%s 1 - seed %" PRIu64 " run twice leaves the same trace, byte for byte (%zu)\n",
           same ? "ok" : "not ok", s->twice, len);
    return same;
}

int main(int argc, char **argv)
{
    struct settings s = {.run = {.jobs = 2}};
    struct runner_sum sum;
    if (!parse(argc, argv, &s)) return usage();
    bool ok;
    if (s.twice) {
        ok = tap_twice(&s);
    } else if (s.one) {
        ok = run_seed(s.first, &s.run, &sum);
    } else if (s.tap && s.mutant) {
        ok = tap_mutant(&s);
    } else if (s.tap) {
        ok = tap_seeds(&s);
    } else if (s.until_stopped) {
        ok = run_until_stopped(&s);
    } else {
        ok = run_many(&s);
    }
    return ok ? 0 : 1;
}
