// SPDX-License-Identifier: Apache-2.0
// The compact encoding's readers, by the table of calls. What one accepts is written again and read
// again.
#include "base/check.h"
#include "base/memory.h"
#include "fuzz.h"
#include "wire/compact.h"
#include "wire/wire.h"

#include <string.h>

#define LIMIT ((size_t)1 << 20)
#define ROWS  8

union place { // any struct of the table, aligned
    char bytes[1024];
    max_align_t align;
};

// The headers are read beside the struct.
static void set_headers(const struct compact *table, union place *p, const struct sluice_header *h)
{
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[table->order[i]];
        if (f->kind == FIELD_HEADERS) memcpy(p->bytes + f->at, &h, sizeof h);
    }
}

static void try_struct(struct bytes in, const struct compact *table)
{
    union place out = {0};
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
    memory_free(headers.rows);
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

static void try_looked(struct bytes in)
{
    struct sluice_batch *out;
    if (!wire_read_looked(in, &out)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_batch(&b, out);
    if (b.len < in.len) wire_put_failures(&b, out);
    CHECK(bytes_equal(buf_bytes(&b), in));
    sluice_batch_free(out);
}

static void try_settle(struct bytes in)
{
    struct wire_settle out;
    if (!wire_read_settle(in, &out)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_settle(&b, (const char *const *)out.tokens, out.len, out.wait_ms, out.reason);
    CHECK(bytes_equal(buf_bytes(&b), in));
    wire_settle_done(&out);
}

static void try_acks(struct bytes in)
{
    struct wire_receive ask;
    struct wire_settle acks;
    if (!wire_read_receive_acks(in, &ask, &acks)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, LIMIT);
    wire_put_receive(&b, &ask);
    if (b.len < in.len) wire_put_acks(&b, (const char *const *)acks.tokens, acks.len);
    CHECK(bytes_equal(buf_bytes(&b), in));
    wire_settle_done(&acks);
}

static void try_acked(struct bytes in)
{
    struct sluice_outcome outcomes[ROWS];
    struct sluice_error error;
    struct sluice_batch *out;
    for (size_t len = 0; len <= ROWS; len++)
        if (wire_read_batch_acked(in, &out, outcomes, len, &error)) sluice_batch_free(out);
    if (wire_read_batch_only(in, &out)) sluice_batch_free(out);
}

static void try_answers(struct bytes in)
{
    struct sluice_sent sent[ROWS];
    struct sluice_outcome outcomes[ROWS];
    struct sluice_error error;
    struct wire_receive receive;
    for (size_t len = 0; len <= ROWS; len++) {
        (void)wire_read_sent(in, sent, len, &error);
        (void)wire_read_outcomes(in, outcomes, len, &error);
    }
    if (wire_read_receive(in, &receive)) CHECK(strlen(receive.worker) < in.len);
    if (wire_read_error(in, &error)) CHECK(error.code <= SLUICE_DENIED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes in = bytes_of(data, len);
    // A struct follows a version, and perhaps a count.
    static const size_t skipped[] = {0, 1, 5};
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped && skipped[i] < len; i++) {
        struct bytes rest = bytes_of(data + skipped[i], len - skipped[i]);
#define STRUCT(name, rows, list, order) try_struct(rest, &compact_##name);
        COMPACT_TABLES(STRUCT)
#undef STRUCT
    }
    try_sends(in);
    try_batch(in);
    try_looked(in);
    try_settle(in);
    try_acks(in);
    try_acked(in);
    try_answers(in);
    return 0;
}
