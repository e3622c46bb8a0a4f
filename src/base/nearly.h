// SPDX-License-Identifier: Apache-2.0
// Names that were mistyped.
#pragma once

#include <stdbool.h>

// One slip apart: a character too many, too few, wrong, or two swapped; or only capitals differ.
// Short names are never, they would be near to too much.
bool nearly_same(const char *a, const char *b);
