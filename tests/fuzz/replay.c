// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer, as a test: every file of its corpus, then seeded random
// inputs, then seeded mutations of corpus files. Each input follows from (seed, run) alone, so one
// that breaks the target is run again by its number:
//   fuzz_<name> <corpus folder> [runs [seed [run]]]
#include "base/bytes.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_MAX   ((size_t)64 << 10)
#define CORPUS_MAX  1000
#define RANDOM_MAX  512
#define MUTATE_MAX  8
#define RUNS        20000
#define FAILED_EXIT 1

struct corpus {
    struct bytes inputs[CORPUS_MAX];
    size_t len;
};

// What runs now, for the signal handler to say; the only way to get words out of a dying process.
static char now_running[512];

static void say_what_broke(int signal_number)
{
    ssize_t ignored = write(STDERR_FILENO, now_running, strlen(now_running));
    (void)ignored;
    (void)raise(signal_number); // the handler is gone (SA_RESETHAND)
}

static void watch_for_death(void)
{
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = say_what_broke, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        (void)sigaction(deadly[i], &action, NULL);
}

// The target gets memory of exactly the input's size, so that a sanitizer sees one byte too far.
static void run_target(struct bytes input)
{
    struct bytes exact = bytes_copy(input);
    (void)LLVMFuzzerTestOneInput(exact.data, exact.len);
    bytes_free(exact);
}

static struct bytes read_input(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        (void)fprintf(stderr, "replay: cannot open %s: %s\n", path, strerror(errno));
        exit(FAILED_EXIT);
    }
    uint8_t *data = memory_new(INPUT_MAX);
    size_t len = fread(data, 1, INPUT_MAX, file);
    (void)fclose(file);
    return bytes_of(data, len);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

// A missing folder is an empty corpus.
static void corpus_load(struct corpus *c, const char *folder)
{
    struct dirent **names = NULL;
    int count = scandir(folder, &names, is_visible, by_name);
    c->len = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (c->len < CORPUS_MAX) c->inputs[c->len++] = read_input(path);
        free(names[i]);
    }
    free(names);
}

static void corpus_done(struct corpus *c)
{
    for (size_t i = 0; i < c->len; i++)
        bytes_free(c->inputs[i]);
}

static void make_random(struct rng *rng, struct buf *input)
{
    size_t len = rng_below(rng, RANDOM_MAX + 1);
    for (size_t i = 0; i < len; i++)
        buf_put_u8(input, (uint8_t)rng_next(rng));
}

// One small damage: a flipped bit, an interesting byte, a cut, bytes repeated, or one inserted at
// the end.
static void damage(struct rng *rng, struct buf *input)
{
    static const uint8_t interesting[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
    if (input->len == 0) {
        buf_put_u8(input, (uint8_t)rng_next(rng));
        return;
    }
    size_t at = rng_below(rng, input->len);
    size_t run = 1 + rng_below(rng, input->len - at);
    switch (rng_below(rng, 5)) {
    case 0:
        input->data[at] ^= (uint8_t)(1u << rng_below(rng, 8));
        break;
    case 1:
        input->data[at] = interesting[rng_below(rng, sizeof interesting)];
        break;
    case 2:
        input->len = at;
        break;
    case 3:
        memmove(input->data + rng_below(rng, input->len - run + 1), input->data + at, run);
        break;
    default:
        buf_put_u8(input, (uint8_t)rng_next(rng));
        break;
    }
}

static void make_mutated(struct rng *rng, const struct corpus *c, struct buf *input)
{
    if (c->len == 0) return;
    buf_put(input, c->inputs[rng_below(rng, c->len)]);
    uint64_t times = 1 + rng_below(rng, MUTATE_MAX);
    for (uint64_t i = 0; i < times; i++)
        damage(rng, input);
}

// Odd runs are random, even ones mutated from the corpus.
static void run_seeded(const char *program, const struct corpus *c, uint64_t seed, uint64_t run)
{
    (void)snprintf(now_running, sizeof now_running,
                   "# it broke in run %llu of seed %llu: %s <corpus> 0 %llu %llu\n",
                   (unsigned long long)run, (unsigned long long)seed, program,
                   (unsigned long long)seed, (unsigned long long)run);
    struct rng rng;
    rng_init(&rng, hash64_mix(seed, run));
    CLEANUP(buf_done) struct buf input;
    buf_init(&input, 2 * INPUT_MAX);
    if (run % 2 == 1 || c->len == 0)
        make_random(&rng, &input);
    else
        make_mutated(&rng, c, &input);
    run_target(buf_bytes(&input));
}

static uint64_t argument(int argc, char **argv, int at, uint64_t otherwise)
{
    return argc > at ? strtoull(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s <corpus folder> [runs [seed [run]]]\n", argv[0]);
        return 2;
    }
    uint64_t runs = argument(argc, argv, 2, RUNS);
    uint64_t seed = argument(argc, argv, 3, 1);
    static struct corpus corpus;
    corpus_load(&corpus, argv[1]);
    watch_for_death();
    (void)setvbuf(stdout, NULL, _IOLBF, 0); // what is said before a crash is seen
    (void)printf("1..2\n");
    for (size_t i = 0; i < corpus.len; i++) {
        (void)snprintf(now_running, sizeof now_running, "# it broke on file %zu of %s\n", i,
                       argv[1]);
        run_target(corpus.inputs[i]);
    }
    (void)printf("ok 1 - the corpus runs (%zu files)\n", corpus.len);
    if (argc > 4) run_seeded(argv[0], &corpus, seed, argument(argc, argv, 4, 0));
    for (uint64_t run = 1; run <= runs; run++)
        run_seeded(argv[0], &corpus, seed, run);
    (void)printf("ok 2 - %llu random and mutated inputs run (seed %llu)\n",
                 (unsigned long long)runs, (unsigned long long)seed);
    corpus_done(&corpus);
    return 0;
}
