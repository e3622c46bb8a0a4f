// SPDX-License-Identifier: Apache-2.0
// Any bytes as an entry, as they are and with a checksum that fits: what decodes encodes to the
// same bytes.
#include "base/check.h"
#include "fuzz.h"
#include "journal/entry.h"

static void decode(struct bytes input)
{
    struct entry e;
    const char *why = NULL;
    enum err err = entry_decode(input, &e, &why);
    if (err) {
        CHECK(err == ERR_UNAVAILABLE ? e.rules > 0 : err == ERR_CORRUPT && why);
        return;
    }
    CHECK(e.rules > 0);
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, ENTRY_LEN_MAX);
    entry_encode(&e, &again);
    CHECK(bytes_equal(buf_bytes(&again), input));
    entry_done(&e);
}

// The frame made right, so that the fields inside are reached.
static void decode_sealed(const uint8_t *data, size_t len, uint32_t format)
{
    CLEANUP(buf_done) struct buf sealed;
    buf_init(&sealed, len + ENTRY_CHECKSUM_LEN);
    buf_put(&sealed, bytes_of(data, len));
    buf_set_u32(&sealed, 0, ENTRY_MAGIC);
    buf_set_u32(&sealed, 4, format);
    buf_set_u32(&sealed, 8, (uint32_t)(len + ENTRY_CHECKSUM_LEN));
    buf_put_hash128(&sealed, hash128_of(buf_bytes(&sealed)));
    decode(buf_bytes(&sealed));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    decode(bytes_of(data, len));
    if (len < ENTRY_HEADER_LEN) return 0;
    decode_sealed(data, len, ENTRY_FORMAT | 1u << 16);
    decode_sealed(data, len, ENTRY_FORMAT | (uint32_t)data[6] << 16);
    decode_sealed(data, len, (ENTRY_FORMAT + 1) | (uint32_t)data[6] << 16);
    return 0;
}
