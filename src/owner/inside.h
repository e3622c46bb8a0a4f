// SPDX-License-Identifier: Apache-2.0
// Private to this folder: shared by owner.c (the node's identity, and where calls belong) and own.c
// (the ownership of one shard).
#pragma once

#include "owner/owner.h"
#include "owner/peer.h"

#define CHECKING_MS (2 * PEER_ASK_MS) // while a thread checks a shard, no other thread does

struct owner_self {
    struct owner_self *before; // earlier identities of the handle
    struct owner_name name;
    char address[JOURNAL_ADDRESS_MAX + 1];
    struct peers *peers; // of the handle
};

// Learns the secrets of the owners that the journals here name. At most once a second; cheap.
void owner_learn(struct sluice *s);
// What a member must prove: that it can read the store. False: no request may be sent.
struct peer_identity;
bool owner_member_identity(struct sluice *s, const char *url, const char *node,
                           struct peer_identity *to);
// The other node that owns the shard; "": none.
void owner_set_address(struct open_queue *q, struct shard_ownership *r, const char *address);
