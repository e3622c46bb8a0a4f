// SPDX-License-Identifier: Apache-2.0
// For the desk alone: filling the answers it hands out, and how its shard is configured.
#pragma once

#include "node/runner.h"

void runner_answer_clear(struct runner_answer *a);
void runner_answer_keep(struct runner_answer *a,
                        const struct shard_reply *r); // copies the deliveries
// What the journal's answer is to a caller. It knows a handle that is dead as one that is denied
// everything: patience would bring nothing. For the caller it is not applied, and will be when the
// store was opened again.
enum err runner_answer_err(struct store *s, enum err err);
void runner_shard_config(const struct store *s, const struct runner_config *config,
                         struct shard_config *out);
