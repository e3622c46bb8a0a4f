// SPDX-License-Identifier: Apache-2.0
// The owners of a queue's shards that this node knows, for its clients.
#pragma once

#include "protocol/owner_map.h"

struct engine;
// Writes what this node knows of a queue that it has open. Returns false if it knows no owner.
bool owner_map_known(struct engine *e, const char *queue, struct buf *out);
