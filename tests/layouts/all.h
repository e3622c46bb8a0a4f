// SPDX-License-Identifier: Apache-2.0
// All layouts of the tree. tools/check-layouts fails if one of src/ is in no table, or a table is
// not here.
#pragma once

#include "base/layout.h"
#include "cluster/placement.h"
#include "journal/entry.h"
#include "mailbox/object.h"
#include "protocol/shard_wire.h"
#include "queue/codec/layouts.h"
#include "queue/tables/layouts.h"
#include "queues/catalog.h"

struct named_layout {
    const char *name;
    const struct layout *layout;
};

#define LAYOUT_ROW(n) {#n, &n##_layout},
static const struct named_layout all_layouts[] = {
    CATALOG_LAYOUTS(LAYOUT_ROW)    // queues/catalog.h
    CODEC_LAYOUTS(LAYOUT_ROW)      // queue/codec/layouts.h
    JOURNAL_LAYOUTS(LAYOUT_ROW)    // journal/entry.h
    MAILBOX_LAYOUTS(LAYOUT_ROW)    // mailbox/object.h
    PLAN_LAYOUTS(LAYOUT_ROW)       // cluster/placement.h
    SNAPSHOT_LAYOUTS(LAYOUT_ROW)   // queue/tables/layouts.h
    SHARD_WIRE_LAYOUTS(LAYOUT_ROW) // protocol/shard_wire.h
};
#define ALL_LAYOUTS (sizeof all_layouts / sizeof *all_layouts)
