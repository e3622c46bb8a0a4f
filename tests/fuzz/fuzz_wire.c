// SPDX-License-Identifier: Apache-2.0
// The compact encoding's readers, by the table of calls. What one accepts is written again and read
// again. So is a struct that is made of the input's bytes.
#include "base/check.h"
#include "base/memory.h"
#include "fill.h"
#include "fuzz.h"
#include "ops/collect.h"
#include "protocol/compact.h"
#include "protocol/wire.h"

#include <string.h>

#define LIMIT ((size_t)1 << 20)
#define ROWS  8

// The headers are read beside the struct.
static void set_headers(const struct compact_form *table, union any_struct *p,
                        const struct sluice_header *h)
{
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[table->order[i]];
        if (f->kind == FIELD_HEADERS) memcpy(p->bytes + f->at, &h, sizeof h);
    }
}

static void free_texts(const struct compact_form *table, union any_struct *p)
{
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[table->order[i]];
        if (f->kind == FIELD_TEXTS) compact_texts_done((struct field_texts *)(p->bytes + f->at));
    }
}

// Reads a struct and writes it again. Returns how many bytes were read; 0: they are malformed.
static size_t read_back(struct bytes in, const struct compact_form *table)
{
    union any_struct out = {0};
    struct compact_headers headers = {0};
    struct reader r = reader_of(in);
    compact_read(&r, table, &out, &headers);
    if (reader_ok(&r)) {
        struct bytes used = bytes_of(in.data, in.len - r.left);
        CLEANUP(buf_done) struct buf b;
        buf_init(&b, LIMIT);
        set_headers(table, &out, headers.rows);
        compact_put(&b, table, &out);
        CHECK(used.len >= compact_min(table));
        CHECK(bytes_equal(buf_bytes(&b), used));
    }
    free_texts(table, &out);
    memory_free(headers.rows);
    return reader_ok(&r) ? in.len - r.left : 0;
}

// Makes a struct of the input's bytes, writes it, and reads it as any other bytes.
static void make_struct(struct bytes in, const struct compact_form *table)
{
    union any_struct first = {0};
    struct fill fill;
    fill_init(&fill, in);
    for (size_t i = 0; i < table->len; i++)
        fill_field(&fill, &table->rows[table->order[i]], &first);
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    compact_put(&b, table, &first);
    CHECK(read_back(buf_bytes(&b), table) == b.len);
}

static void try_sends(struct bytes in)
{
    struct wire_sends out, again;
    if (!wire_read_sends(in, &out)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_sends(&b, out.messages, out.len);
    CHECK(bytes_equal(buf_bytes(&b), in));
    CHECK(wire_read_sends(buf_bytes(&b), &again));
    wire_sends_done(&again);
    wire_sends_done(&out);
}

static void try_batch(struct bytes in)
{
    struct sluice_batch *out;
    if (!wire_read_batch(in, &out)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_batch(&b, out);
    CHECK(bytes_equal(buf_bytes(&b), in));
    sluice_batch_free(out);
}

static void try_collected(struct bytes in)
{
    struct collected_list *out;
    if (!wire_read_collected(in, &out)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_collected(&b, out);
    CHECK(bytes_equal(buf_bytes(&b), in));
    collected_free(out);
}

static void try_poll(struct bytes in)
{
    struct signals_receive_in out;
    if (!wire_read_poll(in, &out)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_poll(&b, &out);
    CHECK(bytes_equal(buf_bytes(&b), in));
    wire_poll_done(&out);
}

static void try_looked(struct bytes in)
{
    struct sluice_batch *out;
    if (!wire_read_looked(in, &out)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_looked(&b, out);
    CHECK(bytes_equal(buf_bytes(&b), in));
    sluice_batch_free(out);
}

static void try_settle(struct bytes in)
{
    struct settle_in out;
    struct settle_lists carried;
    if (!wire_read_settle(in, &out, &carried)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_settle(&b, &out, carried.acks, carried.renewals);
    CHECK(bytes_equal(buf_bytes(&b), in));
    compact_texts_done(&out.tokens);
    wire_carried_done(&carried);
}

static void try_receive(struct bytes in)
{
    struct receive_in out;
    struct sluice_error error;
    struct settle_lists carried;
    if (!wire_read_receive(in, &out, &carried)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_receive(&b, &out, carried.acks);
    CHECK(bytes_equal(buf_bytes(&b), in));
    if (fields_check(&receive_fields, &out, &error)) CHECK(*error.field && *error.message);
    compact_texts_done(&out.acks);
    wire_carried_done(&carried);
}

static void try_acked(struct bytes in)
{
    struct sluice_outcome outcomes[ROWS];
    struct sluice_error error;
    struct sluice_batch *out;
    for (size_t len = 0; len <= ROWS; len++)
        if (wire_read_batch_acked(in, &out, outcomes, len, &error)) sluice_batch_free(out);
}

// The texts of the rows are views into the list's own copy.
static void try_signals(struct bytes in)
{
    struct sluice_signals *list, *again;
    struct sluice_error error, same;
    if (!wire_read_signals(in, &list, &error)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_signals(&b, list, &error);
    CHECK(bytes_equal(buf_bytes(&b), in));
    CHECK(wire_read_signals(buf_bytes(&b), &again, &same) && again->len == list->len);
    sluice_signals_free(again);
    sluice_signals_free(list);
}

static void try_answers(struct bytes in)
{
    struct sluice_sent sent[ROWS];
    struct sluice_outcome outcomes[ROWS];
    struct sluice_error error;
    for (size_t len = 0; len <= ROWS; len++) {
        (void)wire_read_sent(in, sent, len, &error);
        (void)wire_read_outcomes(in, outcomes, len, &error);
    }
    if (wire_read_error(in, &error)) CHECK(error.code <= SLUICE_DENIED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes in = bytes_of(data, len);
    // A struct follows a version, and perhaps a count.
    static const size_t skipped[] = {0, 1, 5};
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped && skipped[i] < len; i++) {
        struct bytes rest = bytes_of(data + skipped[i], len - skipped[i]);
#define STRUCT(name, rows, list, order) (void)read_back(rest, &compact_##name);
        COMPACT_TABLES(STRUCT)
#undef STRUCT
    }
#define STRUCT(name, rows, list, order) make_struct(in, &compact_##name);
    COMPACT_TABLES(STRUCT)
#undef STRUCT
    try_sends(in);
    try_batch(in);
    try_collected(in);
    try_poll(in);
    try_looked(in);
    try_settle(in);
    try_receive(in);
    try_acked(in);
    try_answers(in);
    try_signals(in);
    return 0;
}
