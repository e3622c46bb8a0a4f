// SPDX-License-Identifier: Apache-2.0
// What another process asks this node, as the owner of a shard. It is done on this node's own
// runner, or not at all: a node that does not own the shard answers that the shard has moved.
#pragma once

#include "local/async.h"
#include "local/inside.h"
#include "owner/shard_wire.h"

struct guest;

// `done` is called once, on any thread, perhaps before guest_start returns. It must not block.
// `budget`: for the messages of the answer; NULL: unlimited.
struct guest *guest_new(struct sluice *s, const char *queue, const struct shard_ask *ask,
                        struct answer_budget *budget, void (*done)(struct guest *g, void *ctx),
                        void *ctx);
// The views in `ask` must live until `done` is called.
void guest_start(struct guest *g);
// Nothing is waited for any longer: `done` is called soon.
void guest_cancel(struct guest *g);
void guest_answer(struct guest *g, struct buf *out); // in `done`: the encoded answer
// After `done`: the answer did not arrive. Locks that it granted are released, and a message that
// it announced is announced to the next waiter. May be called in `done`, too.
void guest_lost(struct guest *g);
// What was done, for the counters of the node.
size_t guest_deliveries(const struct guest *g); // messages in the answer
size_t guest_sent(const struct guest *g);       // messages that were added
// Returns the outcomes of an ack, fail, release or renew; the caller frees them. NULL: none.
struct sluice_outcome *guest_outcomes(const struct guest *g, size_t *len);
void guest_free(struct guest *g); // after `done`; NULL is fine
