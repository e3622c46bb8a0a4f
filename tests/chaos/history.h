// SPDX-License-Identifier: Apache-2.0
// Checks the stress test's history: reads the events of a queue from the first to the last and
// follows every message through them.
#pragma once

#include "record.h"

// What must not be, counted; the first case of each kind is described.
struct findings {
    uint64_t two_holders; // claimed while it was held
    uint64_t two_ends;    // a second terminal outcome, or a claim after it
    uint64_t disorder;    // strict: delivered before an earlier one of its group had ended
    uint64_t never_sent;  // events of a message that was never sent
    uint64_t twice_told;  // an event id that came again, or a position that went back
    uint64_t lost;        // sent, and not at its end
    char first[6][200];
    // and what may be
    uint64_t enqueued;
    uint64_t claims;
    uint64_t again; // claims of a message that had been claimed before
    uint64_t expired;
    uint64_t processed;
    uint64_t dead;
    uint64_t events;
};

// Adds what a recorder heard of its queue. False: no memory.
bool history_check(const struct recorder *r, const struct shared_record *shared,
                   struct findings *v);
