// SPDX-License-Identifier: Apache-2.0
// What a client has learned about the owners of shards, per queue (remote/nodes.h).
#pragma once

struct learned;
struct learned *learned_new(void);
void learned_free(struct learned *l); // NULL is fine
