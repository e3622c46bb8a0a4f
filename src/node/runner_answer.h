// SPDX-License-Identifier: Apache-2.0
// Private to the runner: fills the answers of its calls, and builds the configuration of its shard.
#pragma once

#include "node/runner.h"

void runner_answer_clear(struct runner_answer *a);
// Copies the deliveries and the reasons.
void runner_answer_keep(struct runner_answer *a, const struct shard_reply *r);
// Translates the journal's error for the caller. The journal treats a dead store handle as
// ERR_DENIED, because waiting does not help. For the caller this is ERR_UNAVAILABLE: the op was not
// applied, and a new handle can apply it.
enum err runner_answer_err(struct store *s, enum err err);
void runner_shard_config(const struct store *s, const struct runner_config *config,
                         struct shard_config *out);
