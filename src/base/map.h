// SPDX-License-Identifier: Apache-2.0
// A hash map from 64-bit keys to 32-bit values (handles into somebody's array). A key may be there
// more than once: whoever hashes long names into keys walks the values of one key and compares the
// names. It cannot be iterated: the order would be that of the hash.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_NONE UINT32_MAX // never a value

struct map_row {
    uint64_t key;
    uint32_t value; // MAP_NONE: free
};

struct map {
    struct map_row *rows;
    size_t mask; // rows - 1
    size_t len;
};

void map_init(struct map *m);
void map_done(struct map *m);
void map_clear(struct map *m); // empty again; gives its memory back

void map_add(struct map *m, uint64_t key, uint32_t value);
uint32_t map_find(const struct map *m, uint64_t key); // any value of the key, or MAP_NONE
uint32_t *map_at(struct map *m, uint64_t key);        // the same, to change it; NULL when absent
void map_remove(struct map *m, uint64_t key, uint32_t value); // must be there

// for (size_t at = map_first(m, key); (v = map_value(m, key, &at)) != MAP_NONE;) ...
size_t map_first(const struct map *m, uint64_t key);
uint32_t map_value(const struct map *m, uint64_t key, size_t *at);
