// SPDX-License-Identifier: Apache-2.0
// Names that rows refer to by index, each stored once for as long as a row refers to it.
#pragma once

#include "base/bytes.h"
#include "base/check.h"
#include "base/map.h"

struct name_row {
    char *text; // owned
    uint64_t hash;
    uint32_t refs; // 0: a free row
    uint32_t free_next;
    uint8_t len;
};

struct name_table {
    struct name_row *rows; // row 0 is no name
    uint32_t len;
    uint32_t cap;
    uint32_t free;
    struct map by_hash;
};

// Returns the index of a name of at most 255 bytes and counts one reference; 0: the name is empty.
uint32_t name_hold(struct name_table *t, struct bytes name);
void name_drop(struct name_table *t, uint32_t index); // it has no references any more
void name_table_clear(struct name_table *t);
void name_table_check(const struct name_table *t, size_t refs); // all references together

// One more reference; 0 is allowed.
static inline void name_hold_again(struct name_table *t, uint32_t index)
{
    CHECK(!index || t->rows[index].refs > 0);
    if (index) t->rows[index].refs++;
}

static inline void name_release(struct name_table *t, uint32_t index) // 0 is allowed
{
    CHECK(!index || t->rows[index].refs > 0);
    if (index && --t->rows[index].refs == 0) name_drop(t, index);
}

static inline struct bytes name_text(const struct name_table *t, uint32_t index)
{
    if (!index) return BYTES_EMPTY;
    CHECK(t->rows[index].refs > 0); // the text of a name without references was freed
    return (struct bytes){(const uint8_t *)t->rows[index].text, t->rows[index].len};
}

static inline uint64_t name_hash(const struct name_table *t, uint32_t index) // 0: no name
{
    return index ? t->rows[index].hash : 0;
}
