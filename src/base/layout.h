// SPDX-License-Identifier: Apache-2.0
// A stored struct is a list of its fields. From this one list come the writer, the bounded reader
// and the digest, so no field can be forgotten in one of them:
//
//     #define LAYOUT_OF struct plan_row
//     static const struct layout_field plan_row_fields[] = {
//         U32(shard.shard), U32(owner), ENUM(reason, MOVE_REASONS), I64(moved_at),
//     };
//     const struct layout plan_row_layout = LAYOUT(plan_row_fields);
//     #undef LAYOUT_OF
//
// A table of its folder names it (base/layout_table.h). From there it comes into the table of
// docs/format.md and into the test of all layouts.
//
// The bytes are those of the fields in the order of the list, without padding. Each macro takes the
// member and, if needed, bounds: U64(seq, .min = 1), I64(wait_ms, .max = LEASE_MAX_MS). The writer
// CHECKs them. The reader refuses what is outside of them.
//
//     U8 U16 U32 U64   an unsigned integer of that width, little-endian. The member can be wider
//     I64              a signed integer; with a .max, only 0 to .max
//     FLAG             a bool: u8, 0 or 1
//     ENUM             u8, less than the number of values
//     MARK             a number that is always the same and has no member: MARK(1, "version", 1)
//     FIXED            the bytes of the member: an id
//     HASH             a struct hash128
//     BYTES            a struct bytes: u32 length, then the bytes; .min and .max are of the length
//     TEXT             an array of char that ends with a zero: u32 length, then the text
//     REST             a struct bytes: all that is left of the input; the last field
//     PART             a struct within the struct
//     ROWS             a struct bytes with encoded rows, and their count: u32 count, then the rows.
//                      The reader checks each row; layout_next reads them
//     ARRAY            a pointer to structs, and their count: u32 count, then each. The reader
//                      allocates them; layout_done releases them
//
// A field with WHEN(member, bits) is there only if one of these bits of a field before it is set.
// If it is absent, the reader sets it to zeros.
#pragma once

#include "base/bytes.h"
#include "base/hash.h"

enum layout_kind {
    LAYOUT_UNSIGNED,
    LAYOUT_SIGNED,
    LAYOUT_MARK, // the number is `min`
    LAYOUT_FIXED,
    LAYOUT_HASH,
    LAYOUT_BYTES,
    LAYOUT_TEXT,
    LAYOUT_REST,
    LAYOUT_PART,
    LAYOUT_ROWS, // this one and those after it have a count
    LAYOUT_ARRAY,
};

struct layout_field {
    const char *name;
    const struct layout *of; // part, rows, array
    uint64_t min, max;       // of the number, the length or the count; max 0: no other limit
    uint32_t bits;           // with `when`; 0: the field is always there
    uint16_t offset, count_offset;
    uint16_t held;   // bytes in memory
    uint8_t written; // bytes of a number
    uint8_t kind;
    uint16_t when, when_held; // the field that has the bits
};

struct layout {
    const struct layout_field *fields;
    size_t fields_len;
    size_t size;  // of the struct
    size_t fixed; // if it is set: all its rows have so many bytes, and any bytes are good
};

#define LAYOUT(list, ...)                                                                          \
    LAYOUT_FIELD(.fields = (list), .fields_len = sizeof(list) / sizeof *(list),                    \
                 .size = sizeof(LAYOUT_OF), __VA_ARGS__)

#define LAYOUT_FIELD(...)                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define LAYOUT_MEMBER(m) (((LAYOUT_OF *)0)->m)
// The member's size; the build fails if it is not one of two.
#define LAYOUT_HELD(m, a, b)                                                                       \
    (sizeof(LAYOUT_MEMBER(m)) *                                                                    \
     sizeof(char[sizeof(LAYOUT_MEMBER(m)) == (a) || sizeof(LAYOUT_MEMBER(m)) == (b) ? 1 : -1]))
#define LAYOUT_PLACE(m)              .name = #m, .offset = offsetof(LAYOUT_OF, m)
#define LAYOUT_AT(k, m)              LAYOUT_PLACE(m), .kind = LAYOUT_##k
#define LAYOUT_NUMBER(k, m, w, a, b) LAYOUT_AT(k, m), .held = LAYOUT_HELD(m, a, b), .written = (w)
#define LAYOUT_WHOLE(k, m)           LAYOUT_AT(k, m), .held = sizeof(LAYOUT_MEMBER(m))
#define LAYOUT_VIEW(k, m)                                                                          \
    LAYOUT_AT(k, m), .held = LAYOUT_HELD(m, sizeof(struct bytes), sizeof(struct bytes))
#define LAYOUT_COUNTED(k, m, n, layout)                                                            \
    LAYOUT_AT(k, m), .of = &(layout), .count_offset = offsetof(LAYOUT_OF, n),                      \
                     .held = LAYOUT_HELD(n, 4, 8)

#define U8(m, ...)   LAYOUT_FIELD(LAYOUT_NUMBER(UNSIGNED, m, 1, 1, 4), __VA_ARGS__)
#define U16(m, ...)  LAYOUT_FIELD(LAYOUT_NUMBER(UNSIGNED, m, 2, 2, 4), __VA_ARGS__)
#define U32(m, ...)  LAYOUT_FIELD(LAYOUT_NUMBER(UNSIGNED, m, 4, 4, 8), __VA_ARGS__)
#define U64(m, ...)  LAYOUT_FIELD(LAYOUT_NUMBER(UNSIGNED, m, 8, 8, 8), __VA_ARGS__)
#define I64(m, ...)  LAYOUT_FIELD(LAYOUT_NUMBER(SIGNED, m, 8, 8, 8), __VA_ARGS__)
#define FLAG(m, ...) LAYOUT_FIELD(LAYOUT_NUMBER(UNSIGNED, m, 1, 1, 1), .max = 1, __VA_ARGS__)
#define ENUM(m, values, ...)                                                                       \
    LAYOUT_FIELD(LAYOUT_NUMBER(UNSIGNED, m, 1, 1, 4), .max = (values)-1, __VA_ARGS__)
#define MARK(width, text, value)                                                                   \
    {                                                                                              \
        .name = (text), .kind = LAYOUT_MARK, .written = (width), .min = (value)                    \
    }
#define FIXED(m, ...)        LAYOUT_FIELD(LAYOUT_WHOLE(FIXED, m), __VA_ARGS__)
#define HASH(m, ...)         LAYOUT_FIELD(LAYOUT_WHOLE(HASH, m), __VA_ARGS__)
#define TEXT(m, ...)         LAYOUT_FIELD(LAYOUT_WHOLE(TEXT, m), __VA_ARGS__)
#define BYTES(m, ...)        LAYOUT_FIELD(LAYOUT_VIEW(BYTES, m), __VA_ARGS__)
#define REST(m, ...)         LAYOUT_FIELD(LAYOUT_VIEW(REST, m), __VA_ARGS__)
#define PART(m, layout, ...) LAYOUT_FIELD(LAYOUT_WHOLE(PART, m), .of = &(layout), __VA_ARGS__)
#define ROWS(m, count, layout, ...)                                                                \
    LAYOUT_FIELD(LAYOUT_COUNTED(ROWS, m, count, layout), __VA_ARGS__)
#define ARRAY(m, count, layout, ...)                                                               \
    LAYOUT_FIELD(LAYOUT_COUNTED(ARRAY, m, count, layout), __VA_ARGS__)
#define WHEN(m, mask)                                                                              \
    .when = offsetof(LAYOUT_OF, m), .when_held = LAYOUT_HELD(m, 1, 4), .bits = (mask)

// The least size of a row of ROWS in memory is bounded: the reader has one on its stack.
#define LAYOUT_ROW_SIZE_MAX 256

void layout_put(const struct layout *layout, struct buf *to, const void *from);

// Fills the fields of *to, with views into the input. False: the input is bad, and so is the
// reader. Then *to has no arrays.
bool layout_read(const struct layout *layout, struct reader *from, void *to);

// As layout_read, and refuses more bytes than that.
bool layout_read_all(const struct layout *layout, struct bytes from, void *to);

// Reads a row of ROWS. The rows were checked: it fails only at their end.
static inline bool layout_next(const struct layout *layout, struct reader *rows, void *to)
{
    return rows->left > 0 && layout_read(layout, rows, to);
}

// Releases the arrays that layout_read has made.
void layout_done(const struct layout *layout, void *of);

// The digest of all fields, which begins with `seed`.
uint64_t layout_hash(const struct layout *layout, uint64_t seed, const void *of);

// The least number of bytes that the layout takes.
size_t layout_bytes_min(const struct layout *layout);

// Reads one of rows whose layout has `fixed`. CHECKs that there are so many.
void layout_at(const struct layout *layout, struct bytes rows, size_t index, void *to);
