// SPDX-License-Identifier: Apache-2.0
// The command line of the call simulator: one seed, many, seeds until stopped, and the same as test
// cases. Built twice: simcall runs the calls as they are, simcall-mutants can take one rule out of
// them (--mutant) and must notice.
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
    {"CALL_RECALL_ANY", MUTANT_CALL_RECALL_ANY},
    {"CALL_ROUND_OFF", MUTANT_CALL_ROUND_OFF},
    {"CALL_ROUND_ONCE", MUTANT_CALL_ROUND_ONCE},
    {"CALL_NOTIFY_OFF", MUTANT_CALL_NOTIFY_OFF},
    {"CALL_TURN_OFF", MUTANT_CALL_TURN_OFF},
    {"CALL_ANSWER_TWICE", MUTANT_CALL_ANSWER_TWICE},
    {"CALL_ANSWER_EARLY", MUTANT_CALL_ANSWER_EARLY},
    {"CALL_CANCEL_OFF", MUTANT_CALL_CANCEL_OFF},
    {"CALL_CLAIM_DROPPED", MUTANT_CALL_CLAIM_DROPPED},
    {"CALL_UNKNOWN_ONCE", MUTANT_CALL_UNKNOWN_ONCE},
    {"CALL_AWAIT_LEFT", MUTANT_CALL_AWAIT_LEFT},
    {"CALL_AWAIT_FIRST", MUTANT_CALL_AWAIT_FIRST},
    {"CALL_RACE_ENDS", MUTANT_CALL_RACE_ENDS},
    {"CALL_OPS_SWAPPED", MUTANT_CALL_OPS_SWAPPED},
    {"CALL_PAUSE_OFF", MUTANT_CALL_PAUSE_OFF},
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

#define TAP_BATCH 500

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
    (void)fputs("usage: simcall [--seed N [--trace]] [--seeds A..B | --count N | --until-stopped]\n"
                "                [--jobs N] [--keep-going] [--quiet] [--tap] [--twice N]\n"
                "       simcall-mutants --mutant NAME with any of these\n",
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
        } else if (strcmp(name, "--keep-going") == 0) {
            s->run.keep_going = true;
        } else if (strcmp(name, "--quiet") == 0) {
            s->run.quiet = true;
        } else if (strcmp(name, "--until-stopped") == 0) {
            s->until_stopped = true;
        } else if (strcmp(name, "--tap") == 0) {
            s->tap = s->run.tap = true;
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

static void print_figures(const struct runner_sum *sum)
{
    static const char *const names[FIGURES] = {[FIGURE_SENDS] = "sends",
                                               [FIGURE_SETTLES] = "settles",
                                               [FIGURE_RECEIVES] = "receives",
                                               [FIGURE_CANCELLED] = "cancelled",
                                               [FIGURE_CLOSED] = "closed",
                                               [FIGURE_CRASHED] = "crashed",
                                               [FIGURE_PAUSED] = "pauses",
                                               [FIGURE_AGAIN] = "ops again",
                                               [FIGURE_GIVEN] = "given",
                                               [FIGURE_RECALLED] = "recalled",
                                               [FIGURE_TWICE] = "ids in two shards",
                                               [FIGURE_NOTIFIED] = "passed on",
                                               [FIGURE_UNKNOWN] = "unknown"};
    for (size_t i = 0; i < FIGURES; i++)
        printf("%s%" PRIu64 " %s", i > 0 ? ", " : "", sum->figures[i], names[i]);
    printf("\n");
}

static bool run_many(const struct settings *s)
{
    struct runner_sum sum;
    double start = seconds();
    bool held = run_seeds(s->first, s->last, &s->run, &sum);
    double took = seconds() - start;
    printf("%" PRIu64 " seeds, %" PRIu64 " broken; %.0f seeds/min, %.0f commits/s, %" PRIu64
           " steps, %" PRIu64 " commits, %" PRIu64 " messages\n",
           sum.seeds, sum.broken, (double)sum.seeds * 60 / took, (double)sum.commits / took,
           sum.steps, sum.commits, sum.messages);
    print_figures(&sum);
    if (sum.broken > 0)
        printf("first broken: seed %" PRIu64 " (%s)\n", sum.broken_first, sum.invariant);
    (void)fflush(stdout);
    return held;
}

// Starts where no test run has been: the wall clock is the seed of the seeds, and each batch says
// where it is.
static bool run_until_stopped(struct settings *s)
{
    const uint64_t batch = 10000;
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
    printf("1..%" PRIu64 "\n", cases);
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t first = s->first + i * TAP_BATCH;
        uint64_t last = first + TAP_BATCH - 1 < s->last ? first + TAP_BATCH - 1 : s->last;
        struct runner_sum sum;
        bool ok = run_seeds(first, last, &s->run, &sum);
        held = held && ok;
        printf("%s %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64
               ": keep every promise of a call (%" PRIu64 " commits, %" PRIu64 " messages)\n",
               ok ? "ok" : "not ok", i + 1, first, last, sum.commits, sum.messages);
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
