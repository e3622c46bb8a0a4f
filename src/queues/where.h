// SPDX-License-Identifier: Apache-2.0
// Which node owns a shard, as far as this process knows. It reads the journal and checks that the
// node answers. A node takes the shard if cluster/ownership.h decides so.
//
// The owner is found before a part of a call is routed (where_is_due, where_check), and looked up
// for each part (where_target).
#pragma once

#include "cluster/op_route.h"
#include "queues/queues.h"

struct link_target;

// Returns true if where_check must run first. Cheap.
bool where_is_due(struct open_queue *q, uint32_t shard, struct shard_runner *r);
// Finds or takes the shard if that is due. May block for two seconds.
void where_check(struct open_queue *q, uint32_t shard, struct shard_runner *r);
// What is known about the owner. The target is set if the owner is another node that is proven.
// Cheap.
enum op_route_owner where_target(struct open_queue *q, uint32_t shard, struct link_target **out);
// The owner did not do what it was asked for. Finds out whether it is away, on the pool. Until then
// no part of a call is sent to it.
void where_doubt(struct open_queue *q, struct link_target *t);
// The node says that it does not own the shard: where_check is due.
void where_moved(struct open_queue *q, uint32_t shard);
