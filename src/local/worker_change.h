// SPDX-License-Identifier: Apache-2.0
// Changes of the registry of workers: join, beat, leave, and an operator's orders. Each is one
// OP_WORKERS on every shard of the queue.
#pragma once

#include "local/inside.h"
#include "queue/labels.h"

// One worker and what becomes of it. The texts are borrowed.
struct worker_order {
    enum worker_act act;
    const char *name;
    uint64_t instance; // 0: an operator's order
    // WORKER_JOIN only:
    uint32_t capacity; // of the whole queue; each shard gets its share, at least 1
    int64_t ttl_ms;
    uint32_t flags;
    const char *labels; // canonical; "": none
    // What nodes heard of another process of this name. Returns false if nothing. *ago_ms: its last
    // sign of life. *gone: it disconnected while it waited. NULL: there is no node to ask.
    bool (*heard)(void *ctx, const char *name, uint64_t instance, int64_t *ago_ms, bool *gone);
    void *heard_ctx;
};

// A join takes over the name of a process that gave no sign of life for this long. A node hears
// each receive and each renewal of its workers. `sluice work` renews every 10 s.
#define WORKER_SILENT_MS INT64_C(15000)
#define WORKER_GONE_MS   INT64_C(5000) // ... if it disconnected while it waited in a receive
// Without a node, a sign of life is written at a third of the ttl: half of it is silence.

// Refuses values that are not possible, and writes the labels in their canonical form. `field`
// names are those of HTTP: capacity, ttl, labels, worker.
enum sluice_code worker_order_check(const struct worker_order *o, struct labels *labels,
                                    struct sluice_error *error);

// A change of many workers at once: reasons, if not NULL, has room for len rows. The reason of a
// worker is the first refusal of a shard. The call fails if a shard could not be changed. It ends
// at a shard where another process has the name of a worker that joins.
enum sluice_code workers_change(struct sluice *s, const char *queue,
                                const struct worker_order *orders, size_t len, enum reason *reasons,
                                struct sluice_error *error);
// Refuses the order of a worker with that reason.
enum sluice_code refuse_worker(struct sluice_error *error, enum reason reason, const char *queue,
                               const char *worker);
// Returns whether every shard has a live row of this instance. It reads shards that this process
// owns as they are, and others up to their tails. *code: the shards could not be read.
bool worker_is_live(struct sluice *s, const char *queue, const char *name, uint64_t instance,
                    enum sluice_code *code, struct sluice_error *error);
