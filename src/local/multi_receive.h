// SPDX-License-Identifier: Apache-2.0
// A receive over all shards of a queue. It waits in every shard for a message and claims in the
// first shard that has one. If another receive claims that message first, it waits again. With a
// caller's request id, it first asks every shard for an earlier answer to the id.
#pragma once

#include "local/inside.h"

struct multi_receive;

// err: the claim's. a: the claimed messages; none when the time was up. Called once, on any thread,
// perhaps before multi_receive_begin returns. `a` is valid until it returns.
typedef void multi_receive_done(void *ctx, enum err err, uint32_t shard, struct runner_answer *a);

// runners: one for each shard, all open. The claim is copied. named: the caller gave the request id
// and may repeat the receive with it.
struct multi_receive *multi_receive_begin(struct open_queue *q, struct shard_runner *const *runners,
                                          const struct op_claim *claim, bool named, int64_t wait_ms,
                                          multi_receive_done *done, void *ctx);
// True: nothing was claimed, and `done` will not be called. False: `done` was called or will be
// soon, or another thread has cancelled the receive.
bool multi_receive_cancel(struct multi_receive *q);
// Drops the caller's reference. Call it after a cancel, or from `done` or later.
void multi_receive_release(struct multi_receive *q);

// In receive.c. NULL: the options are not valid.
struct multi_receive *receive_begin_multi(struct open_queue *q, struct shard_runner *const *runners,
                                          const struct sluice_receive *o, multi_receive_done *done,
                                          void *ctx);
