// SPDX-License-Identifier: Apache-2.0
// Measures signals with the library. tools/bench-signals starts the nodes and runs it.
//
//     bench-signals latency SENDER WORKER COUNT    from the sender's answer to the worker's handler
//     bench-signals renew URL LEASE_MS COUNT       the same for a worker that only renews
//     bench-signals rate URL JOBS SECONDS          signals to running jobs, delivered and answered
//     bench-signals wait URL JOBS SECONDS          jobs that wait for signals that do not come
//     bench-signals collect URL COUNT              the outcomes of so many messages
//
// SENDER, WORKER and URL name a store or nodes. It prints one line of JSON.
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"

#include <pthread.h>
#include <sluice.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE       "signals"
#define POLL_MS     20000
#define CLAIM_MAX   1000
#define COUNT_MAX   100000
#define LEASE_MS    600000
#define RESULT      "a result of some bytes"
#define PAYLOAD     "{\"speed\":2}"
#define WAITING_MAX 20000
#define SENDERS     4

struct jobs {
    char (*ids)[SLUICE_ID_MAX];
    char (*tokens)[SLUICE_TOKEN_MAX];
    const char **id_list;
    const char **token_list;
    size_t len;
};

static struct sluice *open_handle(const char *url)
{
    struct sluice *s = NULL;
    struct sluice_error error;
    if (sluice_open(url, NULL, &s, &error)) {
        (void)fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return s;
}

static void prepare(struct sluice *s)
{
    struct sluice_upgrade done;
    enum sluice_code code = sluice_queue_create(s, QUEUE, NULL, 0, NULL);
    CHECK(code == SLUICE_OK || code == SLUICE_CONFLICT);
    CHECK(sluice_queue_upgrade(s, QUEUE, SLUICE_UPGRADE_FORCE, &done, NULL) == SLUICE_OK);
}

static void send_jobs(struct sluice *s, size_t count)
{
    struct sluice_send *sends = memory_zeroed(CLAIM_MAX, sizeof *sends);
    for (size_t i = 0; i < CLAIM_MAX; i++)
        sends[i] = (struct sluice_send){.body = "job", .body_len = 3};
    for (size_t sent = 0; sent < count;) {
        size_t len = count - sent < CLAIM_MAX ? count - sent : CLAIM_MAX;
        CHECK(sluice_send(s, QUEUE, sends, len, NULL, NULL, NULL) == SLUICE_OK);
        sent += len;
    }
    memory_free(sends);
}

static void claim_jobs(struct sluice *s, struct jobs *jobs, size_t count, int64_t lease_ms)
{
    *jobs = (struct jobs){.ids = memory_zeroed(count, sizeof *jobs->ids),
                          .tokens = memory_zeroed(count, sizeof *jobs->tokens),
                          .id_list = memory_zeroed(count, sizeof *jobs->id_list),
                          .token_list = memory_zeroed(count, sizeof *jobs->token_list)};
    while (jobs->len < count) {
        struct sluice_batch *b = NULL;
        size_t max = count - jobs->len < CLAIM_MAX ? count - jobs->len : CLAIM_MAX;
        struct sluice_receive o = {
            .worker = "bench", .max = (uint32_t)max, .wait_ms = POLL_MS, .visibility_ms = lease_ms};
        CHECK(sluice_receive(s, QUEUE, &o, &b, NULL) == SLUICE_OK && b->len > 0);
        for (size_t i = 0; i < b->len; i++, jobs->len++) {
            memcpy(jobs->ids[jobs->len], b->messages[i].id, SLUICE_ID_MAX);
            memcpy(jobs->tokens[jobs->len], b->messages[i].token, SLUICE_TOKEN_MAX);
            jobs->id_list[jobs->len] = jobs->ids[jobs->len];
            jobs->token_list[jobs->len] = jobs->tokens[jobs->len];
        }
        sluice_batch_free(b);
    }
}

static void jobs_free(struct jobs *jobs)
{
    memory_free(jobs->ids);
    memory_free(jobs->tokens);
    memory_free(jobs->id_list);
    memory_free(jobs->token_list);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *what, double *ms, size_t len)
{
    qsort(ms, len, sizeof *ms, by_size);
    printf("{\"measured\":\"%s\",\"count\":%zu,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f}\n",
           what, len, ms[len / 2], ms[len * 99 / 100], ms[len - 1]);
}

// One signal after the other. The handler's time is taken when the poll returns.
struct handler {
    struct sluice *s;
    const struct jobs *jobs;
    size_t count;
    _Atomic int64_t *handled; // by number - 1
};

static void *handle_signals(void *ctx)
{
    const struct handler *h = ctx;
    for (size_t got = 0; got < h->count;) {
        struct sluice_signals *list = NULL;
        CHECK(sluice_signals_receive(h->s, QUEUE, h->jobs->token_list, 1, POLL_MS, &list, NULL) ==
              SLUICE_OK);
        int64_t at = clock_boot_ns();
        for (size_t i = 0; i < list->len; i++, got++) {
            struct sluice_signal_answer answer = {.token = h->jobs->tokens[0],
                                                  .number = list->rows[i].number};
            CHECK(list->rows[i].code == SLUICE_OK && answer.number <= h->count);
            atomic_store(&h->handled[answer.number - 1], at);
            CHECK(sluice_signals_ack(h->s, QUEUE, &answer, 1, NULL, NULL) == SLUICE_OK);
        }
        sluice_signals_free(list);
    }
    return NULL;
}

// Returns how many signals were refused because too many wait.
static size_t steer_some(struct sluice *s, const char *const *ids, size_t len)
{
    struct sluice_signal what = {.kind = "steer",
                                 .ids = ids,
                                 .ids_len = len,
                                 .payload = PAYLOAD,
                                 .payload_len = strlen(PAYLOAD)};
    struct sluice_signals *rows = NULL;
    struct sluice_error error = {.code = SLUICE_OK};
    size_t full = 0;
    enum sluice_code code = sluice_signal(s, QUEUE, &what, NULL, &rows, &error);
    for (size_t i = 0; rows && i < rows->len; i++)
        full += strcmp(rows->rows[i].reason, "signals-full") == 0;
    if (code && full == 0) {
        (void)fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    sluice_signals_free(rows);
    return full;
}

static void steer(struct sluice *s, const char *const *ids, size_t len)
{
    CHECK(steer_some(s, ids, len) == 0);
}

static void latency(const char *sender, const char *worker, size_t count)
{
    struct sluice *from = open_handle(sender), *to = open_handle(worker);
    struct jobs jobs;
    pthread_t thread;
    double *ms = memory_zeroed(count, sizeof *ms);
    prepare(from);
    send_jobs(from, 1);
    claim_jobs(to, &jobs, 1, LEASE_MS);
    struct handler h = {
        .s = to, .jobs = &jobs, .count = count, .handled = memory_zeroed(count, sizeof *h.handled)};
    CHECK(pthread_create(&thread, NULL, handle_signals, &h) == 0);
    for (size_t i = 0; i < count; i++) {
        steer(from, jobs.id_list, 1);
        int64_t answered = clock_boot_ns(), at;
        while ((at = atomic_load(&h.handled[i])) == 0)
            clock_sleep(1);
        ms[i] = at > answered ? (double)(at - answered) / 1e6 : 0; // it can come before the answer
    }
    (void)pthread_join(thread, NULL);
    print_times("signal", ms, count);
    jobs_free(&jobs);
    memory_free(ms);
    memory_free((void *)h.handled);
    sluice_close(from);
    sluice_close(to);
}

static void *send_one_late(void *ctx)
{
    const struct handler *h = ctx;
    clock_sleep((int64_t)(h->count % 1000));
    steer(h->s, h->jobs->id_list, 1);
    atomic_store(h->handled, clock_boot_ns());
    return NULL;
}

static void renew(const char *url, int64_t lease_ms, size_t count)
{
    struct sluice *s = open_handle(url), *from = open_handle(url);
    struct jobs jobs;
    double *ms = memory_zeroed(count, sizeof *ms);
    prepare(s);
    send_jobs(s, 1);
    claim_jobs(s, &jobs, 1, lease_ms);
    for (size_t i = 0; i < count; i++) {
        _Atomic int64_t answered = 0;
        struct handler h = {.s = from, .jobs = &jobs, .count = i * 379, .handled = &answered};
        struct sluice_outcome outcome = {0};
        struct sluice_signals *list = NULL;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, send_one_late, &h) == 0);
        while (outcome.signals == 0) {
            clock_sleep(lease_ms / 3);
            CHECK(sluice_renew(s, QUEUE, jobs.token_list, 1, lease_ms, &outcome, NULL) ==
                  SLUICE_OK);
        }
        int64_t at = clock_boot_ns();
        (void)pthread_join(thread, NULL);
        ms[i] = at > answered ? (double)(at - answered) / 1e6 : 0;
        CHECK(sluice_signals_receive(s, QUEUE, jobs.token_list, 1, POLL_MS, &list, NULL) ==
              SLUICE_OK);
        struct sluice_signal_answer answer = {.token = jobs.tokens[0],
                                              .number = list->rows[0].number};
        CHECK(sluice_signals_ack(s, QUEUE, &answer, 1, NULL, NULL) == SLUICE_OK);
        sluice_signals_free(list);
    }
    print_times("signal by renew", ms, count);
    jobs_free(&jobs);
    memory_free(ms);
    sluice_close(s);
    sluice_close(from);
}

struct load {
    const char *url;
    const struct jobs *jobs;
    int64_t end;
    _Atomic uint64_t *sent;
    _Atomic uint64_t *answered;
    _Atomic uint64_t *full; // signals that were refused because too many wait
};

static void *send_signals(void *ctx)
{
    const struct load *l = ctx;
    struct sluice *s = open_handle(l->url);
    while (clock_boot_ns() < l->end) {
        // A shard takes 100,000 that wait.
        if (atomic_load(l->sent) - atomic_load(l->answered) > WAITING_MAX) {
            clock_sleep(1);
            continue;
        }
        atomic_fetch_add(l->sent, l->jobs->len);
        size_t full = steer_some(s, l->jobs->id_list, l->jobs->len);
        atomic_fetch_sub(l->sent, full);
        atomic_fetch_add(l->full, full);
        if (full > 0) clock_sleep(1); // the worker is behind
    }
    sluice_close(s);
    return NULL;
}

// Answers what came, all in one call.
static size_t answer_all(struct sluice *s, const struct sluice_signals *list)
{
    struct sluice_signal_answer *answers = memory_zeroed(list->len + 1, sizeof *answers);
    for (size_t i = 0; i < list->len; i++) {
        CHECK(list->rows[i].code == SLUICE_OK);
        answers[i].token = list->rows[i].token;
        answers[i].number = list->rows[i].number;
    }
    if (list->len > 0)
        CHECK(sluice_signals_ack(s, QUEUE, answers, list->len, NULL, NULL) == SLUICE_OK);
    memory_free(answers);
    return list->len;
}

static void rate(const char *url, size_t count, int seconds)
{
    struct sluice *s = open_handle(url);
    struct jobs jobs;
    pthread_t threads[SENDERS];
    _Atomic uint64_t sent = 0, answered = 0, full = 0;
    prepare(s);
    send_jobs(s, count);
    claim_jobs(s, &jobs, count, LEASE_MS);
    int64_t began = clock_boot_ns();
    struct load load = {url, &jobs, began + seconds * INT64_C(1000000000), &sent, &answered, &full};
    for (size_t i = 0; i < SENDERS; i++)
        CHECK(pthread_create(&threads[i], NULL, send_signals, &load) == 0);
    int64_t until = load.end;
    while (clock_boot_ns() < until || atomic_load(&answered) < atomic_load(&sent)) {
        struct sluice_signals *list = NULL;
        CHECK(sluice_signals_receive(s, QUEUE, jobs.token_list, jobs.len, 1000, &list, NULL) ==
              SLUICE_OK);
        atomic_fetch_add(&answered, answer_all(s, list));
        sluice_signals_free(list);
    }
    double took = (double)(clock_boot_ns() - began) / 1e9;
    for (size_t i = 0; i < SENDERS; i++)
        (void)pthread_join(threads[i], NULL);
    printf("{\"measured\":\"rate\",\"jobs\":%zu,\"sent\":%llu,\"answered\":%llu,\"full\":%llu,"
           "\"seconds\":%.2f,\"signals_per_second\":%.0f}\n",
           jobs.len, (unsigned long long)sent, (unsigned long long)answered,
           (unsigned long long)full, took, (double)answered / took);
    jobs_free(&jobs);
    sluice_close(s);
}

// The caller reads the node's memory and CPU time between the two lines.
static void wait_for_nothing(const char *url, size_t count, int seconds)
{
    struct sluice *s = open_handle(url);
    struct jobs jobs;
    prepare(s);
    send_jobs(s, count);
    claim_jobs(s, &jobs, count, LEASE_MS);
    printf("{\"measured\":\"wait\",\"jobs\":%zu}\n", jobs.len);
    (void)fflush(stdout);
    for (int64_t end = clock_boot_ms() + seconds * 1000; clock_boot_ms() < end;) {
        struct sluice_signals *list = NULL;
        CHECK(sluice_signals_receive(s, QUEUE, jobs.token_list, jobs.len, POLL_MS, &list, NULL) ==
              SLUICE_OK);
        CHECK(list->len == 0);
        sluice_signals_free(list);
    }
    printf("{\"measured\":\"wait\",\"over\":true}\n");
    jobs_free(&jobs);
    sluice_close(s);
}

static void ack_all(struct sluice *s, const struct jobs *jobs)
{
    struct sluice_ack *acks = memory_zeroed(jobs->len, sizeof *acks);
    for (size_t i = 0; i < jobs->len; i++)
        acks[i] = (struct sluice_ack){
            .token = jobs->tokens[i], .result = RESULT, .result_len = strlen(RESULT)};
    for (size_t at = 0; at < jobs->len; at += CLAIM_MAX) {
        size_t len = jobs->len - at < CLAIM_MAX ? jobs->len - at : CLAIM_MAX;
        CHECK(sluice_ack_with(s, QUEUE, acks + at, len, NULL, NULL) == SLUICE_OK);
    }
    memory_free(acks);
}

static long resident_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtol(line + 6, NULL, 10);
    if (f) (void)fclose(f);
    return kib;
}

static void collect(const char *url, size_t count)
{
    struct sluice *s = open_handle(url);
    struct jobs jobs;
    struct sluice_collector *c = NULL;
    size_t got = 0;
    prepare(s);
    send_jobs(s, count);
    claim_jobs(s, &jobs, count, LEASE_MS);
    ack_all(s, &jobs);
    long before = resident_kib();
    int64_t began = clock_boot_ns();
    struct sluice_collect what = {.ids = jobs.id_list, .ids_len = jobs.len};
    CHECK(sluice_collect_open(s, QUEUE, &what, &c, NULL) == SLUICE_OK);
    for (const struct sluice_collected *out = NULL;; got++) {
        CHECK(sluice_collect_next(c, POLL_MS, &out, NULL) == SLUICE_OK);
        if (!out) break;
        CHECK(out->message.result_len == strlen(RESULT));
    }
    sluice_collect_close(c);
    printf("{\"measured\":\"collect\",\"messages\":%zu,\"seconds\":%.3f,\"more_kib\":%ld}\n", got,
           (double)(clock_boot_ns() - began) / 1e9, resident_kib() - before);
    CHECK(got == count);
    jobs_free(&jobs);
    sluice_close(s);
}

static size_t number(const char *text)
{
    unsigned long n = strtoul(text, NULL, 10);
    if (n == 0 || n > COUNT_MAX) {
        (void)fprintf(stderr, "%s is not a number from 1 to %d\n", text, COUNT_MAX);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 5 && strcmp(what, "latency") == 0)
        latency(argv[2], argv[3], number(argv[4]));
    else if (argc == 5 && strcmp(what, "renew") == 0)
        renew(argv[2], (int64_t)number(argv[3]), number(argv[4]));
    else if (argc == 5 && strcmp(what, "rate") == 0)
        rate(argv[2], number(argv[3]), (int)number(argv[4]));
    else if (argc == 5 && strcmp(what, "wait") == 0)
        wait_for_nothing(argv[2], number(argv[3]), (int)number(argv[4]));
    else if (argc == 4 && strcmp(what, "collect") == 0)
        collect(argv[2], number(argv[3]));
    else
        return 2;
    return 0;
}
