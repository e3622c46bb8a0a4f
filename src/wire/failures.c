// SPDX-License-Identifier: Apache-2.0
// Encodes the failures of messages. They follow the batch, so a client that does not ask for them
// reads the same bytes as before.
#include "base/check.h"
#include "base/memory.h"
#include "local/inside.h"
#include "wire/text.h"

#include <string.h>

#define FAILURES_MAX (FAILURES_KEPT + 1)

static bool is_expiry(const struct sluice_failure *f)
{
    return strcmp(f->kind, failure_kind_name(FAILURE_EXPIRED)) == 0;
}

void wire_put_failures(struct buf *to, const struct sluice_batch *b)
{
    for (size_t i = 0; i < b->len; i++) {
        const struct sluice_message *m = &b->messages[i];
        CHECK(m->failures_len <= FAILURES_MAX);
        buf_put_u8(to, (uint8_t)m->failures_len);
        for (size_t j = 0; j < m->failures_len; j++) {
            const struct sluice_failure *f = &m->failures[j];
            buf_put_u32(to, f->attempt);
            buf_put_i64(to, f->at);
            buf_put_u8(to, is_expiry(f));
            put_sized_text(to, f->worker);
            buf_put_u8(to, f->reason != NULL);
            put_sized_text(to, f->reason);
        }
    }
}

static uint8_t read_flag(struct reader *r)
{
    uint8_t flag = read_u8(r);
    if (flag > 1) r->bad = true;
    return flag;
}

static void read_failure(struct reader *r, struct sluice_failure *f)
{
    f->attempt = read_u32(r);
    f->at = read_i64(r);
    bool expired = read_flag(r);
    f->kind = failure_kind_name(expired ? FAILURE_EXPIRED : FAILURE_FAILED);
    f->worker = read_text(r);
    bool kept = read_flag(r);
    const char *reason = read_text(r);
    f->reason = kept ? reason : NULL;
    if (!kept && *reason) r->bad = true;
    if (expired && strcmp(reason, f->kind) != 0) r->bad = true;
}

// Copies the failures and their texts into one block, as for messages.
static void own_failures(struct sluice_message *m, const struct sluice_failure *rows, size_t len,
                         struct bytes piece)
{
    struct sluice_failure *block = memory_new(len * sizeof *block + piece.len);
    struct move move = {piece.data, (char *)(block + len)};
    memcpy(move.to, piece.data, piece.len);
    for (size_t i = 0; i < len; i++) {
        block[i] = rows[i];
        block[i].worker = moved(&move, rows[i].worker);
        if (rows[i].reason) block[i].reason = moved(&move, rows[i].reason);
    }
    m->failures = block;
    m->failures_len = len;
}

static void read_failures(struct reader *r, struct sluice_message *m)
{
    struct sluice_failure rows[FAILURES_MAX];
    size_t len = read_u8(r);
    if (len > FAILURES_MAX) r->bad = true;
    const uint8_t *start = r->at;
    for (size_t i = 0; reader_ok(r) && i < len; i++)
        read_failure(r, &rows[i]);
    if (reader_ok(r) && len > 0)
        own_failures(m, rows, len, bytes_of(start, (size_t)(r->at - start)));
}

bool wire_read_looked(struct bytes from, struct sluice_batch **out)
{
    struct reader r = reader_of(from);
    struct sluice_batch *b = wire_read_messages(&r);
    bool told = b && r.left > 0;
    for (size_t i = 0; told && reader_ok(&r) && i < b->len; i++)
        read_failures(&r, &b->messages[i]);
    bool good = b && reader_end(&r);
    *out = good ? b : NULL;
    if (!good) sluice_batch_free(b);
    return good;
}
