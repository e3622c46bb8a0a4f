// SPDX-License-Identifier: Apache-2.0
// The command line of the simulator: one seed, many seeds in a few processes, and the same as test
// cases. Built twice: simcluster-mutants can take one rule out and must notice.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX  8
#define TAP_BATCH 500

#ifdef SLUICE_MUTANTS
enum mutant mutant_active = MUTANT_NONE;

#define ROW(name)                                                                                  \
    {                                                                                              \
#name, MUTANT_##name                                                                       \
    }
static const struct {
    const char *name;
    enum mutant mutant;
} mutants[] = {
    ROW(STALE_PLAN),        ROW(LEASE_AFTER_END), ROW(UNKNOWN_LEADS), ROW(COLD_START_ASKS),
    ROW(TRANSFER_UNFENCED), ROW(DEGRADED_CLAIMS), ROW(MOVES_CAP_OFF), ROW(INCARNATION_OFF),
    ROW(RELEASE_OFF),       ROW(CLAIM_ONCE),      ROW(OWN_TOKEN_OFF), ROW(OWNER_EPOCH_OFF),
    ROW(LEAD_EPOCH_STAYS),  ROW(UNUSED_CLAIMED),
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

struct options {
    uint64_t first, last;
    uint64_t twice;
    uint32_t jobs;
    bool trace, tap, quiet, keep_going, until_stopped;
    const char *mutant;
};

struct sum {
    uint64_t seeds, steps, owns, elections, moves, fenced, plans, commits, broken, broken_first;
    char invariant[24];
};

struct job {
    pid_t pid;
    uint64_t seed;
    struct sum sum;
};

static void note_broken(struct sum *sum, uint64_t seed, const char *invariant)
{
    if (sum->broken++ > 0 && sum->broken_first < seed) return;
    sum->broken_first = seed;
    (void)snprintf(sum->invariant, sizeof sum->invariant, "%s", invariant);
}

static bool run_world(uint64_t seed, const struct options *o, struct buf *all, struct sum *sum,
                      uint64_t *hash)
{
    struct world *w = NEW(struct world);
    world_init(w, seed, o->trace ? stdout : NULL, all);
    if (o->tap) w->trace.prefix = "# ";
    world_run(w);
    bool held = !w->findings.broken;
    if (!held && !o->quiet) {
        if (!o->trace) trace_tail(&w->trace, stdout);
        printf("%sseed %" PRIu64 ": BROKEN %s: %s\n", w->trace.prefix, seed, w->findings.invariant,
               w->findings.text);
        (void)fflush(stdout);
    }
    if (!held) note_broken(sum, seed, w->findings.invariant);
    sum->seeds++;
    sum->steps += w->steps;
    sum->owns += w->owns;
    sum->elections += w->elections;
    sum->moves += w->moves;
    sum->fenced += w->fenced;
    sum->plans += w->plans;
    for (uint32_t i = 0; i < w->mix.shards; i++)
        sum->commits += w->logs[i].commits;
    *hash = w->trace.hash;
    world_done(w);
    memory_free(w);
    return held;
}

static void child(struct job *job, uint64_t last, uint64_t stride, const struct options *o)
{
    uint64_t hash;
    for (; job->seed <= last; job->seed += stride) {
        if (!run_world(job->seed, o, NULL, &job->sum, &hash) && !o->keep_going) _exit(1);
    }
    _exit(0);
}

static void job_run(struct job *job, uint64_t last, uint64_t stride, const struct options *o)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child(job, last, stride, o);
    job->pid = pid;
}

static void job_wait(struct job *job, const struct options *o)
{
    int status = 0;
    CHECK(waitpid(job->pid, &status, 0) == job->pid);
    if (!WIFSIGNALED(status)) return;
    if (!o->quiet)
        printf("%sseed %" PRIu64 ": BROKEN: signal %d\n", o->tap ? "# " : "", job->seed,
               WTERMSIG(status));
    job->sum.seeds++;
    note_broken(&job->sum, job->seed, "a CHECK");
}

static void add(struct sum *to, const struct sum *from)
{
    to->seeds += from->seeds;
    to->steps += from->steps;
    to->owns += from->owns;
    to->elections += from->elections;
    to->moves += from->moves;
    to->fenced += from->fenced;
    to->plans += from->plans;
    to->commits += from->commits;
    if (from->broken > 0) note_broken(to, from->broken_first, from->invariant);
    if (from->broken > 0) to->broken += from->broken - 1;
}

// A child that dies of a CHECK counts as a broken promise. Stops at the first, unless told to go
// on.
static bool run_seeds(uint64_t first, uint64_t last, const struct options *o, struct sum *sum)
{
    uint32_t jobs_len = o->jobs < JOBS_MAX ? o->jobs : JOBS_MAX;
    struct job *jobs = mmap(NULL, sizeof *jobs * JOBS_MAX, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(jobs != MAP_FAILED);
    *sum = (struct sum){0};
    for (uint32_t i = 0; i < jobs_len; i++) {
        jobs[i].seed = first + i;
        job_run(&jobs[i], last, jobs_len, o);
    }
    for (uint32_t i = 0; i < jobs_len; i++) {
        job_wait(&jobs[i], o);
        add(sum, &jobs[i].sum);
    }
    (void)munmap(jobs, sizeof *jobs * JOBS_MAX);
    return sum->broken == 0;
}

static void print_sum(const struct sum *s, double seconds)
{
    printf("%" PRIu64 " seeds, %" PRIu64 " broken; %.0f seeds/s; for each seed: %.0f steps, "
           "%.1f elections, %.1f plans, %.1f moves, %.1f owns, %.1f commits, %.1f fenced entries\n",
           s->seeds, s->broken, (double)s->seeds / seconds, (double)s->steps / (double)s->seeds,
           (double)s->elections / (double)s->seeds, (double)s->plans / (double)s->seeds,
           (double)s->moves / (double)s->seeds, (double)s->owns / (double)s->seeds,
           (double)s->commits / (double)s->seeds, (double)s->fenced / (double)s->seeds);
    if (s->broken > 0)
        printf("first broken: seed %" PRIu64 " (%s)\n", s->broken_first, s->invariant);
    (void)fflush(stdout);
}

static double clock_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool run_many(const struct options *o)
{
    struct sum sum;
    double start = clock_seconds();
    bool held = run_seeds(o->first, o->last, o, &sum);
    print_sum(&sum, clock_seconds() - start);
    return held;
}

static bool run_until_stopped(struct options *o)
{
    for (o->first = (uint64_t)time(NULL) * 1000;; o->first += 2000) {
        o->last = o->first + 1999;
        printf("seeds %" PRIu64 "..%" PRIu64 ": ", o->first, o->last);
        (void)fflush(stdout);
        if (!run_many(o)) return false;
    }
}

static bool tap_seeds(const struct options *o)
{
    uint64_t cases = (o->last - o->first) / TAP_BATCH + 1;
    bool held = true;
    printf("1..%" PRIu64 "\n", cases);
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t first = o->first + i * TAP_BATCH;
        uint64_t last = first + TAP_BATCH - 1 < o->last ? first + TAP_BATCH - 1 : o->last;
        struct sum sum;
        bool ok = run_seeds(first, last, o, &sum);
        held = held && ok;
        printf("%s %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64 " keep every promise (%" PRIu64
               " elections, %" PRIu64 " owns, %" PRIu64 " commits)\n",
               ok ? "ok" : "not ok", i + 1, first, last, sum.elections, sum.owns, sum.commits);
        (void)fflush(stdout);
    }
    return held;
}

static bool tap_mutant(const struct options *o)
{
    struct options quiet = *o;
    quiet.quiet = true;
    struct sum sum;
    bool killed = !run_seeds(o->first, o->last, &quiet, &sum);
    if (killed)
        printf("1..1\nok 1 - %s is killed by seed %" PRIu64 " of %" PRIu64 " allowed (%s)\n",
               o->mutant, sum.broken_first, o->last, sum.invariant);
    else
        printf("1..1\nnot ok 1 - %s survives %" PRIu64 " seeds\n", o->mutant, sum.seeds);
    return killed;
}

static bool tap_twice(const struct options *o)
{
    CLEANUP(buf_done) struct buf first;
    CLEANUP(buf_done) struct buf second;
    buf_init(&first, (size_t)1 << 28);
    buf_init(&second, (size_t)1 << 28);
    struct sum sum = {0};
    uint64_t hash[2];
    bool held = run_world(o->twice, o, &first, &sum, &hash[0]);
    held = run_world(o->twice, o, &second, &sum, &hash[1]) && held;
    bool same = held && first.len > 0 && bytes_equal(buf_bytes(&first), buf_bytes(&second));
    printf("1..1\n%s 1 - seed %" PRIu64 " run twice leaves the same trace, byte for byte (%zu)\n",
           same ? "ok" : "not ok", o->twice, first.len);
    return same;
}

static bool parse_valued(const char *name, const char *value, struct options *o)
{
    if (!value) return false;
    if (strcmp(name, "--mutant") == 0) {
        o->mutant = value;
        return set_mutant(value);
    }
    char *end;
    uint64_t number = strtoull(value, &end, 10);
    if (strcmp(name, "--seeds") == 0) {
        o->first = number;
        if (strncmp(end, "..", 2) != 0) return false;
        o->last = strtoull(end + 2, &end, 10);
        return *end == 0;
    }
    if (*value == 0 || *end != 0) return false;
    if (strcmp(name, "--seed") == 0) {
        o->first = o->last = number;
    } else if (strcmp(name, "--count") == 0) {
        o->first = 1;
        o->last = number;
    } else if (strcmp(name, "--twice") == 0) {
        o->twice = number;
    } else if (strcmp(name, "--jobs") == 0) {
        o->jobs = (uint32_t)number;
    } else {
        return false;
    }
    return true;
}

static bool parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--trace") == 0)
            o->trace = true;
        else if (strcmp(name, "--tap") == 0)
            o->tap = true;
        else if (strcmp(name, "--quiet") == 0)
            o->quiet = true;
        else if (strcmp(name, "--keep-going") == 0)
            o->keep_going = true;
        else if (strcmp(name, "--until-stopped") == 0)
            o->until_stopped = true;
        else if (!parse_valued(name, argv[++i < argc ? i : argc], o))
            return false;
    }
    bool range = o->last >= o->first && o->last > 0;
    return o->jobs > 0 && (range || o->twice > 0 || o->until_stopped);
}

int main(int argc, char **argv)
{
    struct options o = {.jobs = 1};
    if (!parse(argc, argv, &o)) {
        (void)fputs("usage: simcluster [--seed N [--trace] | --seeds A..B | --count N]\n"
                    "                  [--until-stopped] [--jobs N] [--keep-going] [--quiet]\n"
                    "                  [--tap] [--twice N]\n"
                    "       simcluster-mutants --mutant NAME with any of these\n",
                    stderr);
        return 2;
    }
    bool ok;
    if (o.twice > 0)
        ok = tap_twice(&o);
    else if (o.until_stopped)
        ok = run_until_stopped(&o);
    else if (o.tap && o.mutant)
        ok = tap_mutant(&o);
    else if (o.tap)
        ok = tap_seeds(&o);
    else
        ok = run_many(&o);
    return ok ? 0 : 1;
}
