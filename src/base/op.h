// SPDX-License-Identifier: Apache-2.0
// One op as an entry carries it: what was asked. The fold decides what comes of it.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

struct op {
    uint16_t kind; // under OP_KIND_MACHINE: the journal's own; the rest belongs to the machine
    struct bytes payload;
};

#define OP_KIND_MACHINE 16

// What the fold made of an op. ERR_OK: applied. Else refused, and nothing changed. The body
// explains either; it is encoded by the machine and appended to a buffer that the results share, so
// only its place is kept here.
struct op_result {
    enum err err;
    uint32_t body_at;
    uint32_t body_len;
};
