// SPDX-License-Identifier: Apache-2.0
// The failures of messages, from the machine to the caller. The rows are copied under the runner's
// lock. Their reasons are read from the journal afterwards.
#pragma once

#include "queues/queues.h"

struct failure_rows {
    struct failure_view *rows; // of all messages, in the order of the messages
    size_t len;
    size_t cap;
    size_t *ends;     // message i has rows ends[i - 1] .. ends[i] - 1
    struct buf names; // the workers' names; rows refer to it
};

void failures_init(struct failure_rows *f, size_t messages);
void failures_done(struct failure_rows *f);
// Copies the failures of the messages. Call it once, under the runner's lock. all: every failure
// that the machine keeps; otherwise the newest of each message.
void failures_see(struct failure_rows *f, const struct machine *m, int64_t now,
                  const struct message_view *views, size_t len, bool all);
// Where the reasons of messages first .. first + count - 1 are in the journal. The caller frees the
// result with memory_free.
struct reason_place *failures_reasons(const struct failure_rows *f, size_t first, size_t count,
                                      size_t *len);
// The bytes that the failures of these messages take in a batch.
uint64_t failures_weight(const struct failure_rows *f, size_t first, size_t count,
                         const struct kept_reply *a);
// Adds the failures of message number `index` to `to`. *reasons: the texts for failures_reasons
// that are not used yet; it advances past those of this message. to: NULL if the batch leaves the
// message out.
void failures_attach(const struct failure_rows *f, size_t index, const struct reason_text **reasons,
                     struct sluice_message *to);
