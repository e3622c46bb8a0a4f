// SPDX-License-Identifier: Apache-2.0
// The checkers, one file each. They read the world and never change it. What they find goes to its
// findings.
#pragma once

#include "world.h"

// I1, check_fold.c: what a handle folds is the history, and all handles have the same state.
void check_fold_entry(struct world *w, struct node *n, const struct fold_entry *e);
void check_fold_state(struct world *w, struct node *n);

// I2, check_answer.c: an answer says what is in the history.
void check_answer(struct world *w, struct node *n, const struct journal_reply *r);
void check_patience(struct world *w,
                    struct node *n); // after a tick: no call waits past its deadline

// I8, check_floor.c: floors rise, drops stay under them, needed and young slots stay.
void check_floor_made(struct world *w, const char *key, struct bytes body);
void check_slot_dropped(struct world *w, uint64_t slot, int64_t made_at);
void check_object_deleted(struct world *w, const char *key);
void check_floor_sent(struct world *w, struct node *n, const struct request *q);

// check_live.c: after the faults everything gets done.
void check_live(struct world *w);
size_t count_snapshots(const struct world *w); // in the bucket

// check_lying.c: a handle that folded what the store later denied has halted.
void check_lying_folded(struct node *n, const struct fold_entry *e);
void check_lying(struct world *w);
// A handle that was halted goes on: the store has the last slot that it folded, or dropped it.
void check_resumed(struct world *w, struct node *n);
