// SPDX-License-Identifier: Apache-2.0
// A store that makes sure it is still the one that was opened. A bucket can be emptied, and a
// directory replaced, under a running process; what is written after that can be found by no other.
#pragma once

#include "store/probe.h"

// A write is let through while the last look at FORMAT_KEY began less than this ago.
#define IDENTITY_FRESH_MS 5000

// Wraps inner and frees it with itself. Until store_identity_expect it only hands calls on.
//
// From then on every write (put_new, put, append) needs a look at FORMAT_KEY that began at most
// fresh_ms before the write ends (0: IDENTITY_FRESH_MS): the write makes one where the last is
// older. Concurrent writes share a look. If the look does not get through, the write is not made
// and answers as the look did; a write that was made meanwhile answers ERR_UNKNOWN.
//
// If the object is missing, damaged or another store's, in three looks and a list, the handle is
// dead: every call answers ERR_CORRUPT from then on, and store_is_dead says why.
struct store *store_identity_take(struct store *inner, int64_t fresh_ms);
// id: what store_check found. since_ms: when it began to look, clock_boot_ms.
void store_identity_expect(struct store *s, const uint8_t id[static STORE_ID_LEN],
                           int64_t since_ms);
bool store_identity_is_lost(const struct store *s);
