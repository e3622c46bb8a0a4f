// SPDX-License-Identifier: Apache-2.0
// The short way of later.h: no thread, straight to the desk. Each answers false when the call
// cannot go this way (the queue is not open yet, it has several shards, a body is large, something
// is wrong with it): then nothing was done.
#pragma once

#include "local/async.h"

bool async_runner_send(struct sluice *s, const char *queue, const struct sluice_send *messages,
                       size_t len, const struct sluice_request *request, struct async_call *l);
bool async_runner_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                          struct async_call *l);
bool async_runner_settle(struct sluice *s, const char *queue, const struct async_settle *what,
                         struct async_call *l);
// Acks, answered to `acked`, and a receive whose claim shares their entry.
bool async_runner_both(struct sluice *s, const char *queue, const struct async_settle *acks,
                       struct async_call *acked, const struct sluice_receive *options,
                       struct async_call *l);
bool async_runner_cancel(struct sluice *s, struct async_call *l);
// later.c: a send that found no room in a queue with backpressure=block waits for some. Takes the
// messages, as wire_put_sends wrote them, and the rows. number: its place among them (pool_number).
struct buf;
void async_send_blocked(struct sluice *s, const char *queue, struct buf *messages,
                        const struct sluice_request *request, uint64_t number,
                        struct sluice_sent *sent, const struct sluice_error *why,
                        struct async_call *l);
