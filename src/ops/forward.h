// SPDX-License-Identifier: Apache-2.0
// Parts of a call at the owner of their shard. Each returns false if the part is to be done here;
// otherwise the slots get the owner's answer, or how the attempt ended (call_note_slot).
#pragma once

#include "ops/call.h"

// claim: the slot of the claim that follows the op; NULL: none.
bool forward_submit(struct local_call *c, const struct call_effect *e, uint32_t shard, struct op op,
                    struct call_slot *slot, struct call_slot *claim);
bool forward_claim(struct local_call *c, const struct call_effect *e, int64_t wait_ms,
                   struct call_slot *slot);
bool forward_await(struct local_call *c, const struct call_effect *e, struct call_slot *slot);
bool forward_listen(struct local_call *c, const struct call_effect *e, uint32_t shard,
                    const struct shard_listen *what, struct call_slot *slot);
bool forward_is(struct local_call *c, uint32_t shard); // another node owns the shard
// Returns true if only the owner's part of the claim's wait is over.
bool forward_part_is_over(const struct call_slot *slot);
// Returns true if only the owner hands out messages of the queue, and neither this process nor the
// node that it asked is the owner.
bool forward_is_ownerless(const struct call_slot *slot);
bool forward_is_evicted(const struct call_slot *slot); // an operator evicted the worker
// The end of such a claim or await: the present owner is found and asked, or the receive fails.
enum call_find_end forward_find_owner(struct local_call *c, struct call_slot *slot, bool over);
// Returns true if the slot gets no event. An op in the same request is in doubt then.
bool forward_cancel(struct call_slot *slot);
void forward_free(struct call_slot *slot); // after its event; nothing if it was done here
