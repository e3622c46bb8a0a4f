// SPDX-License-Identifier: Apache-2.0
// Many workers on one queue of a node, each with a connection of its own: every message must be
// processed once. The duplicates are counted and printed, and so is how fast it went.
//   workers SLUICE [--workers N] [--messages N] [--processes N] [--register]
// With --register each worker joins first. The queue has version 4 of the rules in both cases.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "load.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS_MAX   2000
#define PROCESSES_MAX 64
#define SEND_BATCH    50
#define WAIT_MS       1000
#define BODY_BYTES    300

// What all processes see. A row for each message.
struct table {
    _Atomic uint64_t next; // to be sent
    _Atomic uint64_t acked;
    _Atomic int64_t last_ms; // when the last one was
    _Atomic uint64_t ready;  // processes
    _Atomic uint64_t faults;
    char fault[500];
    struct {
        _Atomic uint8_t sent;
        _Atomic uint8_t received;
        _Atomic uint8_t acked;
    } rows[];
};

struct settings {
    uint32_t workers;
    uint32_t processes;
    uint64_t messages;
    bool registers;
    const char *url;
    struct table *table;
};

struct worker {
    const struct settings *settings;
    struct sluice *node;
    pthread_t thread;
    char name[32];
};

static bool is_ok(struct table *t, const char *what, enum sluice_code code,
                  const struct sluice_error *error)
{
    if (code == SLUICE_OK) return true;
    if (atomic_fetch_add(&t->faults, 1) == 0)
        (void)snprintf(t->fault, sizeof t->fault, "%s answers %s: %s", what, sluice_code_name(code),
                       error->message);
    return false;
}

static bool goes_on(const struct settings *s)
{
    return atomic_load(&s->table->faults) == 0;
}

static bool send_some(const struct settings *s, struct sluice *node, uint64_t first, size_t len)
{
    static char bodies[SEND_BATCH][BODY_BYTES];
    struct sluice_send sends[SEND_BATCH];
    struct sluice_error error;
    for (size_t i = 0; i < len; i++) {
        uint64_t number = first + i;
        memcpy(bodies[i], &number, sizeof number);
        sends[i] = (struct sluice_send){.body = bodies[i], .body_len = BODY_BYTES};
    }
    if (!is_ok(s->table, "send", sluice_send(node, LOAD_QUEUE, sends, len, NULL, NULL, &error),
               &error))
        return false;
    for (size_t i = 0; i < len; i++)
        atomic_fetch_add(&s->table->rows[first + i].sent, 1);
    return true;
}

static void send_all(const struct settings *s, struct sluice *node)
{
    while (goes_on(s)) {
        uint64_t first = atomic_fetch_add(&s->table->next, SEND_BATCH);
        if (first >= s->messages) return;
        uint64_t left = s->messages - first;
        if (!send_some(s, node, first, left < SEND_BATCH ? (size_t)left : SEND_BATCH)) return;
    }
}

static bool work_on(const struct worker *w, const struct sluice_message *m)
{
    struct table *t = w->settings->table;
    struct sluice_error error;
    uint64_t number = UINT64_MAX;
    if (m->body_len == BODY_BYTES) memcpy(&number, m->body, sizeof number);
    if (number >= w->settings->messages) {
        struct sluice_error strange = {.message = "a body that was not sent"};
        return is_ok(t, "receive", SLUICE_CORRUPT, &strange);
    }
    atomic_fetch_add(&t->rows[number].received, 1);
    const char *token = m->token;
    if (!is_ok(t, "ack", sluice_ack(w->node, LOAD_QUEUE, &token, 1, NULL, &error), &error))
        return false;
    atomic_fetch_add(&t->rows[number].acked, 1);
    if (atomic_fetch_add(&t->acked, 1) + 1 == w->settings->messages)
        atomic_store(&t->last_ms, load_now_ms());
    return true;
}

static void *worker_main(void *ctx)
{
    struct worker *w = ctx;
    const struct settings *s = w->settings;
    struct sluice_join join = {.worker = w->name, .capacity = 1, .labels = "kind=load"};
    struct sluice_error why;
    if (s->registers &&
        !is_ok(s->table, "join", sluice_worker_join(w->node, LOAD_QUEUE, &join, &why), &why))
        return NULL;
    while (goes_on(s) && atomic_load(&s->table->acked) < s->messages) {
        struct sluice_receive r = {.worker = w->name, .wait_ms = WAIT_MS, .visibility_ms = 120000};
        struct sluice_batch *b = NULL;
        struct sluice_error error;
        enum sluice_code code = sluice_receive(w->node, LOAD_QUEUE, &r, &b, &error);
        bool ok = is_ok(s->table, "receive", code, &error);
        for (size_t i = 0; ok && i < b->len; i++)
            ok = work_on(w, &b->messages[i]);
        sluice_batch_free(b);
    }
    return NULL;
}

// All processes have the node open before the first message is sent.
static void wait_for_others(const struct settings *s)
{
    atomic_fetch_add(&s->table->ready, 1);
    while (goes_on(s) && atomic_load(&s->table->ready) < s->processes)
        load_nap_ms(1);
}

static int process(const struct settings *s, uint32_t which)
{
    static struct worker workers[WORKERS_MAX];
    struct sluice *node = NULL;
    struct sluice_error error;
    if (!is_ok(s->table, "open", sluice_open(s->url, NULL, &node, &error), &error)) return 1;
    wait_for_others(s);
    uint32_t len = 0;
    for (uint32_t i = which; i < s->workers; i += s->processes) {
        struct worker *w = &workers[len];
        *w = (struct worker){.settings = s, .node = node};
        (void)snprintf(w->name, sizeof w->name, "worker-%" PRIu32, i);
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) break;
        len++;
    }
    send_all(s, node);
    for (uint32_t i = 0; i < len; i++)
        (void)pthread_join(workers[i].thread, NULL);
    sluice_close(node);
    return 0;
}

static bool run_processes(const struct settings *s)
{
    pid_t pids[PROCESSES_MAX];
    pid_t parent = getpid();
    (void)fflush(NULL);
    for (uint32_t i = 0; i < s->processes; i++) {
        pids[i] = fork();
        if (pids[i] != 0) continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        _exit(process(s, i));
    }
    bool ok = true;
    for (uint32_t i = 0; i < s->processes; i++) {
        int status = 1;
        ok = waitpid(pids[i], &status, 0) == pids[i] && status == 0 && ok;
    }
    return ok;
}

// took_ms: 0 when it did not come to its end.
static void decide(struct load *l, const struct settings *s, int64_t took_ms)
{
    uint64_t lost = 0, doubled = 0;
    for (uint64_t i = 0; i < s->messages; i++) {
        lost += s->table->rows[i].sent != 1 || s->table->rows[i].acked == 0;
        doubled += s->table->rows[i].received > 1 || s->table->rows[i].acked > 1;
    }
    double rate = took_ms > 0 ? (double)s->messages * 1000 / (double)took_ms : 0;
    printf("# %" PRIu32 " %sworkers in %" PRIu32 " processes, %" PRIu64 " messages: %.0f a second, "
           "%" PRIu64 " duplicates, load %.2f\n",
           s->workers, s->registers ? "registered " : "", s->processes, s->messages, rate, doubled,
           load_average());
    load_case(l, "every message is processed", lost == 0, "%" PRIu64 " are not", lost);
    load_case(l, "no message is processed twice", doubled == 0, "%" PRIu64 " are", doubled);
}

static void check_queue(struct load *l, const struct settings *s)
{
    struct sluice *node = NULL;
    struct sluice_stats stats = {0};
    if (sluice_open(s->url, NULL, &node, NULL) == SLUICE_OK)
        (void)sluice_stats(node, LOAD_QUEUE, &stats, NULL);
    sluice_close(node);
    load_case(l, "the queue agrees", stats.sent == s->messages && stats.processed == s->messages,
              "%" PRIu64 " sent, %" PRIu64 " processed", stats.sent, stats.processed);
}

static void upgrade(struct load *l, const struct settings *s)
{
    struct sluice *node = NULL;
    struct sluice_upgrade done;
    struct sluice_error error = {.message = ""};
    bool ok =
        sluice_open(s->url, NULL, &node, &error) == SLUICE_OK &&
        sluice_queue_upgrade(node, LOAD_QUEUE, SLUICE_UPGRADE_FORCE, &done, &error) == SLUICE_OK;
    sluice_close(node);
    load_case(l, "the queue has the newest rules", ok, "%s", error.message);
}

static void run(struct load *l, struct settings *s)
{
    s->url = l->node.url;
    upgrade(l, s);
    int64_t start = load_now_ms();
    bool ended = run_processes(s);
    int64_t last = atomic_load(&s->table->last_ms);
    load_case(l, "every call answers as it should", ended && atomic_load(&s->table->faults) == 0,
              "%s", s->table->fault);
    decide(l, s, last > start ? last - start : 0);
    check_queue(l, s);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"workers", required_argument, NULL, 'w'},
                                          {"messages", required_argument, NULL, 'n'},
                                          {"processes", required_argument, NULL, 'p'},
                                          {"register", no_argument, NULL, 'r'},
                                          {0}};
    struct settings s = {.workers = 200, .processes = 4, .messages = 5000};
    struct load l = {0};
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (o == 'w') s.workers = (uint32_t)atoi(optarg);
        if (o == 'n') s.messages = strtoull(optarg, NULL, 10);
        if (o == 'p') s.processes = (uint32_t)atoi(optarg);
        if (o == 'r') s.registers = true;
        if (o == '?') return 2;
    }
    if (optind + 1 != argc || s.workers < 1 || s.workers > WORKERS_MAX || s.processes < 1 ||
        s.processes > PROCESSES_MAX || s.messages < 1)
        return 2;
    size_t bytes = sizeof *s.table + s.messages * sizeof s.table->rows[0];
    s.table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.table == MAP_FAILED) return 2;
    if (load_start(&l, argv[optind])) run(&l, &s);
    return load_end(&l);
}
