// SPDX-License-Identifier: Apache-2.0
// The explorer's memory: everything that base/memory.h hands out lies in one block, so that a world
// can be saved and restored by copying that block, pointers and all.
#pragma once

#include <stddef.h>

struct heap_region_copy {
    unsigned char *bytes; // from malloc; NULL at first
    size_t len;
    size_t cap;
};

void heap_region_reset(void); // forgets everything that was handed out
void heap_region_save(struct heap_region_copy *to);
void heap_region_restore(const struct heap_region_copy *from);
void heap_region_copy_done(struct heap_region_copy *c);
