// SPDX-License-Identifier: Apache-2.0
// The workers that this node hears of: each receive is a sign of life. A worker that receives again
// within PRESENCE_PAUSE_MS stays present, so a row says since when the worker is there. A row whose
// receives have all ended is forgotten after that time, and at once if its client has disconnected.
#pragma once

#include "local/workers.h"

#define PRESENCE_PAUSE_MS 30000
#define PRESENCE_MAX      50000 // workers; further ones are not listed

struct presence;
struct presence *presence_new(void);
void presence_free(struct presence *p); // NULL is allowed

// A receive of the worker begins, or ends. relayed: as in struct waiting_row. The name is not
// empty. gone: the client has disconnected.
void presence_begin(struct presence *p, const char *queue, const char *worker, bool relayed);
void presence_end(struct presence *p, const char *queue, const char *worker, bool relayed,
                  bool gone);

// Adds the workers of a queue, or of all queues (NULL), at most WAITING_ROWS_MAX. node: the name of
// this node. No order.
void presence_list(struct presence *p, const char *queue, const char *node,
                   struct waiting_list *out);
