// SPDX-License-Identifier: Apache-2.0
// The shard of a new message. The library on a store decides it, and the client of several nodes
// computes it to ask the owner.
#pragma once

#include "base/hash.h"
#include "sluice.h"

#include <stdbool.h>
#include <string.h>

// The group decides the shard, else the dedup key, else the request id: messages of a group, and
// messages with the same dedup key, must be in the same shard. `ordered`: messages without a group
// are one scope, and so in one shard. `index`: of the message in its call.
static inline uint32_t shard_of_send(uint32_t shards, bool ordered, const struct sluice_send *m,
                                     const uint8_t request[16], size_t index)
{
    bool group = m->group && *m->group;
    const char *key = group ? m->group : m->dedup;
    if (shards == 1 || (ordered && !group)) return 0;
    if (key && *key) return (uint32_t)(hash64_of(bytes_of(key, strlen(key)), 0) % shards);
    return (uint32_t)(hash64_of(bytes_of(request, 16), index) % shards);
}
