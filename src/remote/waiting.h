// SPDX-License-Identifier: Apache-2.0
// Asks one node, by its URL, which workers wait in a receive there: GET /v1/node/workers.
#pragma once

#include "local/workers.h"

#define REMOTE_WAITING_MS 1000 // for an answer

struct http;

// Adds the rows of the answer. token: "" or NULL for none. queue: NULL for all queues that the
// token may read. all: the node asks the other members of its cluster, too. Returns false if the
// node did not answer so.
bool remote_waiting(struct http *http, const char *url, const char *token, const char *queue,
                    bool all, struct waiting_list *out);
