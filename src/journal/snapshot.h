// SPDX-License-Identifier: Apache-2.0
// Snapshots and floors as bytes (docs/format.md).
#pragma once

#include "journal/core.h"

#define SNAPSHOT_MAGIC   0x31534c53u // "SLS1"
#define SNAPSHOT_FORMAT  1
#define SNAPSHOT_LEN_MAX ((size_t)1 << 30)
#define FLOOR_MAGIC      0x31464c53u // "SLF1"
#define FLOOR_FORMAT     1
#define FLOOR_LEN        64

struct floor {
    struct journal_id id;
    uint64_t index; // 1, 2, 3 ... contiguous
    uint64_t slot;  // no process applies, acknowledges or extends a slot at or under it
    int64_t time;   // when it was written, store time
};

void floor_encode(const struct floor *f, struct buf *out);
MUST_USE enum err floor_decode(struct bytes from, struct floor *out); // ERR_CORRUPT

// The state after one slot: the journal's part, the newest known floor, and the machine's own
// bytes.
struct snapshot {
    struct journal_id id;
    uint16_t rules; // version of the fold's rules; 0 is written as 1
    const struct core *core;
    int64_t absent_at; // a store time when the slot after it was certainly absent
    uint64_t floor_index;
    uint64_t floor_slot;
    uint64_t digest;
    struct bytes machine; // decoded: a view
};

void snapshot_encode(const struct snapshot *s, struct buf *out);
// Fills core (initialised by the caller) and out. ERR_CORRUPT for any damage. ERR_UNAVAILABLE for
// an undamaged snapshot of a later format: only its rules are set.
MUST_USE enum err snapshot_decode(struct bytes from, struct core *core, struct snapshot *out);
