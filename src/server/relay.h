// SPDX-License-Identifier: Apache-2.0
// Requests about queues that another node owns are carried there as they came, and its answer is
// carried back: one commit for everybody's ops, whichever node a balancer chose. Sends, receives,
// acks, fails, releases and renewals; one hop at most.
//
// Whatever keeps an answer from coming, the request is then done here, with the same request id.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct server;
struct exchange;

// hosts: of peer_may_have_token; copied.
struct relays *relays_new(const char *hosts);
void relays_free(struct relays *r); // NULL is fine; nothing may be under way

// Before a handler does what it is for. Other than RELAY_NOT: the exchange is on its way, and is
// answered, or its route's handler is called again, perhaps before this returns: once more to go,
// after a look, and then to do it here. wait_ms: how long the owner may wait on purpose.
enum relay_way { RELAY_NOT, RELAY_LOOKS, RELAY_GOES };
enum relay_way relay_takes(struct exchange *x, int64_t wait_ms);
// True: it will not be answered by the relay any more, nor its handler be called.
bool relay_cancel(struct exchange *x);
// After that: it is done here after all, with the same request id.
void relay_do_here(struct exchange *x);
