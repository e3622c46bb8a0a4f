// SPDX-License-Identifier: Apache-2.0
// Waiting for signals: for the holders of locks, or for the end of a signal.
#pragma once

#include "local/call.h"

// A part of a call that listens: what it asks one shard.
const struct shard_listen *listen_ask_of(struct local_call *c, uint32_t part, uint32_t *shard);
// How such a part ended; its answer is in the slot. over: the wait has ended.
enum call_find_end listen_found(const struct call_slot *slot, bool over);
