// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes entries. Every length is checked before it is used. One flipped bit anywhere
// gives ERR_CORRUPT.
#include "journal/entry.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/memory.h"

#include <string.h>

bool journal_id_equal(const struct journal_id *a, const struct journal_id *b)
{
    return memcmp(a->queue, b->queue, sizeof a->queue) == 0 && a->shard == b->shard;
}

#define LAYOUT_OF struct entry
static const struct layout_field entry_fields[] = {
    MARK(4, "magic", ENTRY_MAGIC),
    MARK(2, "format", ENTRY_FORMAT),
    U16(rules, .min = 1),
    U32(len),
    U32(id.shard),
    FIXED(id.queue),
    U64(slot, .min = 1, .max = ENTRY_SLOT_MAX),
    HASH(previous),
    U64(epoch),
    HASH(writer),
    U64(sequence),
    U64(nonce),
    I64(time.lo, .max = ENTRY_TIME_MAX),
    I64(time.hi, .max = ENTRY_TIME_MAX),
    U32(ops_len),
    MARK(4, "reserved", 0),
};
const struct layout entry_layout = LAYOUT(entry_fields); // then the ops
#undef LAYOUT_OF

#define LAYOUT_OF struct op
static const struct layout_field entry_op_fields[] = {
    U16(kind),
    MARK(2, "reserved", 0),
    BYTES(payload, .max = JOURNAL_OP_MAX),
};
const struct layout entry_op_layout = LAYOUT(entry_op_fields);
#undef LAYOUT_OF

void entry_encode(const struct entry *e, struct buf *out)
{
    struct entry head = *e;
    CHECK(out->len == 0 && e->time.lo <= e->time.hi && e->ops_len <= ENTRY_OPS_MAX);
    head.rules = e->rules > 0 ? e->rules : 1;
    head.len = 0; // set at the end
    layout_put(&entry_layout, out, &head);
    for (size_t i = 0; i < e->ops_len; i++)
        layout_put(&entry_op_layout, out, &e->ops[i]);
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

enum err entry_decode(struct bytes from, struct entry *out, const char **why)
{
    *out = (struct entry){0};
    enum err err = check_frame(from, out, why);
    if (err) return err;
    struct reader r = reader_of(bytes_of(from.data, from.len - ENTRY_CHECKSUM_LEN));
    bool right = layout_read(&entry_layout, &r, out) && out->time.lo <= out->time.hi;
    size_t ops_len = out->ops_len;
    out->ops_len = 0;
    if (!right) return damaged(why, "the entry's header is malformed");
    if (ops_len > ENTRY_OPS_MAX || ops_len > r.left / ENTRY_OP_HEADER_LEN)
        return damaged(why, "the entry's op count is impossible");
    out->ops_len = ops_len;
    out->ops = memory_zeroed(ops_len, sizeof *out->ops);
    for (size_t i = 0; i < ops_len && reader_ok(&r); i++)
        (void)layout_read(&entry_op_layout, &r, &out->ops[i]);
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
