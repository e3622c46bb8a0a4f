// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request to the owner of a shard, and as the owner's answer. What a decoder accepts
// is written again and read again.
#include "base/check.h"
#include "base/memory.h"
#include "fuzz.h"
#include "protocol/shard_wire.h"

#include <string.h>

#define ROWS 8

static void put_listen(struct buf *to, const struct shard_ask *ask)
{
    struct listen_ask *asks = memory_zeroed(ask->tokens_len, sizeof *asks);
    for (uint32_t i = 0; i < ask->tokens_len; i++)
        asks[i] = shard_ask_token(ask, i);
    struct shard_listen what = {
        .asks = asks, .len = ask->tokens_len, .signal = ask->signal, .seq = ask->seq};
    shard_ask_put_listen(to, ask, &what);
    memory_free(asks);
}

static void put_ask(struct buf *to, const struct shard_ask *ask)
{
    if (ask->kind == SHARD_LISTEN) {
        put_listen(to, ask);
        return;
    }
    if (ask->kind != SHARD_AWAIT) {
        shard_ask_put(to, ask);
        return;
    }
    uint32_t *shards = memory_zeroed(ask->shards_len, sizeof *shards);
    for (uint32_t i = 0; i < ask->shards_len; i++)
        shards[i] = shard_ask_await(ask, i);
    shard_ask_put_await(to, ask, shards, ask->shards_len);
    memory_free(shards);
}

static void try_ask(struct bytes in)
{
    struct shard_ask ask, again;
    if (!shard_ask_read(in, &ask)) return;
    CLEANUP(buf_done) struct buf b;
    buf_init(&b, SIZE_MAX);
    put_ask(&b, &ask);
    CHECK(bytes_equal(buf_bytes(&b), in));
    CHECK(shard_ask_read(buf_bytes(&b), &again));
    CHECK(again.kind == ask.kind && again.shard == ask.shard && again.wait_ms == ask.wait_ms);
    CHECK(again.flags == ask.flags && ask.wait_ms >= 0);
    CHECK(ask.shards_len <= SHARD_AWAITS_MAX);
}

static void release(struct shard_part *parts, uint8_t len)
{
    for (uint8_t i = 0; i < len; i++)
        kept_reply_done(&parts[i].answer);
}

// Reads an answer and writes it again. The memory has exactly the size of the input, so a sanitizer
// notices a read behind it.
static bool write_again(struct bytes in, uint8_t len, struct buf *out)
{
    struct shard_part parts[SHARD_PARTS_MAX];
    bool moved = false;
    struct buf from;
    buf_init(&from, SIZE_MAX);
    buf_put(&from, in);
    from.data = memory_resize(from.data, in.len > 0 ? in.len : 1);
    from.cap = in.len;
    bool good = shard_answer_read(&from, &moved, parts, len);
    CHECK(good == (from.len == 0) || in.len == 0);
    if (good) shard_answer_begin(out, moved, moved ? 0 : len);
    for (uint8_t i = 0; good && !moved && i < len; i++) {
        CHECK(parts[i].err < ERR_COUNT && parts[i].answer.deliveries_len <= CLAIM_COUNT_MAX);
        shard_answer_put(out, parts[i].err, parts[i].remembered, &parts[i].answer);
    }
    release(parts, len);
    buf_done(&from);
    return good;
}

// A reason with a zero inside is left out, so the second text may be shorter than the input.
static void try_answer(struct bytes in, uint8_t len)
{
    CLEANUP(buf_done) struct buf first;
    CLEANUP(buf_done) struct buf second;
    buf_init(&first, SIZE_MAX);
    buf_init(&second, SIZE_MAX);
    if (!write_again(in, len, &first)) return;
    CHECK(first.len < in.len || bytes_equal(buf_bytes(&first), in));
    CHECK(write_again(buf_bytes(&first), len, &second));
    CHECK(bytes_equal(buf_bytes(&second), buf_bytes(&first)));
}

static void try_awaited(struct bytes in)
{
    struct shard_await_row rows[ROWS];
    for (size_t max = 0; max <= ROWS; max++) {
        bool moved = false;
        size_t len = shard_awaited_read(in, &moved, rows, max);
        if (len == SIZE_MAX) continue;
        CHECK(len <= max);
        CLEANUP(buf_done) struct buf b;
        buf_init(&b, SIZE_MAX);
        shard_awaited_put(&b, moved, rows, len);
        CHECK(bytes_equal(buf_bytes(&b), in));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_of(data, size);
    try_ask(in);
    for (uint8_t len = 1; len <= SHARD_PARTS_MAX; len++)
        try_answer(in, len);
    try_awaited(in);
    return 0;
}
