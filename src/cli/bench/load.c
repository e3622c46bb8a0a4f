// SPDX-License-Identifier: Apache-2.0
// Runs one workload. It forks processes, and each opens the queue and runs its share of the clients
// as threads. They write their results to one shared memory map.
#include "cli/bench/load.h"

#include <errno.h>
#include <pthread.h>
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

#define WAIT_MS  200
#define NS_PER_S 1000000000LL

struct shared_results {
    _Atomic uint32_t ready;  // processes that have opened the queue
    _Atomic uint32_t failed; // greater than 0 if a process wrote problem
    _Atomic uint64_t next;   // number of the next message to send
    _Atomic uint64_t done;   // messages received and acked
    _Atomic uint64_t samples_len;
    _Atomic int64_t first_ns;
    _Atomic int64_t last_ns;
    _Atomic uint64_t requests;
    _Atomic uint64_t puts;
    char problem[BENCH_PROBLEM_MAX];
};

struct workload {
    const struct bench_target *target;
    const struct bench_settings *settings;
    enum bench_load load;
    struct shared_results *results;
    int64_t *samples;      // shared; at most one row per message
    _Atomic uint8_t *seen; // shared; how often each message was received
    size_t shared_len;
    void *handle;
};

struct bench_client {
    struct workload *workload;
    pthread_t thread;
    uint32_t number;
    bool paces;
    char problem[BENCH_PROBLEM_MAX];
};

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void fail(struct workload *t, const char *problem)
{
    if (atomic_fetch_add(&t->results->failed, 1) == 0)
        (void)snprintf(t->results->problem, sizeof t->results->problem, "%s", problem);
}

static bool goes_on(struct workload *t)
{
    return atomic_load(&t->results->failed) == 0;
}

static void stamp(_Atomic int64_t *at, int64_t ns, bool earliest)
{
    int64_t had = atomic_load(at);
    while ((had == 0 || (earliest ? ns < had : ns > had)) &&
           !atomic_compare_exchange_weak(at, &had, ns))
        continue;
}

// Records a piece of work. Its end also extends the measured time.
static void sample(struct workload *t, int64_t ns)
{
    stamp(&t->results->last_ns, now_ns(), false);
    uint64_t at = atomic_fetch_add(&t->results->samples_len, 1);
    if (at < t->settings->messages) t->samples[at] = ns;
}

static void body_write(const struct workload *t, char *body, uint64_t number)
{
    int64_t now = now_ns();
    memcpy(body, &number, sizeof number);
    memcpy(body + sizeof number, &now, sizeof now);
    uint64_t x = number * 0x9e3779b97f4a7c15ULL + 1; // incompressible bytes
    for (size_t i = BENCH_SIZE_MIN; i < t->settings->size; i += sizeof x) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t left = t->settings->size - i;
        memcpy(body + i, &x, left < sizeof x ? left : sizeof x);
    }
}

static void note_received(struct workload *t, const struct bench_batch *got)
{
    for (size_t i = 0; i < got->len; i++) {
        uint64_t number;
        memcpy(&number, got->bodies[i], sizeof number);
        if (number < t->settings->messages) atomic_fetch_add(&t->seen[number], 1);
    }
}

static bool run_send(struct bench_client *c, void *link)
{
    struct workload *t = c->workload;
    const struct bench_settings *s = t->settings;
    char *bodies = malloc(s->size * s->batch);
    bool ok = bodies != NULL;
    while (ok && goes_on(t)) {
        uint64_t first = atomic_fetch_add(&t->results->next, s->batch);
        if (first >= s->messages) break;
        size_t count = s->messages - first < s->batch ? (size_t)(s->messages - first) : s->batch;
        for (size_t i = 0; i < count; i++)
            body_write(t, bodies + i * s->size, first + i);
        int64_t start = now_ns();
        ok = t->target->send(link, bodies, count, c->problem);
        sample(t, now_ns() - start);
    }
    free(bodies);
    return ok;
}

static bool run_drain(struct bench_client *c, void *link)
{
    struct workload *t = c->workload;
    struct bench_batch got;
    while (goes_on(t) && atomic_load(&t->results->done) < t->settings->messages) {
        int64_t start = now_ns();
        if (!t->target->receive(link, t->settings->batch, WAIT_MS, &got, c->problem)) return false;
        if (got.len == 0) continue;
        note_received(t, &got);
        if (!t->target->ack(link, c->problem)) return false;
        sample(t, now_ns() - start);
        atomic_fetch_add(&t->results->done, got.len);
    }
    return true;
}

static bool run_cycle(struct bench_client *c, void *link)
{
    struct workload *t = c->workload;
    struct bench_batch got = {0};
    char *body = malloc(t->settings->size);
    bool ok = body != NULL;
    while (ok && goes_on(t)) {
        uint64_t number = atomic_fetch_add(&t->results->next, 1);
        if (number >= t->settings->messages) break;
        body_write(t, body, number);
        int64_t start = now_ns();
        ok = t->target->send(link, body, 1, c->problem);
        for (got.len = 0; ok && got.len == 0 && goes_on(t);)
            ok = t->target->receive(link, 1, WAIT_MS, &got, c->problem);
        if (ok) note_received(t, &got);
        ok = ok && t->target->ack(link, c->problem);
        sample(t, now_ns() - start);
    }
    free(body);
    return ok;
}

static bool run_pacer(struct bench_client *c, void *link)
{
    struct workload *t = c->workload;
    char *body = malloc(t->settings->size);
    bool ok = body != NULL;
    int64_t start = now_ns();
    for (uint64_t n = 0; ok && goes_on(t) && n < t->settings->messages; n++) {
        int64_t at = start + (int64_t)n * NS_PER_S / BENCH_PACE_PER_S;
        struct timespec until = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            continue;
        body_write(t, body, n);
        ok = t->target->send(link, body, 1, c->problem);
    }
    free(body);
    return ok;
}

static bool run_paced(struct bench_client *c, void *link)
{
    struct workload *t = c->workload;
    struct bench_batch got;
    while (goes_on(t) && atomic_load(&t->results->done) < t->settings->messages) {
        if (!t->target->receive(link, 1, WAIT_MS, &got, c->problem)) return false;
        if (got.len == 0) continue;
        int64_t sent;
        memcpy(&sent, got.bodies[0] + sizeof(uint64_t), sizeof sent);
        sample(t, now_ns() - sent);
        note_received(t, &got);
        if (!t->target->ack(link, c->problem)) return false;
        atomic_fetch_add(&t->results->done, got.len);
    }
    return true;
}

static void *client_main(void *ctx)
{
    struct bench_client *c = ctx;
    struct workload *t = c->workload;
    void *link = t->target->link(t->handle, c->number, c->problem);
    bool ok = link != NULL;
    stamp(&t->results->first_ns, now_ns(), true);
    if (ok && t->load == LOAD_SEND) ok = run_send(c, link);
    if (ok && t->load == LOAD_DRAIN) ok = run_drain(c, link);
    if (ok && t->load == LOAD_CYCLE) ok = run_cycle(c, link);
    if (ok && t->load == LOAD_PACED) ok = c->paces ? run_pacer(c, link) : run_paced(c, link);
    if (!ok) fail(t, c->problem);
    if (link) t->target->unlink(link);
    return NULL;
}

static struct bench_requests requests_of(const struct workload *t)
{
    return t->target->requests ? t->target->requests(t->handle) : (struct bench_requests){0};
}

static void rise_to(_Atomic uint64_t *at, uint64_t value)
{
    uint64_t had = atomic_load(at);
    while (had < value && !atomic_compare_exchange_weak(at, &had, value))
        continue;
}

static void note_requests(struct workload *t, struct bench_requests before)
{
    struct bench_requests now = requests_of(t);
    uint64_t all = now.all - before.all, puts = now.puts - before.puts;
    if (now.shared) { // the process that ran longest has the largest sum
        rise_to(&t->results->requests, all);
        rise_to(&t->results->puts, puts);
    } else {
        atomic_fetch_add(&t->results->requests, all);
        atomic_fetch_add(&t->results->puts, puts);
    }
}

// All processes begin together. Returns false if one failed.
static bool wait_for_others(struct workload *t)
{
    atomic_fetch_add(&t->results->ready, 1);
    while (goes_on(t) && atomic_load(&t->results->ready) < t->settings->processes)
        (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return goes_on(t);
}

// Paced: with several processes, the sender is alone in the first.
static bool belongs(const struct workload *t, uint32_t client, uint32_t process)
{
    uint32_t processes = t->settings->processes;
    if (t->load != LOAD_PACED || processes == 1) return client % processes == process;
    return process > 0 && client % (processes - 1) == process - 1;
}

static void run_process(struct workload *t, uint32_t process)
{
    static struct bench_client clients[BENCH_CLIENTS_MAX + 1];
    char problem[BENCH_PROBLEM_MAX] = "";
    t->handle = t->target->open(t->settings, problem);
    if (!t->handle) {
        fail(t, problem);
        return;
    }
    uint32_t len = 0;
    if (wait_for_others(t)) {
        struct bench_requests before = requests_of(t); // the requests of opening do not count
        for (uint32_t i = 0; i < t->settings->clients; i++)
            if (belongs(t, i, process))
                clients[len++] = (struct bench_client){.workload = t, .number = i};
        if (t->load == LOAD_PACED && process == 0)
            clients[len++] =
                (struct bench_client){.workload = t, .number = t->settings->clients, .paces = true};
        for (uint32_t i = 0; i < len; i++)
            if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0) {
                fail(t, "cannot start a thread");
                len = i;
            }
        for (uint32_t i = 0; i < len; i++)
            (void)pthread_join(clients[i].thread, NULL);
        note_requests(t, before);
    }
    t->target->close(t->handle);
}

static bool workload_init(struct workload *t, char *problem)
{
    uint64_t messages = t->settings->messages;
    t->shared_len = sizeof *t->results + messages * (sizeof *t->samples + 1);
    void *page =
        mmap(NULL, t->shared_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        (void)snprintf(problem, BENCH_PROBLEM_MAX, "no memory for %llu samples",
                       (unsigned long long)messages);
        return false;
    }
    t->results = page;
    t->samples = (int64_t *)(void *)((char *)page + sizeof *t->results);
    t->seen = (_Atomic uint8_t *)(void *)(t->samples + messages);
    return true;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_us(const int64_t *sorted, uint64_t len, uint64_t per_mille)
{
    return len > 0 ? (double)sorted[(len - 1) * per_mille / 1000] / 1000 : 0;
}

static void sum_up(const struct workload *t, struct bench_figure *out)
{
    const struct shared_results *b = t->results;
    uint64_t len = b->samples_len < t->settings->messages ? b->samples_len : t->settings->messages;
    qsort(t->samples, len, sizeof *t->samples, by_size);
    *out = (struct bench_figure){.messages = t->settings->messages,
                                 .seconds = (double)(b->last_ns - b->first_ns) / 1e9,
                                 .p50_us = percentile_us(t->samples, len, 500),
                                 .p99_us = percentile_us(t->samples, len, 990),
                                 .p999_us = percentile_us(t->samples, len, 999),
                                 .requests = {b->requests, b->puts, false}};
    out->per_second = out->seconds > 0 ? (double)out->messages / out->seconds : 0;
    if (t->load == LOAD_SEND) return;
    for (uint64_t i = 0; i < t->settings->messages; i++) {
        out->missing += t->seen[i] == 0;
        out->repeated += t->seen[i] > 1;
    }
}

bool bench_run(const struct bench_target *target, const struct bench_settings *s,
               enum bench_load load, struct bench_figure *out, char problem[BENCH_PROBLEM_MAX])
{
    struct workload t = {.target = target, .settings = s, .load = load};
    pid_t children[BENCH_PROCESSES_MAX];
    uint32_t started = 0;
    if (!workload_init(&t, problem)) return false;
    (void)fflush(NULL);
    for (; started < s->processes && started < BENCH_PROCESSES_MAX; started++) {
        children[started] = fork();
        if (children[started] < 0) break;
        if (children[started] > 0) continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_process(&t, started);
        _exit(0);
    }
    if (started < s->processes) fail(&t, "cannot start the processes");
    for (uint32_t i = 0; i < started; i++) {
        int status = 0;
        while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
            continue;
        if (status != 0) fail(&t, "a process of the benchmark died");
    }
    bool ok = goes_on(&t);
    if (ok) sum_up(&t, out);
    if (!ok) memcpy(problem, t.results->problem, BENCH_PROBLEM_MAX);
    (void)munmap(t.results, t.shared_len);
    return ok;
}
