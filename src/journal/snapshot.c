// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes snapshots and floors: magic, format, fields, and a checksum over all of it.
#include "journal/snapshot.h"

#include "base/check.h"

#include <string.h>

#define CHECKSUM_LEN 16

static void seal(struct buf *out)
{
    CHECK(out->bad || out->len > 0);
    buf_put_hash128(out, hash128_of(buf_bytes(out)));
}

// Sets *inside to the bytes before the checksum. ERR_CORRUPT: they do not match it.
static enum err unseal(struct bytes from, struct bytes *inside)
{
    if (from.len < CHECKSUM_LEN) return ERR_CORRUPT;
    *inside = bytes_of(from.data, from.len - CHECKSUM_LEN);
    struct reader end = reader_of(bytes_of(from.data + inside->len, CHECKSUM_LEN));
    return hash128_equal(read_hash128(&end), hash128_of(*inside)) ? ERR_OK : ERR_CORRUPT;
}

static void put_id(struct buf *out, uint32_t magic, uint16_t format, uint16_t rules,
                   const struct journal_id *id)
{
    CHECK(out->bad || out->len == 0);
    buf_put_u32(out, magic);
    buf_put_u16(out, format);
    buf_put_u16(out, rules);
    buf_put(out, bytes_of(id->queue, sizeof id->queue));
    buf_put_u32(out, id->shard);
    buf_put_u32(out, 0);
}

static void read_id(struct reader *r, struct journal_id *id)
{
    struct bytes queue = read_bytes(r, sizeof id->queue);
    if (reader_ok(r)) memcpy(id->queue, queue.data, queue.len);
    id->shard = read_u32(r);
    if (read_u32(r) != 0) r->bad = true;
}

// 0, 0: there is no floor.
static bool is_floor(uint64_t index, uint64_t slot)
{
    return index <= ENTRY_SLOT_MAX && slot <= ENTRY_SLOT_MAX && (index == 0) == (slot == 0);
}

void floor_encode(const struct floor *f, struct buf *out)
{
    CHECK(f->index > 0 && is_floor(f->index, f->slot)); // as floor_decode asks
    CHECK(0 <= f->time && f->time <= ENTRY_TIME_MAX);
    put_id(out, FLOOR_MAGIC, FLOOR_FORMAT, 0, &f->id);
    buf_put_u64(out, f->index);
    buf_put_u64(out, f->slot);
    buf_put_i64(out, f->time);
    // 8 + 16 + 8 + 24 bytes so far; the rest of FLOOR_LEN is checksum, cut to 8 bytes.
    buf_put_u64(out, hash128_of(buf_bytes(out)).lo);
    CHECK(out->bad || out->len == FLOOR_LEN);
}

enum err floor_decode(struct bytes from, struct floor *out)
{
    *out = (struct floor){0};
    if (from.len != FLOOR_LEN) return ERR_CORRUPT;
    struct reader r = reader_of(from);
    if (read_u32(&r) != FLOOR_MAGIC || read_u16(&r) != FLOOR_FORMAT || read_u16(&r) != 0)
        return ERR_CORRUPT;
    read_id(&r, &out->id);
    out->index = read_u64(&r);
    out->slot = read_u64(&r);
    out->time = read_i64(&r);
    bool sum = read_u64(&r) == hash128_of(bytes_of(from.data, FLOOR_LEN - 8)).lo;
    bool sound = out->index > 0 && is_floor(out->index, out->slot) && out->time >= 0 &&
                 out->time <= ENTRY_TIME_MAX;
    return reader_end(&r) && sum && sound ? ERR_OK : ERR_CORRUPT;
}

void snapshot_encode(const struct snapshot *s, struct buf *out)
{
    CHECK(s->core->slot > 0);
    CHECK(s->machine.len <= SNAPSHOT_LEN_MAX);
    put_id(out, SNAPSHOT_MAGIC, SNAPSHOT_FORMAT, s->rules > 0 ? s->rules : 1, &s->id);
    buf_put_i64(out, s->absent_at);
    buf_put_u64(out, s->floor_index);
    buf_put_u64(out, s->floor_slot);
    buf_put_u64(out, s->digest);
    core_save(s->core, out);
    buf_put_sized(out, s->machine);
    seal(out);
}

// The same rule as for entries: a later format keeps these fields and the checksum.
static enum err read_format(struct reader *r, uint16_t *rules)
{
    uint32_t magic = read_u32(r);
    uint16_t format = read_u16(r);
    *rules = read_u16(r);
    if (magic != SNAPSHOT_MAGIC || format < SNAPSHOT_FORMAT || *rules == 0) return ERR_CORRUPT;
    return format > SNAPSHOT_FORMAT ? ERR_UNAVAILABLE : ERR_OK;
}

enum err snapshot_decode(struct bytes from, struct core *core, struct snapshot *out)
{
    *out = (struct snapshot){.core = core};
    struct bytes inside;
    enum err err = unseal(from, &inside);
    if (err) return err;
    struct reader r = reader_of(inside);
    err = read_format(&r, &out->rules);
    if (err) return err;
    read_id(&r, &out->id);
    out->absent_at = read_i64(&r);
    bool known = 0 <= out->absent_at && out->absent_at <= ENTRY_TIME_MAX;
    if (!known) out->absent_at = TIME_UNKNOWN;
    out->floor_index = read_u64(&r);
    out->floor_slot = read_u64(&r);
    out->digest = read_u64(&r);
    if (!is_floor(out->floor_index, out->floor_slot)) r.bad = true;
    err = core_load(core, &r);
    if (err) return err;
    CHECK(out->rules > 0);
    CHECK(core->slot > 0);
    out->machine = read_sized(&r, SNAPSHOT_LEN_MAX);
    return reader_end(&r) ? ERR_OK : ERR_CORRUPT;
}
