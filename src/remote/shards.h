// SPDX-License-Identifier: Apache-2.0
// The answer of a node to the question which shards it owns: GET /v1/node/shards.
#pragma once

#include "sluice_cluster.h"

#include <stdbool.h>

struct http_call;

// Sets the rows of the answer, which the caller frees. Returns false if the node did not answer so.
bool remote_shards_read(const struct http_call *call, struct sluice_shard **out, size_t *len);
