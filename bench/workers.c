// SPDX-License-Identifier: Apache-2.0
// The load of tools/bench-workers: many workers drain one queue. Each worker has a handle of its
// own, as a process of its own would have. It prints a line of JSON.
//
//     bench-workers mailbox|direct|node STORE NODE MESSAGES WORKERS CAPACITY SECONDS
//
// mailbox: workers that reach only the store, with the owner NODE. direct: workers on the store; no
// node runs (NODE is "-"). node: workers through the node.
#include "api/handle.h"
#include "base/check.h"
#include "base/memory.h"
#include "ops/mailbox_session.h"
#include "os/clock.h"
#include "os/entropy.h"

#include <pthread.h>
#include <sluice.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUEUE      "fleet"
#define BATCH_MAX  100
#define CYCLES_MAX 100000
#define SEND_BATCH 500
#define TTL_MS     60000

struct load {
    const char *way, *store, *node;
    uint32_t messages, capacity;
    int64_t until;
    _Atomic uint32_t *delivered, *acked; // by message
    _Atomic uint32_t done, refused, failed, ready;
    _Atomic bool go;
};

struct worker {
    struct load *load;
    struct sluice *handle;
    struct sluice_requests before, after;
    char name[32];
    pthread_t thread;
    uint32_t done;
    uint32_t *cycles; // ms
    uint32_t cycles_len;
};

static void must(enum sluice_code code, const struct sluice_error *error, const char *what)
{
    if (!code) return;
    (void)fprintf(stderr, "%s: %s\n", what, error->message);
    exit(1);
}

static struct sluice *open_at(const char *url)
{
    struct sluice *s;
    struct sluice_error error;
    must(sluice_open(url, NULL, &s, &error), &error, url);
    return s;
}

static void send_all(struct load *l)
{
    struct sluice *s = open_at(strcmp(l->node, "-") == 0 ? l->store : l->node);
    struct sluice_error error;
    struct sluice_upgrade upgrade;
    struct sluice_setting visibility = {"visibilityTimeout", "60s"};
    must(sluice_queue_create(s, QUEUE, &visibility, 1, &error), &error, "create");
    must(sluice_queue_upgrade(s, QUEUE, SLUICE_UPGRADE_FORCE, &upgrade, &error), &error, "upgrade");
    static char bodies[SEND_BATCH][300];
    struct sluice_send batch[SEND_BATCH] = {0};
    for (uint32_t from = 0; from < l->messages;) {
        uint32_t len = 0;
        for (; len < SEND_BATCH && from < l->messages; len++, from++) {
            (void)snprintf(bodies[len], sizeof bodies[len], "%u", from);
            batch[len] = (struct sluice_send){.body = bodies[len], .body_len = sizeof bodies[len]};
        }
        must(sluice_send(s, QUEUE, batch, len, NULL, NULL, &error), &error, "send");
    }
    sluice_close(s);
}

static void join(struct worker *w)
{
    struct sluice_error error;
    struct mailbox_join join = {.worker = w->name,
                                .instance = entropy_u64() | 1,
                                .capacity = w->load->capacity,
                                .ttl_ms = TTL_MS,
                                .labels = ""};
    must(mailbox_join(w->handle->engine, QUEUE, &join, &error), &error, "join");
}

// Receives a batch and acknowledges it. Returns how many messages were acknowledged.
static uint32_t cycle(struct worker *w)
{
    struct load *l = w->load;
    struct sluice_batch *batch = NULL;
    struct sluice_error error;
    struct sluice_receive o = {.worker = w->name, .max = l->capacity, .wait_ms = 2000};
    int64_t begun = clock_boot_ms();
    if (sluice_receive(w->handle, QUEUE, &o, &batch, &error)) {
        atomic_fetch_add(&l->failed, 1);
        return 0;
    }
    const char *tokens[BATCH_MAX];
    struct sluice_outcome outcomes[BATCH_MAX];
    uint32_t done = 0;
    for (size_t i = 0; i < batch->len; i++) {
        tokens[i] = batch->messages[i].token;
        atomic_fetch_add(&l->delivered[atoi(batch->messages[i].body)], 1);
    }
    if (batch->len > 0) {
        enum sluice_code code = sluice_ack(w->handle, QUEUE, tokens, batch->len, outcomes, &error);
        if (code == SLUICE_UNKNOWN || code == SLUICE_UNAVAILABLE) atomic_fetch_add(&l->failed, 1);
    }
    for (size_t i = 0; i < batch->len; i++) {
        if (outcomes[i].code) atomic_fetch_add(&l->refused, 1);
        if (outcomes[i].code) continue;
        atomic_fetch_add(&l->acked[atoi(batch->messages[i].body)], 1);
        done++;
    }
    if (batch->len > 0 && w->cycles_len < CYCLES_MAX)
        w->cycles[w->cycles_len++] = (uint32_t)(clock_boot_ms() - begun);
    sluice_batch_free(batch);
    return done;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct load *l = w->load;
    w->handle = open_at(strcmp(l->way, "node") == 0 ? l->node : l->store);
    if (strcmp(l->way, "mailbox") == 0) join(w);
    atomic_fetch_add(&l->ready, 1);
    while (!atomic_load(&l->go))
        clock_sleep(5);
    if (strcmp(l->way, "node") != 0) sluice_requests(w->handle, &w->before);
    while (atomic_load(&l->done) < l->messages && clock_boot_ms() < l->until) {
        uint32_t done = cycle(w);
        w->done += done;
        atomic_fetch_add(&l->done, done);
    }
    if (strcmp(l->way, "node") != 0) sluice_requests(w->handle, &w->after);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t p99(const struct worker *workers, uint32_t len)
{
    size_t all = 0;
    for (uint32_t i = 0; i < len; i++)
        all += workers[i].cycles_len;
    if (all == 0) return 0;
    uint32_t *rows = memory_zeroed(all, sizeof *rows);
    size_t at = 0;
    for (uint32_t i = 0; i < len; i++)
        for (uint32_t n = 0; n < workers[i].cycles_len; n++)
            rows[at++] = workers[i].cycles[n];
    qsort(rows, all, sizeof *rows, compare);
    uint32_t result = rows[(all - 1) * 99 / 100];
    memory_free(rows);
    return result;
}

static void report(const struct load *l, const struct worker *workers, uint32_t len,
                   const struct sluice_requests *node, int64_t took_ms)
{
    uint64_t puts = node->writes, all = node->writes + node->reads + node->deletes;
    uint32_t least = UINT32_MAX, twice = 0, again = 0, done = atomic_load(&l->done);
    for (uint32_t i = 0; i < len; i++) {
        const struct worker *w = &workers[i];
        uint64_t writes = w->after.writes - w->before.writes;
        puts += writes;
        all += writes + w->after.reads - w->before.reads + w->after.deletes - w->before.deletes;
        if (w->done < least) least = w->done;
    }
    for (uint32_t i = 0; i < l->messages; i++) {
        twice += atomic_load(&l->acked[i]) > 1;
        again += atomic_load(&l->delivered[i]) > 1;
    }
    double messages = done > 0 ? done : 1;
    printf("{\"way\": \"%s\", \"workers\": %u, \"capacity\": %u, \"messages\": %u, \"done\": %u, "
           "\"duplicates\": %u, \"delivered_again\": %u, \"refused\": %u, \"failed\": %u, "
           "\"least_share\": %.2f, \"puts_per_message\": %.2f, \"requests_per_message\": %.2f, "
           "\"cycles_per_second\": %.0f, \"p99_ms\": %u, \"seconds\": %.1f}\n",
           l->way, len, l->capacity, l->messages, done, twice, again, atomic_load(&l->refused),
           atomic_load(&l->failed), least / (messages / len), (double)puts / messages,
           (double)all / messages, done * 1000.0 / (double)took_ms, p99(workers, len),
           (double)took_ms / 1000);
}

static void node_requests(const struct load *l, struct sluice_requests *out)
{
    *out = (struct sluice_requests){0};
    if (strcmp(l->node, "-") == 0) return;
    struct sluice *s = open_at(l->node);
    sluice_requests(s, out);
    sluice_close(s);
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        (void)fprintf(stderr, "usage: bench-workers mailbox|direct|node STORE NODE MESSAGES "
                              "WORKERS CAPACITY SECONDS\n");
        return 2;
    }
    uint32_t len = (uint32_t)atoi(argv[5]);
    struct load l = {.way = argv[1],
                     .store = argv[2],
                     .node = argv[3],
                     .messages = (uint32_t)atoi(argv[4]),
                     .capacity = (uint32_t)atoi(argv[6])};
    CHECK(l.capacity <= BATCH_MAX && len > 0);
    l.delivered = memory_zeroed(l.messages, sizeof *l.delivered);
    l.acked = memory_zeroed(l.messages, sizeof *l.acked);
    send_all(&l);
    struct worker *workers = memory_zeroed(len, sizeof *workers);
    for (uint32_t i = 0; i < len; i++) {
        struct worker *w = &workers[i];
        w->load = &l;
        w->cycles = memory_zeroed(CYCLES_MAX, sizeof *w->cycles);
        (void)snprintf(w->name, sizeof w->name, "worker-%03u", i);
        CHECK(pthread_create(&w->thread, NULL, work, w) == 0);
    }
    int64_t joining = clock_boot_ms();
    while (atomic_load(&l.ready) < len)
        clock_sleep(5);
    (void)fprintf(stderr, "%s: %u workers are ready after %lld ms\n", l.way, len,
                  (long long)(clock_boot_ms() - joining));
    struct sluice_requests before, after;
    node_requests(&l, &before);
    int64_t begun = clock_boot_ms();
    l.until = begun + atoi(argv[7]) * INT64_C(1000);
    atomic_store(&l.go, true);
    for (uint32_t i = 0; i < len; i++)
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    int64_t took = clock_boot_ms() - begun;
    node_requests(&l, &after);
    after.writes -= before.writes;
    after.reads -= before.reads;
    after.deletes -= before.deletes;
    report(&l, workers, len, &after, took);
    (void)fflush(stdout);
    _exit(0); // the handles of 200 workers would take long to close
}
