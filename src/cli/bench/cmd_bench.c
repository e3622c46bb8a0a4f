// SPDX-License-Identifier: Apache-2.0
// bench: measures the three workloads on this machine and its disk. Without --store it uses a
// directory under TMPDIR or /var/tmp and removes it. It never uses SLUICE_STORE, because a
// benchmark must not fill a store that is in use.
#define _GNU_SOURCE // nftw, asprintf
#include "api/place.h"
#include "cli/bench/load.h"
#include "cli/bench/sluice.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "json/json.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES_DEFAULT 200000
#define SIZE_DEFAULT     300
#define CLIENTS_DEFAULT  8
#define BATCH_DEFAULT    100
#define CYCLE_PART       8   // divisor of --messages
#define PACED_PART       200 // divisor of --messages; the default takes ten seconds
#define MANY_PROCESSES   8

enum { AT_WORKLOAD, AT_MESSAGES, AT_SIZE, AT_CLIENTS, AT_BATCH, AT_PROCESSES };

static const struct cli_option options[] = {
    [AT_WORKLOAD] = OPTION(TEXT, "workload", "NAME", "bulk, cycle, paced, or all (all)"),
    [AT_MESSAGES] =
        OPTION(COUNT, "messages", "N", "messages of bulk; cycle uses 1/8, paced 1/200 (200000)",
               .letter = 'n', .min = 1, .max = 100000000),
    [AT_SIZE] = OPTION(COUNT, "size", "BYTES", "size of a body (300)", .min = BENCH_SIZE_MIN,
                       .max = 1 << 20),
    [AT_CLIENTS] = OPTION(COUNT, "clients", "N", "number of senders and of workers (8)", .min = 1,
                          .max = BENCH_CLIENTS_MAX),
    [AT_BATCH] = OPTION(COUNT, "batch", "N", "messages per call, in bulk and drain (100)", .min = 1,
                        .max = 10000),
    [AT_PROCESSES] = OPTION(COUNT, "processes", "N",
                            "processes that share the clients (1; cycle also 8,\n"
                            "paced also 2)",
                            .min = 1, .max = BENCH_PROCESSES_MAX),
};

struct bench {
    const struct cli *cli;
    struct bench_settings settings; // settings.messages is for bulk
    uint32_t processes;             // 0: the default of each workload
    const char *dir;                // NULL if the store is not a directory
    bool dir_is_ours;
    double disk_us;
    // Median time of a PUT before and after the last workload; 0 if the store is not a bucket.
    double put_us;
    char problem[BENCH_PROBLEM_MAX];
};

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *ftw)
{
    (void)s, (void)kind, (void)ftw;
    return remove(path);
}

static void place_done(struct bench *b)
{
    if (b->dir_is_ours) (void)nftw(b->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool place_init(struct bench *b)
{
    const char *url = b->cli->store;
    if (b->cli->store_given) {
        b->settings.place = url;
        b->dir = place_path(url);
        return true;
    }
    const char *base = getenv("TMPDIR");
    char *dir = NULL;
    if (asprintf(&dir, "%s/sluice-bench-XXXXXX", base && *base ? base : "/var/tmp") < 0 ||
        !mkdtemp(dir))
        return false;
    b->settings.place = b->dir = dir; // used until the program ends
    b->dir_is_ours = true;
    return true;
}

static void print_head(const struct bench *b)
{
    if (b->cli->json) return;
    const struct bench_settings *s = &b->settings;
    printf("%s: %zu-byte bodies, %" PRIu32 " clients, batches of %" PRIu32
           ", %ld cores, load %.2f\n",
           s->place, s->size, s->clients, s->batch, sysconf(_SC_NPROCESSORS_ONLN),
           bench_load_average());
    if (b->disk_us > 0)
        printf("bare pwrite + fdatasync here: p50 %.0f us%s\n", b->disk_us,
               bench_dir_is_durable(b->dir) ? "" : " (a file system in memory: not durable)");
    printf("\n%-12s %9s %10s %12s %10s %10s %10s  %s\n", "WORKLOAD", "PROCESSES", "MESSAGES",
           "PER SECOND", "P50 US", "P99 US", "P99.9 US", "TIME OF");
    (void)fflush(stdout);
}

static double per_message(const struct bench_figure *f, uint64_t requests)
{
    return (double)requests / (double)f->messages;
}

static void print_figure(const struct bench *b, const char *name, const char *of,
                         const struct bench_settings *s, const struct bench_figure *f)
{
    if (!b->cli->json) {
        printf("%-12s %9" PRIu32 " %10" PRIu64 " %12.0f %10.0f %10.0f %10.0f  %s\n", name,
               s->processes, f->messages, f->per_second, f->p50_us, f->p99_us, f->p999_us, of);
        if (f->requests.all > 0)
            printf("%-12s %.4f requests per message, %.4f PUT per message\n", "",
                   per_message(f, f->requests.all), per_message(f, f->requests.puts));
        if (b->put_us > 0)
            printf("%-12s a bare PUT before and after: p50 %.0f us; the p50 above is %.2f times "
                   "that\n",
                   "", b->put_us, f->p50_us / b->put_us);
    } else {
        struct json *o = json_new();
        json_text(o, "workload", name);
        json_number(o, "processes", s->processes);
        json_number(o, "messages", (int64_t)f->messages);
        json_number(o, "size", (int64_t)s->size);
        json_number(o, "clients", s->clients);
        json_number(o, "batch", s->batch);
        json_number(o, "perSecond", (int64_t)f->per_second);
        json_number(o, "p50Us", (int64_t)f->p50_us);
        json_number(o, "p99Us", (int64_t)f->p99_us);
        json_number(o, "p999Us", (int64_t)f->p999_us);
        json_number(o, "missing", (int64_t)f->missing);
        json_number(o, "repeated", (int64_t)f->repeated);
        json_number(o, "diskP50Us", (int64_t)b->disk_us);
        if (b->put_us > 0) json_number(o, "putP50Us", (int64_t)b->put_us);
        json_number(o, "loadPercent", (int64_t)(bench_load_average() * 100));
        if (f->requests.all > 0) {
            json_fraction(o, "requestsPerMessage", per_message(f, f->requests.all));
            json_fraction(o, "putsPerMessage", per_message(f, f->requests.puts));
        }
        json_print(o, stdout);
    }
    (void)fflush(stdout);
}

struct part {
    enum bench_load load;
    const char *name;
    const char *of;
    uint64_t divisor;   // of --messages
    uint32_t processes; // without --processes
    const char *workload;
    bool extra; // a second figure, omitted with --processes
};

static const struct part parts[] = {
    {LOAD_SEND, "bulk-send", "a batch", 1, 1, "bulk", false},
    {LOAD_DRAIN, "bulk-drain", "receive and ack of a batch", 1, 1, "bulk", false},
    {LOAD_CYCLE, "cycle", "send, receive and ack", CYCLE_PART, 1, "cycle", false},
    {LOAD_CYCLE, "cycle", "send, receive and ack", CYCLE_PART, MANY_PROCESSES, "cycle", true},
    {LOAD_PACED, "paced", "send to handler", PACED_PART, 1, "paced", false},
    {LOAD_PACED, "paced", "send to handler", PACED_PART, 2, "paced", true},
};

// Measures a PUT to the bucket now. It includes the effect of other load on the machine.
static double bare_put_us(const struct bench *b)
{
    struct sluice *store = NULL;
    double us = 0;
    if (!place_is(b->settings.place, PLACE_BUCKET)) return 0;
    if (sluice_open(b->settings.place, NULL, &store, NULL) != SLUICE_OK) return 0;
    if (sluice_measure(store, b->settings.size, &us, NULL) != SLUICE_OK) us = 0;
    sluice_close(store);
    return us;
}

static int run_part(struct bench *b, const struct part *p)
{
    struct bench_settings s = b->settings;
    struct bench_figure f;
    char queue[48];
    (void)snprintf(queue, sizeof queue, "bench-%s-%ld", p->workload, (long)getpid());
    s.queue = queue;
    s.messages = s.messages / p->divisor > 0 ? s.messages / p->divisor : 1;
    s.processes = b->processes > 0 ? b->processes : p->processes;
    double before_us = bare_put_us(b);
    if (!bench_run(&bench_sluice, &s, p->load, &f, b->problem))
        return cli_fail_as(b->cli, SLUICE_UNAVAILABLE, "", "%s: %s", p->name, b->problem);
    b->put_us = (before_us + bare_put_us(b)) / 2;
    print_figure(b, p->name, p->of, &s, &f);
    if (f.missing == 0 && f.repeated == 0) return 0;
    return cli_fail_as(b->cli, SLUICE_CORRUPT, "",
                       "%s: %" PRIu64 " messages were never received, %" PRIu64
                       " were received twice",
                       p->name, f.missing, f.repeated);
}

// Deletes the queues of the benchmark, because a given store may have other users.
static void clean_up(struct bench *b)
{
    struct sluice *store = NULL;
    if (!b->dir_is_ours && sluice_open(b->settings.place, NULL, &store, NULL) == SLUICE_OK) {
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            char queue[48];
            (void)snprintf(queue, sizeof queue, "bench-%s-%ld", parts[i].workload, (long)getpid());
            (void)sluice_queue_delete(store, queue, NULL);
        }
        sluice_close(store);
    }
    place_done(b);
}

static bool is_known(const char *workload)
{
    bool known = strcmp(workload, "all") == 0;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        known |= strcmp(workload, parts[i].workload) == 0;
    return known;
}

static int64_t or_default(const struct cli_value *v, int64_t otherwise)
{
    return v->given ? v->number : otherwise;
}

// Runs the workloads that were asked for; `b` has the settings.
static int measure(struct bench *b, const char *workload)
{
    if (!place_init(b))
        return cli_fail_as(b->cli, SLUICE_UNAVAILABLE, "TMPDIR", "cannot create a directory: %s",
                           strerror(errno));
    if (b->dir && b->dir_is_ours) b->disk_us = bench_disk_us(b->dir, b->settings.size);
    if (b->dir && !b->dir_is_ours && access(b->dir, W_OK) == 0)
        b->disk_us = bench_disk_us(b->dir, b->settings.size);
    print_head(b);
    int status = 0;
    for (size_t i = 0; i < COUNT_OF(parts) && status == 0; i++) {
        bool wanted = strcmp(workload, "all") == 0 || strcmp(workload, parts[i].workload) == 0;
        if (wanted && !(parts[i].extra && b->processes > 0)) status = run_part(b, &parts[i]);
    }
    clean_up(b);
    return status;
}

// Wrong settings are refused before anything is measured.
static int check_settings(const struct cli *cli, const struct settings *settings)
{
    struct sluice *s = NULL;
    struct sluice_error error = {0};
    enum sluice_code code = sluice_open("mem:", NULL, &s, &error);
    if (!code) code = sluice_queue_create(s, "bench", settings->rows, settings->len, &error);
    sluice_close(s);
    return code ? cli_fail(cli, &error) : 0;
}

static int run_bench(const struct cli *cli, const struct arguments *args)
{
    const struct cli_value *v = args->options;
    const char *workload = v[AT_WORKLOAD].given ? v[AT_WORKLOAD].texts[0] : "all";
    if (!is_known(workload))
        return cli_usage(cli, "--workload",
                         "--workload \"%s\" is not one of bulk, cycle, paced, all", workload);
    struct settings settings;
    int status = settings_read(cli, args->words, args->words_len, NULL, &settings);
    if (status == 0) status = check_settings(cli, &settings);
    if (status != 0) {
        settings_done(&settings);
        return status;
    }
    struct bench b = {.cli = cli, .processes = (uint32_t)or_default(&v[AT_PROCESSES], 0)};
    b.settings =
        (struct bench_settings){.messages = (uint64_t)or_default(&v[AT_MESSAGES], MESSAGES_DEFAULT),
                                .size = (size_t)or_default(&v[AT_SIZE], SIZE_DEFAULT),
                                .clients = (uint32_t)or_default(&v[AT_CLIENTS], CLIENTS_DEFAULT),
                                .batch = (uint32_t)or_default(&v[AT_BATCH], BATCH_DEFAULT),
                                .queue_settings = settings.rows,
                                .queue_settings_len = settings.len};
    status = measure(&b, workload);
    settings_done(&settings);
    return cli_end(cli, status);
}

const struct command command_bench = {
    .name = "bench",
    .words = "[KEY=VALUE]...",
    .summary = "Measures throughput and latency on this machine",
    .details = "bulk: all clients send batches, then as many workers receive and acknowledge\n"
               "them.\n"
               "cycle: each client repeatedly sends a message, receives one and acks it.\n"
               "paced: 100 messages per second; measures the time from send to handler.\n"
               "\n"
               "Every answer is durable. For comparison, bench prints the cost of a durable\n"
               "write in the same directory. Without --store it uses a directory under TMPDIR\n"
               "or /var/tmp and removes it. KEY=VALUE are settings of the queue it creates.",
    OPTIONS(options),
    .run = run_bench,
};
