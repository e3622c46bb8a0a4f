// SPDX-License-Identifier: Apache-2.0
// Random bytes from the kernel: for ids, nonces and tokens that nobody may guess or repeat.
#pragma once

#include <stddef.h>
#include <stdint.h>

void entropy_fill(void *to, size_t len); // never fails: without randomness nothing here is safe
uint64_t entropy_u64(void);
