// SPDX-License-Identifier: Apache-2.0
// Coordination by Consul 1.8 or later, over its HTTP API.
#pragma once

#include "coord/coord.h"

// `rest` is the URL after its scheme. Reads the coordination id, or makes it.
MUST_USE enum err coord_consul_open(const char *rest, bool tls, const struct coord_config *config,
                                    struct coord **out, char why[static COORD_WHY_MAX]);
