// SPDX-License-Identifier: Apache-2.0
// Measures the cost of forwarding: cycles of send, receive and ack at a queue's owner, and the same
// through a second node, which forwards each call. The two alternate. It prints medians and their
// ratio.
//
//     SLUICE=src/cli/sluice forward [ROUNDS]
#include "base/check.h"
#include "node_process.h"
#include "os/clock.h"
#include "scratch.h"

#include <pthread.h>
#include <sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS    8
#define CYCLES     150 // per node and round
#define ROUNDS     5
#define ROUNDS_MAX 99

static void *cycle(void *url)
{
    struct sluice *s = NULL;
    struct sluice_send message = {.body = "round and round", .body_len = 15};
    struct sluice_receive ask = {.max = 1, .wait_ms = 5000};
    CHECK(sluice_open(url, NULL, &s, NULL) == SLUICE_OK);
    for (int i = 0; i < CYCLES; i++) {
        struct sluice_batch *batch = NULL;
        CHECK(sluice_send(s, "tasks", &message, 1, NULL, NULL, NULL) == SLUICE_OK);
        CHECK(sluice_receive(s, "tasks", &ask, &batch, NULL) == SLUICE_OK);
        CHECK(batch->len == 1);
        const char *token = batch->messages[0].token;
        CHECK(sluice_ack(s, "tasks", &token, 1, NULL, NULL) == SLUICE_OK);
        sluice_batch_free(batch);
    }
    sluice_close(s);
    return NULL;
}

static double cycles_per_second(char *url)
{
    pthread_t threads[CLIENTS];
    int64_t began = clock_boot_ns();
    for (int i = 0; i < CLIENTS; i++)
        CHECK(pthread_create(&threads[i], NULL, cycle, url) == 0);
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(threads[i], NULL);
    return CLIENTS * CYCLES * 1e9 / (double)(clock_boot_ns() - began);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int len)
{
    qsort(values, (size_t)len, sizeof *values, by_size);
    return values[len / 2];
}

// The first node that uses a queue owns it.
static void begin(struct node_process *one, struct node_process *two)
{
    struct sluice *s = NULL;
    for (struct node_process *n = one; n; n = n == one ? two : NULL)
        if (!node_process_start(n)) {
            (void)fprintf(stderr, "%s\n", n->problem);
            exit(1);
        }
    CHECK(sluice_open(one->url, NULL, &s, NULL) == SLUICE_OK);
    CHECK(sluice_queue_create(s, "tasks", NULL, 0, NULL) == SLUICE_OK);
    sluice_close(s);
    (void)cycles_per_second(one->url);
    (void)cycles_per_second(two->url);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    const char *program = getenv("SLUICE");
    double here[ROUNDS_MAX], there[ROUNDS_MAX];
    struct scratch dir;
    if (!program || rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "SLUICE=PROGRAM forward [1..%d]\n", ROUNDS_MAX);
        return 2;
    }
    if (!scratch_make(&dir, NULL)) return 1;
    struct node_process one = {.program = program, .store = dir.path, .name = "one"};
    struct node_process two = {.program = program, .store = dir.path, .name = "two"};
    begin(&one, &two);
    for (int i = 0; i < rounds; i++) {
        here[i] = cycles_per_second(one.url);
        there[i] = cycles_per_second(two.url);
    }
    double at_owner = median(here, rounds), by_other = median(there, rounds);
    printf("cycles a second, %d clients, median of %d rounds\n", CLIENTS, rounds);
    printf("  at the owner                %8.0f\n", at_owner);
    printf("  by way of the other node    %8.0f    %.2f of it\n", by_other, by_other / at_owner);
    node_process_kill(&two);
    node_process_kill(&one);
    scratch_remove(&dir);
    return 0;
}
