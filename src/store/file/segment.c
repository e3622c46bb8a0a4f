// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes records. It does no I/O: the caller reads and writes.
#include "store/file/segment.h"

#include "base/check.h"
#include "base/hash.h"
#include "store/store.h"

#include <string.h>

#define SEGMENT_MAGIC  0x31474553454c5553u // "SULESEG1"
#define RECORD_MAGIC   0x43455253u         // "SREC"
#define RECORD_ALIGN   8
#define RECORD_CHECKED (RECORD_HEADER_LEN - 8)

void segment_head_put(struct buf *to, const struct segment_head *h)
{
    size_t at = to->len;
    buf_put_u64(to, SEGMENT_MAGIC);
    buf_put_u32(to, SEGMENT_VERSION);
    buf_put_u32(to, 0);
    buf_put_u64(to, h->first);
    buf_put_u64(to, h->generation);
    buf_put_u64(to, h->salt);
    buf_put_i64(to, h->before_ms);
    buf_put_u64(to, hash64_of(bytes_of(to->data + at, to->len - at), 0));
    buf_put_u64(to, 0);
    CHECK(to->len - at == SEGMENT_HEADER_LEN);
}

bool segment_head_read(struct bytes from, struct segment_head *h)
{
    struct reader r = reader_of(from);
    uint64_t magic = read_u64(&r);
    uint32_t version = read_u32(&r);
    (void)read_u32(&r);
    h->first = read_u64(&r);
    h->generation = read_u64(&r);
    h->salt = read_u64(&r);
    h->before_ms = read_i64(&r);
    size_t checked = from.len - r.left;
    uint64_t check = read_u64(&r);
    (void)read_u64(&r);
    return reader_ok(&r) && magic == SEGMENT_MAGIC && version == SEGMENT_VERSION && h->first > 0 &&
           check == hash64_of(bytes_of(from.data, checked), 0);
}

uint64_t record_size(size_t body_len)
{
    uint64_t size = RECORD_HEADER_LEN + (uint64_t)body_len;
    return (size + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

static uint64_t record_check(const uint8_t *header, struct bytes body, uint64_t salt,
                             uint64_t offset)
{
    uint64_t of_body = hash64_of(body, hash64_mix(salt, offset));
    return hash64_of(bytes_of(header, RECORD_CHECKED), of_body);
}

void record_put(struct buf *to, uint64_t salt, uint64_t offset, uint64_t slot, int64_t time_ms,
                struct bytes body)
{
    static const uint8_t zeros[RECORD_ALIGN];
    size_t at = to->len;
    buf_put_u32(to, RECORD_MAGIC);
    buf_put_u32(to, (uint32_t)body.len);
    buf_put_u64(to, slot);
    buf_put_i64(to, time_ms);
    buf_put_u64(to, record_check(to->data + at, body, salt, offset));
    buf_put(to, body);
    buf_put(to, bytes_of(zeros, (size_t)record_size(body.len) - RECORD_HEADER_LEN - body.len));
    CHECK(to->len - at == record_size(body.len));
}

enum record_kind record_peek(struct bytes from, struct record *r)
{
    struct reader in = reader_of(from);
    uint32_t magic = read_u32(&in);
    uint32_t len = read_u32(&in);
    r->slot = read_u64(&in);
    r->time_ms = read_i64(&in);
    r->size = RECORD_HEADER_LEN;
    (void)read_u64(&in);
    if (!reader_ok(&in)) return RECORD_SHORT;
    if (magic == 0 && len == 0 && r->slot == 0) return RECORD_NONE;
    if (magic != RECORD_MAGIC || len > STORE_OBJECT_MAX) return RECORD_BAD;
    r->size = record_size(len);
    r->body = bytes_of(from.data + RECORD_HEADER_LEN, len);
    return RECORD_GOOD;
}

enum record_kind record_read(struct bytes from, uint64_t salt, uint64_t offset, struct record *r)
{
    enum record_kind kind = record_peek(from, r);
    if (kind != RECORD_GOOD) return kind;
    if (from.len < r->size) return RECORD_SHORT;
    struct reader check = reader_of(bytes_of(from.data + RECORD_CHECKED, 8));
    bool good = read_u64(&check) == record_check(from.data, r->body, salt, offset);
    return good ? RECORD_GOOD : RECORD_BAD;
}

static struct bytes bytes_from(struct bytes file, uint64_t offset)
{
    return bytes_of(file.data + offset, file.len - (size_t)offset);
}

static bool good_after(struct bytes file, uint64_t offset, const struct segment_head *h)
{
    struct record r;
    for (offset += RECORD_ALIGN; offset + RECORD_HEADER_LEN <= file.len; offset += RECORD_ALIGN)
        if (record_read(bytes_from(file, offset), h->salt, offset, &r) == RECORD_GOOD) return true;
    return false;
}

void segment_scan(struct bytes file, const struct segment_head *h, struct segment_scan *to)
{
    CHECK(file.len >= SEGMENT_HEADER_LEN);
    *to = (struct segment_scan){
        .next = h->first, .offset = SEGMENT_HEADER_LEN, .time_ms = h->before_ms};
    struct record r;
    while (record_read(bytes_from(file, to->offset), h->salt, to->offset, &r) == RECORD_GOOD &&
           r.slot == to->next) {
        to->next++;
        to->last = to->offset;
        to->offset += r.size;
        to->time_ms = r.time_ms;
    }
    to->dirty_end = file.len;
    while (to->dirty_end > to->offset && file.data[to->dirty_end - 1] == 0)
        to->dirty_end--;
    if (to->dirty_end == to->offset) return;
    // The record here is bad, or it is good and of another slot, which no crash can cause.
    to->good_later =
        record_read(bytes_from(file, to->offset), h->salt, to->offset, &r) == RECORD_GOOD ||
        good_after(file, to->offset, h);
}
