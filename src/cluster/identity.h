// SPDX-License-Identifier: Apache-2.0
// The names of nodes and shards in decisions about the cluster. A node is a name and an
// incarnation: a node that starts again has another incarnation and is another node. The
// incarnation itself is secret, so only its SHA-256 appears here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMBER_NAME_MAX 128
#define SHARD_NONE      UINT32_MAX

struct member_id {
    char name[MEMBER_NAME_MAX + 1];
    uint8_t incarnation[32];
};

struct shard_key {
    uint8_t queue[16]; // the id of the queue's life
    uint32_t shard;
};

// The name is cut off at MEMBER_NAME_MAX; the rest of the struct is zero.
void member_id_set(struct member_id *id, const char *name, const uint8_t incarnation[32]);
bool member_id_equal(const struct member_id *a, const struct member_id *b);
bool member_id_named(const struct member_id *a, const struct member_id *b); // the names are equal
int shard_key_compare(const struct shard_key *a, const struct shard_key *b);
uint64_t shard_key_hash(const struct shard_key *key);
