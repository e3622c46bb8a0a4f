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
    if (entry_decode(input, &e, &why)) {
        CHECK(why);
        return;
    }
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, ENTRY_LEN_MAX);
    entry_encode(&e, &again);
    CHECK(bytes_equal(buf_bytes(&again), input));
    entry_done(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    decode(bytes_of(data, len));
    if (len < ENTRY_HEADER_LEN) return 0;
    // The frame made right, so that the fields inside are reached.
    CLEANUP(buf_done) struct buf sealed;
    buf_init(&sealed, len + ENTRY_CHECKSUM_LEN);
    buf_put(&sealed, bytes_of(data, len));
    buf_set_u32(&sealed, 0, ENTRY_MAGIC);
    buf_set_u32(&sealed, 4, ENTRY_FORMAT);
    buf_set_u32(&sealed, 8, (uint32_t)(len + ENTRY_CHECKSUM_LEN));
    buf_put_hash128(&sealed, hash128_of(buf_bytes(&sealed)));
    decode(buf_bytes(&sealed));
    return 0;
}
