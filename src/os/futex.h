// SPDX-License-Identifier: Apache-2.0
// Sleeps on a word in memory that several processes share. A sleeper uses no processor time.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

// Returns when woken, if the word is not `seen`, after wait_ms, or spuriously.
void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t wait_ms);
// The same with a limit in nanoseconds.
void futex_wait_ns(_Atomic uint32_t *word, uint32_t seen, int64_t wait_ns);
void futex_wake_all(_Atomic uint32_t *word);
