// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes snapshots and floors: magic, format, fields, and a checksum over all of it.
#include "journal/snapshot.h"

#include "base/check.h"
#include "base/layout.h"

#include <string.h>

#define CHECKSUM_LEN 16

#define LAYOUT_OF    struct floor
static const struct layout_field floor_fields[] = {
    MARK(4, "magic", FLOOR_MAGIC),
    MARK(2, "format", FLOOR_FORMAT),
    MARK(2, "reserved", 0),
    FIXED(id.queue),
    U32(id.shard),
    MARK(4, "reserved", 0),
    U64(index, .min = 1, .max = ENTRY_SLOT_MAX),
    U64(slot, .min = 1, .max = ENTRY_SLOT_MAX),
    I64(time, .max = ENTRY_TIME_MAX),
};
const struct layout floor_layout = LAYOUT(floor_fields); // then 8 bytes of checksum
#undef LAYOUT_OF

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

static void put_head(struct buf *out, uint16_t rules, const struct journal_id *id)
{
    CHECK(out->bad || out->len == 0);
    buf_put_u32(out, SNAPSHOT_MAGIC);
    buf_put_u16(out, SNAPSHOT_FORMAT);
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

// 0, 0: there is no floor. The next one has the next index.
static bool is_floor(uint64_t index, uint64_t slot)
{
    return index < ENTRY_SLOT_MAX && slot <= ENTRY_SLOT_MAX && (index == 0) == (slot == 0);
}

void floor_encode(const struct floor *f, struct buf *out)
{
    layout_put(&floor_layout, out, f);
    buf_put_u64(out, hash128_of(buf_bytes(out)).lo);
    CHECK(out->bad || out->len == FLOOR_LEN);
}

enum err floor_decode(struct bytes from, struct floor *out)
{
    struct reader r = reader_of(from);
    if (from.len != FLOOR_LEN || !layout_read(&floor_layout, &r, out)) return ERR_CORRUPT;
    bool sum = read_u64(&r) == hash128_of(bytes_of(from.data, FLOOR_LEN - 8)).lo;
    return reader_end(&r) && sum && is_floor(out->index, out->slot) ? ERR_OK : ERR_CORRUPT;
}

void snapshot_encode(const struct snapshot *s, struct buf *out)
{
    CHECK(s->core->slot > 0);
    CHECK(s->machine.len <= SNAPSHOT_LEN_MAX);
    put_head(out, s->rules > 0 ? s->rules : 1, &s->id);
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
