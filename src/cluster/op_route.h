// SPDX-License-Identifier: Apache-2.0
// Where a part of a call is done: in this process, or at the node that owns the shard. An owner
// commits the ops of many callers in one entry, and a direct writer would only compete with it. It
// is pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define OP_ROUTE_BYTES_MAX ((size_t)4 << 20) // a larger request is not sent to the owner

// What is known about the shard's owner.
enum op_route_owner {
    OP_ROUTE_OWNER_NONE,   // the journal names no node, or one whose address cannot be read
    OP_ROUTE_OWNER_SELF,   // this process is the owner
    OP_ROUTE_OWNER_PROVEN, // the node proved its identity, and nothing contradicts it since
    OP_ROUTE_OWNER_AWAY,   // it did not answer, or it did not prove its identity
};

struct op_route_facts {
    enum op_route_owner owner;
    bool here;           // the owner was tried, and did not do it
    bool has_token;      // the caller's token goes with the request ...
    bool may_have_token; // ... and the owner's host may be told it
    bool lacks_token;    // the clients of this node have tokens, and this call has none
    size_t bytes;        // of the request
};

enum op_route { OP_ROUTE_HERE, OP_ROUTE_AT_OWNER };

enum op_route op_route_decide(const struct op_route_facts *f);
