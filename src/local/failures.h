// SPDX-License-Identifier: Apache-2.0
// Why messages failed, on its way from the machine to the caller: seen under the runner's lock, the
// reasons read from the journal afterwards.
#pragma once

#include "local/inside.h"

struct failures_seen {
    struct failure_view *rows; // of all messages, one after another
    size_t len;
    size_t cap;
    size_t *ends; // message i has the rows before ends[i] that message i - 1 does not have
    struct buf names;
};

void failures_init(struct failures_seen *f, size_t messages);
void failures_done(struct failures_seen *f);
// Under the runner's lock; once. all: every failure that is kept, else the newest of each message.
void failures_see(struct failures_seen *f, const struct machine *m, int64_t now,
                  const struct message_view *views, size_t len, bool all);
// The reasons of messages first .. first + count - 1; memory_free it.
struct reason_place *failures_reasons(const struct failures_seen *f, size_t first, size_t count,
                                      size_t *len);
// What they take in a batch.
uint64_t failures_weight(const struct failures_seen *f, size_t first, size_t count,
                         const struct runner_answer *a);
// Gives message number `index` its failures. reasons: those of failures_reasons that are left; the
// message takes its own from the front. to: NULL when it is left out.
void failures_attach(const struct failures_seen *f, size_t index,
                     const struct reason_text **reasons, struct sluice_message *to);
