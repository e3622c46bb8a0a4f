// SPDX-License-Identifier: Apache-2.0
// The rows of signals that a runner's answer has.
#pragma once

#include "protocol/signal_list.h"
#include "queues/queues.h"

// Adds a signal that a shard delivered, with its text. token: of the lock; may be empty.
void signal_list_add_delivery(struct signal_list *l, const struct open_queue *q, uint32_t shard,
                              const struct signal_delivery *from, const char *token);
// Adds the signals of a message, as sluice_show has them: pending ones, then those that have ended.
// Their texts come up to `left` bytes, and are NULL after that. It reads the store and blocks. The
// batch of the message frees them.
enum sluice_code message_add_signals(struct sluice_message *m, struct open_queue *q, uint32_t shard,
                                     struct shard_runner *r, uint64_t seq, size_t left,
                                     struct sluice_error *error);
#define SHOWN_SIGNALS_BYTES ((size_t)1 << 20) // of texts
// Adds the signals of a list to the messages with their tokens. The batch frees them.
void batch_add_listed(struct sluice_batch *batch, const struct sluice_signals *list);
// Adds the signals that came with the messages of a batch. The batch frees them.
void batch_add_signals(struct sluice_batch *batch, const struct open_queue *q, uint32_t shard,
                       const struct kept_reply *a);
// Adds signals of a shard, with payloads and answers up to *left bytes, which is lowered. The texts
// of further rows are NULL. It reads the store and blocks. token: of the lock; may be NULL.
enum sluice_code signal_list_add_views(struct signal_list *l, struct open_queue *q, uint32_t shard,
                                       struct shard_runner *r, const struct signal_view *views,
                                       size_t len, const char *token, size_t *left,
                                       struct sluice_error *error);
#define SIGNAL_LIST_BYTES ((size_t)16 << 20) // of texts in one answer
