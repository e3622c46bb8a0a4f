// SPDX-License-Identifier: Apache-2.0
// What is kept of finished messages beside how they ended (retained.c).
#pragma once

#include "base/map.h"
#include "base/ring.h"
#include "queue/core/machine.h"

#include <assert.h>

#define RETAINED_MAX FINISHED_MAX // rows; the newest are kept

enum retained_flag {
    RETAINED_RESULT = 1, // slot, op and index are of an ack with a result
    RETAINED_REASON = 2, // ... of the op that says why
    RETAINED_BODY = 4,
    RETAINED_FLAGS_ALL = 7
};

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
    uint8_t flags;
};
static_assert(sizeof(struct retained_row) == 48, "a row of retained data costs 48 bytes");

struct retained_table {
    struct retained_row *rows; // in the ring
    struct ring ring;
    uint64_t results;
    uint64_t result_bytes;
    uint64_t bodies;
    struct map uploads; // messages of rows with a body that was uploaded
};

// What the op that ends a message says.
struct retained_source {
    struct op_place place; // slot 0: nothing
    bool result;           // else a reason
    uint32_t bytes;        // of the result
};

// The message of this record ends now, and finished_note was called for it.
void retained_note(struct machine *m, uint32_t h, const struct retained_source *what);
// The row about finished messages with these numbers goes.
void retained_leave(struct machine *m, uint64_t seq, uint32_t count);
bool retained_upload(const struct machine *m, uint64_t seq); // a row needs its uploaded body
void retained_view(const struct retained_row *row, struct finished_view *out);
const struct retained_row *retained_at(const struct machine *m, uint32_t index);
void retained_clear(struct machine *m); // for a new state
extern const struct row_table retained_rows;
bool retained_ok(const struct machine *m); // the rows are about finished messages
void retained_check(const struct machine *m);
uint64_t retained_marks(const struct machine *m); // slots that it marks, for machine_check
bool retained_lives_at(const struct machine *m, uint64_t slot, uint32_t op);
bool retained_body_lives_at(const struct machine *m, struct place place);
