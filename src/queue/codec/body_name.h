// SPDX-License-Identifier: Apache-2.0
// The name of a body that is stored as its own object, under <shard>/data/:
//
//     <upload time, 20 digits>-<32 hex digits, random>-<32 hex digits, XXH3-128 of the body>
//
// The name contains the upload time, is unique, and lets a reader detect damage. The fold takes the
// time only from the name. So an object and the messages that refer to it agree about its age.
#pragma once

#include "base/hash.h"

#define BODY_NAME_LEN (20 + 1 + 32 + 1 + 32)

struct body_name {
    int64_t uploaded_at;
    uint64_t random[2]; // the machine stores the first one
    struct hash128 hash;
};

void body_name_print(const struct body_name *name, char out[BODY_NAME_LEN + 1]);
bool body_name_parse(struct bytes text, struct body_name *out); // false: not a body name
