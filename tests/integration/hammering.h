// SPDX-License-Identifier: Apache-2.0
// Several processes hammer one journal in a directory, some are killed in the middle, and in the
// end the counters are held against what was acknowledged.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HAMMER_PROCESSES_MAX 32
#define HAMMER_THREADS_MAX   16

struct hammer_options {
    const char *dir; // of the store; must be empty or absent
    int processes;
    int threads; // of each process
    int64_t run_ms;
    bool kills;    // kill -9 and restart one now and then
    bool shows;    // one line a second on standard error, when that is a terminal
    uint64_t seed; // decides which process is killed, and when
};

struct hammer_counts {
    uint64_t acknowledged;
    uint64_t unknown;        // may or may not have been applied: in flight at a kill, mostly
    uint64_t unknown_landed; // ... and turned out to be
    uint64_t entries;
    uint64_t collected; // slots dropped meanwhile
    uint64_t killed;
    uint64_t lost;      // acknowledged and not there
    uint64_t doubled;   // there more often than was ever asked for
    uint64_t went_back; // answers of a counter that did not rise
    bool digests_equal; // of two handles that were opened after everything
    int64_t took_ms;
};

// Forks: the caller must have one thread. False, with a sentence on standard error: it could not be
// run to the end. A violation is in the counts (hammer_sound).
bool hammer_run(const struct hammer_options *o, struct hammer_counts *to);
bool hammer_sound(const struct hammer_counts *t);
