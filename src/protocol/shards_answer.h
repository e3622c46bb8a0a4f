// SPDX-License-Identifier: Apache-2.0
// The answer of a node to the question which shards it owns: GET /v1/node/shards.
#pragma once

#include "base/bytes.h"
#include "sluice_cluster.h"

#include <stdbool.h>

// Sets the rows of the answer, which the caller frees. Returns false if the text is no such answer.
bool shards_read(struct bytes body, struct sluice_shard **out, size_t *len);
