// SPDX-License-Identifier: Apache-2.0
// So many requests a second for each client. A client is a name (of a token, or an address); those
// seen least are forgotten first, so memory is bounded.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct limiter;

struct limiter *limiter_new(void);
void limiter_free(struct limiter *l); // NULL is fine
// 0: no limit. A second's worth may be used at once. Takes effect from the next request on.
void limiter_set(struct limiter *l, int64_t per_second);
bool limiter_limits(const struct limiter *l); // there is a limit at present
// False: too many; *wait_ms is how long until the next one is welcome. now_ns never steps.
bool limiter_take(struct limiter *l, const char *client, int64_t now_ns, int64_t *wait_ms);
