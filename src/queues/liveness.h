// SPDX-License-Identifier: Apache-2.0
// Whether a handle's store takes writes. The answers to callers do not show it: some calls fail by
// the caller's mistake, and many are answered from memory.
#pragma once

#include "sluice.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

// Writes an object, the same one each time. writer: names the caller's object, so that nodes do not
// write the same one.
enum sluice_code liveness_write(struct engine *e, const char *writer, struct sluice_error *error);
// For how many ms a write counts as a sign of life. It is longer for a store with high latency,
// which charges for requests.
int64_t liveness_holds_ms(const struct engine *e);
// Whether the handle fails until the store is opened again, for example after a failed sync. error
// has the message.
bool liveness_is_dead(const struct engine *e, struct sluice_error *error);
// Whether an operator should know of this concern about a working store (store_concern). error has
// the message.
bool liveness_concern(const struct engine *e, enum store_concern what, struct sluice_error *error);
