// SPDX-License-Identifier: Apache-2.0
// Limits the requests per second of each client. A client is a token's name or an address. Memory
// is bounded: clients that have sent least of late are dropped first.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct limiter;

struct limiter *limiter_new(void);
void limiter_free(struct limiter *l); // NULL is fine
// 0: no limit. A client may use a second's worth at once. Takes effect with the next request.
void limiter_set(struct limiter *l, int64_t per_second);
bool limiter_limits(const struct limiter *l); // returns whether there is a limit now
// Returns false if the client is over its limit; *wait_ms is then the time until its next request
// is allowed. `now_ns` must be monotonic.
bool limiter_take(struct limiter *l, const char *client, int64_t now_ns, int64_t *wait_ms);
