// SPDX-License-Identifier: Apache-2.0
// A wrapper that checks that the store is still the one that was opened. A bucket can be emptied,
// or a directory replaced, while a process runs. No other process finds what is written after that.
#pragma once

#include "store/probe.h"

// A write may begin if the last check of FORMAT_KEY began less than this time ago.
#define IDENTITY_FRESH_MS 5000

// Wraps inner and frees it with itself. Until store_identity_expect it only passes calls on.
//
// From then on every write (put_new, put, append) needs a check of FORMAT_KEY that began at most
// fresh_ms before the write ends (0: IDENTITY_FRESH_MS). If the last check is older, the write
// makes a new one. Concurrent writes share a check. If the check fails without a decision, the
// write is not made and returns the error of the check. If the write was made before, it returns
// ERR_UNKNOWN.
//
// If the object is missing, damaged or another store's, in three checks and a list, the handle is
// dead. Every later call returns ERR_CORRUPT, and store_is_dead gives the reason.
struct store *store_identity_take(struct store *inner, int64_t fresh_ms);
// id: the id that store_check found. since_ms: when that check began, by clock_boot_ms.
void store_identity_expect(struct store *s, const uint8_t id[static STORE_ID_LEN],
                           int64_t since_ms);
bool store_identity_is_lost(const struct store *s);
