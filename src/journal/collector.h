// SPDX-License-Identifier: Apache-2.0
// Inside a collector: shared by collect.c (the stages of a round) and collect_when.c (when there is
// one).
#pragma once

#include "journal/sweep.h"

enum stage {
    STAGE_REST,
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

#define SNAPSHOTS_MAX 64   // a round looks at this many at most; more wait for the next
#define EXTENTS_LIMIT 1000 // what a bucket lists or deletes in one request

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
    struct asking ask;
    struct buf body; // of the floor being written

    struct kept_snapshot snapshots[SNAPSHOTS_MAX]; // ascending; the newest ones
    size_t snapshots_len;
    size_t deleting; // index of the snapshot to look at next
    int64_t kept_at; // when the last one was written that stays
    uint64_t floor_index;
    uint64_t floor_slot;
    int64_t floor_time;
    uint64_t target;       // where the floor shall rise to
    struct hash128 chain;  // of the snapshot there
    uint64_t extents_from; // the next page
    bool extents_more;
    struct extent drops[EXTENTS_LIMIT];
    size_t drops_len;
    size_t dropping;
    uint64_t dropped;
    bool raised;       // the floor, in this round
    bool sweep_wanted; // an hour has passed
    bool finishing;    // the journal has ended, and this round is to take all of it
    bool wants_slot;   // ... for which there has to be one after the last
    bool left;         // this round leaves something that may go later
    bool joined;       // ... for it hangs together with what is over the floor
    bool finished;
    bool pressing;         // the store is nearly full: this round is to prepare the next floor
    bool gain;             // ... for something over the floor is not needed
    int64_t press_at;      // the next such round, at the earliest: one every V
    uint64_t pressed_slot; // the floor that they are to reach ...
    int64_t pressed_at;    // ... since when
    struct sweep sweep;
};

static inline const struct journal_rules *collector_rules(const struct collector *c)
{
    return &c->journal->config.rules;
}

// The store is nearly full, and the rules know of it: what may go goes earlier. Slots stay longer
// than V also then, and every other condition of a floor holds as ever.
static inline bool collector_presses(const struct collector *c)
{
    return c->journal->tight && collector_rules(c)->retain_tight_ms > 0;
}

void collector_round(struct collector *c, struct interval now); // none is running

// The hour counts from here whatever comes of the round: a store that is away is not asked again
// and again.
void collector_note_sweep(struct collector *c, struct interval now);
