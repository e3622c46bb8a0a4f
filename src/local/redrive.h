// SPDX-License-Identifier: Apache-2.0
// sluice_redrive for somebody who may not send everywhere: where a letter goes is known only when
// it is read.
#pragma once

#include "sluice.h"

struct redrive_where {
    const char *to; // NULL: each to the queue it died in
    // Asked before anything is sent there. What it refuses stays, and the first refusal is the
    // answer. NULL: everywhere.
    enum sluice_code (*may)(void *ctx, const char *queue, struct sluice_error *error);
    void *ctx;
};

// redriven is right even when it ends with an error.
enum sluice_code redrive_where(struct sluice *s, const char *queue,
                               const struct redrive_where *where, uint32_t max, uint64_t *redriven,
                               struct sluice_error *error);
