// SPDX-License-Identifier: Apache-2.0
// The name of a body that lives as an object of its own, under <shard>/data/:
//
//     <upload time, 20 digits>-<32 hex digits, random>-<32 hex digits, XXH3-128 of the body>
//
// It says when the body was uploaded, tells it from every other, and lets whoever reads it see
// damage. The fold takes the time from here and from nowhere else, so that an object and the
// messages that refer to it cannot disagree about its age.
#pragma once

#include "base/hash.h"

#define BODY_NAME_LEN (20 + 1 + 32 + 1 + 32)

struct body_name {
    int64_t uploaded_at;
    uint64_t random[2]; // the first one is what a machine remembers
    struct hash128 hash;
};

void body_name_print(const struct body_name *name, char out[BODY_NAME_LEN + 1]);
bool body_name_parse(struct bytes text, struct body_name *out); // false: not such a name
