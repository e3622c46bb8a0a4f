// SPDX-License-Identifier: Apache-2.0
// Request ids and their answers, so that a repeated request gets the same answer. An answer is kept
// for ten minutes, or less if more than REQUEST_BYTES_MAX bytes of answers come in that time.
// Oldest first, as in dedup.c.
#include "queue/tables/requests.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <string.h>

static struct request_row *row_at(const struct requests *q, uint64_t number)
{
    CHECK(q->cap > 0 && (q->cap & (q->cap - 1)) == 0);
    return &q->rows[number & (q->cap - 1)];
}

const struct request_row *request_at(const struct machine *m, size_t index)
{
    CHECK(index < m->requests.len);
    return row_at(&m->requests, m->requests.first + index);
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
    uint64_t h = hash64_of(bytes_of(row->id.bytes, 16), row->kind);
    return mix(mix(h, (uint64_t)row->expires_at), hash64_of(row->body, 0));
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
        const struct request_row *row = row_at(q, number);
        CHECK(row->body.len > 0); // a row in use
        if (memcmp(row->id.bytes, id->bytes, 16) == 0) return row;
    }
    return NULL;
}

static void grow(struct requests *q)
{
    size_t cap = q->cap < 16 ? 16 : q->cap * 2;
    CHECK(q->len == q->cap && cap <= (size_t)1 << 31); // short_number
    struct request_row *rows = memory_new(cap * sizeof *rows);
    for (uint64_t n = q->first; n < q->first + q->len; n++)
        rows[n & (cap - 1)] = *row_at(q, n);
    memory_free(q->rows);
    q->rows = rows;
    q->cap = cap;
}

static uint32_t short_number(uint64_t number)
{
    return (uint32_t)(number & 0x7fffffff); // as in dedup.c
}

static void drop_first(struct machine *m)
{
    struct requests *q = &m->requests;
    struct request_row *row = row_at(q, q->first);
    CHECK(q->len > 0 && q->bytes >= row_bytes(row));
    m->digest -= row_hash(row);
    q->bytes -= row_bytes(row);
    map_remove(&q->index, id_key(&row->id), short_number(q->first));
    bytes_free(row->body);
    q->first++;
    q->len--;
    CHECK(q->index.len == q->len && (q->len > 0 || q->bytes == 0));
}

void request_add(struct machine *m, const struct request_row *row)
{
    struct requests *q = &m->requests;
    CHECK(row->body.len > 0 && row->body.data[0] < REASON_COUNT);
    CHECK(q->index.len == q->len && q->len <= q->cap);
    if (q->len == q->cap) grow(q);
    uint64_t number = q->first + q->len++;
    struct request_row *kept = row_at(q, number);
    *kept = *row;
    kept->body = bytes_copy(row->body);
    map_add(&q->index, id_key(&row->id), short_number(number));
    q->bytes += row_bytes(kept);
    m->digest += row_hash(kept);
    while (q->bytes > REQUEST_BYTES_MAX)
        drop_first(m);
}

void requests_expire(struct machine *m)
{
    while (m->requests.len > 0 && row_at(&m->requests, m->requests.first)->expires_at <= m->now)
        drop_first(m);
}

void requests_clear(struct machine *m)
{
    while (m->requests.len > 0)
        drop_first(m);
    CHECK(m->requests.bytes == 0 && m->requests.index.len == 0);
    memory_free(m->requests.rows);
    map_done(&m->requests.index);
    m->requests = (struct requests){0};
}
