// SPDX-License-Identifier: Apache-2.0
// Names are compared as bytes, so that every node has the same order.
#include "cluster/identity.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

void member_id_set(struct member_id *id, const char *name, const uint8_t incarnation[32])
{
    *id = (struct member_id){.name = ""};
    size_t len = strnlen(name, MEMBER_NAME_MAX);
    CHECK(len > 0);
    memcpy(id->name, name, len);
    memcpy(id->incarnation, incarnation, sizeof id->incarnation);
}

bool member_id_named(const struct member_id *a, const struct member_id *b)
{
    return strcmp(a->name, b->name) == 0;
}

static int member_id_compare(const struct member_id *a, const struct member_id *b);

bool member_id_equal(const struct member_id *a, const struct member_id *b)
{
    return member_id_compare(a, b) == 0;
}

// By name, then life.
static int member_id_compare(const struct member_id *a, const struct member_id *b)
{
    int names = strcmp(a->name, b->name);
    return names != 0 ? names : memcmp(a->incarnation, b->incarnation, sizeof a->incarnation);
}

int shard_key_compare(const struct shard_key *a, const struct shard_key *b)
{
    int queues = memcmp(a->queue, b->queue, sizeof a->queue);
    if (queues != 0) return queues;
    return a->shard < b->shard ? -1 : a->shard > b->shard;
}

uint64_t shard_key_hash(const struct shard_key *key)
{
    return hash64_of(bytes_of(key->queue, sizeof key->queue), key->shard);
}
