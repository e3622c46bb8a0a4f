// SPDX-License-Identifier: Apache-2.0
// The short way of later.h: no thread, straight to the desk. Each answers false when the call
// cannot go this way (the queue is not open yet, it has several shards, a body is large, something
// is wrong with it): then nothing was done.
#pragma once

#include "api/later.h"

bool desk_way_send(struct sluice *s, const char *queue, const struct sluice_send *messages,
                   size_t len, const struct sluice_request *request, struct later *l);
bool desk_way_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                      struct later *l);
bool desk_way_settle(struct sluice *s, const char *queue, const struct later_settle *what,
                     struct later *l);
// Acks, answered to `acked`, and a receive whose claim shares their entry.
bool desk_way_both(struct sluice *s, const char *queue, const struct later_settle *acks,
                   struct later *acked, const struct sluice_receive *options, struct later *l);
bool desk_way_cancel(struct sluice *s, struct later *l);
// later.c: a send that found no room in a queue with backpressure=block waits for some. Takes the
// messages, as wire_put_sends wrote them, and the rows. number: its place among them (pool_number).
struct buf;
void later_send_blocked(struct sluice *s, const char *queue, struct buf *messages,
                        const struct sluice_request *request, uint64_t number,
                        struct sluice_sent *sent, const struct sluice_error *why, struct later *l);
