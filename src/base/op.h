// SPDX-License-Identifier: Apache-2.0
// One op as an entry carries it: a request. The fold decides its result.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

struct op {
    uint16_t kind; // below OP_KIND_MACHINE: of the journal; the rest: of the machine
    struct bytes payload;
};

#define OP_KIND_MACHINE 16

// The fold's result for an op. ERR_OK: applied. Else the op was refused and changed nothing. The
// body explains the result. The machine encodes it and appends it to a buffer that all results
// share, so only its place is stored here.
struct op_result {
    enum err err;
    uint32_t body_at;
    uint32_t body_len;
};
