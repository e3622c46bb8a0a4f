// SPDX-License-Identifier: Apache-2.0
// What another process asks this node, as the owner of a shard. It is done on this node's own
// runner, or not at all: a node that does not own the shard answers that the shard has moved.
#pragma once

#include "ops/async.h"
#include "protocol/shard_wire.h"
#include "queues/queues.h"

struct served_call;

// `done` is called once, on any thread, perhaps before served_start returns. It must not block.
// `budget`: for the messages of the answer; NULL: unlimited.
struct served_call *served_new(struct engine *e, const char *queue, const struct shard_ask *ask,
                               struct answer_budget *budget,
                               void (*done)(struct served_call *g, void *ctx), void *ctx);
// The views in `ask` must live until `done` is called.
void served_start(struct served_call *g);
// Nothing is waited for any longer: `done` is called soon.
void served_cancel(struct served_call *g);
void served_answer(struct served_call *g, struct buf *out); // in `done`: the encoded answer
// After `done`: the answer did not arrive. Locks that it granted are released, and a message that
// it announced is announced to the next waiter. May be called in `done`, too.
void served_lost(struct served_call *g);
// What was done, for the counters of the node.
size_t served_deliveries(const struct served_call *g); // messages in the answer
size_t served_sent(const struct served_call *g);       // messages that were added
// Returns the outcomes of an ack, fail, release or renew; the caller frees them. NULL: none.
struct sluice_outcome *served_outcomes(const struct served_call *g, size_t *len);
void served_free(struct served_call *g); // after `done`; NULL is fine

// The effects of such a call (asks.c).
struct local_call;
struct call_slot;
const struct op_claim *served_claim(struct local_call *c);
void served_await(struct local_call *c, struct call_slot *slot);
// In a moment, announces the message that this part found to the next waiter of its shard.
void served_notify(struct local_call *c, uint32_t part);
