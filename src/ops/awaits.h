// SPDX-License-Identifier: Apache-2.0
// Awaits at the owners of shards. All receives of a handle that wait at one node for one queue
// share its polls: a poll waits for every shard that a receive waits for. So the number of
// connections does not grow with the number of receives, and a receive that ends costs no
// connection. A message that a poll announces is announced to the receive that has waited longest.
#pragma once

#include "ops/call.h"

struct link_target;
struct await_hub;

// Waits at the node for a message in shard slot->index, until the receive's wait ends. The slot
// gets its event by call_note_slot.
void awaits_begin(struct local_call *c, struct link_target *t, const char *token,
                  struct call_slot *slot);
// Returns true if the slot gets no event. Only for a slot of awaits_begin.
bool awaits_cancel(struct call_slot *slot);
// A receive will not claim the message that a poll announced: announces it to the next one.
void awaits_notify(struct open_queue *q, uint32_t shard);
// When the queue is closed. No receive waits any more. Waits until the polls have ended.
void awaits_free(struct open_queue *q);
