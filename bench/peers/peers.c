// SPDX-License-Identifier: Apache-2.0
// Sluice beside beanstalkd: the same loops, the same directory, the same minutes. The two take
// turns in every round, so that a disk that changes its mind does so to both; medians are shown.
//   peers [--rounds N] [--messages N] [--dir DIR] [--json]
#define _GNU_SOURCE // nftw
#include "beanstalk.h"
#include "cli/bench_sluice.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS_MAX 31
#define SIDES      2

struct row {
    const char *name;
    enum bench_load load;
    uint64_t divisor;
    uint32_t processes;
    bool by_latency; // compared by p99, else by messages a second
};

static const struct row rows[] = {
    {"bulk send", LOAD_SEND, 1, 1, false}, {"bulk drain", LOAD_DRAIN, 1, 1, false},
    {"cycle", LOAD_CYCLE, 4, 1, false},    {"cycle, 8 processes", LOAD_CYCLE, 4, 8, false},
    {"paced", LOAD_PACED, 100, 1, true},   {"paced, 2 processes", LOAD_PACED, 100, 2, true},
};
#define ROWS (sizeof rows / sizeof *rows)

struct run {
    struct bench_settings settings;
    uint32_t rounds;
    bool json;
    char dir[256];
    char store[300];
    char log[300];
    struct beanstalkd server;
    const struct bench_target *targets[SIDES];
    const char *places[SIDES];
    struct bench_figure figures[ROWS][SIDES][ROUNDS_MAX];
    double disk_us[ROUNDS_MAX];
};

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *ftw)
{
    (void)s, (void)kind, (void)ftw;
    return remove(path);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, uint32_t len)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, len * sizeof *values);
    qsort(sorted, len, sizeof *sorted, by_size);
    return sorted[len / 2];
}

enum field { FIELD_RATE, FIELD_P50, FIELD_P99, FIELD_P999 };

static double median_of(const struct run *r, size_t row, int side, enum field field)
{
    double values[ROUNDS_MAX];
    for (uint32_t i = 0; i < r->rounds; i++) {
        const struct bench_figure *f = &r->figures[row][side][i];
        values[i] = field == FIELD_RATE  ? f->per_second
                    : field == FIELD_P50 ? f->p50_us
                    : field == FIELD_P99 ? f->p99_us
                                         : f->p999_us;
    }
    return median(values, r->rounds);
}

static bool run_round(struct run *r, uint32_t round, char *problem)
{
    for (size_t row = 0; row < ROWS; row++)
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (turn + (int)round) % SIDES;
            struct bench_settings s = r->settings;
            s.place = r->places[side];
            s.queue = "peers";
            s.processes = rows[row].processes;
            s.messages = s.messages / rows[row].divisor > 0 ? s.messages / rows[row].divisor : 1;
            struct bench_figure *f = &r->figures[row][side][round];
            if (!bench_run(r->targets[side], &s, rows[row].load, f, problem)) return false;
            if (f->missing + f->repeated == 0) continue;
            (void)snprintf(problem, BENCH_PROBLEM_MAX,
                           "%s, %s: %" PRIu64 " lost, %" PRIu64 " twice", r->targets[side]->name,
                           rows[row].name, f->missing, f->repeated);
            return false;
        }
    return true;
}

static void print_row(const struct run *r, size_t row)
{
    double a = median_of(r, row, 0, rows[row].by_latency ? FIELD_P99 : FIELD_RATE);
    double b = median_of(r, row, 1, rows[row].by_latency ? FIELD_P99 : FIELD_RATE);
    double ratio = rows[row].by_latency ? b / a : a / b;
    if (r->json) {
        printf("{\"workload\":\"%s\",\"ratio\":%.3f", rows[row].name, ratio);
        for (int side = 0; side < SIDES; side++)
            printf(",\"%s\":{\"perSecond\":%.0f,\"p50Us\":%.0f,\"p99Us\":%.0f,\"p999Us\":%.0f}",
                   r->targets[side]->name, median_of(r, row, side, FIELD_RATE),
                   median_of(r, row, side, FIELD_P50), median_of(r, row, side, FIELD_P99),
                   median_of(r, row, side, FIELD_P999));
        printf("}\n");
        return;
    }
    for (int side = 0; side < SIDES; side++)
        printf("%-20s %-11s %10.0f %9.0f %9.0f %9.0f", side == 0 ? rows[row].name : "",
               r->targets[side]->name, median_of(r, row, side, FIELD_RATE),
               median_of(r, row, side, FIELD_P50), median_of(r, row, side, FIELD_P99),
               median_of(r, row, side, FIELD_P999)),
            printf(side == 0 ? "\n" : "   %.2f times %s\n", ratio,
                   rows[row].by_latency ? "by p99" : "by rate");
}

static bool prepare(struct run *r, const char *base, char *problem)
{
    (void)snprintf(r->dir, sizeof r->dir, "%s/sluice-peers-XXXXXX", base);
    if (!mkdtemp(r->dir)) {
        (void)snprintf(problem, BENCH_PROBLEM_MAX, "%s: %s", r->dir, strerror(errno));
        r->dir[0] = 0;
        return false;
    }
    (void)snprintf(r->store, sizeof r->store, "%s/store", r->dir);
    (void)snprintf(r->log, sizeof r->log, "%s/beanstalkd", r->dir);
    if (mkdir(r->log, 0700) != 0 || !beanstalkd_start(&r->server, r->log, problem)) return false;
    r->targets[0] = &bench_sluice;
    r->places[0] = r->store;
    r->targets[1] = &bench_beanstalk;
    r->places[1] = r->server.port;
    return true;
}

static bool run_all(struct run *r, const char *base, char *problem)
{
    if (!prepare(r, base, problem)) return false;
    double load = bench_load_average();
    for (uint32_t i = 0; i < r->rounds; i++) {
        r->disk_us[i] = bench_disk_us(r->dir, r->settings.size);
        if (!run_round(r, i, problem)) return false;
    }
    if (!r->json)
        printf("%u rounds in %s%s: bare pwrite + fdatasync p50 %.0f us, load %.2f before, %.2f "
               "after\n\n%-20s %-11s %10s %9s %9s %9s\n",
               r->rounds, base, bench_dir_is_durable(base) ? "" : " (in memory)",
               median(r->disk_us, r->rounds), load, bench_load_average(), "WORKLOAD", "", "PER S",
               "P50 US", "P99 US", "P99.9 US");
    for (size_t row = 0; row < ROWS; row++)
        print_row(r, row);
    return true;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"rounds", required_argument, NULL, 'r'},
                                          {"messages", required_argument, NULL, 'n'},
                                          {"dir", required_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {0}};
    static struct run r = {.settings = {.messages = 50000, .size = 300, .clients = 8, .batch = 100},
                           .rounds = 3};
    const char *base = "/var/tmp";
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'r') r.rounds = (uint32_t)atoi(optarg);
        if (c == 'n') r.settings.messages = strtoull(optarg, NULL, 10);
        if (c == 'd') base = optarg;
        if (c == 'j') r.json = true;
        if (c == '?') return 2;
    }
    if (r.rounds < 1 || r.rounds > ROUNDS_MAX || r.settings.messages < 1) return 2;
    char problem[BENCH_PROBLEM_MAX] = "";
    bool ok = run_all(&r, base, problem);
    beanstalkd_stop(&r.server);
    if (r.dir[0]) (void)nftw(r.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (!ok) (void)fprintf(stderr, "peers: %s\n", problem);
    return ok ? 0 : 1;
}
