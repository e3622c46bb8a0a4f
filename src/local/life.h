// SPDX-License-Identifier: Apache-2.0
// sluice_queue_delete for somebody who means one life of the name: asked twice, it does not delete
// the next.
#pragma once

#include "sluice.h"

// id: as sluice_queue_show gives it; NULL: of whichever there is. SLUICE_NOT_FOUND: there is no
// queue, or it is another one by now.
enum sluice_code queue_delete_life(struct sluice *s, const char *queue, const char *id,
                                   struct sluice_error *error);
