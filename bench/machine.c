// SPDX-License-Identifier: Apache-2.0
// Measures the pure machine on one core. It runs cycles of send, claim and ack of 300-byte
// messages, with encoding and decoding, on an empty queue and over a backlog. It also measures the
// memory of a backlog and the cost of a snapshot.
//
//     bench-machine [backlog]      (default 10,000,000)
//     bench-machine cycles RULES RETENTION BATCH COUNT [save]
//
// The second form runs COUNT cycles on an empty queue with this version of the rules and this
// `retention` in milliseconds. Run it under callgrind with two counts: the difference is the cost.
#include "queue/core/machine.h"
#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BODY_BYTES 300
#define BUFS       5

struct bench {
    struct machine *m;
    struct queue_id queue;
    uint64_t slot;
    int64_t now;
    uint64_t requests;
    struct buf send, claim, ack, refs, text;
    struct events events;
    bool listen;
    bool nameless; // ops without request ids
    uint32_t held; // locks that the next entry acks
    uint64_t checked;
};

// CPU time of this thread, so that other load does not count.
static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double resident_mib(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0) kib = strtol(line + 6, NULL, 10);
    if (f) (void)fclose(f);
    return (double)kib / 1024;
}

static void bench_init(struct bench *b)
{
    *b = (struct bench){.queue = {"bench-machine-q"}, .now = 1000000000};
    struct queue_config config;
    config_defaults(&config);
    config.capacity = 100000000;
    b->m = machine_new(&b->queue, 0, &config);
    struct buf *bufs[BUFS] = {&b->send, &b->claim, &b->ack, &b->refs, &b->text};
    for (size_t i = 0; i < BUFS; i++)
        buf_init(bufs[i], (size_t)64 << 20);
    events_init(&b->events);
}

static void bench_done(struct bench *b)
{
    struct buf *bufs[BUFS] = {&b->send, &b->claim, &b->ack, &b->refs, &b->text};
    for (size_t i = 0; i < BUFS; i++)
        buf_done(bufs[i]);
    events_done(&b->events);
    machine_free(b->m);
}

static struct request_id next_request(struct bench *b)
{
    struct request_id id = {0};
    b->requests++;
    if (!b->nameless) memcpy(id.bytes, &b->requests, sizeof b->requests);
    return id;
}

static void put_send(struct bench *b, uint32_t count)
{
    static const uint8_t body[BODY_BYTES] = "a job";
    struct request_id id = next_request(b);
    struct message m = {.body = bytes_of(body, sizeof body)};
    buf_clear(&b->send);
    send_begin(&b->send, &id);
    for (uint32_t i = 0; i < count; i++)
        send_add(&b->send, &m);
    send_end(&b->send, 0, count);
}

static void put_claim(struct bench *b, uint32_t count)
{
    struct op_claim op = {
        .request = next_request(b), .worker = bytes_str("worker-1"), .max = count};
    memcpy(op.seed, &b->requests, sizeof b->requests);
    buf_clear(&b->claim);
    claim_encode(&b->claim, &op);
}

static void put_ack(struct bench *b)
{
    buf_clear(&b->ack);
    outcome_encode(&b->ack, &(struct op_outcome){.request = next_request(b),
                                                 .queue = b->queue,
                                                 .arrived_at = b->now,
                                                 .count = b->held,
                                                 .refs = buf_bytes(&b->refs)});
}

static void apply(struct bench *b, const struct op *ops, size_t len, struct op_result *results)
{
    b->now++;
    buf_clear(&b->text);
    events_clear(&b->events);
    struct machine_entry e = {.slot = ++b->slot,
                              .time = {b->now, b->now + 1},
                              .now = b->now,
                              .epoch = 1,
                              .ops = ops,
                              .ops_len = len};
    machine_apply(b->m, &e, results, &b->text, b->listen ? &b->events : NULL);
}

// Reads the grants as workers would. They become the acks of the next entry.
static void read_grants(struct bench *b, const struct op_result *claim)
{
    struct result r;
    struct grant g;
    CHECK(claim->err == ERR_OK);
    CHECK(result_open(bytes_of(b->text.data + claim->body_at, claim->body_len), OP_CLAIM, &r) ==
          ERR_OK);
    buf_clear(&b->refs);
    b->held = 0;
    while (grant_next(&r, &g)) {
        lock_ref_put(&b->refs, &(struct lock_ref){g.seq, g.token});
        b->held++;
    }
}

// Commits one entry: ack the claimed messages, send a batch, claim a batch.
static void cycle(struct bench *b, uint32_t batch)
{
    put_ack(b);
    put_send(b, batch);
    put_claim(b, batch);
    struct op ops[] = {{OP_ACK, buf_bytes(&b->ack)},
                       {OP_SEND, buf_bytes(&b->send)},
                       {OP_CLAIM, buf_bytes(&b->claim)}};
    struct op_result results[3];
    apply(b, ops, 3, results);
    read_grants(b, &results[2]);
    CHECK(b->held == batch);
}

static double rate(struct bench *b, uint32_t batch, uint64_t messages)
{
    double start = seconds();
    for (uint64_t i = 0; i < messages; i += batch)
        cycle(b, batch);
    return (double)messages / (seconds() - start);
}

static void fill(struct bench *b, uint64_t messages, uint32_t batch)
{
    for (uint64_t i = 0; i < messages; i += batch) {
        put_send(b, batch);
        struct op op = {OP_SEND, buf_bytes(&b->send)};
        struct op_result result;
        apply(b, &op, 1, &result);
        CHECK(result.err == ERR_OK);
    }
}

static void snapshot(const struct bench *b)
{
    struct buf out;
    buf_init(&out, (size_t)1 << 30);
    double start = seconds();
    machine_save(b->m, &out);
    double saved = seconds();
    struct machine *copy = machine_new(&b->queue, 0, machine_config(b->m));
    CHECK(machine_load(copy, buf_bytes(&out)) == ERR_OK);
    double loaded = seconds();
    struct machine_stats stats;
    machine_stats(b->m, b->now, &stats);
    printf("  snapshot %.2f MiB, saved in %.1f ms, loaded in %.1f ms (%llu ranges, %llu records, "
           "%llu remembered requests)\n",
           (double)out.len / (1 << 20), (saved - start) * 1e3, (loaded - saved) * 1e3,
           (unsigned long long)stats.ranges, (unsigned long long)stats.records,
           (unsigned long long)stats.requests);
    machine_free(copy);
    buf_done(&out);
}

#define ROUNDS 5

// Takes the best of several rounds. The two alternate, so that other load affects both.
static void compare(struct bench *empty, struct bench *full, uint32_t batch, uint64_t messages)
{
    double without = 0, with = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double a = rate(empty, batch, messages), b = rate(full, batch, messages);
        if (a > without) without = a;
        if (b > with) with = b;
    }
    printf("  batches of %-4u: %8.0f cycles/s empty, %8.0f over the backlog (%.0f %%)\n", batch,
           without, with, 100 * with / without);
}

static void run(uint64_t backlog, uint32_t fill_batch)
{
    struct bench empty, full;
    bench_init(&empty);
    bench_init(&full);
    double before = resident_mib(), start = seconds();
    fill(&full, backlog, fill_batch);
    printf("backlog of %llu, sent in batches of %u at %.0f/s: %.1f MiB resident, %.1f before\n",
           (unsigned long long)backlog, fill_batch, (double)backlog / (seconds() - start),
           resident_mib(), before);
    snapshot(&full);
    const uint32_t batches[] = {1, 10, 100, 1000};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        compare(&empty, &full, batches[i], 500000);
    printf("  %.1f MiB resident at the end, both queues\n", resident_mib());
    empty.nameless = full.nameless = true;
    printf("  without request ids:\n");
    compare(&empty, &full, 1, 500000);
    empty.nameless = full.nameless = false;
    empty.listen = true;
    printf("  batches of 100 : %8.0f cycles/s empty, with events\n", rate(&empty, 100, 1000000));
    bench_done(&empty);
    bench_done(&full);
}

static void retain(struct bench *b, int64_t ms)
{
    struct op_configure op = {.config = *machine_config(b->m)};
    op.config.retention_ms = ms;
    buf_clear(&b->send);
    configure_encode(&b->send, &op);
    struct op one = {OP_CONFIGURE, buf_bytes(&b->send)};
    apply(b, &one, 1, NULL);
    CHECK(machine_config(b->m)->retention_ms == ms);
}

static int run_cycles(char **args, bool save)
{
    struct bench b;
    bench_init(&b);
    retain(&b, atoll(args[0]));
    uint32_t batch = (uint32_t)atoi(args[1]);
    printf("%.0f cycles/s\n", rate(&b, batch, strtoull(args[2], NULL, 10)));
    struct machine_stats stats;
    machine_stats(b.m, b.now, &stats);
    printf("%llu rows about finished messages\n", (unsigned long long)stats.finished);
    if (save) snapshot(&b);
    bench_done(&b);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 5 && strcmp(argv[1], "cycles") == 0) return run_cycles(argv + 2, argc > 5);
    uint64_t backlog = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    printf("a cycle is send, claim and ack of one message of %d bytes, ops encoded and results "
           "decoded;\none entry carries a batch of each; every op has a request id; CPU time of "
           "one core,\nthe best of %d rounds\n",
           BODY_BYTES, ROUNDS);
    run(backlog, 100);
    run(backlog, 1);
    return 0;
}
