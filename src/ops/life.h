// SPDX-License-Identifier: Apache-2.0
// sluice_queue_delete of one life of a name. A repeated call does not delete the next life.
#pragma once

#include "queues/queues.h"
#include "sluice.h"

// id: as in struct sluice_queue_info; NULL: any. SLUICE_NOT_FOUND: the queue does not exist, or has
// another id by now.
enum sluice_code queue_delete_life(struct engine *e, const char *queue, const char *id,
                                   struct sluice_error *error);
