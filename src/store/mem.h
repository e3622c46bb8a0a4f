// SPDX-License-Identifier: Apache-2.0
// The store in memory, for tests and trials. Its content ends with the process.
#pragma once

#include "store/store.h"

struct store *store_mem_new(void);
// Moves the store's clock forward. A test can also move it back.
void store_mem_step(struct store *s, int64_t by_ms);
