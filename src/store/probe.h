// SPDX-License-Identifier: Apache-2.0
// Whether a store keeps the one promise that everything rests on: of those who create a key, one
// wins.
#pragma once

#include "store/store.h"

#define FORMAT_KEY     "format"
#define FORMAT_VERSION 1
#define FORMAT_LEN     44
#define STORE_ID_LEN   16

// The object FORMAT_KEY, written once when the store has passed the probe. Little-endian:
//   0  "SLUICEFT"   8  version u32   12  store id, 16 random bytes   28  created, ms i64   36
//   XXH3-64 of all before
struct store_format {
    uint32_t version;
    uint8_t id[STORE_ID_LEN];
    int64_t created_ms;
};

// Races 16 creators for one key, 8 rounds. ERR_OK, ERR_INVALID with one sentence about how the
// store breaks the promise, or what kept us from finding out. Leaves nothing behind.
MUST_USE enum err store_probe(struct store *s, char *why, size_t why_len);
// One key, created twice. ERR_INVALID: both were told that they did it.
MUST_USE enum err store_probe_quickly(struct store *s, char *why, size_t why_len);

// ERR_CORRUPT, or ERR_INVALID for another version of the format; one sentence in a.
MUST_USE enum err store_format_read(struct bytes from, struct store_format *f,
                                    struct store_answer *a);
// Reads the format object; where there is none, probes the store and writes it. Refuses a store
// that fails the probe or has another format version (ERR_INVALID) or a damaged format object
// (ERR_CORRUPT).
MUST_USE enum err store_check(struct store *s, struct store_format *format, char *why,
                              size_t why_len);
