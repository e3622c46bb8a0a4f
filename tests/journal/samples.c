// SPDX-License-Identifier: Apache-2.0
// The samples are made by the encoders from plain numbers, so a changed format cannot hide.
#include "samples.h"

#include "base/check.h"

#include <string.h>

static const struct journal_id sample_id = {.queue = "a queue, 16 byte", .shard = 3};

static struct entry entry_of(uint64_t slot, struct op *ops, size_t ops_len)
{
    return (struct entry){.id = sample_id,
                          .slot = slot,
                          .previous = {.lo = 0x1111111111111111, .hi = 0x2222222222222222},
                          .epoch = 0,
                          .writer = {.lo = 0x0102030405060708, .hi = 0x1112131415161718},
                          .sequence = 9,
                          .nonce = 0xfeedfacecafebeef,
                          .time = {1700000000000, 1700000001000},
                          .ops = ops,
                          .ops_len = ops_len};
}

void sample_entry(struct buf *out)
{
    struct op ops[] = {{.kind = 16, .payload = bytes_str("first")},
                       {.kind = 17, .payload = BYTES_EMPTY},
                       {.kind = 300, .payload = bytes_str("a third op")}};
    struct entry e = entry_of(42, ops, 3);
    entry_encode(&e, out);
}

void sample_raised_entry(struct buf *out)
{
    struct op op = {.kind = 16, .payload = bytes_str("first")};
    struct entry e = entry_of(42, &op, 1);
    e.rules = 2;
    entry_encode(&e, out);
}

// A core can only be reached by folding, so two entries are folded: an owner, and another writer.
static void fold_sample(struct core *core)
{
    struct journal_config config;
    journal_config_defaults(&config);
    CLEANUP(buf_done) struct buf own;
    buf_init(&own, 1000);
    buf_put_u64(&own, 0);
    buf_put(&own, bytes_str("coordination id "));
    buf_put_u64(&own, 77);
    buf_put_sized(&own, bytes_str("127.0.0.1:7333"));
    struct op op = {.kind = JOURNAL_OP_OWN, .payload = buf_bytes(&own)};
    struct entry first = entry_of(1, &op, 1);
    first.hash = (struct hash128){5, 6};
    CHECK(core_apply(core, &config.rules, &first, NULL));
    struct entry second = entry_of(2, NULL, 0);
    second.writer.lo = 1;
    second.hash = (struct hash128){7, 8};
    CHECK(core_apply(core, &config.rules, &second, NULL));
}

static void snapshot_of(uint16_t rules, struct buf *out)
{
    struct core core;
    core_init(&core);
    fold_sample(&core);
    struct snapshot s = {.id = sample_id,
                         .rules = rules,
                         .core = &core,
                         .absent_at = 1700000000500,
                         .floor_index = 4,
                         .floor_slot = 1,
                         .digest = 0x3333333333333333,
                         .machine = bytes_str("the machine's own bytes")};
    snapshot_encode(&s, out);
    core_done(&core);
}

void sample_snapshot(struct buf *out)
{
    snapshot_of(1, out);
}

void sample_raised_snapshot(struct buf *out)
{
    snapshot_of(2, out);
}

void sample_floor(struct buf *out)
{
    struct floor f = {.id = sample_id, .index = 5, .slot = 4096, .time = 1700000002000};
    floor_encode(&f, out);
}
