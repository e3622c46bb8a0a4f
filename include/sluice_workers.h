// SPDX-License-Identifier: Apache-2.0
//
// The workers of a queue. sluice.h includes this file.
#ifndef SLUICE_WORKERS_H
#define SLUICE_WORKERS_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_worker {
    char name[129];
    uint32_t open;     // locks and tickets that it holds
    uint32_t capacity; // 0: it is not registered
    uint32_t waiting;  // receives of this worker that wait for a message now
    // If it waits at a node, or did so in the last seconds: since when it calls there without a
    // longer pause, its last sign of life, and the node's name. Else 0 and "".
    int64_t since;
    int64_t seen_at;
    char node[129];
};

// The workers that hold locks, are registered, or wait in a receive at a node, sorted by name. A
// process that works on the store itself, without a node, is seen only while it holds locks. out
// has room for max rows; *len were filled.
SLUICE_API enum sluice_code sluice_workers(struct sluice *s, const char *queue,
                                           struct sluice_worker *out, size_t max, size_t *len,
                                           struct sluice_error *error);

#ifdef __cplusplus
}
#endif

#endif
