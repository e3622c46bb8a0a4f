// SPDX-License-Identifier: Apache-2.0
//
// The workers of a queue. sluice.h includes this file.
#ifndef SLUICE_WORKERS_H
#define SLUICE_WORKERS_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_LABELS_MAX 2048

// A worker of a queue.
struct sluice_worker {
    char name[129];
    uint32_t open;     // locks and tickets that it holds
    uint32_t capacity; // 0: it is not registered
    uint32_t waiting;  // receives of this worker that wait for a message now
    // Since when it is registered. If it is not: since when it receives at a node without a pause
    // of 30 s. 0: neither.
    int64_t since;
    int64_t seen_at; // its last sign of life; 0: not known
    char node[129];  // the node at which it receives; "": none
    // Of a registered worker, else "" and 0.
    char mode[16];                  // "running", "paused", "draining" or "evicted"
    char labels[SLUICE_LABELS_MAX]; // "host=a7,kind=gpu"
    int64_t ttl_ms;
    uint64_t done;   // messages that it processed since it joined
    uint64_t failed; // messages that it failed, or whose lock expired
};

// The workers that hold locks, are registered, or wait in a receive at a node, sorted by name. A
// process that works on the store itself, without a node, is seen only while it holds locks. out
// has room for max rows; *len were filled.
SLUICE_API enum sluice_code sluice_workers(struct sluice *s, const char *queue,
                                           struct sluice_worker *out, size_t max, size_t *len,
                                           struct sluice_error *error);

// How a worker registers.
struct sluice_join {
    const char *worker;    // its name, 1 to 128 bytes; NULL: made from host and process
    uint32_t capacity;     // most messages that tickets give it at a time, 1 to 10,000
    const char *labels;    // up to 16, "host=a7,kind=gpu"; NULL: none
    int64_t ttl_ms;        // how long the row lasts without a sign of life, 5 s to 1 day; 0: 60 s
    unsigned mailbox_only; // not 0: it reaches only the store, so the owner grants it tickets
};

// Registers a worker. Receive then with the same name: receives and renewals are its heartbeats, so
// a program that works calls neither beat nor join again. A library call that notices that the row
// has expired registers the worker again. You may repeat the call, also with other values.
//
//   SLUICE_CONFLICT   A live worker of another process has the name ("worker-name-taken"), or the
//                     queue's version of the rules is too old (docs/upgrade.md). A process that is
//                     silent for some time loses the name to the next join (docs/workers.md).
//   SLUICE_UNKNOWN    Repeat the call. This handle keeps the identity of the worker.
//   SLUICE_FENCED     An operator evicted this worker ("worker-evicted").
//   SLUICE_LIMIT      Too many workers are registered.
SLUICE_API enum sluice_code sluice_worker_join(struct sluice *s, const char *queue,
                                               const struct sluice_join *join,
                                               struct sluice_error *error);
// A sign of life of a worker that joined with this handle, for one that neither receives nor
// renews. worker as in sluice_join. SLUICE_NOT_FOUND: it did not join, or its row has expired and
// it could not join again.
SLUICE_API enum sluice_code sluice_worker_beat(struct sluice *s, const char *queue,
                                               const char *worker, struct sluice_error *error);
// Ends the registration. Its locks stay until their deadlines, its tickets return. An unknown
// worker is SLUICE_OK.
SLUICE_API enum sluice_code sluice_worker_leave(struct sluice *s, const char *queue,
                                                const char *worker, struct sluice_error *error);

// Orders of an operator to a registered worker, by its name. SLUICE_NOT_FOUND: no such worker.
//
//   pause    It gets no message and no ticket until it is resumed. What it holds goes on.
//   resume   Ends a pause or a drain.
//   drain    It finishes what it holds and gets nothing more: its receives fail with UNAVAILABLE
//            and the reason "worker-draining". `sluice work` then ends.
//   evict    Its locks end at once, its tokens are invalid, and no attempt is counted. For ten
//            minutes its process cannot receive or join ("worker-evicted"). Another process can.
SLUICE_API enum sluice_code sluice_worker_pause(struct sluice *s, const char *queue,
                                                const char *worker, struct sluice_error *error);
SLUICE_API enum sluice_code sluice_worker_resume(struct sluice *s, const char *queue,
                                                 const char *worker, struct sluice_error *error);
SLUICE_API enum sluice_code sluice_worker_drain(struct sluice *s, const char *queue,
                                                const char *worker, struct sluice_error *error);
SLUICE_API enum sluice_code sluice_worker_evict(struct sluice *s, const char *queue,
                                                const char *worker, struct sluice_error *error);

#ifdef __cplusplus
}
#endif

#endif
