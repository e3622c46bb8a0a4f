// SPDX-License-Identifier: Apache-2.0
// The simulator's face. One seed, many seeds, seeds until stopped, and the same as test cases.
// Built twice: sim runs the journal as it is, sim-mutants can take one rule out of it (--mutant)
// and must notice.
#include "base/mutant.h"
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
    {"FLOOR_CHECK_OFF", MUTANT_FLOOR_CHECK_OFF},
    {"RECENT_LOOK", MUTANT_RECENT_LOOK},
    {"RECENT_CHAIN", MUTANT_RECENT_CHAIN},
    {"ENTRY_HASH_OFF", MUTANT_ENTRY_HASH_OFF},
    {"SESSION_OFF", MUTANT_SESSION_OFF},
    {"UNKNOWN_IS_FAILED", MUTANT_UNKNOWN_IS_FAILED},
    {"REPLAY_GAP_IS_TAIL", MUTANT_REPLAY_GAP_IS_TAIL},
    {"EPOCH_OFF", MUTANT_EPOCH_OFF},
    {"COLLECT_LIVE", MUTANT_COLLECT_LIVE},
    {"COLLECT_YOUNG", MUTANT_COLLECT_YOUNG},
    {"FLOOR_WITHOUT_PROOF", MUTANT_FLOOR_WITHOUT_PROOF},
    {"FINISH_WITHOUT_FLOOR", MUTANT_FINISH_WITHOUT_FLOOR},
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
    const char *mutant;
};

static int usage(void)
{
    (void)fputs("usage: sim [--seed N [--trace]] [--seeds A..B | --count N | --until-stopped]\n"
                "           [--jobs N] [--lying] [--keep-going] [--tap] [--twice N]\n"
                "       sim-mutants --mutant NAME with any of these\n",
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
        } else if (strcmp(name, "--lying") == 0) {
            s->run.lying = true;
        } else if (strcmp(name, "--keep-going") == 0) {
            s->run.keep_going = true;
        } else if (strcmp(name, "--quiet") == 0) {
            s->run.quiet = true;
        } else if (strcmp(name, "--until-stopped") == 0) {
            s->until_stopped = true;
        } else if (strcmp(name, "--tap") == 0) {
            s->run.tap = true;
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

static void print_sum(const struct settings *s, const struct runner_sum *sum, double took)
{
    printf("%" PRIu64 " seeds, %" PRIu64 " broken; %.0f seeds/min, %.0f commits/s, %" PRIu64
           " steps, %" PRIu64 " commits, %" PRIu64 " slots dropped, %" PRIu64 " created again\n",
           sum->seeds, sum->broken, (double)sum->seeds * 60 / took, (double)sum->commits / took,
           sum->steps, sum->commits, sum->dropped, sum->zombies);
    if (s->run.lying)
        printf("lies in %" PRIu64 " worlds; two versions of a slot folded in %" PRIu64
               ", a handle halted in %" PRIu64 ", one escaped through a snapshot in %" PRIu64 "\n",
               sum->lies, sum->forks, sum->halted, sum->escapes);
    if (sum->broken > 0)
        printf("first broken: seed %" PRIu64 " (%s)\n", sum->broken_first, sum->invariant);
    (void)fflush(stdout);
}

static bool run_many(const struct settings *s)
{
    struct runner_sum sum;
    double start = seconds();
    bool held = run_seeds(s->first, s->last, &s->run, &sum);
    print_sum(s, &sum, seconds() - start);
    return held;
}

// Starts where no test run has been: the wall clock is the seed of the seeds, and each batch says
// where it is.
static bool run_until_stopped(struct settings *s)
{
    const uint64_t batch = 2000;
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
        printf("%s %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64 " keep every promise%s (%" PRIu64
               " commits)\n",
               ok ? "ok" : "not ok", i + 1, first, last, s->run.lying ? " on lying stores" : "",
               sum.commits);
        (void)fflush(stdout);
    }
    return held;
}

static bool tap_lying(const struct settings *s)
{
    struct runner_sum sum;
    bool held = run_seeds(s->first, s->last, &s->run, &sum);
    bool seen = sum.forks > 0 && sum.halted > 0;
    printf("1..2\n%s 1 - handles that folded different versions of a slot do not go on together "
           "(%" PRIu64 " worlds, %" PRIu64 " with two versions)\n",
           held ? "ok" : "not ok", sum.seeds, sum.forks);
    printf("%s 2 - lying stores are noticed: a handle halted in %" PRIu64 " worlds\n",
           seen ? "ok" : "not ok", sum.halted);
    return held && seen;
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
    } else if (s.run.tap && s.mutant) {
        ok = tap_mutant(&s);
    } else if (s.run.tap && s.run.lying) {
        ok = tap_lying(&s);
    } else if (s.run.tap) {
        ok = tap_seeds(&s);
    } else if (s.until_stopped) {
        ok = run_until_stopped(&s);
    } else {
        ok = run_many(&s);
    }
    return ok ? 0 : 1;
}
