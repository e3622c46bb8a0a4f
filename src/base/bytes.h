// SPDX-License-Identifier: Apache-2.0
// Bytes: a borrowed view (struct bytes), an owned buffer with a limit (struct buf), and a
// little-endian codec. Errors are sticky: past the limit or the end, a buffer or reader becomes bad
// and further calls do nothing. The caller checks once at the end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    const uint8_t *data;
    size_t len;
};

#define BYTES_EMPTY ((struct bytes){NULL, 0})

struct bytes bytes_of(const void *data, size_t len);
struct bytes bytes_str(const char *text); // without the closing zero
bool bytes_equal(struct bytes a, struct bytes b);
// As memcmp; of two with the same prefix the shorter comes first.
int bytes_compare(struct bytes a, struct bytes b);
struct bytes bytes_copy(struct bytes from); // heap; release with bytes_free
void bytes_free(struct bytes owned);

// An owned buffer. It never holds more than limit bytes. A put that would exceed the limit is
// dropped and marks the buffer bad.
struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t limit;
    bool bad;
};

void buf_init(struct buf *b, size_t limit);
void buf_done(struct buf *b);
void buf_clear(struct buf *b); // empty and good again; keeps its memory
struct bytes buf_bytes(const struct buf *b);
// Transfers the memory to the caller (bytes_free) and leaves the buffer empty.
struct bytes buf_take(struct buf *b);

void buf_put(struct buf *b, struct bytes from);
// Appends len bytes for the caller to fill and returns their address; NULL if the buffer is bad.
uint8_t *buf_grow(struct buf *b, size_t len);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
void buf_put_i64(struct buf *b, int64_t v);
void buf_put_sized(struct buf *b, struct bytes from); // u32 length, then the bytes
void buf_set_u32(struct buf *b, size_t at, uint32_t v);

// Reads from front to back.
struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

struct reader reader_of(struct bytes from);
uint8_t read_u8(struct reader *r);
uint16_t read_u16(struct reader *r);
uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);
int64_t read_i64(struct reader *r);
struct bytes read_bytes(struct reader *r, size_t len); // a view into the input
struct bytes read_sized(struct reader *r, size_t len_max);
bool reader_ok(const struct reader *r);  // no read went past the end
bool reader_end(const struct reader *r); // the same, and all bytes were read

#define CLEANUP(done) __attribute__((cleanup(done), unused))
