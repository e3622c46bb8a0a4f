// SPDX-License-Identifier: Apache-2.0
// Makes a struct sluice_batch. It owns its messages and what they point to.
#pragma once

#include "protocol/names.h"
#include "queue/core/machine.h"
#include "shard/shard.h"

struct batch_builder;
struct batch_builder *batch_new(size_t max);
// Adds a message. view: a message that is only read; NULL: this call locked the message.
// d->message may be empty. now: store time, from which lease_ms counts.
void batch_add(struct batch_builder *b, struct queue_ref q, uint32_t shard,
               const struct delivery *d, const struct message_view *view, int64_t now);
// Copies the text to *at, ends it with 0, and moves *at past it. Returns the copy.
const char *text_append(char **at, struct bytes from);
struct sluice_batch *batch_take(struct batch_builder *b); // the builder becomes the batch
// The messages are views into `input` and have rows of `headers`. The batch frees both.
void batch_own(struct batch_builder *b, struct bytes input, struct sluice_header *headers);
size_t batch_len(const struct batch_builder *b);
// Copies the bytes into memory of the batch, ends them with 0, and returns the copy.
const char *batch_keep(struct batch_builder *b, struct bytes text);
void batch_drop_last(struct batch_builder *b); // a message that batch_add added
