// SPDX-License-Identifier: Apache-2.0
// The compact encoding. A text is used in place: the zero after it makes it a C string. A text that
// contains a zero is refused, because strlen and the stored length would differ.
#include "wire/wire.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/inside.h"
#include "wire/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION        2
#define HEADERS_MAX    4096 // in one message
#define SEND_BYTES     44   // the smallest encoding of a message to send
#define MESSAGE_BYTES  101
#define TOKEN_BYTES    5
#define PRIORITY_NEVER 255 // out of range, so the node refuses it

static void read_text_into(struct reader *r, char *to, size_t to_len)
{
    const char *text = read_text(r);
    size_t len = strlen(text);
    if (len >= to_len) {
        r->bad = true;
        return;
    }
    memcpy(to, text, len + 1);
}

static void put_head(struct buf *to, size_t count)
{
    CHECK(count <= UINT32_MAX);
    buf_put_u8(to, VERSION);
    buf_put_u32(to, (uint32_t)count);
}

static void read_version(struct reader *r)
{
    if (read_u8(r) != VERSION) r->bad = true;
}

// Reads a count. The rest of the input must have at least `bytes` bytes for each item.
static size_t read_count(struct reader *r, size_t bytes)
{
    size_t count = read_u32(r);
    if (count > CALL_ITEMS_MAX || count > r->left / bytes) r->bad = true;
    return r->bad ? 0 : count;
}

static enum sluice_code read_code(struct reader *r)
{
    uint8_t code = read_u8(r);
    if (code > SLUICE_DENIED) r->bad = true;
    return r->bad ? SLUICE_CORRUPT : (enum sluice_code)code;
}

static void put_headers(struct buf *to, const struct sluice_header *headers, size_t len)
{
    // The reader refuses a message with this many headers.
    buf_put_u16(to, (uint16_t)(len < UINT16_MAX ? len : UINT16_MAX));
    for (size_t i = 0; i < len; i++) {
        put_sized_text(to, headers[i].name);
        put_sized_text(to, headers[i].value);
    }
}

static size_t read_headers_len(struct reader *r)
{
    size_t len = read_u16(r);
    if (len > HEADERS_MAX || len > r->left / (2 * TOKEN_BYTES)) r->bad = true;
    return r->bad ? 0 : len;
}

static void put_error(struct buf *to, const struct sluice_error *e)
{
    buf_put_u8(to, (uint8_t)e->code);
    put_sized_text(to, e->reason);
    put_sized_text(to, e->field);
    put_sized_text(to, e->message);
}

static void read_error(struct reader *r, struct sluice_error *out)
{
    *out = (struct sluice_error){.code = read_code(r)};
    read_text_into(r, out->reason, sizeof out->reason);
    read_text_into(r, out->field, sizeof out->field);
    read_text_into(r, out->message, sizeof out->message);
}

void wire_put_error(struct buf *to, const struct sluice_error *e)
{
    buf_put_u8(to, VERSION);
    put_error(to, e);
}

bool wire_read_error(struct bytes from, struct sluice_error *out)
{
    struct reader r = reader_of(from);
    read_version(&r);
    read_error(&r, out);
    return reader_end(&r);
}

static void put_first(struct buf *to, const struct sluice_error *first)
{
    static const struct sluice_error none = {.code = SLUICE_OK};
    put_error(to, first ? first : &none);
}

static uint8_t small(int priority)
{
    return priority < 0 || priority > PRIORITY_NEVER ? PRIORITY_NEVER : (uint8_t)priority;
}

void wire_put_sends(struct buf *to, const struct sluice_send *messages, size_t len)
{
    put_head(to, len);
    for (size_t i = 0; i < len; i++) {
        const struct sluice_send *m = &messages[i];
        put_body(to, m->body, m->body_len);
        put_sized_text(to, m->group);
        put_sized_text(to, m->dedup);
        put_sized_text(to, m->content_type);
        put_sized_text(to, m->workflow);
        buf_put_u8(to, small(m->priority));
        buf_put_i64(to, m->delay_ms);
        buf_put_i64(to, m->due);
        put_headers(to, m->headers, m->headers_len);
    }
}

static void read_send(struct reader *r, struct sluice_send *m, struct wire_sends *all,
                      size_t *headers_len)
{
    struct bytes body = read_body(r);
    m->body = body.data;
    m->body_len = body.len;
    m->group = read_text(r);
    m->dedup = read_text(r);
    m->content_type = read_text(r);
    m->workflow = read_text(r);
    m->priority = read_u8(r);
    m->delay_ms = read_i64(r);
    m->due = read_i64(r);
    m->headers_len = read_headers_len(r);
    if (m->headers_len == 0) return;
    size_t total = *headers_len + m->headers_len;
    all->headers = memory_resize(all->headers, total * sizeof *all->headers);
    for (; *headers_len < total; ++*headers_len) {
        const char *name = read_text(r);
        all->headers[*headers_len] = (struct sluice_header){name, read_text(r)};
    }
}

bool wire_read_sends(struct bytes from, struct wire_sends *out)
{
    struct reader r = reader_of(from);
    size_t headers = 0;
    *out = (struct wire_sends){0};
    read_version(&r);
    size_t count = read_count(&r, SEND_BYTES);
    if (reader_ok(&r)) out->messages = memory_zeroed(count, sizeof *out->messages);
    for (; reader_ok(&r) && out->len < count; out->len++)
        read_send(&r, &out->messages[out->len], out, &headers);
    if (!reader_end(&r)) {
        wire_sends_done(out);
        return false;
    }
    headers = 0; // the array has moved while it grew
    for (size_t i = 0; i < out->len; i++) {
        size_t len = out->messages[i].headers_len;
        out->messages[i].headers = len > 0 ? out->headers + headers : NULL;
        headers += len;
    }
    return true;
}

void wire_sends_done(struct wire_sends *s)
{
    memory_free(s->messages);
    memory_free(s->headers);
    *s = (struct wire_sends){0};
}

void wire_put_sent(struct buf *to, const struct sluice_sent *sent, size_t len,
                   const struct sluice_error *first)
{
    put_head(to, len);
    for (size_t i = 0; i < len; i++) {
        buf_put_u8(to, (uint8_t)sent[i].code);
        buf_put_u8(to, sent[i].duplicate != 0);
        put_sized_text(to, sent[i].id);
    }
    put_first(to, first);
}

bool wire_read_sent(struct bytes from, struct sluice_sent *sent, size_t len,
                    struct sluice_error *first)
{
    struct reader r = reader_of(from);
    read_version(&r);
    if (read_u32(&r) != len) r.bad = true;
    for (size_t i = 0; reader_ok(&r) && i < len; i++) {
        sent[i].code = read_code(&r);
        sent[i].duplicate = read_u8(&r);
        read_text_into(&r, sent[i].id, sizeof sent[i].id);
    }
    read_error(&r, first);
    return reader_end(&r);
}

void wire_put_receive(struct buf *to, const struct wire_receive *r)
{
    buf_put_u8(to, VERSION);
    put_sized_text(to, r->worker);
    buf_put_u32(to, r->max);
    buf_put_i64(to, r->wait_ms);
    buf_put_i64(to, r->visibility_ms);
}

static void read_receive(struct reader *r, struct wire_receive *out)
{
    read_version(r);
    out->worker = read_text(r);
    out->max = read_u32(r);
    out->wait_ms = read_i64(r);
    out->visibility_ms = read_i64(r);
}

bool wire_read_receive(struct bytes from, struct wire_receive *out)
{
    struct reader r = reader_of(from);
    read_receive(&r, out);
    return reader_end(&r);
}

static void put_origin(struct buf *to, const struct sluice_origin *from)
{
    bool letter = from->queue && *from->queue;
    buf_put_u8(to, letter);
    if (!letter) return;
    put_sized_text(to, from->queue);
    put_sized_text(to, from->id);
    put_sized_text(to, from->reason);
    buf_put_u32(to, from->retries);
    buf_put_i64(to, from->died_at);
}

static void read_origin(struct reader *r, struct sluice_origin *from)
{
    uint8_t letter = read_u8(r);
    if (letter > 1) r->bad = true;
    *from = (struct sluice_origin){.queue = "", .id = "", .reason = "", .worker = ""};
    if (letter != 1) return;
    from->queue = read_text(r);
    from->id = read_text(r);
    from->reason = read_text(r);
    from->retries = read_u32(r);
    from->died_at = read_i64(r);
    if (!*from->queue) r->bad = true;
}

static void put_message(struct buf *to, const struct sluice_message *m)
{
    put_sized_text(to, m->id);
    put_sized_text(to, m->token);
    put_sized_text(to, m->state);
    put_body(to, m->body, m->body_len);
    put_sized_text(to, m->group);
    put_sized_text(to, m->dedup);
    put_sized_text(to, m->content_type);
    put_sized_text(to, m->workflow);
    put_sized_text(to, m->worker);
    buf_put_u8(to, small(m->priority));
    buf_put_u32(to, m->attempt);
    buf_put_u32(to, m->retries);
    buf_put_u64(to, m->fence);
    buf_put_i64(to, m->lease_ms);
    buf_put_i64(to, m->deadline);
    buf_put_i64(to, m->sent_at);
    buf_put_u64(to, m->order);
    put_origin(to, &m->from);
    put_headers(to, m->headers, m->headers_len);
}

void wire_put_batch(struct buf *to, const struct sluice_batch *b)
{
    put_head(to, b->len);
    for (size_t i = 0; i < b->len; i++)
        put_message(to, &b->messages[i]);
}

// The message's texts are views into the input. The caller reads the headers next.
static void read_message(struct reader *r, struct sluice_message *m)
{
    read_text_into(r, m->id, sizeof m->id);
    read_text_into(r, m->token, sizeof m->token);
    m->state = read_text(r);
    struct bytes body = read_body(r);
    m->body = body.data;
    m->body_len = body.len;
    m->group = read_text(r);
    m->dedup = read_text(r);
    m->content_type = read_text(r);
    m->workflow = read_text(r);
    m->worker = read_text(r);
    m->priority = read_u8(r);
    m->attempt = read_u32(r);
    m->retries = read_u32(r);
    m->fence = read_u64(r);
    m->lease_ms = read_i64(r);
    m->deadline = read_i64(r);
    m->sent_at = read_i64(r);
    m->order = read_u64(r);
    read_origin(r, &m->from);
    m->headers_len = read_headers_len(r);
}

// Reads the headers that the node adds to a dead letter. They come last, so the last match counts.
static void read_letter_headers(struct sluice_message *m)
{
    for (size_t i = 0; i < m->headers_len; i++) {
        const struct sluice_header *h = &m->headers[i];
        if (strcmp(h->name, HEADER_DEAD_WORKER) == 0) m->from.worker = h->value;
        if (strcmp(h->name, HEADER_DEAD_ATTEMPTS) == 0)
            m->from.attempts = (uint32_t)strtoul(h->value, NULL, 10);
    }
}

// Makes the message independent of the input. Its bytes are copied in one piece after the headers,
// and each view is moved to the copy.
static void own_message(struct sluice_message *m, const struct sluice_header *headers,
                        struct bytes piece)
{
    size_t len = m->headers_len;
    struct sluice_header *block = memory_new(len * sizeof *block + piece.len);
    struct move move = {piece.data, (char *)(block + len)};
    memcpy(move.to, piece.data, piece.len);
    m->state = moved(&move, m->state);
    m->body = moved(&move, m->body);
    m->group = moved(&move, m->group);
    m->dedup = moved(&move, m->dedup);
    m->content_type = moved(&move, m->content_type);
    m->workflow = moved(&move, m->workflow);
    m->worker = moved(&move, m->worker);
    if (*m->from.queue) {
        m->from.queue = moved(&move, m->from.queue);
        m->from.id = moved(&move, m->from.id);
        m->from.reason = moved(&move, m->from.reason);
    }
    for (size_t i = 0; i < len; i++)
        block[i] =
            (struct sluice_header){moved(&move, headers[i].name), moved(&move, headers[i].value)};
    m->headers = block;
    if (*m->from.queue) read_letter_headers(m);
}

static bool add_message(struct reader *r, struct sluice_message *m, struct sluice_header **headers)
{
    const uint8_t *start = r->at;
    read_message(r, m);
    *headers = memory_resize(*headers, (m->headers_len + 1) * sizeof **headers);
    for (size_t i = 0; i < m->headers_len; i++) {
        (*headers)[i].name = read_text(r);
        (*headers)[i].value = read_text(r);
    }
    if (reader_ok(r)) own_message(m, *headers, bytes_of(start, (size_t)(r->at - start)));
    return reader_ok(r);
}

struct sluice_batch *wire_read_messages(struct reader *r)
{
    read_version(r);
    size_t count = read_count(r, MESSAGE_BYTES);
    if (!reader_ok(r)) return NULL;
    struct sluice_batch *b = batch_take(batch_new(count));
    struct sluice_header *headers = NULL;
    while (b->len < count && add_message(r, &b->messages[b->len], &headers))
        b->len++;
    memory_free(headers);
    if (reader_ok(r)) return b;
    sluice_batch_free(b);
    return NULL;
}

static bool give_batch(struct sluice_batch *b, bool good, struct sluice_batch **out)
{
    *out = good ? b : NULL;
    if (!good) sluice_batch_free(b);
    return good;
}

bool wire_read_batch(struct bytes from, struct sluice_batch **out)
{
    struct reader r = reader_of(from);
    struct sluice_batch *b = wire_read_messages(&r);
    return give_batch(b, reader_end(&r), out);
}

void wire_put_settle(struct buf *to, const char *const *tokens, size_t len, int64_t wait_ms,
                     const char *reason)
{
    buf_put_u8(to, VERSION);
    buf_put_i64(to, wait_ms);
    put_sized_text(to, reason);
    wire_put_acks(to, tokens, len);
}

void wire_put_acks(struct buf *to, const char *const *tokens, size_t len)
{
    buf_put_u32(to, (uint32_t)len);
    for (size_t i = 0; i < len; i++)
        put_sized_text(to, tokens[i]);
}

// Tokens are always the last part of an encoding, so the input must end after them.
static bool read_tokens(struct reader *r, struct wire_settle *out)
{
    size_t count = read_count(r, TOKEN_BYTES);
    if (reader_ok(r)) out->tokens = memory_zeroed(count, sizeof *out->tokens);
    while (reader_ok(r) && out->len < count)
        out->tokens[out->len++] = read_text(r);
    if (reader_end(r)) return true;
    wire_settle_done(out);
    return false;
}

bool wire_read_settle(struct bytes from, struct wire_settle *out)
{
    struct reader r = reader_of(from);
    *out = (struct wire_settle){0};
    read_version(&r);
    out->wait_ms = read_i64(&r);
    out->reason = read_text(&r);
    return read_tokens(&r, out);
}

bool wire_read_receive_acks(struct bytes from, struct wire_receive *out, struct wire_settle *acks)
{
    struct reader r = reader_of(from);
    *acks = (struct wire_settle){0};
    read_receive(&r, out);
    return r.left == 0 ? reader_end(&r) : read_tokens(&r, acks);
}

void wire_settle_done(struct wire_settle *s)
{
    memory_free(s->tokens);
    *s = (struct wire_settle){0};
}

void wire_put_outcomes(struct buf *to, const struct sluice_outcome *outcomes, size_t len,
                       const struct sluice_error *first)
{
    put_head(to, len);
    for (size_t i = 0; i < len; i++) {
        buf_put_u8(to, (uint8_t)outcomes[i].code);
        put_sized_text(to, outcomes[i].reason);
        put_sized_text(to, outcomes[i].status);
        buf_put_i64(to, outcomes[i].until);
    }
    put_first(to, first);
}

// Returns a constant string: the library promises that a status is one.
static const char *read_status(struct reader *r)
{
    static const char *const known[] = {"",         "processed", "retrying", "dead-lettered",
                                        "released", "renewed"};
    const char *text = read_text(r);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i]) == 0) return known[i];
    r->bad = true;
    return "";
}

static void read_outcome(struct reader *r, struct sluice_outcome *out)
{
    out->code = read_code(r);
    read_text_into(r, out->reason, sizeof out->reason);
    out->status = read_status(r);
    out->until = read_i64(r);
}

static void read_outcomes(struct reader *r, struct sluice_outcome *outcomes, size_t len,
                          struct sluice_error *first)
{
    read_version(r);
    if (read_u32(r) != len) r->bad = true;
    for (size_t i = 0; reader_ok(r) && i < len; i++)
        read_outcome(r, &outcomes[i]);
    read_error(r, first);
}

bool wire_read_outcomes(struct bytes from, struct sluice_outcome *outcomes, size_t len,
                        struct sluice_error *first)
{
    struct reader r = reader_of(from);
    read_outcomes(&r, outcomes, len, first);
    return reader_end(&r);
}

bool wire_read_batch_acked(struct bytes from, struct sluice_batch **out,
                           struct sluice_outcome *outcomes, size_t len, struct sluice_error *why)
{
    struct reader r = reader_of(from);
    struct sluice_batch *b = wire_read_messages(&r);
    read_outcomes(&r, outcomes, len, why);
    return give_batch(b, reader_end(&r), out);
}

bool wire_read_batch_only(struct bytes from, struct sluice_batch **out)
{
    struct reader r = reader_of(from);
    struct sluice_batch *b = wire_read_messages(&r);
    return give_batch(b, reader_ok(&r), out);
}
