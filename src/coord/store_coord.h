// SPDX-License-Identifier: Apache-2.0
// Coordination by the store alone (`store:`): nothing else has to run. store/inside.h has the idea.
#pragma once

#include "coord/coord.h"

// config->store is borrowed and must outlive the handle.
struct coord *coord_store_new(const struct coord_config *config);
