// SPDX-License-Identifier: Apache-2.0
// Random bytes from the kernel, for ids, nonces and tokens that must be unguessable and unique.
#pragma once

#include <stddef.h>
#include <stdint.h>

void entropy_fill(void *to, size_t len); // aborts on failure: safety depends on it
uint64_t entropy_u64(void);
