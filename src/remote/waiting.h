// SPDX-License-Identifier: Apache-2.0
// The answer of a node to the question which workers wait in a receive there: GET /v1/node/workers.
#pragma once

#include "local/workers.h"

struct http_call;

// Adds the rows of the answer. Returns false if the node did not answer so.
bool remote_waiting_read(const struct http_call *call, struct waiting_list *out);
