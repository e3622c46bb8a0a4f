// SPDX-License-Identifier: Apache-2.0
// What step.c and op_attempts.c share: the state of an op, the state of a shard.
#pragma once

#include "call/step.h"

struct call_op {
    enum { OP_NEW, OP_OPEN, OP_AGAIN, OP_OVER } state;
    bool repeated; // it was submitted twice, because its result is unknown
    bool here;     // the owner did not do it
    bool in_doubt; // ... or perhaps did
};

struct call_shard {
    enum {
        AWAIT_NONE,
        AWAIT_WANTED,
        AWAIT_OPEN,
        AWAIT_WITHDRAWN, // to be made again; it has not ended
        AWAIT_CANCELLED, // it has not ended
    } await;
    bool here;     // the owner did not await
    bool found;    // the await found a message, and no claim was made here since
    bool returned; // the owner gave no result for the claim: it is made again before any other
};

bool call_emit(struct call_effect *out, enum call_effect_kind kind, uint32_t index);
// Whether the next attempt is made here. If the shard has moved, the owner is found first.
bool call_stays_here(struct call_state *c, enum call_return how);
// Submits the next op, if one may be submitted now.
bool call_next_op(struct call_state *c, struct call_effect *out);
bool call_ops_are_over(const struct call_state *c);
