// SPDX-License-Identifier: Apache-2.0
// The bytes of one entry: a header, its ops, a checksum (docs/format.md). The checksum covers all
// bytes before it. So it also identifies the entry, and the next entry refers to it.
#pragma once

#include "base/layout_table.h"
#include "journal/journal.h"

#define ENTRY_MAGIC         0x314a4c53u // "SLJ1"
#define ENTRY_FORMAT        1
#define ENTRY_HEADER_LEN    120
#define ENTRY_OP_HEADER_LEN 8
#define ENTRY_CHECKSUM_LEN  16
#define ENTRY_LEN_MAX       ((size_t)8 << 20)
#define ENTRY_OPS_MAX       65536
#define ENTRY_SLOT_MAX      ((uint64_t)1 << 62) // no journal is longer; sums cannot wrap
#define ENTRY_TIME_MAX      TIME_REAL_MAX

struct entry {
    struct journal_id id;
    uint16_t rules; // version of the fold's rules; 0 is written as 1
    uint32_t len;   // decoded: of all its bytes
    uint64_t slot;
    struct hash128 previous; // of the entry in the previous slot; zero for slot 1
    uint64_t epoch;          // 0: written directly
    struct hash128 writer;
    uint64_t sequence; // the writer's count of batches
    uint64_t nonce;
    struct interval time;
    struct op *ops; // decoded: owned array, payloads are views into the bytes
    size_t ops_len;
    struct hash128 hash; // decoded: the checksum
};

// Those of the whole folder.
#define JOURNAL_LAYOUTS(X) X(core) X(entry) X(entry_op) X(floor) X(session)
JOURNAL_LAYOUTS(LAYOUT_DECLARE)

// Writes header, ops and checksum. out must be empty. If its limit is too small, it turns bad.
void entry_encode(const struct entry *e, struct buf *out);
// Returns ERR_CORRUPT for any damage, and a constant sentence in why. Returns ERR_UNAVAILABLE for
// an undamaged entry of a later format: only its rules are set. After success the caller must call
// entry_done.
MUST_USE enum err entry_decode(struct bytes from, struct entry *out, const char **why);
void entry_done(struct entry *e);

bool journal_id_equal(const struct journal_id *a, const struct journal_id *b);
