// SPDX-License-Identifier: Apache-2.0
// The reader under any sequence of reads: it never leaves its input, what it read writes back to
// the same bytes, and once bad it stays bad. The first bytes of the input choose the reads, the
// rest is read.
#include "base/bytes.h"
#include "base/check.h"
#include "fuzz.h"

#define STEPS 16

static void read_and_write_back(struct reader *r, uint8_t step, struct buf *out)
{
    switch (step % 6) {
    case 0:
        buf_put_u8(out, read_u8(r));
        break;
    case 1:
        buf_put_u16(out, read_u16(r));
        break;
    case 2:
        buf_put_u32(out, read_u32(r));
        break;
    case 3:
        buf_put_u64(out, read_u64(r));
        break;
    case 4:
        buf_put_i64(out, read_i64(r));
        break;
    case 5:
        buf_put_sized(out, read_sized(r, step));
        break;
    default:
        CHECK(false);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < STEPS) return 0;
    struct bytes input = bytes_of(data + STEPS, len - STEPS);
    struct reader r = reader_of(input);
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, input.len);
    for (size_t i = 0; i < STEPS; i++) {
        bool was_ok = reader_ok(&r);
        size_t left = r.left;
        size_t written = out.len;
        read_and_write_back(&r, data[i], &out);
        CHECK(r.left <= left);
        CHECK(was_ok || !reader_ok(&r));
        if (!reader_ok(&r)) {
            out.len = written;
            continue;
        }
        CHECK(!out.bad);
        CHECK(out.len == input.len - r.left);
        CHECK(bytes_equal(buf_bytes(&out), bytes_of(input.data, out.len)));
    }
    return 0;
}
