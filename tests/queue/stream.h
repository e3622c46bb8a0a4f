// SPDX-License-Identifier: Apache-2.0
// Random op streams through the machine and the model side by side.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_TROUBLE_MAX 256

// Runs one stream; the seed decides everything. False: they disagree, trouble says where and in
// what.
bool stream_run(uint64_t seed, size_t entries, char trouble[STREAM_TROUBLE_MAX]);
// A hash over the events, digests and snapshots of the stream.
uint64_t stream_fingerprint(uint64_t seed, size_t entries);
