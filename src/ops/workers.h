// SPDX-License-Identifier: Apache-2.0
// The workers of a queue. Those that hold locks are in the journal. Those that only wait in a
// receive are known to the node at which they wait.
#pragma once

#include "protocol/waiting_list.h"
#include "queues/queues.h"

// Adds the workers of a tidy list to the rows, which are sorted by name and stay so. Returns the
// new number of rows, at most `max`. Later names are left out.
size_t workers_add_waiting(struct sluice_worker *rows, size_t len, size_t max,
                           const struct waiting_list *l, const char *queue);
