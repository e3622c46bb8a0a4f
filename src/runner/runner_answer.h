// SPDX-License-Identifier: Apache-2.0
// Private to the runner: fills the answers of its calls, and builds the configuration of its shard.
#pragma once

#include "runner/runner.h"

// Translates the journal's error for the caller. The journal treats a dead store handle as
// ERR_DENIED, because waiting does not help. For the caller this is ERR_UNAVAILABLE: the op was not
// applied, and a new handle can apply it.
enum err runner_answer_err(struct store *s, enum err err);
void runner_shard_config(const struct store *s, const struct runner_config *config,
                         struct shard_config *out);
