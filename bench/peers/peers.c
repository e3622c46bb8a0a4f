// SPDX-License-Identifier: Apache-2.0
// Compares Sluice on a directory and Sluice through a node with beanstalkd and RabbitMQ: the same
// loops, the same directory, the same time. All alternate in every round, so that a change of the
// disk's speed affects all of them. It prints medians.
//
//     peers [--rounds N] [--messages N] [--dir DIR] [--only beanstalkd|rabbitmq]
//           [--workload bulk|cycle|paced] [--json]
#define _GNU_SOURCE // nftw
#include "beanstalk.h"
#include "cli/bench/sluice.h"
#include "node_process.h"
#include "rabbit.h"

#include <ctype.h>
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
#define PATH_LEN   300

struct row {
    const char *name;
    enum bench_load load;
    uint64_t divisor;
    uint32_t processes;
    bool by_latency; // compared by p99, else by messages per second
};

static const struct row rows[] = {
    {"bulk send", LOAD_SEND, 1, 1, false}, {"bulk drain", LOAD_DRAIN, 1, 1, false},
    {"cycle", LOAD_CYCLE, 4, 1, false},    {"cycle, 8 processes", LOAD_CYCLE, 4, 8, false},
    {"paced", LOAD_PACED, 100, 1, true},   {"paced, 2 processes", LOAD_PACED, 100, 2, true},
};
#define ROWS (sizeof rows / sizeof *rows)

// Sluice first: each Sluice side is compared with every peer that takes part.
enum { DIRECT, OVER_HTTP, JOINED, BEANSTALKD, RABBITMQ, SIDES };
#define OURS BEANSTALKD

static const struct side {
    const char *name;
    const char *key; // the key in JSON
    const struct bench_target *target;
    const char *durable; // what is durable before the client continues
} sides[SIDES] = {
    [DIRECT] = {"sluice", "sluice", &bench_sluice, "the send, the lock, the ack"},
    [OVER_HTTP] = {"sluice node", "sluiceNode", &bench_sluice,
                   "the send, the lock, the ack, each an answer to an HTTP request"},
    [JOINED] = {"  acks along", "sluiceNodeJoined", &bench_sluice_joined,
                "the send, the lock; the ack is answered with the next receive"},
    [BEANSTALKD] = {"beanstalkd", "beanstalkd", &bench_beanstalk,
                    "the put, the delete; a reservation never is"},
    [RABBITMQ] = {"rabbitmq", "rabbitmq", &bench_rabbit,
                  "the publish; a delivery never is, and an ack has no answer to wait for"},
};

struct run {
    struct bench_settings settings;
    uint32_t rounds;
    bool json;
    const char *only;     // the peer that takes part; NULL: both
    const char *workload; // NULL: all
    char dir[256];
    char folders[SIDES][PATH_LEN];
    char program[PATH_LEN]; // the sluice command, next to this program
    struct beanstalkd beanstalkd;
    struct rabbitd rabbitd;
    struct node_process node;
    const char *places[SIDES]; // NULL if the side does not take part
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

static bool is_wanted(const struct run *r, size_t row)
{
    return !r->workload || strncmp(rows[row].name, r->workload, strlen(r->workload)) == 0;
}

static bool run_round(struct run *r, uint32_t round, char *problem)
{
    for (size_t row = 0; row < ROWS; row++)
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (turn + (int)round) % SIDES;
            if (!r->places[side] || !is_wanted(r, row)) continue;
            struct bench_settings s = r->settings;
            s.place = r->places[side];
            s.queue = sides[side].key; // two sides use one node
            s.processes = rows[row].processes;
            s.messages = s.messages / rows[row].divisor > 0 ? s.messages / rows[row].divisor : 1;
            struct bench_figure *f = &r->figures[row][side][round];
            if (!bench_run(sides[side].target, &s, rows[row].load, f, problem)) return false;
            if (f->missing + f->repeated == 0) continue;
            (void)snprintf(problem, BENCH_PROBLEM_MAX,
                           "%s, %s: %" PRIu64 " lost, %" PRIu64 " twice", sides[side].name,
                           rows[row].name, f->missing, f->repeated);
            return false;
        }
    return true;
}

static double ratio_of(const struct run *r, size_t row, int ours, int peer)
{
    enum field field = rows[row].by_latency ? FIELD_P99 : FIELD_RATE;
    double a = median_of(r, row, ours, field);
    double b = median_of(r, row, peer, field);
    return rows[row].by_latency ? b / a : a / b;
}

static void print_json(const struct run *r, size_t row)
{
    printf("{\"workload\":\"%s\"", rows[row].name);
    for (int side = 0; side < SIDES; side++) {
        if (!r->places[side]) continue;
        printf(",\"%s\":{\"perSecond\":%.0f,\"p50Us\":%.0f,\"p99Us\":%.0f,\"p999Us\":%.0f",
               sides[side].key, median_of(r, row, side, FIELD_RATE),
               median_of(r, row, side, FIELD_P50), median_of(r, row, side, FIELD_P99),
               median_of(r, row, side, FIELD_P999));
        for (int peer = OURS; side < OURS && peer < SIDES; peer++)
            if (r->places[peer])
                printf(",\"times%c%s\":%.3f", toupper(sides[peer].key[0]), sides[peer].key + 1,
                       ratio_of(r, row, side, peer));
        printf("}");
    }
    printf("}\n");
}

static void print_row(const struct run *r, size_t row)
{
    const char *name = rows[row].name;
    for (int side = 0; side < SIDES; side++) {
        if (!r->places[side]) continue;
        printf("%-20s %-12s %10.0f %9.0f %9.0f %9.0f", name, sides[side].name,
               median_of(r, row, side, FIELD_RATE), median_of(r, row, side, FIELD_P50),
               median_of(r, row, side, FIELD_P99), median_of(r, row, side, FIELD_P999));
        const char *between = "   ";
        for (int peer = OURS; side < OURS && peer < SIDES; peer++) {
            if (!r->places[peer]) continue;
            printf("%s%.2f times %s", between, ratio_of(r, row, side, peer), sides[peer].name);
            between = ", ";
        }
        if (side < OURS) printf(" by %s", rows[row].by_latency ? "p99" : "rate");
        printf("\n");
        name = "";
    }
}

static void print_durable(const struct run *r)
{
    printf("\ndurable before the client goes on:\n");
    for (int side = 0; side < SIDES; side++)
        if (r->places[side]) printf("  %-12s %s\n", sides[side].name, sides[side].durable);
}

static bool make_folders(struct run *r, const char *base, char *problem)
{
    (void)snprintf(r->dir, sizeof r->dir, "%s/sluice-peers-XXXXXX", base);
    bool ok = mkdtemp(r->dir) != NULL;
    for (int side = 0; ok && side < SIDES; side++) {
        (void)snprintf(r->folders[side], PATH_LEN, "%s/%s", r->dir, sides[side].key);
        ok = mkdir(r->folders[side], 0700) == 0;
    }
    if (!ok) (void)snprintf(problem, BENCH_PROBLEM_MAX, "%s: %s", r->dir, strerror(errno));
    return ok;
}

static bool find_program(struct run *r)
{
    ssize_t len = readlink("/proc/self/exe", r->program, sizeof r->program - 8);
    char *end = len > 0 ? memrchr(r->program, '/', (size_t)len) : NULL;
    if (end) (void)memcpy(end + 1, "sluice", 7);
    return end != NULL;
}

static bool start_beanstalkd(struct run *r, char *problem)
{
    if (!beanstalkd_start(&r->beanstalkd, r->folders[BEANSTALKD], problem)) return false;
    r->places[BEANSTALKD] = r->beanstalkd.port;
    return true;
}

static bool start_rabbitmq(struct run *r, char *problem)
{
    if (!rabbitd_start(&r->rabbitd, r->folders[RABBITMQ], problem)) return false;
    r->places[RABBITMQ] = r->rabbitd.port;
    return true;
}

static bool start_ours(struct run *r, char *problem)
{
    r->node = (struct node_process){.program = r->program, .store = r->folders[OVER_HTTP]};
    r->places[DIRECT] = r->folders[DIRECT];
    if (!find_program(r) || !node_process_start(&r->node)) {
        (void)snprintf(problem, BENCH_PROBLEM_MAX, "%s", r->node.problem);
        return false;
    }
    r->places[OVER_HTTP] = r->places[JOINED] = r->node.url;
    return true;
}

static bool wants(const struct run *r, int side)
{
    return !r->only || strcmp(r->only, sides[side].name) == 0;
}

static bool prepare(struct run *r, const char *base, char *problem)
{
    return make_folders(r, base, problem) && start_ours(r, problem) &&
           (!wants(r, BEANSTALKD) || start_beanstalkd(r, problem)) &&
           (!wants(r, RABBITMQ) || start_rabbitmq(r, problem));
}

static void end(struct run *r)
{
    beanstalkd_stop(&r->beanstalkd);
    (void)node_process_stop(&r->node);
    rabbitd_stop(&r->rabbitd);
    if (r->dir[0]) (void)nftw(r->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
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
               "after\n\n%-20s %-12s %10s %9s %9s %9s\n",
               r->rounds, base, bench_dir_is_durable(base) ? "" : " (in memory)",
               median(r->disk_us, r->rounds), load, bench_load_average(), "WORKLOAD", "", "PER S",
               "P50 US", "P99 US", "P99.9 US");
    for (size_t row = 0; row < ROWS; row++)
        if (is_wanted(r, row)) (r->json ? print_json : print_row)(r, row);
    if (!r->json) print_durable(r);
    return true;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"rounds", required_argument, NULL, 'r'},
                                          {"messages", required_argument, NULL, 'n'},
                                          {"dir", required_argument, NULL, 'd'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"workload", required_argument, NULL, 'w'},
                                          {0}};
    static struct run r = {.settings = {.messages = 50000, .size = 300, .clients = 8, .batch = 100},
                           .rounds = 3};
    const char *base = "/var/tmp";
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'r') r.rounds = (uint32_t)atoi(optarg);
        if (c == 'n') r.settings.messages = strtoull(optarg, NULL, 10);
        if (c == 'd') base = optarg;
        if (c == 'o') r.only = optarg;
        if (c == 'w') r.workload = optarg;
        if (c == 'j') r.json = true;
        if (c == '?') return 2;
    }
    if (r.rounds < 1 || r.rounds > ROUNDS_MAX || r.settings.messages < 1) return 2;
    if (r.only && !wants(&r, BEANSTALKD) && !wants(&r, RABBITMQ)) return 2;
    bool some = false;
    for (size_t row = 0; row < ROWS; row++)
        some = some || is_wanted(&r, row);
    if (!some) return 2;
    char problem[BENCH_PROBLEM_MAX] = "";
    bool ok = run_all(&r, base, problem);
    end(&r);
    if (!ok) (void)fprintf(stderr, "peers: %s\n", problem);
    return ok ? 0 : 1;
}
