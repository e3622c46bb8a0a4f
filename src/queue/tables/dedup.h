// SPDX-License-Identifier: Apache-2.0
// Dedup keys (dedup.c), for the files of src/queue.
#pragma once

#include "base/hash.h"
#include "base/map.h"
#include "base/ring.h"

struct machine;

struct dedup_row {
    struct hash128 key;
    uint64_t seq;
    int64_t expires_at;
};

struct dedup {
    struct dedup_row *rows; // in the ring, in the order of sending
    struct ring ring;
    uint64_t first; // the number of the first row
    struct map index;
};

bool dedup_find(const struct machine *m, struct hash128 key, uint64_t *seq);
void dedup_add(struct machine *m, const struct dedup_row *row);
void dedup_expire(struct machine *m);
void dedup_clear(struct machine *m);
const struct dedup_row *dedup_at(const struct machine *m, size_t index);
extern const struct row_table dedup_rows;
