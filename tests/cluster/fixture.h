// SPDX-License-Identifier: Apache-2.0
// Members and shards by number, for tests of the cluster's decisions.
#pragma once

#include "base/interval.h"
#include "cluster/placement.h"

#include <stdio.h>
#include <string.h>

static inline struct member_id test_member(uint32_t number, uint8_t life)
{
    struct member_id id;
    char name[16];
    uint8_t incarnation[32] = {life, (uint8_t)(number + 1), (uint8_t)((number + 1) >> 8)};
    (void)snprintf(name, sizeof name, "node-%04u", number % 10000);
    member_id_set(&id, name, incarnation);
    return id;
}

static inline struct shard_key test_shard(uint32_t number)
{
    struct shard_key key = {.shard = number % 64};
    key.queue[0] = (uint8_t)(number / 64 >> 8);
    key.queue[1] = (uint8_t)(number / 64);
    return key;
}
