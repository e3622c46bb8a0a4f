// SPDX-License-Identifier: Apache-2.0
// The bytes of a journal segment: a header, then records back to back, then zeros. Little-endian.
//
//   header, 64 bytes:
//     magic u64, version u32, 0 u32, first slot u64, generation u64, salt u64,
//     time before i64 (of the last slot before this segment; 0: none),
//     check u64 (XXH3 of all bytes before it), 0 u64
//   record:
//     magic u32, length u32, slot u64, time i64, check u64, body, zeros up to a multiple of 8
//
// A record's check is XXH3 over body and header, seeded with the salt and the record's offset in
// the file. So a record that was copied to another place, or that is part of a body, is not valid.
//
// If a segment is dropped while older ones are kept, it is cut down to its header, so that the
// chain has no gaps.
#pragma once

#include "base/bytes.h"

#define SEGMENT_HEADER_LEN 64
#define RECORD_HEADER_LEN  32
#define SEGMENT_VERSION    1

struct segment_head {
    uint64_t first;
    uint64_t generation;
    uint64_t salt;
    int64_t before_ms;
};

void segment_head_put(struct buf *to, const struct segment_head *h);
bool segment_head_read(struct bytes from, struct segment_head *h); // false: not a good header

struct record {
    uint64_t slot;
    int64_t time_ms;
    uint64_t size; // of the whole record
    struct bytes body;
};

enum record_kind {
    RECORD_GOOD,
    RECORD_NONE,  // zeros: nothing was written here
    RECORD_SHORT, // more bytes are needed: r->size has the number
    RECORD_BAD,
};

uint64_t record_size(size_t body_len);
void record_put(struct buf *to, uint64_t salt, uint64_t offset, uint64_t slot, int64_t time_ms,
                struct bytes body);
// Decodes the start of `from`, which was read at `offset` of the file. The body is a view.
enum record_kind record_read(struct bytes from, uint64_t salt, uint64_t offset, struct record *r);
// As record_read, but reads only the header: r->slot and r->size, unchecked.
enum record_kind record_peek(struct bytes from, struct record *r);

// How far the records of a whole segment (its bytes from offset 0 on) are good.
struct segment_scan {
    uint64_t next;      // the slot after the last good record
    uint64_t offset;    // offset of that slot
    uint64_t last;      // offset of the last good record; 0: none
    uint64_t dirty_end; // past the last byte that is not zero
    int64_t time_ms;    // of the last good record, or the time before
    bool good_later;    // a good record follows the first bad place: damage, not a torn end
};

void segment_scan(struct bytes file, const struct segment_head *h, struct segment_scan *to);
