// SPDX-License-Identifier: Apache-2.0
// Requests made to a store, by what they are charged for. Some stores take money for each: whoever
// asks on somebody's behalf says what it came to.
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
