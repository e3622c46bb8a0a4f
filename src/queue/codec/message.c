// SPDX-License-Identifier: Apache-2.0
// Headers as pairs of sized bytes, message ids, and other small functions on messages.
#include "queue/codec/message.h"

#include "base/check.h"
#include "base/digits.h"

#include <assert.h>

void message_id_print(const struct queue_id *queue, uint32_t shard, uint64_t seq,
                      char out[MESSAGE_ID_MAX])
{
    static_assert(MESSAGE_ID_MAX >= 2 * 4 + 2 * DIGITS_MAX + 3, "the longest id has room");
    char *at = digits_put_hex(out, queue->bytes, 4);
    *at++ = '-';
    at = digits_put(at, shard);
    *at++ = '-';
    at = digits_put(at, seq);
    CHECK(at < out + MESSAGE_ID_MAX);
    *at = '\0';
}

bool request_id_set(const struct request_id *id)
{
    uint8_t any = 0;
    for (size_t i = 0; i < sizeof id->bytes; i++)
        any |= id->bytes[i];
    return any != 0;
}

void headers_put(struct buf *b, struct bytes name, struct bytes value)
{
    buf_put_sized(b, name);
    buf_put_sized(b, value);
}

bool headers_next(struct reader *r, struct bytes *name, struct bytes *value)
{
    if (r->left == 0) return false;
    *name = read_sized(r, MESSAGE_HEADERS_MAX);
    *value = read_sized(r, MESSAGE_HEADERS_MAX);
    return reader_ok(r) && name->len > 0;
}

void headers_put_others(struct buf *b, struct bytes headers, struct bytes name)
{
    struct reader r = reader_of(headers);
    struct bytes at, value;
    while (headers_next(&r, &at, &value))
        if (!bytes_equal(at, name)) headers_put(b, at, value);
}

bool headers_ok(struct bytes headers)
{
    struct reader r = reader_of(headers);
    struct bytes name, value;
    while (r.left > 0)
        if (!headers_next(&r, &name, &value)) return false;
    return true;
}

uint64_t message_body_len(const struct message *m)
{
    CHECK(m->reference.name.len == 0 || m->body.len == 0);
    return m->reference.name.len > 0 ? m->reference.len : m->body.len;
}
