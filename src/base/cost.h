// SPDX-License-Identifier: Apache-2.0
// Counts requests to a store by their price class. Some stores charge for each request, so each
// call reports its cost to its caller.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cost {
    uint64_t writes; // PUT, POST, LIST
    uint64_t reads;  // GET, HEAD
    uint64_t deletes;
};

static inline void cost_add(struct cost *to, const struct cost *c)
{
    to->writes += c->writes;
    to->reads += c->reads;
    to->deletes += c->deletes;
}

static inline uint64_t cost_requests(const struct cost *c)
{
    return c->writes + c->reads + c->deletes;
}
