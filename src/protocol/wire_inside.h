// SPDX-License-Identifier: Apache-2.0
// Inside the compact encoding: the version, and counts.
#pragma once

#include "base/check.h"
#include "protocol/routes.h"

#define VERSION 1

static inline void put_head(struct buf *to, size_t count)
{
    CHECK(count <= UINT32_MAX);
    buf_put_u8(to, VERSION);
    buf_put_u32(to, (uint32_t)count);
}

static inline void read_version(struct reader *r)
{
    if (read_u8(r) != VERSION) r->bad = true;
}

// Reads a count. The rest of the input must have at least `bytes` bytes for each item.
static inline size_t read_count(struct reader *r, size_t bytes)
{
    size_t count = read_u32(r);
    if (count > ROUTE_ITEMS_MAX || count > r->left / bytes) r->bad = true;
    return r->bad ? 0 : count;
}
