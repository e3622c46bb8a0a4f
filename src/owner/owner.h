// SPDX-License-Identifier: Apache-2.0
// A node owns the shards it works on: the journal names it, its entries carry its epoch, and
// others bring their calls to it instead of racing it for slots (forward.h). Nothing is renewed:
// an idle owner asks nothing of the store.
//
// Who may own is decided when a shard is used: nobody does, or it is an older life of this node:
// at once. Another node does: as long as it answers and proves that it is the one the journal means
// (peer.h), it stays the owner, and what this one is asked for belongs there (owner_where). When it
// does not, and has written nothing for OWNER_LEASE_MS, it is replaced. So it is with a queue's
// first shard; whoever owns that takes the others, from nobody or from anybody. Safety does not
// rest on any of this, but on the journal: own is applied at one slot, and what an earlier owner
// still proposes is void.
//
// There is no coordination service yet that numbers the owners: the token is the recorded one plus
// 1, under a coord id of zeros. A service brings an id of its own, which the operator's switch lets
// in.
#pragma once

#include "journal/journal.h"
#include "sluice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define OWNER_LEASE_MS 5000 // store time

// What the journal calls the owner's address: "<url> <node> <incarnation>".
struct owner_name {
    char url[JOURNAL_ADDRESS_MAX];
    char node[JOURNAL_ADDRESS_MAX];
    char incarnation[JOURNAL_ADDRESS_MAX]; // drawn at each start; a secret of the journal's readers
};
// False: it would be too long, or there is a character in it that would not come back.
bool owner_print(const struct owner_name *name, char out[JOURNAL_ADDRESS_MAX + 1]);
bool owner_parse(const char *address, struct owner_name *out); // false: it was not made by that
// Whether a node can be reached by this URL: http or https, a host, perhaps a port, and nothing
// else. A path or a user would let a journal direct callers to another service of that host.
bool owner_url_is_good(const char *url);

// From now on the handle is that of a node: it forwards nothing ...
struct sluice;
void owner_prepare(struct sluice *s);
// ... and owns what it works on. url: where others reach the node. INVALID: a name or URL that
// cannot be written down.
enum sluice_code owner_become(struct sluice *s, const char *url, const char *node,
                              struct sluice_error *error);

enum owner_where {
    OWNER_HERE,    // do it yourself: it is yours, or nobody's, or its owner cannot be reached
    OWNER_REMOTE,  // that node owns it, and has proven itself lately
    OWNER_UNASKED, // owner_find_async finds out
};
// Where calls about the queue belong. Cheap.
enum owner_where owner_where(struct sluice *s, const char *queue, struct owner_name *out);
// Then calls `then`, on a thread of the library.
void owner_find_async(struct sluice *s, const char *queue, void (*then)(void *ctx), void *ctx);
// That node did not do what it was asked for. Calls `then` when it is known whether it is away; on
// a thread of the library, or at once when that is known.
void owner_doubt(struct sluice *s, const char *queue, const struct owner_name *name,
                 void (*then)(void *ctx), void *ctx);
bool owner_is_away(struct sluice *s, const struct owner_name *name); // as far as is known. Cheap
// The node's answer to a nonce (peer.h); false: it is not a node yet.
bool owner_prove(struct sluice *s, const char *nonce, char *out);

struct owner_self;                         // what the handle is as a node
void owner_self_free(struct owner_self *); // NULL is fine

// One shard, as a node's handle sees it.
struct shard_ownership {
    pthread_mutex_t lock;                        // while somebody looks after it
    _Atomic int64_t look_at;                     // clock_boot_ms; 0: nobody ever looked
    _Atomic bool wanted;                         // owner_is_due said so
    uint64_t epoch;                              // of an owner who wrote nothing that was seen ...
    int64_t epoch_known_from;                    // ... and since when that is so, store time
    char owner_address[JOURNAL_ADDRESS_MAX + 1]; // the owner that calls are brought to; "": none.
                                                 // Under the handle's lock
};

struct open_queue;
struct shard_runner;
// Before a call at this desk: whether owner_look is to be called first. Cheap.
bool owner_is_due(struct open_queue *q, uint32_t shard, struct shard_runner *d);
// Becomes the owner where that is right; may take a second or two. Only what is due is done.
void owner_look(struct open_queue *q, uint32_t shard, struct shard_runner *d);
