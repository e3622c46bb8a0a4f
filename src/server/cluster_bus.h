// SPDX-License-Identifier: Apache-2.0
// The events of the cluster on the bus (docs/events.md).
#pragma once

#include "bus/bus.h"

struct cluster_bus;
struct server;

// After the node joined the cluster and publishes. NULL: it does not, or there is no thread.
struct cluster_bus *cluster_bus_new(struct server *s);
void cluster_bus_free(struct cluster_bus *c); // before the bus is closed; NULL is allowed
// Whether the bus has a stream of the cluster that this node may not write to. NULL is allowed.
bool cluster_bus_refused(struct cluster_bus *c, char why[static BUS_WHY_MAX]);
