// SPDX-License-Identifier: Apache-2.0
// The cluster of nodes that serve one store: what operators ask and order. Programs that send and
// receive need sluice.h only.
#pragma once

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

// The coordination services of a shard, as the journal has them.
#define SLUICE_COORD_MAX 33
struct sluice_coord_switch {
    char to[SLUICE_COORD_MAX];   // the id of the service, in hex; zeros: store:
    char from[SLUICE_COORD_MAX]; // of the first shard that follows another one; "": all follow `to`
    uint32_t shards;
    uint32_t following; // shards that follow `to`
    uint32_t switched;  // ... of which this call switched so many
};

#define SLUICE_COORD_SWITCH_CHECK 1u // only report

// Makes the shards of a queue follow another coordination service (docs/cluster.md). coord is its
// URL: "store:", "etcd://h1,h2", "consul://host" or one of their +tls forms. From then on only that
// service numbers the owners of the shards. The present owner stays until a node of the other
// service becomes the owner.
//
// Nodes of the former service can no longer become owners, so start all nodes with the new --coord.
// A call that was interrupted is repeated: shards that follow the service already are left alone.
// SLUICE_INVALID: the handle is of a node, or the URL is not a coordination service's.
SLUICE_API enum sluice_code sluice_coord_switch(struct sluice *s, const char *queue,
                                                const char *coord, unsigned flags,
                                                struct sluice_coord_switch *out,
                                                struct sluice_error *error);

#ifdef __cplusplus
}
#endif
