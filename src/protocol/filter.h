// SPDX-License-Identifier: Apache-2.0
// Whether a message is one that sluice_find looks for.
#pragma once

#include "shard/shard.h"
#include "sluice.h"

// Headers of an answer in the compact encoding: "messages=10; bytes=2048", and the id to continue
// after.
#define FOUND_READ_HEADER "Sluice-Read"
#define FOUND_NEXT_HEADER "Sluice-Next"

bool filter_is_given(const struct sluice_find *f); // a message must have something
enum sluice_code filter_check(const struct sluice_find *f, struct sluice_error *error);
// A body that is an object of its own is not looked at: use filter_matches_body when it was read.
bool filter_matches(const struct sluice_find *f, const struct delivery *d);
bool filter_matches_body(const struct sluice_find *f, struct bytes body);
