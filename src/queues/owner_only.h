// SPDX-License-Identifier: Apache-2.0
// Queues with consume=owner need an owner, also if no call reaches a node: a worker that uses the
// store directly sends its receives to the owner and never claims by itself. So an object for each
// such queue tells the nodes of it. The object is only a hint. The journal has the setting.
#pragma once

#include "queues/queues.h"

// Writes the hint. Call it before the queue gets the setting.
enum sluice_code owner_only_note(struct engine *e, const char *queue, struct sluice_error *error);
// For a node: makes sure that every shard of these queues has an owner. Returns how many queues
// there are. May block.
size_t owner_only_round(struct engine *e);
