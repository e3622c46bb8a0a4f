// SPDX-License-Identifier: Apache-2.0
// A node owns the shards that it works on. The journal names the node, and the entries of the node
// carry its epoch. Other processes send their ops to it instead of racing it for slots
// (where.h). Ownership is not renewed: an idle owner sends no request to the store.
//
// When a shard is used, the process decides whether to own it (cluster/ownership.h). Without a
// cluster, the token is the recorded one plus 1, under a coord id of zeros.
#pragma once

#include "cluster/ownership.h"
#include "journal/journal.h"
#include "peer/owner_name.h"
#include "sluice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct open_queue;
struct shard_runner;
struct engine;
// Makes the handle own the shards that it works on. url: where other processes reach the node.
// INVALID: the name or the URL cannot be written into a journal.
enum sluice_code owner_become(struct engine *e, const char *url, const char *node,
                              struct sluice_error *error);

// The hosts that may be told the tokens of callers (peer_may_have_token). NULL: as the environment
// says.
void owner_may_tell(struct engine *e, const char *hosts);
// The clients of this node have tokens. A call without one would be refused by the other nodes too.
void owner_needs_token(struct engine *e, bool needs);
// How many requests to owners of shards had an answer, and how many had none.
void owner_asked(struct engine *e, uint64_t *done, uint64_t *failed);
// Copies the URL of the shard's owner. Returns false if the owner is not known, or if it is another
// node that has not proven itself recently. Cheap.
bool owner_of_shard(struct open_queue *q, uint32_t shard, char url[JOURNAL_ADDRESS_MAX]);
// The node's answer to a challenge (peer.h). keys: "9f86d081884c7d65,..."; NULL: its own. Returns
// false if the handle is not a node yet, or knows none of the keys.
struct peer_answer;
bool owner_prove(struct engine *e, const char *nonce, const char *keys, struct peer_answer *out);

// The node becomes a member of a cluster. Until it has joined, and after it has left, it takes no
// shard: a shard that it owned without a claim would be missing in the cluster's view, and its
// journal would name no coordination service. Call it before owner_become.
void owner_joins(struct engine *e);

// The membership of the node in a cluster (src/member), which decides which node should own a
// shard. Without one, the node takes every shard that no live node owns.
struct owner_cluster {
    // The shard is used at this node, and no live node owns it, or this one without a claim. If
    // this node should own it, takes it: waits up to two seconds. Otherwise tells the node that
    // should.
    void (*used)(struct owner_cluster *c, struct open_queue *q, uint32_t shard);
    // This node has the claim for the shard, and owns it.
    bool (*serves)(struct owner_cluster *c, struct open_queue *q, uint32_t shard);
    // The journal says that another writer owns the shard, since this epoch.
    void (*seen)(struct owner_cluster *c, struct open_queue *q, uint32_t shard, uint64_t epoch);
    // Calls `each` for every member, with the newest version of the rules that it knows.
    void (*members)(struct owner_cluster *c,
                    void (*each)(void *ctx, const char *name, uint32_t rules_newest), void *ctx);
    void (*free)(struct owner_cluster *c);
};
// The handle frees it when it is closed.
void owner_join(struct engine *e, struct owner_cluster *c);
// Copies the node's address. Returns false if the handle is not a node yet.
bool owner_identity(struct engine *e, struct owner_name *out);
// Makes this node the owner with a token of the coordination service. ERR_OK also if it is the
// owner with this token already; *epoch is then that of the journal. ERR_FENCED: the journal has an
// equal or higher token (*token). ERR_DENIED: its tokens come from another service. ERR_CONFLICT:
// another node was faster. ERR_NOT_FOUND: the queue was deleted.
MUST_USE enum err owner_take(struct open_queue *q, uint32_t shard, const uint8_t coord[16],
                             uint64_t *token, uint64_t *epoch);
// The journal names another owner of the shard: calls that wait here go there.
void owner_moved(struct open_queue *q, uint32_t shard);

struct owner_identity;                         // the identity of the handle as a node
void owner_self_free(struct owner_identity *); // NULL is allowed

// The ownership of one shard, as a handle sees it.
struct shard_ownership {
    pthread_mutex_t lock;     // held while a thread checks the ownership
    _Atomic int64_t check_at; // when to check next, by clock_boot_ms; 0: never checked
    _Atomic bool wanted;      // a check is due before that
    struct ownership_silence silence;
    // Another node that owns the shard and proved its identity; "": none. Under the handle's lock.
    char owner_address[JOURNAL_ADDRESS_MAX + 1];
    _Atomic bool has_owner;             // owner_address is not ""
    struct link_target *_Atomic target; // the same node; NULL: none, or not prepared yet
};
