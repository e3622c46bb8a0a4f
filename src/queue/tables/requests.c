// SPDX-License-Identifier: Apache-2.0
// Request ids and their answers, so that a repeated request gets the same answer. An answer is kept
// for ten minutes, or less if more than REQUEST_BYTES_MAX bytes of answers come in that time.
// Oldest first, as in dedup.c.
#include "queue/tables/requests.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <string.h>

#define LAYOUT_OF struct request_row
static const struct layout_field row_fields[] = {FIXED(id), U16(kind), I64(expires_at),
                                                 BYTES(body, .min = 1, .max = REQUEST_BYTES_MAX)};
const struct layout request_row_layout = LAYOUT(row_fields);
#undef LAYOUT_OF

const struct request_row *request_at(const struct machine *m, size_t index)
{
    return RING_AT(&m->requests.ring, m->requests.rows, (uint32_t)index);
}

static uint64_t id_key(const struct request_id *id)
{
    uint64_t lo, hi;
    memcpy(&lo, id->bytes, 8);
    memcpy(&hi, id->bytes + 8, 8);
    return mix(lo, hi);
}

static uint64_t row_hash(const struct request_row *row)
{
    return layout_flat_hash(&request_row_layout, 0, row);
}

// About the memory of a row. It is one number for every platform, or folds would differ.
#define ROW_BYTES 64

static size_t row_bytes(const struct request_row *row)
{
    CHECK(row->body.len > 0);
    return ROW_BYTES + row->body.len;
}

const struct request_row *request_find(const struct machine *m, const struct request_id *id)
{
    const struct requests *q = &m->requests;
    uint64_t key = id_key(id);
    uint32_t number;
    for (size_t at = map_first(&q->index, key);
         (number = map_value(&q->index, key, &at)) != MAP_NONE;) {
        const struct request_row *row = RING_AT(&q->ring, q->rows, short_number(number - q->first));
        CHECK(row->body.len > 0); // a row in use
        if (memcmp(row->id.bytes, id->bytes, 16) == 0) return row;
    }
    return NULL;
}

static void drop_first(struct machine *m)
{
    struct requests *q = &m->requests;
    const struct request_row *row = request_at(m, 0);
    CHECK(q->bytes >= row_bytes(row));
    m->digest -= row_hash(row);
    q->bytes -= row_bytes(row);
    map_remove(&q->index, id_key(&row->id), short_number(q->first++));
    bytes_free(row->body);
    ring_drop(&q->ring, 1);
    CHECK(q->index.len == q->ring.len && (q->ring.len > 0 || q->bytes == 0));
}

void request_add(struct machine *m, const struct request_row *row)
{
    struct requests *q = &m->requests;
    CHECK(row->body.len > 0 && row->body.data[0] < REASON_COUNT);
    CHECK(q->index.len == q->ring.len && q->ring.len <= q->ring.cap);
    struct request_row *kept = RING_ADD(&q->ring, q->rows);
    *kept = *row;
    kept->body = bytes_copy(row->body);
    map_add(&q->index, id_key(&row->id), short_number(q->first + q->ring.len - 1));
    q->bytes += row_bytes(kept);
    m->digest += row_hash(kept);
    while (q->bytes > REQUEST_BYTES_MAX)
        drop_first(m);
}

void requests_expire(struct machine *m)
{
    while (m->requests.ring.len > 0 && request_at(m, 0)->expires_at <= m->now)
        drop_first(m);
}

void requests_clear(struct machine *m)
{
    while (m->requests.ring.len > 0)
        drop_first(m);
    CHECK(m->requests.bytes == 0 && m->requests.index.len == 0);
    memory_free(m->requests.rows);
    map_done(&m->requests.index);
    m->requests = (struct requests){0};
}

static bool load_row(struct machine *m, void *from)
{
    const struct request_row *row = from;
    if (row->body.data[0] >= REASON_COUNT) return false;
    request_add(m, row);
    return true;
}

const struct row_table request_rows = {.layout = &request_row_layout,
                                       .count_bytes = 8,
                                       ROWS_OF_RING(requests.rows, requests.ring),
                                       .add = load_row};
