// SPDX-License-Identifier: Apache-2.0
// Coordination in memory. The handles of one world see each other.
#pragma once

#include "coord/coord.h"

// A handle on a world of its own. config may be NULL; its lease is the world's.
struct coord *coord_mem_new(const struct coord_config *config);
// A further handle on the same world. The world lives until its last handle is freed.
struct coord *coord_mem_again(struct coord *c);
// Time passes in the world, without a wait. Sessions may end by it.
void coord_mem_pass(struct coord *c, int64_t ms);
// From now on all handles return this instead of an answer: ERR_UNAVAILABLE, or for writes
// ERR_UNKNOWN, after the write was applied or not. ERR_OK: no more.
void coord_mem_fail(struct coord *c, enum err e, bool applied);
