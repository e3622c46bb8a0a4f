// SPDX-License-Identifier: Apache-2.0
// Deletes what a shard of a deleted queue left in the store. No process has such a shard open, so
// no runner collects it.
#pragma once

#include "runner/runner.h"

// One visit, on the caller's thread. It folds the shard's journal and deletes what it may
// (collector_finish). It calls `stop` between two requests; true ends the visit. *finished: nothing
// is left to delete. Errors:
//   - ERR_CONFLICT: the shard is not deleted. Nothing was removed.
//   - Any other: from the store; visit the shard again later.
MUST_USE enum err finish_shard(struct store *s, const struct runner_config *config,
                               bool (*stop)(void *ctx), void *ctx, bool *finished);
