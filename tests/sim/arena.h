// SPDX-License-Identifier: Apache-2.0
// The explorer's memory: everything that base/memory.h hands out lies in one block, so that a world
// can be saved and restored by copying that block, pointers and all.
#pragma once

#include <stddef.h>

struct arena_copy {
    unsigned char *bytes; // from malloc; NULL at first
    size_t len;
    size_t cap;
};

void arena_reset(void); // forgets everything that was handed out
void arena_save(struct arena_copy *to);
void arena_restore(const struct arena_copy *from);
void arena_copy_done(struct arena_copy *c);
