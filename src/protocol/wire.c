// SPDX-License-Identifier: Apache-2.0
// The compact encoding of requests and answers: a version, counts, and structs by their tables
// (compact.h).
#include "protocol/wire.h"

#include "base/check.h"
#include "base/memory.h"
#include "protocol/batch.h"
#include "protocol/signal_list.h"
#include "protocol/wire_inside.h"

#include <stdlib.h>
#include <string.h>

#define FAILURES_MAX (FAILURES_KEPT + 1)

static void put_error(struct buf *to, const struct sluice_error *e)
{
    static const struct sluice_error none = {.code = SLUICE_OK};
    compact_put(to, &compact_problem, e ? e : &none);
}

static void read_error(struct reader *r, struct sluice_error *out)
{
    *out = (struct sluice_error){.code = SLUICE_OK};
    compact_read(r, &compact_problem, out, NULL);
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

void wire_put_sends(struct buf *to, const struct sluice_send *messages, size_t len)
{
    put_head(to, len);
    for (size_t i = 0; i < len; i++)
        compact_put(to, &compact_send, &messages[i]);
}

bool wire_read_sends(struct bytes from, struct wire_sends *out)
{
    struct reader r = reader_of(from);
    struct compact_headers all = {0};
    *out = (struct wire_sends){0};
    read_version(&r);
    size_t count = read_count(&r, compact_min(&compact_send));
    if (reader_ok(&r)) out->messages = memory_zeroed(count, sizeof *out->messages);
    for (; reader_ok(&r) && out->len < count; out->len++)
        compact_read(&r, &compact_send, &out->messages[out->len], &all);
    out->headers = all.rows;
    if (!reader_end(&r)) {
        wire_sends_done(out);
        return false;
    }
    size_t next = 0; // the array has moved while it grew
    for (size_t i = 0; i < out->len; i++) {
        struct sluice_send *m = &out->messages[i];
        if (m->headers_len > 0) m->headers = all.rows + next;
        next += m->headers_len;
    }
    return true;
}

void wire_sends_done(struct wire_sends *s)
{
    memory_free(s->messages);
    memory_free(s->headers);
    *s = (struct wire_sends){0};
}

// Writes `len` structs and an error.
static void put_rows(struct buf *to, const struct compact_form *table, const void *rows,
                     size_t size, size_t len, const struct sluice_error *first)
{
    put_head(to, len);
    for (size_t i = 0; i < len; i++)
        compact_put(to, table, (const char *)rows + i * size);
    put_error(to, first);
}

void wire_put_sent(struct buf *to, const struct sluice_sent *sent, size_t len,
                   const struct sluice_error *first)
{
    put_rows(to, &compact_sent, sent, sizeof *sent, len, first);
}

// Reads `len` structs and an error. A field that the table does not have is zero.
static void read_rows(struct reader *r, const struct compact_form *table, void *rows, size_t size,
                      size_t len, struct sluice_error *first)
{
    read_version(r);
    if (read_u32(r) != len) r->bad = true;
    for (size_t i = 0; reader_ok(r) && i < len; i++) {
        void *row = (char *)rows + i * size;
        memset(row, 0, size);
        compact_read(r, table, row, NULL);
    }
    read_error(r, first);
}

bool wire_read_sent(struct bytes from, struct sluice_sent *sent, size_t len,
                    struct sluice_error *first)
{
    struct reader r = reader_of(from);
    read_rows(&r, &compact_sent, sent, sizeof *sent, len, first);
    return reader_end(&r);
}

enum { CARRIES_NOTHING, CARRIES_RESULTS, CARRIES_PROGRESS };

// What `len` tokens carry.
static void put_carried(struct buf *to, const struct sluice_ack *acks,
                        const struct sluice_renewal *renewals, size_t len)
{
    buf_put_u8(to, acks ? CARRIES_RESULTS : renewals ? CARRIES_PROGRESS : CARRIES_NOTHING);
    for (size_t i = 0; acks && i < len; i++)
        compact_put(to, &compact_result, &acks[i]);
    for (size_t i = 0; !acks && renewals && i < len; i++)
        compact_put(to, &compact_progress, &renewals[i]);
}

static void read_carried(struct reader *r, size_t len, struct settle_lists *out)
{
    uint8_t kind = read_u8(r);
    if (kind > CARRIES_PROGRESS || (kind != CARRIES_NOTHING && len == 0)) r->bad = true;
    if (!reader_ok(r) || kind == CARRIES_NOTHING) return;
    if (kind == CARRIES_RESULTS) out->acks = memory_zeroed(len + 1, sizeof *out->acks);
    if (kind == CARRIES_PROGRESS) out->renewals = memory_zeroed(len + 1, sizeof *out->renewals);
    for (size_t i = 0; reader_ok(r) && i < len; i++)
        compact_read(r, out->acks ? &compact_result : &compact_progress,
                     out->acks ? (void *)&out->acks[i] : (void *)&out->renewals[i], NULL);
}

// What was read is owned, and released if the request is malformed.
static bool end_request(const struct reader *r, struct field_texts *tokens,
                        struct settle_lists *carried)
{
    if (reader_end(r)) return true;
    compact_texts_done(tokens);
    wire_carried_done(carried);
    return false;
}

void wire_put_settle(struct buf *to, const struct settle_in *s, const struct sluice_ack *acks,
                     const struct sluice_renewal *renewals)
{
    buf_put_u8(to, VERSION);
    compact_put(to, &compact_settle, s);
    put_carried(to, acks, renewals, s->tokens.len);
}

bool wire_read_settle(struct bytes from, struct settle_in *out, struct settle_lists *carried)
{
    struct reader r = reader_of(from);
    *out = (struct settle_in){0};
    *carried = (struct settle_lists){0};
    read_version(&r);
    compact_read(&r, &compact_settle, out, NULL);
    read_carried(&r, out->tokens.len, carried);
    return end_request(&r, &out->tokens, carried);
}

void wire_put_receive(struct buf *to, const struct receive_in *in, const struct sluice_ack *acks)
{
    buf_put_u8(to, VERSION);
    compact_put(to, &compact_receive, in);
    put_carried(to, acks, NULL, in->acks.len);
}

bool wire_read_receive(struct bytes from, struct receive_in *out, struct settle_lists *carried)
{
    struct reader r = reader_of(from);
    *out = (struct receive_in){0};
    *carried = (struct settle_lists){0};
    read_version(&r);
    compact_read(&r, &compact_receive, out, NULL);
    read_carried(&r, out->acks.len, carried);
    if (carried->renewals) r.bad = true;
    return end_request(&r, &out->acks, carried);
}

void wire_carried_done(struct settle_lists *carried)
{
    memory_free(carried->acks);
    memory_free(carried->renewals);
    *carried = (struct settle_lists){0};
}

static void put_messages(struct buf *to, const struct sluice_batch *b)
{
    put_head(to, b->len);
    for (size_t i = 0; i < b->len; i++)
        compact_put(to, &compact_message, &b->messages[i]);
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

static void give_headers(struct sluice_batch *b, const struct sluice_header *next)
{
    for (size_t i = 0; i < b->len; i++) {
        struct sluice_message *m = &b->messages[i];
        m->headers = m->headers_len > 0 ? next : NULL;
        if (m->headers_len > 0) next += m->headers_len; // NULL: there is no header
        if (*m->from.queue) read_letter_headers(m);
    }
}

// Reads from a copy of the input that the batch owns. Returns NULL if the messages are malformed.
static struct sluice_batch *read_messages(struct reader *r)
{
    read_version(r);
    size_t count = read_count(r, compact_min(&compact_message));
    if (!reader_ok(r)) return NULL;
    struct bytes input = bytes_copy(bytes_of(r->at, r->left));
    *r = reader_of(input);
    struct batch_builder *builder = batch_new(count);
    struct sluice_batch *b = batch_take(builder);
    struct compact_headers headers = {0};
    for (; reader_ok(r) && b->len < count; b->len++) {
        struct sluice_message *m = &b->messages[b->len];
        m->needs = m->result_type = m->reason = m->progress = "";
        m->percent = -1;
        compact_read(r, &compact_message, &b->messages[b->len], &headers);
    }
    batch_own(builder, input, headers.rows);
    if (reader_ok(r)) {
        give_headers(b, headers.rows);
        return b;
    }
    sluice_batch_free(b);
    return NULL;
}

static bool give_batch(struct sluice_batch *b, bool good, struct sluice_batch **out)
{
    *out = good ? b : NULL;
    if (!good) sluice_batch_free(b);
    return good;
}

static void put_signals(struct buf *to, const struct sluice_message *m)
{
    CHECK(m->signals_len <= SIGNALS_OF_MESSAGE_MAX);
    buf_put_u16(to, (uint16_t)m->signals_len);
    for (size_t i = 0; i < m->signals_len; i++)
        compact_put(to, &compact_signal, &m->signals[i]);
}

static void read_signals(struct reader *r, struct sluice_message *m)
{
    size_t len = read_u16(r);
    if (len > SIGNALS_OF_MESSAGE_MAX || len > r->left / compact_min(&compact_signal)) r->bad = true;
    if (!reader_ok(r) || len == 0) return;
    struct sluice_signal_state *rows = memory_zeroed(len, sizeof *rows);
    m->signals = rows;
    m->signals_len = len;
    for (size_t i = 0; reader_ok(r) && i < len; i++)
        compact_read(r, &compact_signal, &rows[i], NULL);
}

void wire_put_batch(struct buf *to, const struct sluice_batch *b)
{
    put_messages(to, b);
    for (size_t i = 0; i < b->len; i++)
        put_signals(to, &b->messages[i]);
}

static struct sluice_batch *read_batch(struct reader *r)
{
    struct sluice_batch *b = read_messages(r);
    for (size_t i = 0; b && reader_ok(r) && i < b->len; i++)
        read_signals(r, &b->messages[i]);
    return b;
}

bool wire_read_batch(struct bytes from, struct sluice_batch **out)
{
    struct reader r = reader_of(from);
    struct sluice_batch *b = read_batch(&r);
    return give_batch(b, b && reader_end(&r), out);
}

static void put_failures(struct buf *to, const struct sluice_message *m)
{
    CHECK(m->failures_len <= FAILURES_MAX);
    buf_put_u8(to, (uint8_t)m->failures_len);
    for (size_t i = 0; i < m->failures_len; i++)
        compact_put(to, &compact_failure, &m->failures[i]);
}

static void read_failure(struct reader *r, struct sluice_failure *f)
{
    compact_read(r, &compact_failure, f, NULL);
    bool expired = strcmp(f->kind, failure_kind_name(FAILURE_EXPIRED)) == 0;
    if (expired && strcmp(f->reason ? f->reason : "", f->kind) != 0) r->bad = true;
}

static void read_failures(struct reader *r, struct sluice_message *m)
{
    size_t len = read_u8(r);
    if (len > FAILURES_MAX) r->bad = true;
    if (!reader_ok(r) || len == 0) return;
    struct sluice_failure *rows = memory_zeroed(len, sizeof *rows);
    m->failures = rows;
    m->failures_len = len;
    for (size_t i = 0; reader_ok(r) && i < len; i++)
        read_failure(r, &rows[i]);
}

void wire_put_looked(struct buf *to, const struct sluice_batch *b)
{
    put_messages(to, b);
    for (size_t i = 0; i < b->len; i++) {
        const struct sluice_message *m = &b->messages[i];
        buf_put_u8(to, m->body != NULL);
        compact_put(to, &compact_looked, m);
        put_failures(to, m);
        put_signals(to, m);
    }
}

static void read_looked(struct reader *r, struct sluice_message *m)
{
    uint8_t has_body = read_u8(r);
    if (has_body > 1 || (!has_body && m->body_len > 0)) r->bad = true;
    if (!has_body) m->body = NULL;
    compact_read(r, &compact_looked, m, NULL);
    read_failures(r, m);
    read_signals(r, m);
}

bool wire_read_looked(struct bytes from, struct sluice_batch **out)
{
    struct reader r = reader_of(from);
    struct sluice_batch *b = read_messages(&r);
    for (size_t i = 0; b && reader_ok(&r) && i < b->len; i++)
        read_looked(&r, &b->messages[i]);
    return give_batch(b, b && reader_end(&r), out);
}

void wire_put_outcomes(struct buf *to, const struct sluice_outcome *outcomes, size_t len,
                       const struct sluice_error *first)
{
    put_rows(to, &compact_outcome, outcomes, sizeof *outcomes, len, first);
}

bool wire_read_outcomes(struct bytes from, struct sluice_outcome *outcomes, size_t len,
                        struct sluice_error *first)
{
    struct reader r = reader_of(from);
    read_rows(&r, &compact_outcome, outcomes, sizeof *outcomes, len, first);
    return reader_end(&r);
}

bool wire_read_batch_acked(struct bytes from, struct sluice_batch **out,
                           struct sluice_outcome *outcomes, size_t len, struct sluice_error *why)
{
    struct reader r = reader_of(from);
    struct sluice_batch *b = read_batch(&r);
    read_rows(&r, &compact_outcome, outcomes, sizeof *outcomes, len, why);
    return give_batch(b, b && reader_end(&r), out);
}

void wire_put_signals(struct buf *to, const struct sluice_signals *list,
                      const struct sluice_error *first)
{
    put_rows(to, &compact_signal, list->rows, sizeof *list->rows, list->len, first);
    compact_put(to, &compact_signal_id, list);
}

bool wire_read_signals(struct bytes from, struct sluice_signals **out, struct sluice_error *first)
{
    struct signal_list *l = signal_list_new();
    struct bytes input = bytes_copy(from);
    signal_list_own(l, input);
    struct reader r = reader_of(input);
    read_version(&r);
    size_t count = read_u32(&r);
    if (count > r.left / compact_min(&compact_signal)) r.bad = true;
    for (size_t i = 0; reader_ok(&r) && i < count; i++)
        compact_read(&r, &compact_signal, signal_list_add(l), NULL);
    read_error(&r, first);
    struct sluice_signals *list = signal_list_take(l);
    compact_read(&r, &compact_signal_id, list, NULL);
    *out = reader_end(&r) ? list : NULL;
    if (!*out) sluice_signals_free(list);
    return *out;
}
