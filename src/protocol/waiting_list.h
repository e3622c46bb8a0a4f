// SPDX-License-Identifier: Apache-2.0
// The workers that wait in a receive at nodes, and the answer of a node to the question for them:
// GET /v1/node/workers.
#pragma once

#include "base/bytes.h"
#include "queue/codec/ops.h"
#include "queue/codec/settings.h"

#include <stdbool.h>

#define NODE_SHOWN_MAX   129   // bytes of a node's name, with the final zero
#define WAITING_ROWS_MAX 20000 // workers in one answer of a node

// A worker that waits in a receive at a node, or did so a moment ago.
struct waiting_row {
    char queue[QUEUE_NAME_MAX + 1];
    char name[WORKER_NAME_MAX + 1];
    char node[NODE_SHOWN_MAX];
    uint32_t receives; // that wait now
    int64_t since;     // milliseconds since 1970: its first receive without a longer pause since
    int64_t seen_at;   // its last sign of life
    int64_t ago_ms;    // how long ago that was, by the node that heard it; 0: it waits now
    uint64_t instance; // of the worker's process, if it joined; 0: not known
    uint32_t capacity; // that the worker joined with; 0: not known
    bool relayed;      // another process passed the receive on. If it is a node, it lists it too.
};

struct waiting_list {
    struct waiting_row *rows;
    size_t len, room;
};

void waiting_list_add(struct waiting_list *l, const struct waiting_row *row);
void waiting_list_done(struct waiting_list *l);
// Leaves one row for each queue and worker, sorted. The receives of a worker that waits at several
// nodes are added up, and the row names the node that saw it last.
void waiting_list_tidy(struct waiting_list *l);
// How many workers of a queue a tidy list has.
size_t waiting_list_count(const struct waiting_list *l, const char *queue);
// Adds the rows of an answer of a node. Returns false if the text is no such answer.
bool waiting_list_read(struct bytes body, struct waiting_list *out);
