// SPDX-License-Identifier: Apache-2.0
// A load for tools/bench-events: sends messages to a queue of a node, as fast as it can or at a
// pace.
//   bench-events URL QUEUE fill MESSAGES
//   bench-events URL QUEUE pace MESSAGES_PER_SECOND SECONDS
#include <sluice.h>

#include "os/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS    8
#define FILL_BATCH 200
#define PACE_BATCH 5
#define BODY_LEN   300

struct load {
    struct sluice *s;
    const char *queue;
    size_t batch;
    int64_t rate;  // of one thread; 0: as fast as possible
    int64_t until; // clock_boot_ms
    _Atomic int64_t left;
    _Atomic int64_t sent;
    _Atomic int64_t failed;
};

static void *run(void *arg)
{
    struct load *l = arg;
    static char body[BODY_LEN];
    struct sluice_send rows[FILL_BATCH];
    struct sluice_sent sent[FILL_BATCH];
    int64_t began = clock_boot_ns(), done = 0;
    for (size_t i = 0; i < l->batch; i++)
        rows[i] = (struct sluice_send){.body = body, .body_len = sizeof body};
    while (clock_boot_ms() < l->until && atomic_fetch_sub(&l->left, (int64_t)l->batch) > 0) {
        if (l->rate > 0) {
            int64_t due = began / 1000000 + done * 1000 / l->rate, now = clock_boot_ms();
            if (due > now) clock_sleep(due - now);
        }
        enum sluice_code code = sluice_send(l->s, l->queue, rows, l->batch, NULL, sent, NULL);
        atomic_fetch_add(code ? &l->failed : &l->sent, (int64_t)l->batch);
        done += (int64_t)l->batch;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct sluice_error error;
    pthread_t threads[THREADS];
    bool pace = argc == 6 && strcmp(argv[3], "pace") == 0;
    if (!pace && argc != 5) return 2;
    struct load l = {.queue = argv[2],
                     .batch = pace ? PACE_BATCH : FILL_BATCH,
                     .rate = pace ? atoll(argv[4]) / THREADS : 0,
                     .until = clock_boot_ms() + (pace ? atoll(argv[5]) * 1000 : 3600000),
                     .left = pace ? INT64_MAX / 2 : atoll(argv[4])};
    if (sluice_open(argv[1], NULL, &l.s, &error)) {
        (void)fprintf(stderr, "bench-events: %s\n", error.message);
        return 1;
    }
    int64_t began = clock_boot_ms();
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, &l) != 0) return 1;
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    double seconds = (double)(clock_boot_ms() - began) / 1e3;
    printf("%lld messages in %.1f s, %.0f/s, %lld failed\n", (long long)l.sent, seconds,
           (double)l.sent / seconds, (long long)l.failed);
    sluice_close(l.s);
    return l.failed > 0 ? 1 : 0;
}
