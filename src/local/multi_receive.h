// SPDX-License-Identifier: Apache-2.0
// A receive over all shards of a queue: it awaits something to claim in each of them, claims in the
// first that has it, and goes on waiting when somebody else was faster. With a request id of the
// caller's it first looks for what that brought before.
#pragma once

#include "local/inside.h"

struct multi_receive;

// err is that of a claim; a has what was claimed, or nothing when the time was up. Called once, on
// any thread, perhaps before multi_receive_begin returns; what it is shown lives until it returns.
typedef void multi_receive_done(void *ctx, enum err err, uint32_t shard, struct runner_answer *a);

// desks: one for each shard, all open. The claim is copied. named: its request id is the caller's,
// who may ask again with it.
struct multi_receive *multi_receive_begin(struct open_queue *q, struct shard_runner *const *runners,
                                          const struct op_claim *claim, bool named, int64_t wait_ms,
                                          multi_receive_done *done, void *ctx);
// True: nothing was claimed, and done will not be called. False: it was called, or will be soon; or
// somebody else has cancelled it.
bool multi_receive_cancel(struct multi_receive *q);
// Once done was called, when it may be called from there, or it was cancelled.
void multi_receive_release(struct multi_receive *q);

// receive.c: NULL when the receive is refused before it begins.
struct multi_receive *receive_begin_multi(struct open_queue *q, struct shard_runner *const *runners,
                                          const struct sluice_receive *o, multi_receive_done *done,
                                          void *ctx);
