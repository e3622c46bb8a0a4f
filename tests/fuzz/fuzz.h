// SPDX-License-Identifier: Apache-2.0
// A fuzz target: it must survive any bytes. It answers 0; what it finds wrong it CHECKs.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
