// SPDX-License-Identifier: Apache-2.0
// Calls that wait for something about single messages: signals, or their ends. Such a call has a
// part for each shard that it concerns.
#pragma once

#include "ops/call.h"

struct listen_part {
    uint32_t shard;
    struct shard_listen what;
    struct listen_ask *asks; // owned
};

struct listen_call { // a call of this kind begins with it
    struct local_call call;
    struct listen_part *parts; // owned
    uint32_t parts_len;
};

// Adds a part with space for `len` asks.
struct listen_part *listen_add_part(struct listen_call *l, uint32_t shard, size_t len);
void listen_release(struct listen_call *l);
// The runner of a part; for struct call_type.
struct shard_runner *listen_runner(struct local_call *c, uint32_t part);
// A part of the call: what it asks one shard.
const struct shard_listen *listen_ask_of(struct local_call *c, uint32_t part, uint32_t *shard);
// How such a part ended; its answer is in the slot. over: the wait has ended.
enum call_find_end listen_found(const struct call_slot *slot, bool over);
// A part failed: sets the error of the call.
void listen_refuse(struct local_call *c, const struct call_slot *slot);
