// SPDX-License-Identifier: Apache-2.0
// Whether a handle's store makes progress. What callers are told is no sign of it: they make
// mistakes, and much is answered from memory.
#pragma once

#include "sluice.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

// When the store last took a write, clock_boot_ms; 0: never.
int64_t liveness_last_ms(const struct sluice *s);
// Makes it take one: an object that is overwritten each time. who: a name of the caller's own, so
// that several do not wait for each other.
enum sluice_code liveness_write(struct sluice *s, const char *who, struct sluice_error *error);
// How long a write proves that the next would be taken: longer where each is paid for.
int64_t liveness_holds_ms(const struct sluice *s);
// Whether only opening the store again can help, as after a sync that failed; the sentence is in
// error.
bool liveness_is_dead(const struct sluice *s, struct sluice_error *error);
// What an operator should know of a store that works (store_concern); the sentence is in error.
bool liveness_concern(const struct sluice *s, enum store_concern what, struct sluice_error *error);
