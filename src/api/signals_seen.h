// SPDX-License-Identifier: Apache-2.0
// Which signals a handle has handed out: the last number of each token. So each number comes once,
// also if several threads ask. The table is small: it has only tokens that got signals, and forgets
// the oldest of very many.
#pragma once

#include "api/handle.h"

uint32_t signals_seen_last(struct sluice *s, const char *token); // 0: none
// Notes the signals that came with messages.
void signals_seen_batch(struct sluice *s, const struct sluice_batch *batch);
// Removes the rows that were handed out before, and notes the others. The token of a lock that has
// ended is forgotten.
void signals_seen_filter(struct sluice *s, struct sluice_signals *list);
void signals_seen_free(struct sluice *s);
