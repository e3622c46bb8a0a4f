// SPDX-License-Identifier: Apache-2.0
// Background work of an engine: dead letters, closing queues, deleted queues, mailboxes.
#pragma once

#include "ops/deleted_queues.h"

// ERR_LIMIT: the process cannot create a thread.
MUST_USE enum err upkeep_start(struct engine *e);
// Ends it, then moves the dead letters that are left, for a few seconds.
void upkeep_stop(struct engine *e);
struct deleted_queues *upkeep_deleted_queues(struct engine *e); // for tests; it has started
