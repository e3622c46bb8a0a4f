// SPDX-License-Identifier: Apache-2.0
// Nodes that journals name, and how they prove their identity.
//
// A journal records its owner's URL, its name and a secret that the node drew at its start. The
// secret's key is the beginning of its SHA-256. A process that can read the journal opens a
// connection to the node and both ends prove that they know the secret:
//
// clang-format off
//     caller: GET /healthz?nonce=N&key=K        a fresh nonce, the keys of secrets that it knows
//     node:   Sluice-Key: K  Sluice-Proof: P    the HMAC of its URL, its name and the nonce
//             Sluice-Nonce: M                   a nonce of the node, for this connection
//     caller: Sluice-Forwarded: Q               the HMAC of the same and both nonces, with each
//                                               request on this connection
// clang-format on
//
// A URL alone does not suffice: 127.0.0.1 leads to another node on another machine, and another
// process can take a port that became free. A request that was seen is worth nothing on another
// connection, because M differs there. A request costs no HMAC: both ends keep Q.
//
// An owner must know its own secret. A member of a cluster may own no shard, so that no journal has
// its secret. It proves that it can read the store by the secret of any owner.
//
// The proof does not encrypt anything, and it only shows that the node can read this store. A token
// can be valid for other services too. So a token is sent only to this machine's own addresses, or
// to hosts that the operator has named.
#pragma once

#include "net/peer_challenge.h"
#include "peer/owner_name.h"

#define PEER_ASK_MS    1000
#define PEER_PROBE_MS  1000           // between probes of a node that is away
#define PEER_KEY       "Sluice-Key"   // the key of the secret that it proves with
#define PEER_PROOF     "Sluice-Proof" // the answer to a nonce
#define PEER_NONCE     "Sluice-Nonce" // its own nonce
// The caller's proof that it can read the store.
#define PEER_FORWARDED "Sluice-Forwarded"
#define PEER_HOSTS     "SLUICE_FORWARD_HOSTS"

struct http *peer_http(void); // for challenges; it trusts the same certificates as for any node

#define PEER_PROOF_MAX 65
#define PEER_NONCE_MAX 33
#define PEER_KEY_MAX   17
#define PEER_KEYS_MAX  8
bool peer_nonce_ok(const char *text); // 32 to 64 hex digits
void peer_key(const char *secret, char out[PEER_KEY_MAX]);

// What a node must prove: its URL and its name, under one of these secrets.
struct peer_identity {
    char url[JOURNAL_ADDRESS_MAX];
    char node[JOURNAL_ADDRESS_MAX];
    char secrets[PEER_KEYS_MAX][JOURNAL_ADDRESS_MAX];
    size_t secrets_len;
};
// Of an owner: its own secret is the only one.
void peer_identity_of(const struct owner_name *name, struct peer_identity *out);
void peer_identity_add(struct peer_identity *p, const char *secret); // if there is space

// A node's answer to a challenge, and what it expects from the caller then.
struct peer_answer {
    char key[PEER_KEY_MAX];
    char proof[PEER_PROOF_MAX];
    char nonce[PEER_NONCE_MAX];
    char expects[PEER_PROOF_MAX];
};
void peer_prove(const struct owner_name *self, const char *secret, const char *nonce,
                struct peer_answer *out);
// For connections to that node. The identity is borrowed.
struct peer_challenge peer_challenge_of(const struct peer_identity *p);

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
struct http_call;
struct thread_pool;
struct peers *peers_new(struct thread_pool *pool);
void peers_free(struct peers *p); // NULL is allowed
// If several threads ask at once, one sends the challenge. No caller waits for a node that is away:
// it stays so until a probe on the pool gets an answer. *age_ms: how old the result is, if a probe
// is under way; otherwise 0.
enum peer peers_ask(struct peers *p, const struct owner_name *name, int64_t *age_ms);
// Sends a request that needs no proof and carries no token, on a connection that is kept. Blocks.
void peers_send(struct peers *p, struct http_call *call);
// Reports that the node did not do what it was asked for. Until a challenge has ended, callers do
// not wait for the node and it counts as PEER_DOUBTED.
void peers_doubt(struct peers *p, const struct owner_name *name);
enum peer peers_find_out(struct peers *p, const struct owner_name *name);
// The result without a challenge: PEER_AWAY, PEER_DOUBTED, or PEER_PROVEN if nothing contradicts
// it. Cheap.
enum peer peers_recall(struct peers *p, const struct owner_name *name);

// A journal names this node as an owner.
void peers_learn(struct peers *p, const struct owner_name *name);
// Copies the secret with this key. Returns false if no journal that was read has it.
bool peers_secret(struct peers *p, const char *key, char out[JOURNAL_ADDRESS_MAX]);
// Adds the secrets that are known: those of the identity's node first, then the latest ones.
void peers_secrets(struct peers *p, struct peer_identity *to);

// Returns true if a token may be sent to a proven node of this URL. hosts: "a, b:7333", the only
// hosts allowed. NULL: the list in the environment (PEER_HOSTS). If both are empty: loopback only.
bool peer_may_have_token(const char *url, const char *hosts);
// Returns true if the list has that form.
bool peer_hosts_are_good(const char *hosts);
