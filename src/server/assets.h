// SPDX-License-Identifier: Apache-2.0
// The dashboard's files, embedded into the program by tools/embed.
#pragma once

#include "base/bytes.h"

struct asset {
    const char *name; // "app.js"
    const char *type;
    const char *tag;        // the ETag, with its quotes
    const char *packed_tag; // the ETag of the compressed file
    struct bytes plain;
    struct bytes packed; // gzip
};

extern const struct asset assets[];
extern const size_t assets_len;
