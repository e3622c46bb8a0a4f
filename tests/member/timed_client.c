// SPDX-License-Identifier: Apache-2.0
// A client that sends, receives and acknowledges until its standard input ends, one call after
// another. It prints each call that took at least 100 ms, and sums for the figures of a test:
//
//     timed_client URL QUEUE
//     slow <ms since the start> <ms> <call> <code>
//     calls <count> sum <ms> longest <ms> failed <count>
//
// A line on standard input prints the sums and begins new ones.
#include "os/clock.h"
#include "sluice.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define SLOW_MS 100

struct sums {
    uint64_t calls, failed;
    int64_t all_ms, longest_ms;
};

static int64_t began_at;

static void note(struct sums *s, const char *call, int64_t began, enum sluice_code code)
{
    int64_t took = clock_boot_ms() - began;
    s->calls++;
    s->failed += code != SLUICE_OK;
    s->all_ms += took;
    if (took > s->longest_ms) s->longest_ms = took;
    if (took < SLOW_MS && code == SLUICE_OK) return;
    (void)printf("slow %" PRId64 " %" PRId64 " %s %d\n", began - began_at, took, call, (int)code);
}

static void print_sums(struct sums *s)
{
    (void)printf("calls %" PRIu64 " sum %" PRId64 " longest %" PRId64 " failed %" PRIu64 "\n",
                 s->calls, s->all_ms, s->longest_ms, s->failed);
    (void)fflush(stdout);
    *s = (struct sums){0};
}

static void do_round(struct sluice *h, const char *queue, struct sums *s)
{
    struct sluice_error error;
    struct sluice_send message = {.body = "x", .body_len = 1};
    struct sluice_receive ask = {.max = 1};
    struct sluice_batch *batch = NULL;
    int64_t began = clock_boot_ms();
    note(s, "send", began, sluice_send(h, queue, &message, 1, NULL, NULL, &error));
    began = clock_boot_ms();
    note(s, "receive", began, sluice_receive(h, queue, &ask, &batch, &error));
    if (batch && batch->len > 0) {
        const char *token = batch->messages[0].token;
        began = clock_boot_ms();
        note(s, "ack", began, sluice_ack(h, queue, &token, 1, NULL, &error));
    }
    sluice_batch_free(batch);
}

int main(int argc, char **argv)
{
    struct sluice *h = NULL;
    struct sluice_error error;
    struct sums s = {0};
    if (argc != 3) return 2;
    if (sluice_open(argv[1], NULL, &h, &error)) {
        (void)fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    began_at = clock_boot_ms();
    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        char some[64];
        if (poll(&input, 1, 0) > 0) {
            if (read(STDIN_FILENO, some, sizeof some) <= 0) break;
            print_sums(&s);
        }
        do_round(h, argv[2], &s);
    }
    sluice_close(h);
    return 0;
}
