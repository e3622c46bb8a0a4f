// SPDX-License-Identifier: Apache-2.0
// The compact encoding of polls for signals, and of the outcomes that a collect brings.
#include "base/memory.h"
#include "protocol/collected.h"
#include "protocol/signal_list.h"
#include "protocol/wire.h"
#include "protocol/wire_inside.h"

#include <string.h>

#define ID_BYTES 5 // a text has at least its length and a 0

void wire_put_poll(struct buf *to, const struct signals_receive_in *in)
{
    buf_put_u8(to, VERSION);
    compact_put(to, &compact_poll, in);
    for (size_t i = 0; i < in->tokens.len; i++)
        buf_put_u32(to, in->after.rows ? in->after.rows[i] : 0);
}

bool wire_read_poll(struct bytes from, struct signals_receive_in *out)
{
    struct reader r = reader_of(from);
    *out = (struct signals_receive_in){0};
    read_version(&r);
    compact_read(&r, &compact_poll, out, NULL);
    if (r.left != out->tokens.len * sizeof(uint32_t)) r.bad = true;
    uint32_t *after = memory_zeroed(r.bad ? 0 : out->tokens.len, sizeof *after);
    for (size_t i = 0; !r.bad && i < out->tokens.len; i++)
        after[i] = read_u32(&r);
    out->after.rows = after;
    out->after.len = out->tokens.len;
    if (reader_end(&r)) return true;
    wire_poll_done(out);
    return false;
}

void wire_poll_done(struct signals_receive_in *in)
{
    compact_texts_done(&in->tokens);
    memory_free((void *)(uintptr_t)in->after.rows);
    in->after.rows = NULL;
}

static void put_ids(struct buf *to, const struct collected_ids *ids)
{
    buf_put_u32(to, (uint32_t)ids->len);
    for (size_t i = 0; i < ids->len; i++) {
        buf_put_sized(to, bytes_str(ids->rows[i]));
        buf_put_u8(to, 0);
    }
}

static void read_ids(struct reader *r, struct collected_list *c, struct collected_ids *to)
{
    size_t count = read_u32(r);
    if (count > SLUICE_COLLECT_MAX || count > r->left / ID_BYTES) r->bad = true;
    for (size_t i = 0; reader_ok(r) && i < count; i++) {
        struct bytes id = read_sized(r, SLUICE_ID_MAX - 1);
        if (read_u8(r) != 0 || !reader_ok(r) || memchr(id.data, 0, id.len))
            r->bad = true;
        else
            collected_add_id(c, to, (const char *)id.data);
    }
}

void wire_put_collected(struct buf *to, const struct collected_list *c)
{
    put_head(to, c->len);
    for (size_t i = 0; i < c->len; i++)
        compact_put(to, &compact_collected, &c->rows[i]);
    buf_put_u64(to, c->missing);
    buf_put_u8(to, c->more);
    buf_put_i64(to, c->position);
    put_ids(to, &c->left);
    put_ids(to, &c->signals);
    put_ids(to, &c->asked);
    size_t answers = c->answers ? c->answers->len : 0;
    buf_put_u32(to, (uint32_t)answers);
    for (size_t i = 0; i < answers; i++)
        compact_put(to, &compact_signal, &c->answers->rows[i]);
}

// The texts are views into the input, which the outcomes keep.
static struct sluice_signals *read_answers(struct reader *r)
{
    struct signal_list *l = signal_list_new();
    size_t count = read_u32(r);
    if (count > r->left / compact_min(&compact_signal)) r->bad = true;
    for (size_t i = 0; reader_ok(r) && i < count; i++)
        compact_read(r, &compact_signal, signal_list_add(l), NULL);
    return signal_list_take(l);
}

bool wire_read_collected(struct bytes from, struct collected_list **out)
{
    struct collected_list *c = collected_new();
    struct reader r = reader_of(bytes_of(collected_keep(c, from.data, from.len), from.len));
    read_version(&r);
    size_t count = read_count(&r, compact_min(&compact_collected));
    for (size_t i = 0; reader_ok(&r) && i < count; i++)
        compact_read(&r, &compact_collected, collected_add(c), NULL);
    c->missing = read_u64(&r);
    uint8_t more = read_u8(&r);
    c->more = more;
    c->position = read_i64(&r);
    read_ids(&r, c, &c->left);
    read_ids(&r, c, &c->signals);
    read_ids(&r, c, &c->asked);
    c->answers = read_answers(&r);
    bool good = reader_end(&r) && more <= 1;
    if (!good) collected_free(c);
    *out = good ? c : NULL;
    return good;
}
