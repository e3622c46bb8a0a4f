// SPDX-License-Identifier: Apache-2.0
// Private to this folder: shared by owner.c (the node's identity, and where calls belong) and
// where.c (the ownership of one shard).
#pragma once

#include "peer/peer.h"
#include "queues/owner.h"

struct engine;

struct owner_identity {
    struct owner_identity *before; // earlier identities of the handle
    struct owner_name name;
    char address[JOURNAL_ADDRESS_MAX + 1];
};

// Learns the secrets of the owners that the journals here name. At most once a second; cheap.
void owner_learn(struct engine *e);
// What a member must prove: that it can read the store. False: no request may be sent.
struct peer_identity;
bool owner_member_identity(struct engine *e, const char *url, const char *node,
                           struct peer_identity *to);
