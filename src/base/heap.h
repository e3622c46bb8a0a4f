// SPDX-License-Identifier: Apache-2.0
// A binary heap of handles, smallest (key, tie) first. It tracks the position of each handle, so
// any handle can be removed. A handle is in it at most once. The heap stores the keys itself: no
// callbacks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_row {
    int64_t key;
    uint64_t tie;
    uint32_t ref;
};

struct heap {
    struct heap_row *rows;
    size_t len;
    size_t cap;
    uint32_t *at; // by handle: its position + 1; 0: not in the heap
    size_t at_cap;
};

void heap_init(struct heap *h);
void heap_done(struct heap *h);

void heap_push(struct heap *h, int64_t key, uint64_t tie, uint32_t ref);
void heap_remove(struct heap *h, uint32_t ref); // must be in the heap
bool heap_has(const struct heap *h, uint32_t ref);
const struct heap_row *heap_top(const struct heap *h); // NULL when empty; valid until a change
const struct heap_row *heap_get(const struct heap *h, uint32_t ref); // must be in the heap
