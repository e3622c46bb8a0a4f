// SPDX-License-Identifier: Apache-2.0
// The collector of sluice_collect_open, for a node that collects for its clients.
#pragma once

#include "ops/collect.h"

// Opens a collect with its first poll, which may have questions that were asked already.
enum sluice_code collector_open(struct sluice *s, const char *queue,
                                const struct collect_poll *first, struct sluice_collector **out,
                                struct sluice_error *error);
// For a caller that makes the polls itself: what to ask next, valid until collector_take, which
// takes the answer. collector_tell returns what came, one after the other; NULL: nothing is left.
void collector_poll(const struct sluice_collector *c, struct collect_poll *out);
void collector_take(struct sluice_collector *c, struct collected_list *came);
const struct sluice_collected *collector_tell(struct sluice_collector *c);
int64_t collector_pause_ms(const struct sluice_collector *c); // before the next poll
// Reads a position. INVALID: no collect gave it.
enum sluice_code collector_position(const char *text, int64_t *out, struct sluice_error *error);
