// SPDX-License-Identifier: Apache-2.0
// Tests whether a store keeps the promise on which all safety rests: if several writers create one
// key, exactly one succeeds.
#pragma once

#include "store/store.h"

#define FORMAT_KEY     "format"
#define FORMAT_VERSION 1
#define FORMAT_LEN     44
#define STORE_ID_LEN   16

// The object FORMAT_KEY. It is written once, when the store has passed the probe. Little-endian:
//    0  "SLUICE01"
//    8  version, u32
//   12  store id, 16 random bytes
//   28  time of creation in ms, i64
//   36  XXH3-64 of the bytes before
struct store_format {
    uint32_t version;
    uint8_t id[STORE_ID_LEN];
    int64_t created_ms;
};

// Lets 16 writers create the same key at once, in 8 rounds. Returns ERR_OK; ERR_INVALID with one
// sentence that says how the store breaks the promise; or the error that prevented the probe.
// Leaves no objects.
MUST_USE enum err store_probe(struct store *s, char *why, size_t why_len);
// Creates one key twice. ERR_INVALID: both creates succeeded.
MUST_USE enum err store_probe_quickly(struct store *s, char *why, size_t why_len);

// Returns ERR_CORRUPT; or ERR_INVALID for another version of the format, and for a store of a
// program before the first release. a->why has one sentence.
MUST_USE enum err store_format_read(struct bytes from, struct store_format *f,
                                    struct store_answer *a);
// Reads the format object. If there is none, probes the store and writes it. Returns ERR_INVALID
// for a store that fails the probe or has another format version, ERR_CORRUPT for a damaged format
// object.
MUST_USE enum err store_check(struct store *s, struct store_format *format, char *why,
                              size_t why_len);
