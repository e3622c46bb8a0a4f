// SPDX-License-Identifier: Apache-2.0
// The cluster as a handle of the store sees it: the members that the coordination service lists,
// and the owner that each journal names.
#pragma once

struct sluice_shard;

#include "queues/queues.h"
#include "sluice_cluster.h"

// Opens the coordination service with the credentials of the environment. coord is its URL; NULL:
// "store:". The caller frees *out (coord_free).
struct coord;
enum sluice_code coord_of(const struct engine *e, const char *coord, struct coord **out,
                          struct sluice_error *error);
enum sluice_code ops_cluster_show(struct engine *e, const char *coord, struct sluice_cluster **out,
                                  struct sluice_error *error);
// sluice_coord_switch.
enum sluice_code ops_coord_switch(struct engine *e, const char *queue, const char *coord,
                                  unsigned flags, struct sluice_coord_switch *out,
                                  struct sluice_error *error);
