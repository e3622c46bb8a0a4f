// SPDX-License-Identifier: Apache-2.0
// The rows of signals that a runner's answer has.
#pragma once

#include "local/signal_list.h"

// Adds a signal that a shard delivered, with its text. token: of the lock; may be empty.
void signal_list_add_delivery(struct signal_list *l, const struct open_queue *q, uint32_t shard,
                              const struct signal_delivery *from, const char *token);
// Adds the signals that came with the messages of a batch. The batch frees them.
void batch_add_signals(struct sluice_batch *batch, const struct open_queue *q, uint32_t shard,
                       const struct runner_answer *a);
