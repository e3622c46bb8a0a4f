// SPDX-License-Identifier: Apache-2.0
// What a handle remembers to decide when it proposes the next entry (pace.c).
#pragma once

#include "base/hash.h"
#include "base/interval.h"

#include <stdbool.h>
#include <stddef.h>

#define PACE_RIVALS_MAX 32

struct rival_writer {
    struct hash128 writer;
    int64_t at; // store time of its newest entry
};

struct pace {
    // The budget: thousandths of a put that may be spent, as of credit_at. Negative: overdrawn.
    int64_t credit;
    int64_t credit_at;

    int64_t put_us;        // duration of an append, smoothed; 0: not known yet
    struct interval asked; // when the open append was requested

    // Callers that were just answered will soon submit again: the next entry waits for them for a
    // short time.
    size_t joiners; // the number of ops to wait for
    int64_t join_until;

    // Other writers of the same journal.
    struct rival_writer rivals[PACE_RIVALS_MAX];
    size_t rivals_len;
    uint32_t run;      // own commits in a row without a pause for others
    uint32_t losses;   // ... and races lost in a row
    uint32_t solo;     // own commits right after each other, without another writer's between them
    uint32_t solo_max; // after this many the writer pauses, so that others can commit
    bool pauses_solo;  // the writer makes that pause
    int64_t won_at;    // when the newest own commit was folded
    int64_t turn_at;   // no proposal before this time
    int64_t tail_read_at; // when the tail was last seen
    bool read_old;        // an old entry was read since then: others may follow it

    int64_t owner_at;       // the newest entry of the owner of the current epoch
    int64_t away_at;        // ... and when the owner last failed to answer
    int64_t courtesy_until; // end of the pause of a direct writer beside a live owner
};
