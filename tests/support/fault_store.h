// SPDX-License-Identifier: Apache-2.0
// A store in front of another that fails as networks do, and, when asked to, lies. The faults are
// drawn from a seed, in the order of the calls.
#pragma once

#include "store/store.h"

// Chances in hundredths of a percent (100 is 1 %). Those of one call add up: at most one of the
// first four happens.
struct fault_options {
    uint64_t seed;
    uint32_t lost_request; // not applied, ERR_UNAVAILABLE
    uint32_t lost_reply;   // applied, and a write answers ERR_UNKNOWN (a read ERR_UNAVAILABLE)
    uint32_t unknown_lost; // writes: not applied, ERR_UNKNOWN
    uint32_t unknown_late; // writes: ERR_UNKNOWN, applied some calls later
    uint32_t late_calls;   // how many calls later at most; 0: only at store_fault_flush
    uint32_t slow;         // takes slow_ms longer
    int64_t slow_ms;
    // Lies: what a store does that must be refused at start.
    bool ignores_condition; // put_new overwrites
    bool lets_two_win;      // two creators of a key are both answered that they won
    bool stale_absence;     // the first get of a key answers ERR_NOT_FOUND
};

// Owns the inner store. Options are copied.
struct store *store_fault_take(struct store *inner, const struct fault_options *options);
void store_fault_set(struct store *fault,
                     const struct fault_options *options); // between calls; not the seed
void store_fault_flush(struct store *fault);               // applies all late writes now
uint64_t store_fault_count(struct store *fault);           // faults made so far
