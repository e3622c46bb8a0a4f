// SPDX-License-Identifier: Apache-2.0
// Nodes that journals name, and how they prove their identity.
//
// A journal records its owner's URL, its name and a secret that the node drew at its start. A
// process that can read the journal sends a nonce and compares the answer with the HMAC of the
// nonce under that secret. Only the node that wrote this journal, or a process that can read the
// store, can give that answer. A URL alone does not suffice: 127.0.0.1 leads to another node on
// another machine, and another process can take a port that became free.
//
// The proof does not encrypt anything, and it only shows that the node can read this store. A token
// can be valid for other services too. So a token is sent only to this machine's own addresses, or
// to hosts that the operator has named.
#pragma once

#include "net/peer_challenge.h"
#include "owner/owner.h"

#define PEER_ASK_MS    1000
#define PEER_AWAY_MS   5000
#define PEER_HEADER    "Sluice-Node"  // the name of the node that answers
#define PEER_PROOF     "Sluice-Proof" // the answer to a nonce
// On a request to the owner of a shard: the proof that the caller can read the store.
#define PEER_FORWARDED "Sluice-Forwarded"
#define PEER_HOSTS     "SLUICE_FORWARD_HOSTS"

struct http *peer_http(void); // for challenges; it trusts the same certificates as for any node

#define PEER_PROOF_MAX 65
bool peer_nonce_ok(const char *text); // 32 to 64 hex digits
void peer_prove(const struct owner_name *self, const char *nonce, char out[PEER_PROOF_MAX]);
// The proof that a caller of this node knows its secret, so that it can read the store.
void peer_caller_proof(const struct owner_name *self, char out[PEER_PROOF_MAX]);
// For connections to that node. The name is borrowed.
struct peer_challenge peer_challenge_of(const struct owner_name *name);

enum peer {
    PEER_PROVEN,
    PEER_DECLINES, // a process answers, but is not that node
    PEER_AWAY,     // no answer came in time
    PEER_DOUBTED,  // a challenge is under way
};
enum peer peer_ask(struct http *http, const struct owner_name *name, int64_t wait_ms);

// Remembers the last result for each node, so that a node that hangs costs one second, not one for
// each shard that it owns. Nodes start seldom, so no row is removed.
struct peers;
struct peers *peers_new(void);
void peers_free(struct peers *p); // NULL is allowed
// If several threads ask at once, one sends the challenge. A node that did not answer is not asked
// again for PEER_AWAY_MS.
enum peer peers_ask(struct peers *p, const struct owner_name *name);
// Reports that the node did not do what it was asked for. Until a challenge has ended, callers do
// not wait for the node and it counts as PEER_DOUBTED.
void peers_doubt(struct peers *p, const struct owner_name *name);
enum peer peers_find_out(struct peers *p, const struct owner_name *name);
// The result without a challenge: PEER_AWAY, PEER_DOUBTED, or PEER_PROVEN if nothing contradicts
// it. Cheap.
enum peer peers_recall(struct peers *p, const struct owner_name *name);

// Returns true if a token may be sent to a proven node of this URL. hosts: "a, b:7333", the only
// hosts allowed. NULL: the list in the environment (PEER_HOSTS). If both are empty: loopback only.
bool peer_may_have_token(const char *url, const char *hosts);
// Returns true if the list has that form.
bool peer_hosts_are_good(const char *hosts);
