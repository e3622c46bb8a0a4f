// SPDX-License-Identifier: Apache-2.0
// Taking from the store what a shard of a deleted queue left there. Nobody has such a shard open,
// so nobody collects it: somebody has to come by.
#pragma once

#include "node/runner.h"

// One visit, on the caller's thread: folds the shard's journal, and takes what may go
// (collector_finish). `stop` is asked between two requests; true ends the visit. *finished: nothing
// is left that could go. ERR_CONFLICT: the shard was not deleted, and lost nothing. Else what the
// store answered; come again.
MUST_USE enum err finish_shard(struct store *s, const struct runner_config *config,
                               bool (*stop)(void *ctx), void *ctx, bool *finished);
