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
bool desk_way_cancel(struct sluice *s, struct later *l);
