// SPDX-License-Identifier: Apache-2.0
// Any bytes as a snapshot and as a floor, as they are and with a checksum that fits.
#include "base/check.h"
#include "fuzz.h"
#include "journal/snapshot.h"

static void decode(struct bytes input)
{
    struct core core;
    struct snapshot s;
    core_init(&core);
    if (!snapshot_decode(input, &core, &s)) {
        CLEANUP(buf_done) struct buf again;
        buf_init(&again, SNAPSHOT_LEN_MAX);
        snapshot_encode(&s, &again);
        // A time that cannot be is read as unknown.
        bool unknown = s.absent_at == TIME_UNKNOWN;
        CHECK(unknown ? again.len == input.len : bytes_equal(buf_bytes(&again), input));
    }
    core_done(&core);
}

static void decode_floor(struct bytes input)
{
    struct floor f;
    if (floor_decode(input, &f)) return;
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, FLOOR_LEN);
    floor_encode(&f, &again);
    CHECK(bytes_equal(buf_bytes(&again), input));
}

static void decode_sealed(const uint8_t *data, size_t len, uint32_t format)
{
    CLEANUP(buf_done) struct buf sealed;
    buf_init(&sealed, len + 16);
    buf_put(&sealed, bytes_of(data, len));
    buf_set_u32(&sealed, 0, SNAPSHOT_MAGIC);
    buf_set_u32(&sealed, 4, format);
    buf_put_hash128(&sealed, hash128_of(buf_bytes(&sealed)));
    decode(buf_bytes(&sealed));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    decode(bytes_of(data, len));
    decode_floor(bytes_of(data, len));
    if (len < 8) return 0;
    decode_sealed(data, len, SNAPSHOT_FORMAT | 1u << 16);
    decode_sealed(data, len, SNAPSHOT_FORMAT | (uint32_t)data[6] << 16);
    decode_sealed(data, len, (SNAPSHOT_FORMAT + 1) | (uint32_t)data[6] << 16);
    return 0;
}
