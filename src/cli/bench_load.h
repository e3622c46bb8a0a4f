// SPDX-License-Identifier: Apache-2.0
// The workloads of the benchmark, over any queue that can send, receive and acknowledge: the same
// loops measure Sluice and what it is compared with.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_SIZE_MIN      16 // a body carries its number and the moment it was sent
#define BENCH_CLIENTS_MAX   256
#define BENCH_PROCESSES_MAX 64
#define BENCH_PROBLEM_MAX   512
#define BENCH_PACE_PER_S    100

struct bench_settings {
    const char *place; // what the target opens: a store's URL, a port
    const char *queue;
    uint64_t messages;
    size_t size;
    uint32_t clients;
    uint32_t batch;
    uint32_t processes;
};

// What a receive brought; the views live until the next receive of the same link.
struct bench_got {
    const char **bodies;
    size_t len;
};

struct bench_requests {
    uint64_t all;
    uint64_t puts; // PUT, POST and LIST: the dear ones
    bool shared;   // by all processes together: each sees the sum
};

// A queue as the workloads see it. A handle is opened once a process, a link once a client. Every
// call that can fail answers false and writes its reason into problem.
struct bench_target {
    const char *name;
    void *(*open)(const struct bench_settings *s, char *problem);
    void (*close)(void *handle);
    void *(*link)(void *handle, uint32_t client, char *problem);
    void (*unlink)(void *link);
    bool (*send)(void *link, const char *bodies, size_t count, char *problem);
    bool (*receive)(void *link, uint32_t max, int64_t wait_ms, struct bench_got *got,
                    char *problem);
    bool (*ack)(void *link, char *problem); // all of the last receive
    // What the handle asked of a store that charges for it, so far. NULL: nothing ever.
    struct bench_requests (*requests)(void *handle);
};

enum bench_load {
    LOAD_SEND,  // batches, by all clients
    LOAD_DRAIN, // what the last LOAD_SEND left: receive and ack in batches
    LOAD_CYCLE, // each client: send one, receive one, ack it, again
    LOAD_PACED  // 100 a second by one sender, the clients wait for them
};

struct bench_figure {
    uint64_t messages;
    double seconds;
    double per_second;
    double p50_us; // of a call with its batch; a cycle; send to handler
    double p99_us;
    double p999_us;
    uint64_t missing;               // sent and never received
    uint64_t repeated;              // received more than once
    struct bench_requests requests; // from when all were open until the last message was done
};

// Runs one workload in so many processes of its own. False: problem says why.
bool bench_run(const struct bench_target *t, const struct bench_settings *s, enum bench_load load,
               struct bench_figure *out, char problem[BENCH_PROBLEM_MAX]);

// The median of pwrite + fdatasync of so many bytes into a file of that directory, in microseconds;
// 0 when it cannot be had.
double bench_disk_us(const char *dir, size_t size);
double bench_load_average(void); // of the last minute
// Is the directory on a disk? False for tmpfs and the like, where a sync costs nothing.
bool bench_dir_is_durable(const char *dir);
