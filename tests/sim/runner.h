// SPDX-License-Identifier: Apache-2.0
// Runs seeds: one with its line, or many in a few processes with their figures.
#pragma once

#include "trace.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct runner_options {
    bool lying;
    bool trace;
    bool keep_going;   // count broken seeds instead of stopping at the first
    bool quiet;        // no report of a broken seed
    bool tap;          // among test results: reports are comments
    uint32_t scenario; // of the world; 0: the usual one
    uint32_t jobs;
};

#define RUNNER_FIGURES 32

// What one or many seeds came to.
struct runner_sum {
    uint64_t seeds;
    uint64_t steps;
    uint64_t commits;
    uint64_t dropped;
    uint64_t swept;    // objects, in the queue's world
    uint64_t messages; // the queue's world: sent, dead letters that arrived
    uint64_t letters;
    uint64_t figures[RUNNER_FIGURES]; // of the other worlds: each has its own
    uint64_t zombies;
    uint64_t lies;
    uint64_t forks;        // worlds in which two versions of a slot were folded
    uint64_t escapes;      // worlds in which a handle left a losing version behind without halting
    uint64_t halted;       // worlds in which a handle halted
    uint64_t resumed;      // ... and went on
    uint64_t broken;       // worlds with a broken promise
    uint64_t broken_first; // the lowest seed of those
    char invariant[24];    // that it broke
};

// Runs one seed in this process and prints its line. False: a promise was broken, and reported.
bool run_seed(uint64_t seed, const struct runner_options *o, struct runner_sum *sum);
// The same seed twice, whole traces compared.
bool run_twice(uint64_t seed, const struct runner_options *o, size_t *trace_len);
// first .. last in o->jobs processes; a crash of one of them counts as a broken promise. Stops at
// the first, unless told to keep going.
bool run_seeds(uint64_t first, uint64_t last, const struct runner_options *o,
               struct runner_sum *sum);

// Given by each world: runs one seed and adds its figures to the sum. False: a promise was broken.
bool world_try(uint64_t seed, const struct runner_options *o, struct buf *all,
               struct runner_sum *sum, uint64_t *hash);
// Writes the figures that only this kind of world has ("dropped=12").
void world_figures(const struct runner_sum *sum, char *out, size_t out_len);
// Counts a seed that has run, and reports what it broke. Returns what world_try returns.
bool runner_note(uint64_t seed, const struct trace *trace, const struct findings *findings,
                 const struct runner_options *o, struct runner_sum *sum);
