// SPDX-License-Identifier: Apache-2.0
// sluice_redrive for a caller that may send only to some queues. The target of a dead letter is
// known only when the letter is read.
#pragma once

#include "sluice.h"

#include <stdbool.h>

struct engine;

struct redrive_target {
    const char *to; // NULL: each letter goes to the queue that it died in
    // Called before a letter is sent to `queue`. If it refuses, the letter stays, and the first
    // refusal is the answer. NULL: every queue is allowed.
    enum sluice_code (*may)(void *ctx, const char *queue, struct sluice_error *error);
    void *ctx;
};

// *redriven is set even if the call fails.
enum sluice_code redrive_where(struct engine *e, const char *queue,
                               const struct redrive_target *where, uint32_t max, uint64_t *redriven,
                               struct sluice_error *error);

// sluice_redrive_messages. `where` as above.
enum sluice_code redrive_chosen(struct engine *e, const char *queue,
                                const struct redrive_target *where, const char *const *ids,
                                size_t len, struct sluice_outcome *outcomes,
                                struct sluice_error *error);

bool is_letter(const struct sluice_message *m); // it died in another queue

// What both forms share. An error about the target queue names the field "to": "queue" is the one
// that is redriven.
struct open_queue;
enum sluice_code redrive_open(struct engine *e, const char *queue,
                              const struct redrive_target *where, struct open_queue **q,
                              struct sluice_error *error);
enum sluice_code redrive_allowed(const struct redrive_target *where, const char *to,
                                 struct sluice_error *error);
enum sluice_code redrive_name_target(enum sluice_code code, struct sluice_error *error);
