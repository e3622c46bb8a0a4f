// SPDX-License-Identifier: Apache-2.0
// Submits the calls of async.h directly to a shard's runner, without a thread. Each function
// returns false, and does nothing, if the call cannot go this way:
//   - the queue is not open yet,
//   - the call concerns several shards (a receive may),
//   - a body is large,
//   - the call is not valid.
#pragma once

#include "local/async.h"

bool async_runner_send(struct sluice *s, const char *queue, const struct sluice_send *messages,
                       size_t len, const struct sluice_request *request, struct async_call *l);
bool async_runner_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                          struct async_call *l);
bool async_runner_settle(struct sluice *s, const char *queue, const struct settle *what,
                         struct async_call *l);
// Acks, whose answer goes to `acked`, and a receive whose claim is in the same entry.
bool async_runner_both(struct sluice *s, const char *queue, const struct settle *acks,
                       struct async_call *acked, const struct sluice_receive *options,
                       struct async_call *l);
bool async_runner_cancel(struct sluice *s, struct async_call *l); // as async_cancel
// In async.c. A send into a full queue with backpressure=block waits for space. Takes `messages`,
// which wire_put_sends wrote, and `sent`. number: its place among the blocked sends (pool_number).
struct buf;
void async_send_blocked(struct sluice *s, const char *queue, struct buf *messages,
                        const struct sluice_request *request, uint64_t number,
                        struct sluice_sent *sent, const struct sluice_error *why,
                        struct async_call *l);
