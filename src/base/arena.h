// SPDX-License-Identifier: Apache-2.0
// Keeps blocks and texts until all of them are freed together. All zero is an empty arena. A block
// never moves.
#pragma once

#include "base/bytes.h"

#include <stddef.h>

struct arena {
    struct arena_block *blocks;
};

void arena_done(struct arena *a); // frees all; the arena is empty again

void *arena_new(struct arena *a, size_t len);                    // its content is not defined
void *arena_copy(struct arena *a, const void *from, size_t len); // with a zero byte after it
char *arena_text(struct arena *a, const char *text);             // a copy; NULL for NULL
