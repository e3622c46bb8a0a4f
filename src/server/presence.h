// SPDX-License-Identifier: Apache-2.0
// The workers that this node hears of: each receive is a sign of life of one process of the worker,
// its instance. A worker that receives again
// within PRESENCE_PAUSE_MS stays present, so a row says since when the worker is there. A row whose
// receives have all ended is forgotten after that time, and at once if its client has disconnected.
#pragma once

#include "ops/workers.h"

#define PRESENCE_PAUSE_MS 30000
#define PRESENCE_MAX      50000 // workers; further ones are not listed

struct presence;
struct presence *presence_new(void);
void presence_free(struct presence *p); // NULL is allowed

// Which process of a worker of a queue. The name is not empty.
struct present_key {
    const char *queue, *worker;
    uint64_t instance; // 0: the process has not joined, or does not say so
    bool relayed;      // as in struct waiting_row
};

// A receive of the worker begins, or ends. gone: the client has disconnected.
void presence_begin(struct presence *p, const struct present_key *key);
void presence_end(struct presence *p, const struct present_key *key, bool gone);
// Another sign of life. capacity: that the worker joined with; 0: not known.
void presence_note(struct presence *p, const struct present_key *key, uint32_t capacity);
// What this node heard of an instance. Returns false if nothing within PRESENCE_PAUSE_MS.
// *ago_ms: its last sign of life. *gone: it disconnected while it waited in a receive.
bool presence_of(struct presence *p, const struct present_key *key, int64_t *ago_ms, bool *gone);

// Adds the workers of a queue, or of all queues (NULL), at most WAITING_ROWS_MAX. node: the name of
// this node. No order.
void presence_list(struct presence *p, const char *queue, const char *node,
                   struct waiting_list *out);
