// SPDX-License-Identifier: Apache-2.0
#include "protocol/shard_wire.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/codec/result.h"

#include <string.h>

#define VERSION         1
#define FLAG_TELLS      1
#define FLAG_REPEATS    2
#define FLAGS           (FLAG_TELLS | FLAG_REPEATS)
#define TOKEN_BYTES     (LOCK_REF_BYTES + 4)
#define SIGNAL_BYTES    70 // the fixed part of a signal is more than this
#define PART_REMEMBERED 1
#define PART_SIGNALS    2
#define DELIVERY_BYTES  150 // the fixed part of a delivery ...
#define GRANT_BYTES     70  // ... is more than this

static void put_head(struct buf *to, const struct shard_ask *ask)
{
    buf_put_u8(to, VERSION);
    buf_put_u8(to, (uint8_t)ask->kind);
    buf_put(to, bytes_of(ask->queue.bytes, sizeof ask->queue.bytes));
    buf_put_u32(to, ask->shard);
    buf_put_i64(to, ask->wait_ms);
    buf_put_u8(to, (uint8_t)((ask->tells ? FLAG_TELLS : 0) | (ask->repeats ? FLAG_REPEATS : 0)));
}

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
    put_head(to, ask);
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
    put_head(to, ask);
    buf_put_sized(to, ask->worker);
    buf_put_u32(to, (uint32_t)len);
    for (size_t i = 0; i < len; i++)
        buf_put_u32(to, shards[i]);
}

void shard_ask_put_listen(struct buf *to, const struct shard_ask *ask,
                          const struct shard_listen *what)
{
    CHECK(ask->kind == SHARD_LISTEN && what->len <= LISTEN_ASKS_MAX && !what->messages);
    put_head(to, ask);
    buf_put_u32(to, (uint32_t)what->len);
    for (size_t i = 0; i < what->len; i++) {
        lock_ref_put(to, &what->asks[i].ref);
        buf_put_u32(to, what->asks[i].after);
    }
    if (what->len > 0) return;
    buf_put(to, bytes_of(what->signal.bytes, sizeof what->signal.bytes));
    buf_put_u64(to, what->seq);
}

static bool read_listen(struct reader *r, struct shard_ask *out)
{
    out->tokens_len = read_u32(r);
    if (out->tokens_len > LISTEN_ASKS_MAX) return false;
    out->tokens = read_bytes(r, (size_t)out->tokens_len * TOKEN_BYTES);
    if (out->tokens_len > 0) return reader_ok(r);
    struct bytes id = read_bytes(r, sizeof out->signal.bytes);
    out->seq = read_u64(r);
    if (reader_ok(r)) memcpy(out->signal.bytes, id.data, id.len);
    return reader_ok(r);
}

struct listen_ask shard_ask_token(const struct shard_ask *ask, uint32_t index)
{
    CHECK(index < ask->tokens_len);
    struct reader r =
        reader_of(bytes_of(ask->tokens.data + (size_t)index * TOKEN_BYTES, TOKEN_BYTES));
    struct listen_ask out = {.ref.seq = read_u64(&r)};
    out.ref.token = read_hash128(&r);
    out.after = read_u32(&r);
    return out;
}

bool shard_ask_read(struct bytes from, struct shard_ask *out)
{
    struct reader r = reader_of(from);
    struct bytes claim = BYTES_EMPTY;
    *out = (struct shard_ask){.kind = SHARD_SUBMIT};
    if (read_u8(&r) != VERSION) return false;
    uint8_t kind = read_u8(&r);
    if (kind < SHARD_SUBMIT || kind > SHARD_LISTEN) return false;
    out->kind = (enum shard_ask_kind)kind;
    struct bytes queue = read_bytes(&r, sizeof out->queue.bytes);
    if (!reader_ok(&r)) return false;
    memcpy(out->queue.bytes, queue.data, queue.len);
    out->shard = read_u32(&r);
    out->wait_ms = read_i64(&r);
    uint8_t flags = read_u8(&r);
    out->tells = flags & FLAG_TELLS;
    out->repeats = flags & FLAG_REPEATS;
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
    if (!reader_end(&r) || (flags & ~FLAGS) || out->wait_ms < 0) return false;
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

static void put_delivery(struct buf *to, const struct delivery *d)
{
    const struct message *m = &d->message;
    grant_put(to, &d->grant);
    buf_put_i64(to, d->sent_at);
    buf_put_u32(to, (uint32_t)d->dead_letter_headers_len);
    buf_put_u8(to, m->priority);
    buf_put_sized(to, m->group);
    buf_put_sized(to, m->dedup);
    buf_put_sized(to, m->content_type);
    buf_put_sized(to, m->workflow);
    buf_put_sized(to, m->headers);
    buf_put_sized(to, m->body);
    buf_put_sized(to, m->reference.name);
    buf_put_u64(to, m->reference.len);
    buf_put_i64(to, m->reference.uploaded_at);
}

static bool read_delivery(struct reader *r, struct delivery *out)
{
    struct message *m = &out->message;
    grant_read(r, &out->grant);
    out->sent_at = read_i64(r);
    out->dead_letter_headers_len = read_u32(r);
    m->priority = read_u8(r);
    m->group = read_sized(r, UINT32_MAX);
    m->dedup = read_sized(r, UINT32_MAX);
    m->content_type = read_sized(r, UINT32_MAX);
    m->workflow = read_sized(r, UINT32_MAX);
    m->headers = read_sized(r, UINT32_MAX);
    m->body = read_sized(r, UINT32_MAX);
    m->reference.name = read_sized(r, UINT32_MAX);
    m->reference.len = read_u64(r);
    m->reference.uploaded_at = read_i64(r);
    return reader_ok(r) && out->grant.seq > 0 && out->dead_letter_headers_len <= m->headers.len &&
           m->priority <= MESSAGE_PRIORITY_MAX && headers_ok(m->headers);
}

static void put_signals(struct buf *to, const struct kept_signals *s)
{
    buf_put_u32(to, (uint32_t)s->len);
    for (size_t i = 0; i < s->len; i++) {
        const struct signal_delivery *row = &s->rows[i];
        const struct signal_view *v = &row->view;
        buf_put_u32(to, row->index);
        buf_put_u8(to, (uint8_t)row->reason);
        buf_put_u32(to, row->waiting);
        buf_put(to, bytes_of(v->id.bytes, sizeof v->id.bytes));
        buf_put_u64(to, v->seq);
        buf_put_u32(to, v->number);
        buf_put_u8(to, (uint8_t)v->kind);
        buf_put_u8(to, (uint8_t)v->state);
        buf_put_u32(to, v->deliveries);
        buf_put_i64(to, v->sent_at);
        buf_put_i64(to, v->until);
        buf_put_i64(to, v->ended_at);
        buf_put_u8(to, row->kept);
        buf_put_sized(to, row->text);
    }
}

static bool read_signal(struct reader *r, struct signal_delivery *row)
{
    struct signal_view *v = &row->view;
    row->index = read_u32(r);
    uint8_t reason = read_u8(r);
    row->waiting = read_u32(r);
    struct bytes id = read_bytes(r, sizeof v->id.bytes);
    v->seq = read_u64(r);
    v->number = read_u32(r);
    uint8_t kind = read_u8(r), state = read_u8(r);
    v->deliveries = read_u32(r);
    v->sent_at = read_i64(r);
    v->until = read_i64(r);
    v->ended_at = read_i64(r);
    uint8_t kept = read_u8(r);
    row->text = read_sized(r, SIGNAL_ANSWER_MAX);
    if (!reader_ok(r) || reason >= REASON_COUNT || kind >= SIGNAL_KIND_COUNT) return false;
    memcpy(v->id.bytes, id.data, id.len);
    row->reason = (enum reason)reason;
    row->kept = kept;
    v->kind = (enum signal_kind)kind;
    v->state = (enum signal_state)state;
    return state < SIGNAL_STATE_COUNT && kept <= 1;
}

static bool read_signals(struct reader *r, struct kept_reply *a)
{
    uint32_t count = read_u32(r);
    if (!reader_ok(r) || count > r->left / SIGNAL_BYTES) return false;
    a->signals = kept_signals_new(count);
    for (uint32_t i = 0; i < count; i++)
        if (!read_signal(r, &a->signals->rows[i])) return false;
    return true;
}

size_t shard_answer_weight(const struct kept_reply *a)
{
    size_t bytes = 0;
    for (size_t i = 0; i < a->deliveries_len; i++) {
        const struct message *m = &a->deliveries[i].message;
        bytes += DELIVERY_BYTES + m->group.len + m->dedup.len + m->content_type.len +
                 m->workflow.len + m->headers.len + m->body.len + m->reference.name.len;
    }
    for (size_t i = 0; a->signals && i < a->signals->len; i++)
        bytes += DELIVERY_BYTES + a->signals->rows[i].text.len;
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
        put_delivery(to, &a->deliveries[i]);
    if (a->signals) put_signals(to, a->signals);
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
    if (count > (is_last ? CLAIM_COUNT_MAX : 0) || count > r->left / GRANT_BYTES) return false;
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
    for (size_t i = 0; i < len; i++) {
        buf_put_u32(to, rows[i].shard);
        buf_put_u8(to, (uint8_t)rows[i].err);
    }
}

size_t shard_awaited_read(struct bytes from, bool *moved, struct shard_await_row *rows, size_t max)
{
    struct reader r = reader_of(from);
    uint8_t version = read_u8(&r), flag = read_u8(&r);
    uint32_t count = read_u32(&r);
    if (!reader_ok(&r) || version != VERSION || flag > 1 || count > max) return SIZE_MAX;
    for (uint32_t i = 0; i < count; i++) {
        rows[i].shard = read_u32(&r);
        uint8_t err = read_u8(&r);
        if (err >= ERR_COUNT) return SIZE_MAX;
        rows[i].err = (enum err)err;
    }
    *moved = flag;
    return reader_end(&r) ? count : SIZE_MAX;
}
