// SPDX-License-Identifier: Apache-2.0
// Parses the options, runs the seeds and prints their results.
#include "main.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SLUICE_MUTANTS
enum mutant mutant_active = MUTANT_NONE;

static bool set_mutant(const struct sim_program *p, const char *name)
{
    for (size_t i = 0; i < p->mutants_len; i++) {
        if (strcmp(p->mutants[i].name, name) != 0) continue;
        mutant_active = p->mutants[i].mutant;
        return true;
    }
    return false;
}
#else
static bool set_mutant(const struct sim_program *p, const char *name)
{
    (void)p, (void)name;
    return false;
}
#endif

struct settings {
    const struct sim_program *program;
    struct runner_options run;
    uint64_t first, last;
    uint64_t twice;
    bool one, many, until_stopped;
    bool flagged; // the program's own option
    const char *mutant;
};

static int usage(const struct sim_program *p)
{
    (void)fprintf(stderr,
                  "usage: %s [--seed N [--trace]] [--seeds A..B | --count N | --until-stopped]\n"
                  "           [--jobs N] [--keep-going] [--quiet] [--tap] [--twice N] %s\n"
                  "       %s-mutants --mutant NAME with any of these\n",
                  p->name, p->flag ? p->flag : "", p->name);
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
        return set_mutant(s->program, value);
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
        } else if (s->program->flag && strcmp(name, s->program->flag) == 0) {
            s->flagged = true;
            s->program->set_flag(&s->run);
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

static bool run_many(const struct settings *s)
{
    struct runner_sum sum;
    double start = seconds();
    bool held = run_seeds(s->first, s->last, &s->run, &sum);
    double took = seconds() - start;
    printf("%" PRIu64 " seeds, %" PRIu64 " broken; %.0f seeds/min, ", sum.seeds, sum.broken,
           (double)sum.seeds * 60 / took);
    s->program->print_sum(&s->run, &sum, took);
    if (sum.broken > 0)
        printf("first broken: seed %" PRIu64 " (%s)\n", sum.broken_first, sum.invariant);
    (void)fflush(stdout);
    return held;
}

// Starts where no test run has been: the wall clock is the seed of the seeds, and each round says
// where it is.
static bool run_until_stopped(struct settings *s)
{
    const uint64_t round = s->program->round_seeds;
    for (s->first = (uint64_t)time(NULL) * 1000;; s->first += round) {
        s->last = s->first + round - 1;
        printf("seeds %" PRIu64 "..%" PRIu64 ": ", s->first, s->last);
        (void)fflush(stdout);
        if (!run_many(s)) return false;
    }
}

static bool tap_seeds(const struct settings *s)
{
    const uint64_t batch = s->program->case_seeds;
    uint64_t cases = (s->last - s->first) / batch + 1;
    bool held = true;
    printf("1..%" PRIu64 "\n", cases);
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t first = s->first + i * batch;
        uint64_t last = first + batch - 1 < s->last ? first + batch - 1 : s->last;
        struct runner_sum sum;
        bool ok = run_seeds(first, last, &s->run, &sum);
        held = held && ok;
        printf("%s %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64 " ", ok ? "ok" : "not ok", i + 1,
               first, last);
        s->program->print_case(&s->run, &sum);
        printf("\n");
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

static bool run(struct settings *s)
{
    struct runner_sum sum;
    if (s->twice) return tap_twice(s);
    if (s->one) return run_seed(s->first, &s->run, &sum);
    if (s->run.tap && s->mutant) return tap_mutant(s);
    if (s->run.tap && s->flagged && s->program->tap_flag)
        return s->program->tap_flag(s->first, s->last, &s->run);
    if (s->run.tap) return tap_seeds(s);
    return s->until_stopped ? run_until_stopped(s) : run_many(s);
}

int sim_main(const struct sim_program *p, int argc, char **argv)
{
    struct settings s = {.program = p, .run = {.jobs = 2}};
    if (!parse(argc, argv, &s)) return usage(p);
    return run(&s) ? 0 : 1;
}
