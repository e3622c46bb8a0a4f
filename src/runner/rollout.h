// SPDX-License-Identifier: Apache-2.0
// How far a capability of a node is rolled out. In `shadow` the work is done and reported, and
// nothing relies on it (docs/rollout.md).
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum rollout { ROLLOUT_ON, ROLLOUT_SHADOW, ROLLOUT_OFF };

// The capabilities of a node.
#define CAPABILITY_LIST(X)                                                                         \
    X(BUS, "bus")             /* events go to the bus */                                           \
    X(PLACEMENT, "placement") /* the plan of the cluster decides which node owns a shard */        \
    X(DISPATCH, "dispatch")   /* the owner of a shard grants tickets */                            \
    X(STREAM, "stream")       /* /v1/stream */

enum capability {
#define CAPABILITY_ENUM(id, name) CAPABILITY_##id,
    CAPABILITY_LIST(CAPABILITY_ENUM)
#undef CAPABILITY_ENUM
        CAPABILITY_COUNT
};

// Of the dispatch of all queues of a process. Zeros: on.
struct dispatch_rollout {
    _Atomic int state;         // enum rollout
    _Atomic uint64_t withheld; // in shadow: how often the owner would have dispatched
};
// Whether to grant tickets now. In shadow it is counted. NULL: on.
bool dispatch_is_on(struct dispatch_rollout *d);
