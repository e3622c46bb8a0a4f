// SPDX-License-Identifier: Apache-2.0
// How far a bus names the events of a queue, for a reader of the journal that sleeps until the bus
// names an event that it has not read. A message of the bus is never an event: it only says where
// to look. So a forged message costs at most one look at a journal.
//
// The reader sleeps only while the bus keeps up:
//   - the connection is up, and the bus has named an event of the queue since it came up;
//   - the bus has named every event that was read before the last sleep.
// A bus that names an event which the journal does not have is not believed until it reconnects.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define EVENT_REF_LIFE 32 // digits of a queue's id

// An event as the headers of its message name it.
struct event_ref {
    char life[EVENT_REF_LIFE + 1];
    uint32_t shard;
    uint64_t sequence;
};

// Reads ce-id, "<queue id>-<shard>-...", and ce-sequence. Either may be NULL. Returns false if they
// name no event of a queue.
bool event_ref_read(const char *id, const char *sequence, struct event_ref *out);

struct bus_progress {
    bool up;
    uint32_t shards;
    struct bus_progress_shard {
        uint64_t read;   // sequence of the last event that was read from the journal
        uint64_t named;  // the highest one that the bus named since `since`; 0: none
        uint64_t since;  // the bus must name the events above this one
        uint64_t needed; // ... and must have named this one before the next sleep
    } * by_shard;
};

enum bus_progress_next {
    BUS_PROGRESS_FOLLOW, // wait at the journal
    BUS_PROGRESS_LOOK,   // read the journal of one shard
    BUS_PROGRESS_SLEEP,  // until bus_progress_named returns true, or for a bounded time
};

void bus_progress_init(struct bus_progress *p, uint32_t shards);
void bus_progress_done(struct bus_progress *p);
// The connection came up or went down, or the reader has read what existed.
void bus_progress_begin(struct bus_progress *p, bool up);
void bus_progress_read(struct bus_progress *p, uint32_t shard, uint64_t sequence);
// The bus named an event. Any value is allowed. Returns whether the reader has not read it.
bool bus_progress_named(struct bus_progress *p, uint32_t shard, uint64_t sequence);
// found: the last look or wait brought events. *shard is set for BUS_PROGRESS_LOOK.
enum bus_progress_next bus_progress_next(struct bus_progress *p, bool found, uint32_t *shard);
