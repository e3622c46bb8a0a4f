// SPDX-License-Identifier: Apache-2.0
// Asks another member of the cluster which shards it owns, and what they hold. Only the owner of a
// shard knows that at any time: another node has read the journal some time ago.
#pragma once

#include "queues/queues.h"
#include "sluice_cluster.h"

// Sets the shards that the node owns, in any order; the caller frees them. synced: the node reads
// its journals to their ends first. Returns false if the node did not answer within a second (3 s
// if synced), or did not prove that it can read the store.
bool owner_ask_shards(struct engine *e, const char *url, const char *node, bool synced,
                      struct sluice_shard **out, size_t *len);
// Reads the journal of the shard, so that its owner can be asked. A node cannot prove its identity
// to a process that has read no journal of an owner.
void owner_learn_shard(struct engine *e, const char *queue, uint32_t shard);
// Returns the shards that this process owns, in any order, without the owner's name. synced: reads
// the journals to their ends first, which sends requests to the store. The caller frees them.
struct sluice_shard *cluster_own_shards(struct engine *e, bool synced, size_t *len);
// For runner_inspect: what the shard holds, in its row (struct sluice_shard).
void shard_count_messages(void *ctx, const struct machine *m, int64_t now);
