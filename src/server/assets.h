// SPDX-License-Identifier: Apache-2.0
// The dashboard's files, as tools/embed put them into the program.
#pragma once

#include "base/bytes.h"

struct asset {
    const char *name; // "app.js"
    const char *type;
    const char *tag;        // the ETag, with its quotes
    const char *packed_tag; // ... of the compressed one
    struct bytes plain;
    struct bytes packed; // gzip
};

extern const struct asset assets[];
extern const size_t assets_len;
