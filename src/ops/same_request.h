// SPDX-License-Identifier: Apache-2.0
// Receives of several shards with the same request id, in one handle: the second one begins when
// the first one has ended. If the first one only waits, it ends at once, without a claim.
#pragma once

#include "queue/codec/ops.h"

struct local_call;

// Under the handle's lock. All zeros: the call has no turn to wait for.
struct request_turn {
    struct local_call *next; // of the queue's bucket
    struct request_id id;
    bool listed;
};

// Returns false if an earlier call has the id. Its end gives the turn to this one (call_note_turn).
bool turn_begin(struct local_call *c, const struct request_id *id);
void turn_end(struct local_call *c);
