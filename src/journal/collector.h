// SPDX-License-Identifier: Apache-2.0
// Private to a collector: shared by collect.c (the stages of a round) and collect_when.c (when a
// round begins).
#pragma once

#include "journal/sweep.h"

enum stage {
    STAGE_IDLE,
    STAGE_SNAPSHOTS,
    STAGE_FLOORS,
    STAGE_PROOF_SNAPSHOT,
    STAGE_PROOF_SLOT,
    STAGE_RAISING,
    STAGE_SEALING,
    STAGE_EXTENTS,
    STAGE_DROPPING,
    STAGE_DELETING,
    STAGE_SWEEPING,
};

#define QUICK_ROUNDS  4    // what a floor needs
#define QUICK_SHARE   60   // of V: the pause between them
#define SNAPSHOTS_MAX 64   // a round handles at most this many; the others wait for the next round
#define EXTENTS_LIMIT 1000 // the limit of a bucket for one list or delete request

struct extent {
    uint64_t first;
    uint64_t last;
};

struct kept_snapshot {
    uint64_t slot;
    struct interval written;
};

struct collector {
    struct journal *journal;
    enum stage stage;
    struct interval now;
    struct open_request ask;
    struct buf body; // the floor that is being written

    struct kept_snapshot snapshots[SNAPSHOTS_MAX]; // ascending; the newest ones
    size_t snapshots_len;
    size_t deleting; // index of the snapshot to check next
    int64_t kept_at; // when the last snapshot that stays was written
    uint64_t floor_index;
    uint64_t floor_slot;
    int64_t floor_time;
    uint64_t target;       // the slot that the floor is to rise to
    struct hash128 chain;  // of the snapshot at target
    uint64_t extents_from; // the first slot of the next page
    bool extents_more;
    struct extent drops[EXTENTS_LIMIT];
    size_t drops_len;
    size_t dropping;
    uint64_t dropped;
    bool raised;       // the floor rose in this round
    bool sweep_wanted; // a sweep is due
    bool finishing;    // the journal has ended, and this round is to collect all of it
    bool wants_slot;   // the next floor needs an entry after the last slot
    bool leaves_data;  // this round leaves data that a later round can remove
    bool spans_floor;  // ... because an extent spans the floor
    bool finished;
    bool urgent;          // the store is nearly full: this round prepares the next floor
    bool gain;            // ... because data over the floor is not needed
    int64_t urgent_at;    // the earliest time of the next such round: one every V ...
    uint32_t quick;       // ... but so many follow at once
    uint64_t urgent_slot; // the slot that the floor must reach in such rounds
    struct sweep sweep;
};

static inline const struct journal_rules *collector_rules(const struct collector *c)
{
    return &c->journal->config.rules;
}

// Returns true if the store is nearly full and the rules react to it: data is removed earlier.
// Slots still stay longer than V, and all other conditions of a floor hold.
static inline bool collector_is_urgent(const struct collector *c)
{
    return c->journal->tight && collector_rules(c)->retain_tight_ms > 0;
}

// The state lets a floor rise up to here. The state may be behind the newest snapshot: what it has
// not folded may limit the floor, too.
static inline uint64_t collector_floor_limit(const struct collector *c)
{
    const struct journal *j = c->journal;
    if (!j->fold.floor_limit) return UINT64_MAX;
    uint64_t limit = j->fold.floor_limit(j->fold.ctx, c->now.lo);
    return limit < j->core.slot ? limit : j->core.slot;
}

bool collector_floor_too_soon(const struct collector *c);       // after the last one
void collector_round(struct collector *c, struct interval now); // call it only while no round runs

// Counts the hour from now, whatever the round does, so that an unreachable store does not cause
// repeated sweeps.
void collector_note_sweep(struct collector *c, struct interval now);
