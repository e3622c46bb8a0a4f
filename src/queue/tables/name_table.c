// SPDX-License-Identifier: Apache-2.0
#include "queue/tables/name_table.h"

#include "base/array.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

static uint32_t row_new(struct name_table *t)
{
    uint32_t index = t->free;
    if (index) {
        CHECK(index < t->len && t->rows[index].refs == 0);
        t->free = t->rows[index].free_next;
        return index;
    }
    if (t->len == 0) t->len = 1;
    (void)ARRAY_ROOM(t->rows, t->len, t->cap, 1);
    CHECK(t->len < t->cap);
    return t->len++;
}

uint32_t name_hold(struct name_table *t, struct bytes name)
{
    if (name.len == 0) return 0;
    CHECK(name.len <= UINT8_MAX);
    uint64_t hash = hash64_of(name, 0);
    uint32_t index;
    for (size_t at = map_first(&t->by_hash, hash);
         (index = map_value(&t->by_hash, hash, &at)) != MAP_NONE;) {
        if (!bytes_equal(name_text(t, index), name)) continue;
        CHECK(t->rows[index].refs > 0); // a name without references is dropped at once
        t->rows[index].refs++;
        return index;
    }
    index = row_new(t);
    char *text = memory_new(name.len);
    memcpy(text, name.data, name.len);
    t->rows[index] =
        (struct name_row){.text = text, .hash = hash, .len = (uint8_t)name.len, .refs = 1};
    map_add(&t->by_hash, hash, index);
    return index;
}

void name_drop(struct name_table *t, uint32_t index)
{
    struct name_row *row = &t->rows[index];
    CHECK(row->refs == 0 && row->text);
    CHECK(index > 0 && index < t->len);
    map_remove(&t->by_hash, row->hash, index);
    memory_free(row->text);
    *row = (struct name_row){.free_next = t->free};
    t->free = index;
}

void name_table_clear(struct name_table *t)
{
    for (uint32_t index = 1; index < t->len; index++)
        memory_free(t->rows[index].text);
    memory_free(t->rows);
    map_done(&t->by_hash);
    *t = (struct name_table){0};
}

void name_table_check(const struct name_table *t, size_t refs)
{
    size_t names = 0, counted = 0;
    for (uint32_t index = 1; index < t->len; index++) {
        counted += t->rows[index].refs;
        CHECK((t->rows[index].refs > 0) == (t->rows[index].text != NULL));
        names += t->rows[index].refs > 0;
    }
    CHECK(counted == refs && names == t->by_hash.len);
    CHECK(t->len <= t->cap);
}
