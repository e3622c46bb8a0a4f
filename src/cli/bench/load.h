// SPDX-License-Identifier: Apache-2.0
// The workloads of the benchmark. They run on any target that can send, receive and ack, so the
// same loops measure Sluice and other queues.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_SIZE_MIN      16 // a body contains its number and its send time
#define BENCH_CLIENTS_MAX   256
#define BENCH_PROCESSES_MAX 64
#define BENCH_PROBLEM_MAX   512
#define BENCH_PACE_PER_S    100

struct bench_settings {
    const char *place; // what the target opens: a store's URL or a port
    const char *queue;
    uint64_t messages;
    size_t size;
    uint32_t clients;
    uint32_t batch;
    uint32_t processes;
    const struct sluice_setting *queue_settings;
    size_t queue_settings_len;
};

// The result of a receive. The bodies are valid until the next receive of the same link.
struct bench_batch {
    const char **bodies;
    size_t len;
};

struct bench_requests {
    uint64_t all;
    uint64_t puts; // PUT, POST and LIST: the expensive requests
    bool shared;   // counted for all processes together; each process sees the sum
};

// A queue under test. Each process opens one handle, and each client one link. A call that fails
// returns false (or NULL) and writes the reason into problem.
struct bench_target {
    const char *name;
    void *(*open)(const struct bench_settings *s, char *problem);
    void (*close)(void *handle);
    void *(*link)(void *handle, uint32_t client, char *problem);
    void (*unlink)(void *link);
    bool (*send)(void *link, const char *bodies, size_t count, char *problem);
    bool (*receive)(void *link, uint32_t max, int64_t wait_ms, struct bench_batch *got,
                    char *problem);
    bool (*ack)(void *link, char *problem); // acks all messages of the last receive
    // Returns the billed store requests of the handle so far. NULL if the target has none.
    struct bench_requests (*requests)(void *handle);
};

enum bench_load {
    LOAD_SEND,  // all clients send batches
    LOAD_DRAIN, // receive and ack, in batches, the messages of the last LOAD_SEND
    LOAD_CYCLE, // each client repeats: send one, receive one, ack it
    LOAD_PACED  // one sender sends 100 messages per second, and the clients wait for them
};

struct bench_figure {
    uint64_t messages;
    double seconds;
    double per_second;
    double p50_us; // of a call with its batch, of a cycle, or from send to handler
    double p99_us;
    double p999_us;
    uint64_t missing;  // sent but never received
    uint64_t repeated; // received more than once
    // From the time when all processes are ready until the last message is done.
    struct bench_requests requests;
};

// Runs one workload in settings->processes child processes. On false, problem says why.
bool bench_run(const struct bench_target *t, const struct bench_settings *s, enum bench_load load,
               struct bench_figure *out, char problem[BENCH_PROBLEM_MAX]);

// Returns the median time of pwrite + fdatasync of `size` bytes to a file in `dir`, in
// microseconds, or 0 on an error.
double bench_disk_us(const char *dir, size_t size);
double bench_load_average(void); // of the last minute
// True if the directory is on a disk. False for tmpfs and ramfs, where a sync costs nothing.
bool bench_dir_is_durable(const char *dir);
