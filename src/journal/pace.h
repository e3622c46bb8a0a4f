// SPDX-License-Identifier: Apache-2.0
// When the next entry is proposed: what a handle remembers to wait no longer than it pays.
#pragma once

#include "base/hash.h"
#include "base/interval.h"

#include <stdbool.h>
#include <stddef.h>

#define PACE_RIVALS_MAX 32

struct rival {
    struct hash128 writer;
    int64_t at; // its newest entry, store time
};

struct pace {
    // The budget: thousandths of a put that may be spent, as of credit_at. Below 0: overdrawn.
    int64_t credit;
    int64_t credit_at;

    int64_t put_us;        // how long an append takes, smoothed; 0: not known yet
    struct interval asked; // when the open one was asked for

    // Those who were just answered are about to come back: the next entry waits for them a little.
    size_t joiners; // so many ops are worth waiting for
    int64_t join_until;

    // Others who write the same journal.
    struct rival rivals[PACE_RIVALS_MAX];
    size_t rivals_len;
    uint32_t run;      // commits of ours in a row, without stepping aside
    uint32_t losses;   // ... and races lost in a row
    uint32_t solo;     // commits one right after the other, and nobody else's between them
    uint32_t solo_max; // after so many we listen whether we keep others from getting a word in
    bool listens;
    int64_t won_at;    // our newest commit
    int64_t turn_at;   // not before this is it our turn again
    int64_t looked_at; // the tail was seen

    int64_t owner_at;       // the newest entry that the owner of the current epoch committed
    int64_t away_at;        // ... and when it last did not answer somebody who asked it
    int64_t courtesy_until; // a direct writer beside a live owner pauses
};
