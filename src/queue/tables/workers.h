// SPDX-License-Identifier: Apache-2.0
// The rows about workers, for the files of src/queue: locks and tickets of each name (workers.c),
// the registration (registry.c), what messages require of a worker (ready_for.c), and groups that
// stay with one (affinity.c).
#pragma once

#include "base/heap.h"
#include "base/map.h"
#include "queue/codec/ops.h"

struct machine;

// A row of the registry: what OP_WORKERS said about a worker (registry.c).
struct registration {
    uint64_t instance;
    int64_t ttl_ms;
    int64_t since;
    int64_t last_seen;
    uint64_t served; // order of its last ticket, or of the last ticket of all when it joined
    uint64_t done;
    uint64_t failed;
    char *labels;      // owned, canonical; NULL: none
    uint64_t matches;  // the requirements that its labels meet: bit lane - 1
    struct heap ready; // a lane: READY records of the groups that are bound to it
    uint32_t flags;
    uint32_t result_row; // in an OP_DISPATCH: its index in the result + 1; else 0
    uint16_t labels_len;
    uint8_t mode; // enum worker_mode
};

struct worker {
    uint64_t hash;            // of the name
    struct registration *row; // owned; NULL: not registered
    uint64_t serial;          // number of the registration
    int64_t expires_at;       // end of the registration
    uint32_t capacity;        // 0: not registered
    uint32_t open;            // locks and tickets
    uint32_t first_ticket;    // a message's handle
    uint32_t last_ticket;
    uint32_t free_next;
    uint8_t name_len; // 0: a free row
    char name[WORKER_NAME_MAX];
};

// The labels that messages require. A row without messages is kept: most come again.
struct requirement {
    struct heap ready; // a lane: its READY records
    char *text;        // owned, canonical; NULL: a free row
    uint64_t hash;
    uint64_t refs; // records with it
    uint16_t len;
};

// A group without messages, and the registration that got its last ticket (affinity.c).
struct affinity_row {
    uint64_t group;
    uint64_t serial;
    uint32_t older;
    uint32_t newer; // or the next free row
};

struct affinity_table {
    struct affinity_row *rows; // row 0 is none
    uint32_t len;
    uint32_t cap;
    uint32_t free;
    uint32_t used;
    uint32_t oldest;
    uint32_t newest;
    struct map by_group;
};

uint32_t worker_find(const struct machine *m, struct bytes name); // 0: unknown
uint32_t worker_need(struct machine *m, struct bytes name);
void worker_settle(struct machine *m, uint32_t w); // drops a row that is not needed
void worker_unregister(struct machine *m, uint32_t w);
void workers_expire(struct machine *m);
void ticket_link(struct machine *m, uint32_t w, uint32_t h);
void ticket_unlink(struct machine *m, uint32_t h);
struct bytes worker_name(const struct machine *m, uint32_t w);
