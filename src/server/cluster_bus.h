// SPDX-License-Identifier: Apache-2.0
// The events of the cluster on the bus (docs/events.md).
#pragma once

struct cluster_bus;
struct server;

// After the node joined the cluster and publishes. NULL: it does not, or there is no thread.
struct cluster_bus *cluster_bus_new(struct server *s);
void cluster_bus_free(struct cluster_bus *c); // before the bus is closed; NULL is allowed
