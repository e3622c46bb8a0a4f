// SPDX-License-Identifier: Apache-2.0
#include "protocol/shard_wire.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/memory.h"
#include "queue/codec/layouts.h"
#include "queue/codec/result.h"

#include <string.h>

#define VERSION         1
#define PART_REMEMBERED 1
#define PART_SIGNALS    2

#define LAYOUT_OF       struct shard_ask
static const struct layout_field shard_ask_fields[] = {
    MARK(1, "version", VERSION),
    U8(kind, .min = SHARD_SUBMIT, .max = SHARD_LISTEN),
    FIXED(queue),
    U32(shard),
    I64(wait_ms, .max = INT64_MAX),
    U8(flags, .max = SHARD_ASK_FLAGS),
};
const struct layout shard_ask_layout = LAYOUT(shard_ask_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct listen_ask
static const struct layout_field listen_ask_fields[] = {U64(ref.seq), HASH(ref.token), U32(after)};
const struct layout listen_ask_layout = LAYOUT(listen_ask_fields, .fixed = LOCK_REF_BYTES + 4);
#undef LAYOUT_OF

#define LAYOUT_OF struct delivery
static const struct layout_field delivery_fields[] = {
    PART(grant, grant_layout),
    I64(sent_at),
    U32(dead_letter_headers_len),
    U8(message.priority, .max = MESSAGE_PRIORITY_MAX),
    BYTES(message.group),
    BYTES(message.dedup),
    BYTES(message.content_type),
    BYTES(message.workflow),
    BYTES(message.headers),
    BYTES(message.body),
    BYTES(message.reference.name),
    U64(message.reference.len),
    I64(message.reference.uploaded_at),
};
const struct layout delivery_layout = LAYOUT(delivery_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct signal_delivery
static const struct layout_field signal_delivery_fields[] = {
    U32(index),
    ENUM(reason, REASON_COUNT),
    U32(waiting),
    FIXED(view.id),
    U64(view.seq),
    U32(view.number),
    ENUM(view.kind, SIGNAL_KIND_COUNT),
    ENUM(view.state, SIGNAL_STATE_COUNT),
    U32(view.deliveries),
    I64(view.sent_at),
    I64(view.until),
    I64(view.ended_at),
    FLAG(kept),
    BYTES(text, .max = SIGNAL_ANSWER_MAX),
};
const struct layout signal_delivery_layout = LAYOUT(signal_delivery_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct shard_await_row
static const struct layout_field shard_await_row_fields[] = {U32(shard), ENUM(err, ERR_COUNT)};
const struct layout shard_await_row_layout = LAYOUT(shard_await_row_fields);
#undef LAYOUT_OF

static bool has_op(enum shard_ask_kind kind)
{
    return kind == SHARD_SUBMIT || kind == SHARD_SUBMIT_CLAIM;
}

static bool has_claim(enum shard_ask_kind kind)
{
    return kind == SHARD_CLAIM || kind == SHARD_SUBMIT_CLAIM;
}

void shard_ask_put(struct buf *to, const struct shard_ask *ask)
{
    CHECK(has_op(ask->kind) || has_claim(ask->kind));
    layout_put(&shard_ask_layout, to, ask);
    if (has_op(ask->kind)) {
        buf_put_u16(to, ask->op.kind);
        buf_put_sized(to, ask->op.payload);
    }
    if (!has_claim(ask->kind)) return;
    size_t at = to->len;
    buf_put_u32(to, 0);
    claim_encode(to, &ask->claim);
    buf_set_u32(to, at, (uint32_t)(to->len - at - 4));
}

void shard_ask_put_await(struct buf *to, const struct shard_ask *ask, const uint32_t *shards,
                         size_t len)
{
    CHECK(ask->kind == SHARD_AWAIT && len > 0 && len <= SHARD_AWAITS_MAX);
    layout_put(&shard_ask_layout, to, ask);
    buf_put_sized(to, ask->worker);
    buf_put_u32(to, (uint32_t)len);
    for (size_t i = 0; i < len; i++)
        buf_put_u32(to, shards[i]);
}

void shard_ask_put_listen(struct buf *to, const struct shard_ask *ask,
                          const struct shard_listen *what)
{
    CHECK(ask->kind == SHARD_LISTEN && what->len <= LISTEN_ASKS_MAX && !what->messages);
    layout_put(&shard_ask_layout, to, ask);
    buf_put_u32(to, (uint32_t)what->len);
    for (size_t i = 0; i < what->len; i++)
        layout_put(&listen_ask_layout, to, &what->asks[i]);
    if (what->len > 0) return;
    buf_put(to, bytes_of(what->signal.bytes, sizeof what->signal.bytes));
    buf_put_u64(to, what->seq);
}

static bool read_listen(struct reader *r, struct shard_ask *out)
{
    out->tokens_len = read_u32(r);
    if (out->tokens_len > LISTEN_ASKS_MAX) return false;
    out->tokens = read_bytes(r, (size_t)out->tokens_len * listen_ask_layout.fixed);
    if (out->tokens_len > 0) return reader_ok(r);
    struct bytes id = read_bytes(r, sizeof out->signal.bytes);
    out->seq = read_u64(r);
    if (reader_ok(r)) memcpy(out->signal.bytes, id.data, id.len);
    return reader_ok(r);
}

struct listen_ask shard_ask_token(const struct shard_ask *ask, uint32_t index)
{
    struct listen_ask out;
    layout_at(&listen_ask_layout, ask->tokens, index, &out);
    return out;
}

bool shard_ask_read(struct bytes from, struct shard_ask *out)
{
    struct reader r = reader_of(from);
    struct bytes claim = BYTES_EMPTY;
    *out = (struct shard_ask){.kind = SHARD_SUBMIT};
    if (!layout_read(&shard_ask_layout, &r, out)) return false;
    if (has_op(out->kind)) {
        out->op.kind = read_u16(&r);
        out->op.payload = read_sized(&r, JOURNAL_OP_MAX);
    }
    if (has_claim(out->kind)) claim = read_sized(&r, JOURNAL_OP_MAX);
    if (out->kind == SHARD_AWAIT) {
        out->worker = read_sized(&r, WORKER_NAME_MAX);
        out->shards_len = read_u32(&r);
        if (out->shards_len == 0 || out->shards_len > SHARD_AWAITS_MAX) return false;
        out->shards = read_bytes(&r, (size_t)out->shards_len * 4);
    }
    if (out->kind == SHARD_LISTEN && !read_listen(&r, out)) return false;
    if (!reader_end(&r)) return false;
    return !has_claim(out->kind) || claim_decode(claim, &out->claim) == ERR_OK;
}

uint32_t shard_ask_await(const struct shard_ask *ask, uint32_t index)
{
    CHECK(index < ask->shards_len);
    struct reader r = reader_of(bytes_of(ask->shards.data + (size_t)index * 4, 4));
    return read_u32(&r);
}

void shard_answer_begin(struct buf *to, bool moved, uint8_t parts)
{
    CHECK(parts <= SHARD_PARTS_MAX);
    buf_put_u8(to, VERSION);
    buf_put_u8(to, moved);
    buf_put_u8(to, parts);
}

static bool read_delivery(struct reader *r, struct delivery *out)
{
    const struct message *m = &out->message;
    return layout_read(&delivery_layout, r, out) && out->grant.seq > 0 &&
           out->dead_letter_headers_len <= m->headers.len && headers_ok(m->headers);
}

static bool read_signals(struct reader *r, struct kept_reply *a)
{
    uint32_t count = read_u32(r);
    if (!reader_ok(r) || count > r->left / layout_bytes_min(&signal_delivery_layout)) return false;
    a->signals = kept_signals_new(count);
    for (uint32_t i = 0; i < count; i++)
        if (!layout_read(&signal_delivery_layout, r, &a->signals->rows[i])) return false;
    return true;
}

size_t shard_answer_weight(const struct kept_reply *a)
{
    size_t bytes = a->deliveries_len * layout_bytes_min(&delivery_layout);
    for (size_t i = 0; i < a->deliveries_len; i++) {
        const struct message *m = &a->deliveries[i].message;
        bytes += m->group.len + m->dedup.len + m->content_type.len + m->workflow.len +
                 m->headers.len + m->body.len + m->reference.name.len;
    }
    for (size_t i = 0; a->signals && i < a->signals->len; i++)
        bytes += layout_bytes_min(&signal_delivery_layout) + a->signals->rows[i].text.len;
    return bytes;
}

void shard_answer_put(struct buf *to, enum err err, bool remembered, const struct kept_reply *a)
{
    CHECK(a->deliveries_len <= CLAIM_COUNT_MAX);
    buf_put_u8(to, (uint8_t)err);
    buf_put_u8(to, (uint8_t)((remembered ? PART_REMEMBERED : 0) | (a->signals ? PART_SIGNALS : 0)));
    buf_put_sized(to, bytes_of(a->why, a->why ? strlen(a->why) : 0));
    buf_put_sized(to, buf_bytes(&a->body));
    buf_put_u32(to, (uint32_t)a->deliveries_len);
    for (size_t i = 0; i < a->deliveries_len; i++)
        layout_put(&delivery_layout, to, &a->deliveries[i]);
    if (!a->signals) return;
    buf_put_u32(to, (uint32_t)a->signals->len);
    for (size_t i = 0; i < a->signals->len; i++)
        layout_put(&signal_delivery_layout, to, &a->signals->rows[i]);
}

static char *read_why(struct reader *r)
{
    struct bytes why = read_sized(r, SHARD_WHY_MAX);
    if (r->bad || why.len == 0 || memchr(why.data, 0, why.len)) return NULL;
    char *text = memory_zeroed(why.len + 1, 1);
    memcpy(text, why.data, why.len);
    return text;
}

static bool read_part(struct reader *r, struct shard_part *out, bool is_last)
{
    struct kept_reply *a = &out->answer;
    uint8_t err = read_u8(r), flags = read_u8(r);
    out->err = (enum err)err;
    out->remembered = flags & PART_REMEMBERED;
    a->why = read_why(r);
    buf_put(&a->body, read_sized(r, UINT32_MAX));
    uint32_t count = read_u32(r);
    if (!reader_ok(r) || err >= ERR_COUNT || flags > 3) return false;
    // Views of another part would be into a buffer that is not its own.
    if (count > (is_last ? CLAIM_COUNT_MAX : 0) ||
        count > r->left / layout_bytes_min(&delivery_layout))
        return false;
    a->deliveries = memory_zeroed(count, sizeof *a->deliveries);
    for (; a->deliveries_len < count; a->deliveries_len++)
        if (!read_delivery(r, &a->deliveries[a->deliveries_len])) return false;
    return !(flags & PART_SIGNALS) || (is_last && read_signals(r, a));
}

static bool read_parts(struct reader *r, bool *moved, struct shard_part *parts, uint8_t parts_len)
{
    if (read_u8(r) != VERSION) return false;
    uint8_t flag = read_u8(r), count = read_u8(r);
    if (!reader_ok(r) || flag > 1 || count != (flag ? 0 : parts_len)) return false;
    *moved = flag;
    for (uint8_t i = 0; i < count; i++)
        if (!read_part(r, &parts[i], i + 1 == count)) return false;
    return reader_end(r);
}

bool shard_answer_read(struct buf *from, bool *moved, struct shard_part *parts, uint8_t parts_len)
{
    CHECK(parts_len > 0 && parts_len <= SHARD_PARTS_MAX);
    struct reader r = reader_of(buf_bytes(from));
    for (uint8_t i = 0; i < parts_len; i++) {
        parts[i] = (struct shard_part){.err = ERR_OK};
        kept_reply_init(&parts[i].answer);
    }
    if (!read_parts(&r, moved, parts, parts_len)) return false;
    struct buf *text = &parts[parts_len - 1].answer.text;
    buf_done(text);
    *text = *from;
    buf_init(from, from->limit);
    return true;
}

void shard_awaited_put(struct buf *to, bool moved, const struct shard_await_row *rows, size_t len)
{
    buf_put_u8(to, VERSION);
    buf_put_u8(to, moved);
    buf_put_u32(to, (uint32_t)len);
    for (size_t i = 0; i < len; i++)
        layout_put(&shard_await_row_layout, to, &rows[i]);
}

size_t shard_awaited_read(struct bytes from, bool *moved, struct shard_await_row *rows, size_t max)
{
    struct reader r = reader_of(from);
    uint8_t version = read_u8(&r), flag = read_u8(&r);
    uint32_t count = read_u32(&r);
    if (!reader_ok(&r) || version != VERSION || flag > 1 || count > max) return SIZE_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (!layout_read(&shard_await_row_layout, &r, &rows[i])) return SIZE_MAX;
    *moved = flag;
    return reader_end(&r) ? count : SIZE_MAX;
}
