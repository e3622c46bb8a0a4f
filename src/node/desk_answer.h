// SPDX-License-Identifier: Apache-2.0
// For the desk alone: filling the answers it hands out.
#pragma once

#include "node/desk.h"

void desk_answer_clear(struct desk_answer *a);
void desk_answer_keep(struct desk_answer *a, const struct shard_reply *r); // copies the deliveries
