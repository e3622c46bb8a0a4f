// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes entries. Every length is checked before it is used. One flipped bit anywhere
// gives ERR_CORRUPT.
#include "journal/entry.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

bool journal_id_equal(const struct journal_id *a, const struct journal_id *b)
{
    return memcmp(a->queue, b->queue, sizeof a->queue) == 0 && a->shard == b->shard;
}

static void put_header(const struct entry *e, struct buf *out)
{
    buf_put_u32(out, ENTRY_MAGIC);
    buf_put_u16(out, ENTRY_FORMAT);
    buf_put_u16(out, e->rules > 0 ? e->rules : 1);
    buf_put_u32(out, 0); // the length, set at the end
    buf_put_u32(out, e->id.shard);
    buf_put(out, bytes_of(e->id.queue, sizeof e->id.queue));
    buf_put_u64(out, e->slot);
    buf_put_hash128(out, e->previous);
    buf_put_u64(out, e->epoch);
    buf_put_hash128(out, e->writer);
    buf_put_u64(out, e->sequence);
    buf_put_u64(out, e->nonce);
    buf_put_i64(out, e->time.lo);
    buf_put_i64(out, e->time.hi);
    buf_put_u32(out, (uint32_t)e->ops_len);
    buf_put_u32(out, 0); // reserved
}

void entry_encode(const struct entry *e, struct buf *out)
{
    CHECK(out->len == 0);
    CHECK(e->slot > 0);
    CHECK(0 <= e->time.lo && e->time.lo <= e->time.hi);
    CHECK(e->slot <= ENTRY_SLOT_MAX && e->time.hi <= ENTRY_TIME_MAX); // as entry_decode asks
    CHECK(e->ops_len <= ENTRY_OPS_MAX);
    put_header(e, out);
    CHECK(out->bad || out->len == ENTRY_HEADER_LEN);
    for (size_t i = 0; i < e->ops_len; i++) {
        buf_put_u16(out, e->ops[i].kind);
        buf_put_u16(out, 0);
        buf_put_sized(out, e->ops[i].payload);
    }
    buf_set_u32(out, 8, (uint32_t)(out->len + ENTRY_CHECKSUM_LEN));
    buf_put_hash128(out, hash128_of(buf_bytes(out)));
}

static enum err damaged(const char **why, const char *sentence)
{
    *why = sentence;
    return ERR_CORRUPT;
}

// Every later format keeps the magic, the format, the version of the rules, the length and the
// checksum. So an entry that is only too new is told from a damaged one.
static enum err check_frame(struct bytes from, struct entry *out, const char **why)
{
    struct reader r = reader_of(from);
    if (from.len < ENTRY_HEADER_LEN + ENTRY_CHECKSUM_LEN || from.len > ENTRY_LEN_MAX)
        return damaged(why, "the entry is too short or too long");
    if (read_u32(&r) != ENTRY_MAGIC)
        return damaged(why, "the entry does not start with the mark of an entry");
    uint16_t format = read_u16(&r);
    uint16_t rules = read_u16(&r);
    if (read_u32(&r) != from.len)
        return damaged(why, "the entry's length field differs from its length");
    struct reader end =
        reader_of(bytes_of(from.data + from.len - ENTRY_CHECKSUM_LEN, ENTRY_CHECKSUM_LEN));
    out->hash = read_hash128(&end);
    if (!hash128_equal(out->hash, hash128_of(bytes_of(from.data, from.len - ENTRY_CHECKSUM_LEN))))
        return damaged(why, "the entry fails its checksum");
    if (format < ENTRY_FORMAT || rules == 0)
        return damaged(why, "the entry has no format or no version of the rules");
    out->rules = rules;
    return format > ENTRY_FORMAT ? ERR_UNAVAILABLE : ERR_OK;
}

static uint32_t read_header(struct reader *r, struct entry *out)
{
    CHECK(r->left >= ENTRY_HEADER_LEN); // check_frame has compared the length
    (void)read_bytes(r, 12);            // checked by check_frame
    out->id.shard = read_u32(r);
    struct bytes queue = read_bytes(r, sizeof out->id.queue);
    if (reader_ok(r)) memcpy(out->id.queue, queue.data, queue.len);
    out->slot = read_u64(r);
    out->previous = read_hash128(r);
    out->epoch = read_u64(r);
    out->writer = read_hash128(r);
    out->sequence = read_u64(r);
    out->nonce = read_u64(r);
    out->time.lo = read_i64(r);
    out->time.hi = read_i64(r);
    uint32_t ops_len = read_u32(r);
    if (read_u32(r) != 0) r->bad = true;
    return ops_len;
}

static void read_ops(struct reader *r, struct entry *out)
{
    CHECK(out->ops_len <= r->left / ENTRY_OP_HEADER_LEN);
    for (size_t i = 0; i < out->ops_len; i++) {
        out->ops[i].kind = read_u16(r);
        if (read_u16(r) != 0) r->bad = true;
        out->ops[i].payload = read_sized(r, JOURNAL_OP_MAX);
    }
}

enum err entry_decode(struct bytes from, struct entry *out, const char **why)
{
    *out = (struct entry){0};
    enum err err = check_frame(from, out, why);
    if (err) return err;
    struct reader r = reader_of(bytes_of(from.data, from.len - ENTRY_CHECKSUM_LEN));
    uint32_t ops_len = read_header(&r, out);
    bool time_ok =
        0 <= out->time.lo && out->time.lo <= out->time.hi && out->time.hi <= ENTRY_TIME_MAX;
    bool slot_ok = 0 < out->slot && out->slot <= ENTRY_SLOT_MAX;
    if (!reader_ok(&r) || !slot_ok || !time_ok)
        return damaged(why, "the entry's header is malformed");
    if (ops_len > ENTRY_OPS_MAX || ops_len > r.left / ENTRY_OP_HEADER_LEN)
        return damaged(why, "the entry's op count is impossible");
    out->ops_len = ops_len;
    out->ops = memory_zeroed(ops_len, sizeof *out->ops);
    read_ops(&r, out);
    if (!reader_end(&r)) {
        entry_done(out);
        return damaged(why, "the entry's ops do not fill it exactly");
    }
    CHECK(out->rules > 0);
    return ERR_OK;
}

void entry_done(struct entry *e)
{
    CHECK(e->ops || e->ops_len == 0);
    memory_free(e->ops);
    e->ops = NULL;
    e->ops_len = 0;
}
