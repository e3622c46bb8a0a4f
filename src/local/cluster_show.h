// SPDX-License-Identifier: Apache-2.0
// The cluster as a handle of the store sees it: the members that the coordination service lists,
// and the owner that each journal names.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sluice_shard;

#include "sluice_cluster.h"

// Opens the coordination service with the credentials of the environment. coord is its URL; NULL:
// "store:". The caller frees *out (coord_free).
struct coord;
enum sluice_code coord_of(const struct sluice *s, const char *coord, struct coord **out,
                          struct sluice_error *error);
enum sluice_code direct_cluster_show(struct sluice *s, const char *coord,
                                     struct sluice_cluster **out, struct sluice_error *error);
// Returns the shards that this process owns, in any order, without the owner's name. synced: reads
// the journals to their ends first, which sends requests to the store. The caller frees them.
struct sluice_shard *cluster_own_shards(struct sluice *s, bool synced, size_t *len);
