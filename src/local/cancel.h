// SPDX-License-Identifier: Apache-2.0
// sluice_cancel, also for the client of a node.
#pragma once

#include "local/named_ids.h"

// outcomes may be NULL.
enum sluice_code cancel_messages(struct sluice *s, const char *queue, const char *const *ids,
                                 size_t len, const char *reason, const struct acting *as,
                                 struct sluice_outcome *outcomes, struct sluice_error *error);
