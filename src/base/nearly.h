// SPDX-License-Identifier: Apache-2.0
// Detects mistyped names.
#pragma once

#include <stdbool.h>

// Returns whether the names differ by one mistake: a character too many, too few, wrong, or two
// swapped; or only in capitals. Short names never match: they would match too many others.
bool nearly_same(const char *a, const char *b);
