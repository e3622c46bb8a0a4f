// SPDX-License-Identifier: Apache-2.0
// Which messages changed, for readers that wait for single ones: the message moved to another
// state, or a signal to it was delivered or has ended. It is no part of the state. A machine that
// was not asked to note changes tests one pointer.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CHANGES_MAX 4096 // that are remembered

struct machine;

void machine_note_changes(struct machine *m, bool on);
uint64_t machine_changes(const struct machine *m); // how many so far; it never falls
// The message of a change, of those before machine_changes. 0: it is not remembered, and any
// message may have changed.
uint64_t machine_change(const struct machine *m, uint64_t number);

// For the files of this folder.
struct changes {
    uint64_t *seqs; // a ring; NULL: nothing is noted
    uint64_t count;
    uint64_t first; // the earlier ones are not remembered
};
void changes_note(struct machine *m, uint64_t seq);
void changes_forget(struct machine *m); // any message may have changed
