// SPDX-License-Identifier: Apache-2.0
// Sleep on a word in memory that several processes share; costs nothing while asleep.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

// Returns when woken, when the word is not `seen`, when wait_ms passed, or early for no reason.
void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t wait_ms);
void futex_wake_all(_Atomic uint32_t *word);
