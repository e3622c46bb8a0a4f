// SPDX-License-Identifier: Apache-2.0
// A hash map from 64-bit keys to 32-bit values, which are handles into an array of the caller. A
// key can have several values. If the caller hashes long names into keys, it walks the values of a
// key and compares the names. The map cannot be iterated, because its order would be the order of
// the hash.
#pragma once

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
void map_clear(struct map *m); // empty again; frees its memory

void map_add(struct map *m, uint64_t key, uint32_t value);
uint32_t map_find(const struct map *m, uint64_t key); // any value of the key, or MAP_NONE
uint32_t *map_at(struct map *m, uint64_t key);        // the same, to change it; NULL if absent
void map_remove(struct map *m, uint64_t key, uint32_t value); // must be in the map

// for (size_t at = map_first(m, key); (v = map_value(m, key, &at)) != MAP_NONE;) ...
size_t map_first(const struct map *m, uint64_t key);
uint32_t map_value(const struct map *m, uint64_t key, size_t *at);
