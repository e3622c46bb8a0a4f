// SPDX-License-Identifier: Apache-2.0
// Asks the nodes that own a queue for the workers that wait in a receive. For a process that is not
// a node: a node answers from its own list and asks the other members (server/workers.c).
#pragma once

#include "protocol/waiting_list.h"
#include "queues/queues.h"

struct engine;

// Adds what the owners of the queue's shards answer, of all queues, and tidies the list. An owner
// that does not answer within a second adds nothing. An answer counts for a second. The queue's
// shards must have been folded. Does nothing in a node, and without forwarding.
void owner_waiting(struct engine *e, const char *queue, struct waiting_list *out);

// For a node: asks another member of its cluster for the workers that wait there, of a queue or of
// all (NULL), and adds them. The token goes only to a member that proves its identity: one that can
// read the store. Returns false if the member did not answer within a second.
#define OWNER_WAITING_MS 1000
bool owner_ask_member(struct engine *e, const char *url, const char *node, const char *token,
                      const char *queue, struct waiting_list *out);

// For a node: gets a path of another member, which must prove its identity, and then knows that
// this node can read the store, too. Appends the body. Waits for up to a second.
bool owner_get_member(struct engine *e, const char *url, const char *node, const char *path,
                      struct buf *out);

struct waiting_cache;                             // what the nodes answered
void waiting_cache_free(struct waiting_cache *h); // NULL is allowed
