// SPDX-License-Identifier: Apache-2.0
// Measures a commit on the file store against the disk alone. It compares one writer and eight
// threads of one process with a loop of pwrite and fdatasync of the same bytes. The three
// alternate, so that a change of the disk's speed affects all of them. It prints medians over the
// rounds.
#include "base/check.h"
#include "base/memory.h"
#include "ledger.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "scratch.h"
#include "store/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define THREADS      8
#define ROUNDS_MAX   99
#define BARES        3                 // per round: before, between and after
#define RECORD_BYTES 224               // the size of an entry with one add in the file store
#define BARE_BYTES   ((off_t)64 << 20) // preallocated; the loop wraps around

#define P50_GOAL     1.5
#define FACTOR_GOAL  3.0

struct settings {
    const char *dir;
    double seconds; // per measurement
    int rounds;
    bool json;
};

// The result of one measurement.
struct turn {
    double commits_s;
    double ops_s;
    double p50_us;
    double p99_us;
};

struct bench {
    struct settings settings;
    struct scratch scratch;
    struct store *store;
    struct ledger *ledger;
    int bare_fd;
    off_t bare_at;
    struct turn bare[ROUNDS_MAX * BARES];
    struct turn one[ROUNDS_MAX];
    struct turn eight[ROUNDS_MAX];
};

// Latencies of one thread, in nanoseconds.
struct samples {
    int64_t *rows;
    size_t len;
    size_t cap;
};

static void samples_push(struct samples *s, int64_t ns)
{
    if (s->len == s->cap) {
        s->cap = s->cap > 0 ? s->cap * 2 : 4096;
        s->rows = memory_resize(s->rows, s->cap * sizeof *s->rows);
    }
    s->rows[s->len++] = ns;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_us(const struct samples *sorted, size_t percent)
{
    if (sorted->len == 0) return 0;
    return (double)sorted->rows[(sorted->len - 1) * percent / 100] / 1000;
}

static struct turn summary(struct samples *s, uint64_t commits, int64_t took_ns)
{
    if (s->len > 0) qsort(s->rows, s->len, sizeof *s->rows, by_size);
    double seconds = (double)took_ns / 1e9;
    return (struct turn){.commits_s = (double)commits / seconds,
                         .ops_s = (double)s->len / seconds,
                         .p50_us = percentile_us(s, 50),
                         .p99_us = percentile_us(s, 99)};
}

static int64_t turn_ns(const struct bench *b)
{
    return (int64_t)(b->settings.seconds * 1e9);
}

static int bare_open(const char *dir)
{
    char path[SCRATCH_PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/bare", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    bool ok = posix_fallocate(fd, 0, BARE_BYTES) == 0 && fsync(fd) == 0; // like the store
    if (ok) return fd;
    (void)close(fd);
    return -1;
}

static struct turn run_bare(struct bench *b)
{
    struct samples s = {0};
    uint8_t record[RECORD_BYTES];
    entropy_fill(record, sizeof record);
    int64_t start = clock_boot_ns();
    int64_t now = start;
    while (now - start < turn_ns(b)) {
        if (b->bare_at + RECORD_BYTES > BARE_BYTES) b->bare_at = 0;
        ssize_t written = pwrite(b->bare_fd, record, sizeof record, b->bare_at);
        CHECK(written == (ssize_t)sizeof record);
        CHECK(fdatasync(b->bare_fd) == 0);
        int64_t end = clock_boot_ns();
        samples_push(&s, end - now);
        now = end;
        b->bare_at += RECORD_BYTES;
    }
    struct turn t = summary(&s, s.len, now - start);
    memory_free(s.rows);
    return t;
}

struct writer {
    struct bench *bench;
    pthread_t thread;
    int64_t end;
    struct samples samples;
};

static void *writer_run(void *arg)
{
    struct writer *w = arg;
    uint64_t request[2] = {entropy_u64(), 0};
    int64_t now = clock_boot_ns();
    while (now < w->end) {
        request[1]++;
        enum err err = ledger_add(w->bench->ledger, "counter", 1, (const uint8_t *)request, NULL);
        if (err) {
            (void)fprintf(stderr, "an add failed: %s\n", err_text(err));
            exit(1);
        }
        int64_t end = clock_boot_ns();
        samples_push(&w->samples, end - now);
        now = end;
    }
    return NULL;
}

static struct turn run_writers(struct bench *b, size_t threads)
{
    struct writer writers[THREADS] = {0};
    uint64_t slot = ledger_slot(b->ledger);
    int64_t start = clock_boot_ns();
    for (size_t i = 0; i < threads; i++) {
        writers[i] = (struct writer){.bench = b, .end = start + turn_ns(b)};
        CHECK(pthread_create(&writers[i].thread, NULL, writer_run, &writers[i]) == 0);
    }
    struct samples all = {0};
    for (size_t i = 0; i < threads; i++) {
        (void)pthread_join(writers[i].thread, NULL);
        for (size_t n = 0; n < writers[i].samples.len; n++)
            samples_push(&all, writers[i].samples.rows[n]);
        memory_free(writers[i].samples.rows);
    }
    int64_t took = clock_boot_ns() - start;
    struct turn t = summary(&all, ledger_slot(b->ledger) - slot, took);
    memory_free(all.rows);
    return t;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t len)
{
    qsort(values, len, sizeof *values, by_value);
    return len % 2 ? values[len / 2] : (values[len / 2 - 1] + values[len / 2]) / 2;
}

static struct turn median_turn(const struct turn *turns, size_t len)
{
    double commits[ROUNDS_MAX * BARES], ops[ROUNDS_MAX * BARES];
    double p50[ROUNDS_MAX * BARES], p99[ROUNDS_MAX * BARES];
    for (size_t i = 0; i < len; i++) {
        commits[i] = turns[i].commits_s;
        ops[i] = turns[i].ops_s;
        p50[i] = turns[i].p50_us;
        p99[i] = turns[i].p99_us;
    }
    return (struct turn){median(commits, len), median(ops, len), median(p50, len),
                         median(p99, len)};
}

struct figures {
    struct turn bare, one, eight;
    double p50_ratio; // p50 of one writer divided by the p50 of the bare loops of the same round
    double factor;    // ops/s of eight threads divided by those of one, in the same round
    double load[3];
};

static struct figures figures_of(const struct bench *b)
{
    size_t rounds = (size_t)b->settings.rounds;
    struct figures f = {.bare = median_turn(b->bare, rounds * BARES),
                        .one = median_turn(b->one, rounds),
                        .eight = median_turn(b->eight, rounds)};
    double ratios[ROUNDS_MAX], factors[ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++) {
        ratios[i] = b->one[i].p50_us / median_turn(&b->bare[i * BARES], BARES).p50_us;
        factors[i] = b->eight[i].ops_s / b->one[i].ops_s;
    }
    f.p50_ratio = median(ratios, rounds);
    f.factor = median(factors, rounds);
    if (getloadavg(f.load, 3) < 3) memset(f.load, 0, sizeof f.load);
    return f;
}

static void print_row(const char *name, const struct turn *t)
{
    (void)printf("%-22s %10.0f %10.0f %10.1f %10.1f %10.2f\n", name, t->commits_s, t->ops_s,
                 t->p50_us, t->p99_us, t->ops_s / t->commits_s);
}

static void print_text(const struct bench *b, const struct figures *f)
{
    (void)printf("medians of %d rounds, %.1f s a turn, %d bytes a record, load %.2f\n",
                 b->settings.rounds, b->settings.seconds, RECORD_BYTES, f->load[0]);
    (void)printf("%-22s %10s %10s %10s %10s %10s\n", "", "commits/s", "ops/s", "p50 us", "p99 us",
                 "ops/commit");
    print_row("pwrite + fdatasync", &f->bare);
    print_row("1 writer", &f->one);
    print_row("8 threads, 1 process", &f->eight);
    (void)printf("one writer's p50 by the bare loop's   %.2f  (goal: at most %.1f)\n", f->p50_ratio,
                 P50_GOAL);
    (void)printf("ops/s of 8 threads by those of 1      %.2f  (goal: at least %.1f)\n", f->factor,
                 FACTOR_GOAL);
}

static void print_json_turn(const char *name, const struct turn *t)
{
    (void)printf("\"%s\":{\"commits_s\":%.1f,\"ops_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f},",
                 name, t->commits_s, t->ops_s, t->p50_us, t->p99_us);
}

static void print_json(const struct bench *b, const struct figures *f)
{
    (void)printf("{\"bench\":\"commit\",\"rounds\":%d,\"turn_s\":%.2f,", b->settings.rounds,
                 b->settings.seconds);
    print_json_turn("bare", &f->bare);
    print_json_turn("one", &f->one);
    print_json_turn("eight", &f->eight);
    (void)printf("\"p50_ratio\":%.3f,\"factor\":%.3f,\"load\":[%.2f,%.2f,%.2f]}\n", f->p50_ratio,
                 f->factor, f->load[0], f->load[1], f->load[2]);
}

static bool on_disk(const char *dir)
{
    struct statfs fs;
    if (statfs(dir, &fs) != 0) {
        (void)fprintf(stderr, "cannot look at %s: %s\n", dir, strerror(errno));
        return false;
    }
    if (fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC) return true;
    (void)fprintf(stderr, "%s is memory, not a disk; name a directory on a disk\n", dir);
    return false;
}

static bool bench_open(struct bench *b)
{
    char path[SCRATCH_PATH_MAX + 16];
    char why[STORE_WHY_MAX];
    if (!on_disk(b->settings.dir) || !scratch_make(&b->scratch, b->settings.dir)) return false;
    b->bare_fd = bare_open(b->scratch.path);
    if (b->bare_fd < 0) {
        (void)fprintf(stderr, "cannot prepare the bare file: %s\n", strerror(errno));
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/store", b->scratch.path);
    if (store_file_open(path, NULL, &b->store, why, sizeof why)) {
        (void)fprintf(stderr, "%s\n", why);
        return false;
    }
    // The register machine searches request ids linearly. A long memory would dominate the
    // measurement.
    struct ledger_options options = {.memory_ms = 1};
    enum err err = ledger_open(b->store, "bench", &options, &b->ledger);
    if (!err) err = ledger_sync(b->ledger);
    if (err) (void)fprintf(stderr, "cannot open the ledger: %s\n", err_text(err));
    return !err;
}

static void bench_close(struct bench *b)
{
    ledger_close(b->ledger);
    store_free(b->store);
    if (b->bare_fd >= 0) (void)close(b->bare_fd);
    scratch_remove(&b->scratch);
}

static void bench_run(struct bench *b)
{
    for (size_t i = 0; i < (size_t)b->settings.rounds; i++) {
        struct turn *bare = &b->bare[i * BARES];
        bare[0] = run_bare(b);
        b->one[i] = run_writers(b, 1);
        bare[1] = run_bare(b);
        b->eight[i] = run_writers(b, THREADS);
        bare[2] = run_bare(b);
    }
    struct figures f = figures_of(b);
    if (b->settings.json) {
        print_json(b, &f);
    } else {
        print_text(b, &f);
    }
}

static bool parse(int argc, char **argv, struct settings *s)
{
    const char *tmp = getenv("TMPDIR");
    *s = (struct settings){.dir = tmp && *tmp ? tmp : ".", .seconds = 0.5, .rounds = 7};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            s->json = true;
        } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
            s->seconds = strtod(argv[++i], NULL);
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            s->rounds = atoi(argv[++i]);
        } else if (argv[i][0] != '-') {
            s->dir = argv[i];
        } else {
            return false;
        }
    }
    return s->seconds > 0 && s->rounds > 0 && s->rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    static struct bench b = {.bare_fd = -1};
    if (!parse(argc, argv, &b.settings)) {
        (void)fprintf(stderr, "usage: commit [--json] [--seconds S] [--rounds N] [directory]\n");
        return 2;
    }
    bool ok = bench_open(&b);
    if (ok) bench_run(&b);
    bench_close(&b);
    return ok ? 0 : 1;
}
