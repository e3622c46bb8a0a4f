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
