// SPDX-License-Identifier: Apache-2.0
// The collector of sluice_collect_open, for a node that collects for its clients.
#pragma once

#include "local/collect.h"

// Opens a collect with its first poll, which may have questions that were asked already.
enum sluice_code collector_open(struct sluice *s, const char *queue,
                                const struct collect_poll *first, struct sluice_collector **out,
                                struct sluice_error *error);
// Reads a position. INVALID: no collect gave it.
enum sluice_code collector_position(const char *text, int64_t *out, struct sluice_error *error);
