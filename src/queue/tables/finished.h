// SPDX-License-Identifier: Apache-2.0
// How messages ended (finished.c).
#pragma once

#include "queue/core/machine.h"
#include "queue/tables/name_table.h"

#include <assert.h>

// Messages seq .. seq + count - 1 that ended alike at the same time.
struct finished_row {
    uint64_t seq;
    int64_t at;
    uint32_t count;
    uint32_t worker; // index in names; 0: none
    uint32_t attempts;
    uint8_t outcome; // enum finished_outcome
};
static_assert(sizeof(struct finished_row) == 32, "a row of finished messages costs 32 bytes");

struct finished_table {
    struct finished_row *rows; // a ring, by time
    uint32_t head;
    uint32_t len;
    uint32_t cap; // at most FINISHED_MAX
    // A hash of all rows so far, also of those that are dropped, but not of the last row, which may
    // still grow.
    uint64_t chain;
    struct name_table names;
};

// The messages ended now. worker may be empty.
void finished_note(struct machine *m, uint64_t seq, uint32_t count, uint32_t attempts,
                   struct bytes worker, enum finished_outcome outcome);
// Moves *index on to the row that has this message. False: there is none after *index.
bool finished_seek(const struct machine *m, uint32_t *index, uint64_t seq);
// Whether these messages are in the rows, in the order of the rows, and none is there twice.
bool finished_in_order(const struct machine *m, uint32_t len,
                       uint64_t (*seq_at)(const struct machine *m, uint32_t index));
bool finished_is_over(const struct machine *m, uint32_t index, int64_t now); // a row
void finished_expire(struct machine *m); // drops the rows that are older than `retention`
void finished_drop_all(struct machine *m);
void finished_clear(struct machine *m); // for a new state
uint64_t finished_digest(const struct machine *m);
void finished_save(const struct machine *m, struct buf *out);
void finished_load(struct machine *m, struct reader *r);
void finished_check(const struct machine *m);
