// SPDX-License-Identifier: Apache-2.0
// Coordination by etcd 3.4 or later, over its JSON gateway.
#pragma once

#include "coord/coord.h"

// `rest` is the URL after its scheme. Asks for the cluster's id.
MUST_USE enum err coord_etcd_open(const char *rest, bool tls, const struct coord_config *config,
                                  struct coord **out, char why[static COORD_WHY_MAX]);
