// SPDX-License-Identifier: Apache-2.0
// What tests reach of the upkeep of a handle. local/inside.h has upkeep_start, _wake and _stop.
#pragma once

#include "upkeep/deleted_queues.h"

struct deleted_queues *upkeep_deleted_queues(struct sluice *s); // the handle is open
