// SPDX-License-Identifier: Apache-2.0
// The receives of a queue that wait. If a shard gets another owner, they go there (queue_reroute).
#pragma once

#include "ops/call.h"

// The receive may wait from now on. A receive whose thread waits is not listed: that thread
// performs the requests of the runner, so it stays.
void waiting_begin(struct local_call *c);
void waiting_end(struct local_call *c);
// A shard has another owner now: receives that wait for it go there.
void queue_reroute(struct open_queue *q);
