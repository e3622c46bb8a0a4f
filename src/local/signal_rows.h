// SPDX-License-Identifier: Apache-2.0
// The rows of signals that a runner's answer has.
#pragma once

#include "local/signal_list.h"

// Adds a signal that a shard delivered, with its text. token: of the lock; may be empty.
void signal_list_add_delivery(struct signal_list *l, const struct open_queue *q, uint32_t shard,
                              const struct signal_delivery *from, const char *token);
// Adds the signals of a message, as sluice_show has them: pending ones, then those that have ended.
// Their texts come up to `left` bytes, and are NULL after that. It reads the store and blocks. The
// batch of the message frees them.
enum sluice_code message_add_signals(struct sluice_message *m, struct open_queue *q, uint32_t shard,
                                     struct shard_runner *d, uint64_t seq, size_t left,
                                     struct sluice_error *error);
#define SHOWN_SIGNALS_BYTES ((size_t)1 << 20) // of texts
// Adds the signals of a list to the messages with their tokens. The batch frees them.
void batch_add_listed(struct sluice_batch *batch, const struct sluice_signals *list);
// Adds the signals that came with the messages of a batch. The batch frees them.
void batch_add_signals(struct sluice_batch *batch, const struct open_queue *q, uint32_t shard,
                       const struct runner_answer *a);
