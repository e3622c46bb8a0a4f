// SPDX-License-Identifier: Apache-2.0
// Messages that an await announced to another process. If that process does not claim one soon, for
// example because it died, the next waiter must learn of it.
#pragma once

#include "queues/queues.h"

struct announcements;

MUST_USE enum err announcements_new(struct engine *e,
                                    struct announcements **out); // ERR_LIMIT: no thread
void announcements_free(struct announcements *n);                // NULL is allowed
// In a moment, announces a message of the shard to its next waiter, if there is one to claim.
void announcements_add(struct announcements *n, struct open_queue *q, uint32_t shard);
