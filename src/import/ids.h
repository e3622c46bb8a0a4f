// SPDX-License-Identifier: Apache-2.0
// A set of numbers, kept as ranges. The jobs of a tube have numbers that rise, so a few ranges hold
// most of them.
#pragma once

#include "base/bytes.h"

struct id_range {
    uint64_t first, last; // both are in the set
};

struct ids {
    struct id_range *ranges; // sorted; none touches the next
    size_t len;
    size_t cap;
    uint64_t count; // of the numbers
};

void ids_done(struct ids *s);
bool ids_has(const struct ids *s, uint64_t id);
void ids_add(struct ids *s, uint64_t id);
void ids_add_range(struct ids *s, uint64_t first, uint64_t last);
void ids_cut(struct ids *s, uint64_t first, uint64_t last); // removes what lies between them

// Text such as "1-4000,4002"; "-" for an empty set.
void ids_write(const struct ids *s, struct buf *to);
// Adds the numbers of such a text. Returns false if the text is not one.
bool ids_read(struct ids *s, struct bytes text);
