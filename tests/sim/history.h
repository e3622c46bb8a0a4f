// SPDX-License-Identifier: Apache-2.0
// The true history, whatever a handle believes: slot n is canonical when it is created
// while the history has n - 1 slots. It is folded here by rules of its own, which share nothing
// with the journal but the bytes of an entry.
#pragma once

#include "journal/entry.h"
#include "tickets.h"
#include "trace.h"

struct history_slot {
    struct bytes bytes; // owned
    int64_t made_at;    // true store time
    bool is_void;
    uint64_t epoch;          // after the slot
    uint64_t machine_digest; // after the slot
    uint64_t first_digest;   // of the first handle that got here; 0: none yet
};

struct history_writer {
    struct hash128 id;
    uint64_t sequence;
};

struct history {
    struct findings *findings;
    struct tickets *tickets;
    struct history_slot *slots; // slots[n - 1] is slot n
    uint64_t len;
    uint64_t cap;
    struct registers *machine;
    struct fold fold;
    struct buf text;
    int64_t now;
    uint64_t epoch;
    bool coord_set;
    uint8_t coord[16];
    uint64_t token;
    struct hash128 chain;
    struct history_writer *writers;
    size_t writers_len;
    size_t writers_cap;
    uint64_t ended;   // the slot that ended the machine; 0: none
    uint64_t zombies; // slots created again after they were dropped
    uint64_t voids;   // entries without effect
    uint64_t repeats; // ops that were there already
};

void history_init(struct history *h, struct tickets *tickets, int64_t memory_ms,
                  struct findings *findings);
void history_done(struct history *h);
// The store is about to create slot at the true moment now.
void history_slot_made(struct history *h, uint64_t slot, struct bytes bytes, int64_t now);
const struct history_slot *history_at(const struct history *h, uint64_t slot); // NULL: none yet
