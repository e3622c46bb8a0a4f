// SPDX-License-Identifier: Apache-2.0
// The position of a reader of several streams: a line for each stream, with its consumer's
// position after it.
#pragma once

#include "events/consumer.h"

void bus_position_begin(struct buf *to);
void bus_position_put(struct buf *to, const char *stream, int64_t created_at,
                      const struct consumer *consumer);
// Finds the stream in the text, and gives its part to the consumer. INVALID: why has a sentence of
// up to 320 bytes.
MUST_USE enum err bus_position_take(const char *text, const char *stream, struct consumer *consumer,
                                    int64_t *created_at, char *why);
