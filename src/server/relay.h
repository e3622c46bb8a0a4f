// SPDX-License-Identifier: Apache-2.0
// Forwards requests about queues that another node owns, and passes the owner's answer back. So one
// commit carries the ops of all nodes, whichever node a load balancer chose. This covers sends,
// receives, acks, fails, releases and renewals. A request takes one hop at most.
//
// If no final answer comes, for any reason, this node does the request itself with the same request
// id.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct server;
struct exchange;
struct async_answer;
struct thread_pool;

// `hosts` is for peer_may_have_token; copied. Requests over TLS block threads of the pool. NULL:
// the process cannot create a thread.
struct relays *relays_new(const char *hosts, struct thread_pool *pool);
void relays_free(struct relays *r); // NULL is fine; nothing may be under way

// Call it before the library call. The answers:
//
//   - RELAY_NOT: the handler does the request itself.
//   - RELAY_LOOKS: the owner is being looked up. Then the route's handler is called again.
//   - RELAY_GOES: the request goes to the owner. Then the owner's answer is passed on, or the
//     handler is called again to do the request here.
//
// The last two may complete before this function returns. `wait_ms`: how long the owner may wait
// for messages.
enum relay_way { RELAY_NOT, RELAY_LOOKS, RELAY_GOES };
enum relay_way relay_takes(struct exchange *x, int64_t wait_ms);
// Returns true if the relay was cancelled: it will neither answer nor call the handler.
bool relay_cancel(struct exchange *x);
// After relay_cancel: runs the handler again on this node, with the same request id. Ends the
// relay's call (call_end).
void relay_do_here(struct exchange *x);
// What the answer of a call that was done here means. If an attempt at the owner may still take
// effect, an answer without an entry becomes UNKNOWN. Lives as long as the exchange.
const struct async_answer *relay_concluded(struct exchange *x, const struct async_answer *a);
