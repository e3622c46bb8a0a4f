// SPDX-License-Identifier: Apache-2.0
// sluice_redrive for a caller that may send only to some queues. The target of a dead letter is
// known only when the letter is read.
#pragma once

#include "sluice.h"

struct redrive_where {
    const char *to; // NULL: each letter goes to the queue that it died in
    // Called before a letter is sent to `queue`. If it refuses, the letter stays, and the first
    // refusal is the answer. NULL: every queue is allowed.
    enum sluice_code (*may)(void *ctx, const char *queue, struct sluice_error *error);
    void *ctx;
};

// *redriven is set even if the call fails.
enum sluice_code redrive_where(struct sluice *s, const char *queue,
                               const struct redrive_where *where, uint32_t max, uint64_t *redriven,
                               struct sluice_error *error);
