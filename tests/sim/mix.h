// SPDX-License-Identifier: Apache-2.0
// What one seed draws: the sizes of its world, its rules, and which faults it suffers how often.
// Most seeds have a few kinds of trouble rather than all: a rare fault among many others hides the
// one before it.
#pragma once

#include "base/rng.h"
#include "journal/journal.h"

#define MIX_NODES_MAX 8

// How likely each fate of one request is, in hundredths of a percent. The rest arrives and is
// answered.
struct mix_fates {
    uint32_t lost_request; // never performed, no answer
    uint32_t lost_reply;   // performed, no answer
    uint32_t late;         // no answer, performed much later
    uint32_t twice;        // performed twice; the answer is that of either
    uint32_t unavailable;  // certainly not performed (409, 429, 503)
    uint32_t limit;        // refused for good (a full disk)
    uint32_t slow;         // performed and answered, but takes as long as a late one
};

struct mix {
    struct journal_rules rules;
    int64_t memory_ms; // how long the machine remembers a request
    uint32_t nodes;
    uint32_t writers; // nodes 0 .. writers - 1 take ops; the rest only read
    uint32_t collectors;
    uint32_t names;
    int64_t run_ms; // the faulty phase
    int64_t end_ms; // how far into it the machine ends; 0: never
    int64_t ask_every_ms;
    uint32_t burst_max;
    int64_t patience_ms;
    uint32_t impatient; // hundredths of a percent of asks with hardly any patience
    uint32_t patient;   // ... with far too much of it
    int64_t latency_ms;
    int64_t timeout_ms;
    int64_t late_ms;
    struct mix_fates fates;
    int64_t collect_every_ms;
    int64_t sync_every_ms;
    // Mean time between two of them; 0: never.
    int64_t own_every_ms;
    int64_t switch_every_ms;
    int64_t storm_every_ms;
    int64_t cut_every_ms;
    int64_t crash_every_ms;
    int64_t pause_every_ms;
    int64_t jump_every_ms;
    uint32_t
        stall; // chance that a node is paused just after it sent an append, and never hears of it
    int64_t quiet_every_ms; // no client asks anything for longer than R
    int64_t jump_ms;
    // When the handles propose
    int64_t puts_per_second;
    bool high_latency;
    int64_t courtesy_ms;
    int64_t courtesy_live_ms;
    // The store
    int64_t store_tick_ms;
    uint32_t run_max;
    int64_t list_lag_ms;
    uint32_t partial;
    uint32_t garbled; // answers of reads that are wrong once
    uint32_t lost;    // lying stores: appends after which the last slot is gone for good
};

void mix_draw(struct mix *m, struct rng *rng);
// By chances of their own.
void mix_draw_end(struct mix *m, uint64_t seed);
void mix_draw_wrong(struct mix *m, uint64_t seed, bool lying);
