// SPDX-License-Identifier: Apache-2.0
// The cost of store requests (cost_ledger.c), for the files of src/queue.
#pragma once

#include "base/bytes.h"
#include "base/cost.h"

// Empty until a store charges for a request.
struct cost_ledger {
    struct cost total;
    struct cost this_hour; // the hour with number `hour`, counted from 1970
    struct cost last_hour;
    int64_t hour;
};

uint64_t spent_mix(const struct cost_ledger *s, uint64_t h);
void spent_save(const struct cost_ledger *s, struct buf *out);
void spent_load(struct cost_ledger *s, struct reader *r);
