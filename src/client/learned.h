// SPDX-License-Identifier: Apache-2.0
// What a client has learned about the owners of shards, per queue (client/nodes.h).
#pragma once

struct owner_cache;
struct owner_cache *learned_new(void);
void learned_free(struct owner_cache *l); // NULL is fine
