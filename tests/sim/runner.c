// SPDX-License-Identifier: Apache-2.0
// Many seeds in child processes that report through shared memory. A child that dies (a CHECK in
// the code under test) leaves behind which seed it was at; with keep_going its work is taken up
// again after that seed.
#include "runner.h"

#include "base/check.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 16

bool runner_note(uint64_t seed, const struct trace *trace, const struct findings *findings,
                 const struct runner_options *o, struct runner_sum *sum)
{
    sum->seeds++;
    if (!findings->broken) return true;
    if (!o->quiet) {
        trace_tail(trace, stdout);
        printf("%sseed %" PRIu64 ": BROKEN %s: %s\n", trace->prefix, seed, findings->invariant,
               findings->text);
        (void)fflush(stdout);
    }
    if (sum->broken++ > 0 && sum->broken_first < seed) return false;
    sum->broken_first = seed;
    memcpy(sum->invariant, findings->invariant, sizeof sum->invariant);
    return false;
}

bool run_seed(uint64_t seed, const struct runner_options *o, struct runner_sum *sum)
{
    uint64_t hash;
    *sum = (struct runner_sum){0};
    if (!world_try(seed, o, NULL, sum, &hash)) return false;
    char figures[100];
    world_figures(sum, figures, sizeof figures);
    printf("seed %" PRIu64 ": ok steps=%" PRIu64 " commits=%" PRIu64 " %s hash=%016" PRIx64 "\n",
           seed, sum->steps, sum->commits, figures, hash);
    return true;
}

bool run_twice(uint64_t seed, const struct runner_options *o, size_t *trace_len)
{
    CLEANUP(buf_done) struct buf first;
    CLEANUP(buf_done) struct buf second;
    buf_init(&first, (size_t)1 << 30);
    buf_init(&second, (size_t)1 << 30);
    struct runner_sum sum = {0};
    uint64_t hash[2];
    bool held = world_try(seed, o, &first, &sum, &hash[0]);
    held = world_try(seed, o, &second, &sum, &hash[1]) && held;
    *trace_len = first.len;
    return held && hash[0] == hash[1] && first.len > 0 &&
           bytes_equal(buf_bytes(&first), buf_bytes(&second));
}

struct job {
    pid_t pid;
    uint64_t seed; // where it is
    uint64_t last;
    struct runner_sum sum;
};

static void child(struct job *job, uint64_t stride, const struct runner_options *o)
{
    for (; job->seed <= job->last; job->seed += stride) {
        uint64_t hash;
        if (!world_try(job->seed, o, NULL, &job->sum, &hash) && !o->keep_going) _exit(1);
    }
    _exit(0);
}

static void job_start(struct job *job, uint64_t stride, const struct runner_options *o)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child(job, stride, o);
    job->pid = pid; // the child must not write it: the memory is shared
}

static void note_crash(struct job *job, int status, const struct runner_options *o)
{
    if (!o->quiet)
        printf("%sseed %" PRIu64 ": BROKEN: the process died of signal %d\n", o->tap ? "# " : "",
               job->seed, WTERMSIG(status));
    struct runner_sum *s = &job->sum;
    s->seeds++;
    if (s->broken++ > 0) return;
    s->broken_first = job->seed;
    (void)snprintf(s->invariant, sizeof s->invariant, "a CHECK");
}

static void add(struct runner_sum *to, const struct runner_sum *from)
{
    to->seeds += from->seeds;
    to->steps += from->steps;
    to->commits += from->commits;
    to->dropped += from->dropped;
    to->messages += from->messages;
    to->letters += from->letters;
    to->swept += from->swept;
    for (size_t i = 0; i < RUNNER_FIGURES; i++)
        to->figures[i] += from->figures[i];
    to->zombies += from->zombies;
    to->lies += from->lies;
    to->forks += from->forks;
    to->escapes += from->escapes;
    to->halted += from->halted;
    to->resumed += from->resumed;
    if (from->broken == 0) return;
    bool first = to->broken == 0 || from->broken_first < to->broken_first;
    to->broken += from->broken;
    if (!first) return;
    to->broken_first = from->broken_first;
    memcpy(to->invariant, from->invariant, sizeof to->invariant);
}

static void job_wait(struct job *job, uint64_t stride, const struct runner_options *o)
{
    for (;;) {
        int status = 0;
        CHECK(waitpid(job->pid, &status, 0) == job->pid);
        if (!WIFSIGNALED(status)) return;
        note_crash(job, status, o);
        job->seed += stride;
        if (!o->keep_going || job->seed > job->last) return;
        job_start(job, stride, o);
    }
}

bool run_seeds(uint64_t first, uint64_t last, const struct runner_options *o,
               struct runner_sum *sum)
{
    uint32_t jobs_len = o->jobs < JOBS_MAX ? o->jobs : JOBS_MAX;
    struct job *jobs = mmap(NULL, sizeof *jobs * JOBS_MAX, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(jobs != MAP_FAILED);
    for (uint32_t i = 0; i < jobs_len; i++) {
        jobs[i] = (struct job){.seed = first + i, .last = last};
        job_start(&jobs[i], jobs_len, o);
    }
    *sum = (struct runner_sum){0};
    for (uint32_t i = 0; i < jobs_len; i++) {
        job_wait(&jobs[i], jobs_len, o);
        add(sum, &jobs[i].sum);
    }
    (void)munmap(jobs, sizeof *jobs * JOBS_MAX);
    return sum->broken == 0;
}
