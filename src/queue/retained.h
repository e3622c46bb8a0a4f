// SPDX-License-Identifier: Apache-2.0
// What is kept of finished messages beside how they ended (retained.c).
#pragma once

#include "queue/machine.h"

// A finished message with a result, a reason or a body. Rows have the order of the rows about
// finished messages, and go with them.
struct retained_row {
    uint64_t seq;
    uint64_t slot; // of the op with the result or the reason; 0: none
    uint32_t op;
    uint32_t index;
    uint64_t body_slot; // 0: the body is not kept
    uint32_t body_skip;
    uint32_t bytes; // of the result
};

struct retained {
    struct retained_row *rows; // a ring
    uint32_t head;
    uint32_t len;
    uint32_t cap;
    uint64_t results;
    uint64_t result_bytes;
    uint64_t bodies;
};

// The message was cancelled. why: the op with the reason; slot 0: none
void retained_note_reason(struct machine *m, uint64_t seq, struct op_place why);
void retained_clear(struct machine *m); // for a new state
void retained_save(const struct machine *m, struct buf *out);
void retained_load(struct machine *m, struct reader *r);
void retained_check(const struct machine *m);
uint64_t retained_marks(const struct machine *m); // slots that it marks, for machine_check
bool retained_lives_at(const struct machine *m, uint64_t slot, uint32_t op);
