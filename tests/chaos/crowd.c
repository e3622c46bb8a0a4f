// SPDX-License-Identifier: Apache-2.0
// Processes that all write to one queue of a bucket directly, with no owner to order them: each
// sends, receives and acks one message after the other. Everything must come exactly once; how long
// a cycle takes, and how many PUTs a commit, is printed.
//   crowd [--processes N] [--cycles N]    under tests/servers/with-radosgw
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "fault_proxy.h"

#include <sluice.h>

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 64
#define CYCLES_MAX    1000
#define QUEUE         "crowd"
#define PATIENCE_MS   120000 // how fast it goes is printed; no speed is promised

static const struct sluice_options patient = {.timeout_ms = PATIENCE_MS};

// What all processes see.
struct table {
    char endpoint[64];
    char store[200];
    _Atomic uint64_t faults;
    char fault[500];
    _Atomic uint8_t received[PROCESSES_MAX * CYCLES_MAX];
    _Atomic uint8_t acked[PROCESSES_MAX * CYCLES_MAX];
    int64_t cycle_us[PROCESSES_MAX * CYCLES_MAX];
};

struct crowd {
    uint32_t processes;
    uint32_t cycles;
    struct table *table;
    int gate[2]; // closed when all may start
    int cases;
    int failed;
};

static int64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static bool is_ok(struct table *t, const char *what, enum sluice_code code,
                  const struct sluice_error *error)
{
    if (code == SLUICE_OK) return true;
    if (atomic_fetch_add(&t->faults, 1) == 0)
        (void)snprintf(t->fault, sizeof t->fault, "%s answers %s: %s", what, sluice_code_name(code),
                       error->message);
    return false;
}

// Receives whatever is next, which need not be what was sent, and acks it.
static bool receive_and_ack(struct crowd *c, struct sluice *s)
{
    struct table *t = c->table;
    struct sluice_error error;
    struct sluice_batch *b = NULL;
    struct sluice_receive r = {.wait_ms = PATIENCE_MS, .visibility_ms = 4 * PATIENCE_MS};
    if (!is_ok(t, "receive", sluice_receive(s, QUEUE, &r, &b, &error), &error)) return false;
    bool ok = b->len == 1;
    uint32_t number = 0;
    if (ok) {
        memcpy(&number, b->messages[0].body, sizeof number);
        atomic_fetch_add(&t->received[number], 1);
        const char *token = b->messages[0].token;
        ok = is_ok(t, "ack", sluice_ack(s, QUEUE, &token, 1, NULL, &error), &error);
        if (ok) atomic_fetch_add(&t->acked[number], 1);
    }
    sluice_batch_free(b);
    return ok;
}

static bool cycle(struct crowd *c, struct sluice *s, uint32_t number)
{
    struct table *t = c->table;
    struct sluice_error error;
    char body[300] = {0};
    memcpy(body, &number, sizeof number);
    struct sluice_send send = {.body = body, .body_len = sizeof body};
    int64_t start = now_us();
    bool ok = is_ok(t, "send", sluice_send(s, QUEUE, &send, 1, NULL, NULL, &error), &error) &&
              receive_and_ack(c, s);
    t->cycle_us[number] = now_us() - start;
    return ok;
}

static int member(struct crowd *c, uint32_t which)
{
    char byte;
    (void)close(c->gate[1]);
    while (read(c->gate[0], &byte, 1) > 0)
        continue;
    (void)setenv("AWS_ENDPOINT_URL_S3", c->table->endpoint, 1);
    struct sluice *s = NULL;
    struct sluice_error error;
    bool ok = is_ok(c->table, "open", sluice_open(c->table->store, &patient, &s, &error), &error);
    for (uint32_t i = 0; ok && i < c->cycles; i++)
        ok = cycle(c, s, which * c->cycles + i);
    sluice_close(s);
    return ok ? 0 : 1;
}

static void report(struct crowd *c, const char *name, bool ok, const char *detail)
{
    c->cases++;
    c->failed += !ok;
    printf("%sok %d - %s\n", ok ? "" : "not ", c->cases, name);
    if (!ok && *detail) printf("# %s\n", detail);
}

static void gather(struct crowd *c, pid_t *members)
{
    pid_t parent = getpid();
    for (uint32_t i = 0; i < c->processes; i++) {
        members[i] = fork();
        if (members[i] != 0) continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        _exit(member(c, i));
    }
    (void)close(c->gate[0]);
}

static bool wait_for_all(const struct crowd *c, const pid_t *members)
{
    bool ok = true;
    for (uint32_t i = 0; i < c->processes; i++) {
        int status = 1;
        ok = waitpid(members[i], &status, 0) == members[i] && status == 0 && ok;
    }
    return ok;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void tell(struct crowd *c, const struct fault_proxy *proxy, uint64_t puts,
                 const struct sluice_stats *stats, int64_t took_us)
{
    size_t n = (size_t)c->processes * c->cycles;
    qsort(c->table->cycle_us, n, sizeof c->table->cycle_us[0], compare);
    puts = proxy_requests(proxy, "PUT") - puts;
    printf("# %" PRIu32 " processes, %zu cycles, %.0f a second: p50 %.1f ms, p99 %.1f ms\n",
           c->processes, n, (double)n * 1e6 / (double)took_us,
           (double)c->table->cycle_us[n / 2] / 1000,
           (double)c->table->cycle_us[n * 99 / 100] / 1000);
    printf("# %" PRIu64 " PUTs for %" PRIu64 " commits: %.2f PUTs per commit, %.2f per message; "
           "%" PRIu64 " requests in all\n",
           puts, stats->entries, (double)puts / (double)stats->entries, (double)puts / (double)n,
           proxy_requests(proxy, NULL));
}

static void decide(struct crowd *c, const struct sluice_stats *stats)
{
    uint32_t lost = 0, doubled = 0;
    uint32_t n = c->processes * c->cycles;
    char detail[100];
    for (uint32_t i = 0; i < n; i++) {
        lost += atomic_load(&c->table->acked[i]) == 0;
        doubled += atomic_load(&c->table->received[i]) > 1;
    }
    (void)snprintf(detail, sizeof detail, "%" PRIu32 " of %" PRIu32, lost, n);
    report(c, "nothing is lost", lost == 0, detail);
    (void)snprintf(detail, sizeof detail, "%" PRIu32 " of %" PRIu32, doubled, n);
    report(c, "nothing comes twice", doubled == 0, detail);
    report(c, "the queue agrees", stats->sent == n && stats->processed == n, "");
}

static void run(struct crowd *c, struct sluice *s, const struct fault_proxy *proxy, pid_t *members)
{
    struct sluice_error error = {.message = ""};
    bool made = sluice_queue_create(s, QUEUE, NULL, 0, &error) == SLUICE_OK;
    report(c, "the queue can be made", made, error.message);
    uint64_t puts = proxy_requests(proxy, "PUT");
    int64_t start = now_us();
    (void)close(c->gate[1]);
    bool all = wait_for_all(c, members);
    int64_t took = now_us() - start;
    report(c, "every call answers as it should", all && atomic_load(&c->table->faults) == 0,
           c->table->fault);
    struct sluice_stats stats = {0};
    (void)sluice_stats(s, QUEUE, &stats, NULL);
    decide(c, &stats);
    tell(c, proxy, puts, &stats, took);
}

static int crowd(struct crowd *c)
{
    pid_t members[PROCESSES_MAX];
    const char *url = getenv("SLUICE_TEST_S3");
    const char *endpoint = getenv("AWS_ENDPOINT_URL_S3");
    c->table =
        mmap(NULL, sizeof *c->table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->table == MAP_FAILED || pipe(c->gate) != 0 || !url || !endpoint) return 2;
    gather(c, members); // while there is one thread
    struct fault_proxy *proxy = proxy_start(endpoint, 1);
    if (!proxy) return 2;
    (void)snprintf(c->table->endpoint, sizeof c->table->endpoint, "%s", proxy_url(proxy));
    (void)snprintf(c->table->store, sizeof c->table->store, "%s/crowd-%d", url, (int)getpid());
    (void)setenv("AWS_ENDPOINT_URL_S3", proxy_url(proxy), 1);
    struct sluice *s = NULL;
    struct sluice_error error = {.message = ""};
    bool opened = sluice_open(c->table->store, &patient, &s, &error) == SLUICE_OK;
    report(c, "the bucket can be opened", opened, error.message);
    if (opened) run(c, s, proxy, members);
    sluice_close(s);
    proxy_stop(proxy);
    printf("1..%d\n", c->cases);
    return c->failed > 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"processes", required_argument, NULL, 'p'}, {"cycles", required_argument, NULL, 'c'}, {0}};
    static struct crowd c = {.processes = 20, .cycles = 15};
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (o == 'p') c.processes = (uint32_t)atoi(optarg);
        if (o == 'c') c.cycles = (uint32_t)atoi(optarg);
        if (o == '?') return 2;
    }
    if (c.processes < 1 || c.processes > PROCESSES_MAX || c.cycles < 1 || c.cycles > CYCLES_MAX)
        return 2;
    return crowd(&c);
}
