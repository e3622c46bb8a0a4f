// SPDX-License-Identifier: Apache-2.0
// Writes the heartbeats of registered workers that receive at this node. Each queue has a time when
// it is looked at next: after a third of the shortest ttl, or after BEATS_NONE_MS if no worker that
// this node hears of is registered.
#pragma once

#include <stdint.h>

struct heartbeats;
struct server;
struct heartbeats *heartbeats_new(struct server *s); // after the presence list; NULL: no thread
void heartbeats_free(struct heartbeats *h);          // waits for its task; NULL is allowed
// A worker joined through this node.
void heartbeats_joined(struct heartbeats *h, const char *queue, int64_t ttl_ms);
