// SPDX-License-Identifier: Apache-2.0
// Several processes append to one journal in a directory, and some of them are killed. Checks that
// no acknowledged op was lost and none was applied twice.
#include "hammering.h"
#include "os/entropy.h"
#include "scratch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: hammer [--processes N] [--threads N] [--seconds S] [--kill] [--dir D] [--demo]\n"
    "  --dir D   work under D (default: $TMPDIR, else /tmp); what was made there is removed\n"
    "  --demo    5 seconds, 4 processes, with kills\n";

struct settings {
    struct hammer_options hammer;
    const char *parent;
    bool demo;
};

static bool number(const char *text, int most, int *to)
{
    char *end;
    long value = strtol(text, &end, 10);
    *to = (int)value;
    return *text && !*end && value > 0 && value <= most;
}

static bool parse(int argc, char **argv, struct settings *s)
{
    int seconds = 5;
    *s = (struct settings){
        .hammer = {.processes = 4, .threads = 2, .shows = true, .seed = entropy_u64()}};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool ok = true;
        if (strcmp(argv[i], "--kill") == 0) {
            s->hammer.kills = true;
        } else if (strcmp(argv[i], "--demo") == 0) {
            s->demo = s->hammer.kills = true;
        } else if (strcmp(argv[i], "--processes") == 0) {
            ok = number(value, HAMMER_PROCESSES_MAX, &s->hammer.processes) && ++i;
        } else if (strcmp(argv[i], "--threads") == 0) {
            ok = number(value, HAMMER_THREADS_MAX, &s->hammer.threads) && ++i;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            ok = number(value, 86400, &seconds) && ++i;
        } else if (strcmp(argv[i], "--dir") == 0 && *value) {
            s->parent = argv[++i];
        } else {
            ok = false;
        }
        if (!ok) return false;
    }
    s->hammer.run_ms = (int64_t)seconds * 1000;
    return true;
}

static void print_counts(const struct hammer_options *o, const struct hammer_counts *t)
{
    double seconds = (double)t->took_ms / 1000;
    double entries = t->entries > 0 ? (double)t->entries : 1;
    (void)printf("processes  %10d  of %d threads each, for %.1f s\n", o->processes, o->threads,
                 seconds);
    (void)printf("committed  %10" PRIu64 "  ops, %.0f a second\n", t->acknowledged,
                 (double)t->acknowledged / seconds);
    (void)printf("entries    %10" PRIu64 "  %.2f ops in each\n", t->entries,
                 (double)(t->acknowledged + t->unknown_landed) / entries);
    (void)printf("collected  %10" PRIu64 "  slots, while the others went on\n", t->collected);
    (void)printf("killed     %10" PRIu64 "  by kill -9, and started again\n", t->killed);
    (void)printf("unknown    %10" PRIu64 "  without an answer; %" PRIu64 " of them had landed\n",
                 t->unknown, t->unknown_landed);
    (void)printf("lost       %10" PRIu64 "\n", t->lost);
    (void)printf("doubled    %10" PRIu64 "\n", t->doubled);
    if (t->went_back > 0) (void)printf("went back  %10" PRIu64 "\n", t->went_back);
    (void)printf("digests    %10s  in two handles opened afterwards\n",
                 t->digests_equal ? "equal" : "DIFFERENT");
}

static const char read_on[] =
    "\nEach process added to its own counter and to a common one, through one journal in one\n"
    "directory, with no server between them. How: docs/architecture.md. The bytes: "
    "docs/format.md.\n"
    "What is promised, and how it is attacked: docs/simulation.md.\n";

int main(int argc, char **argv)
{
    struct settings s;
    struct scratch scratch;
    char dir[SCRATCH_PATH_MAX + 16];
    if (!parse(argc, argv, &s)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    if (!scratch_make(&scratch, s.parent)) return 1;
    (void)snprintf(dir, sizeof dir, "%s/store", scratch.path);
    s.hammer.dir = dir;
    struct hammer_counts counts;
    bool ran = hammer_run(&s.hammer, &counts);
    scratch_remove(&scratch);
    if (!ran) return 1;
    print_counts(&s.hammer, &counts);
    bool sound = hammer_sound(&counts);
    if (!sound) (void)printf("the journal broke its promise (seed %" PRIu64 ")\n", s.hammer.seed);
    if (sound && s.demo) (void)fputs(read_on, stdout);
    return sound ? 0 : 1;
}
