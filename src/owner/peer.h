// SPDX-License-Identifier: Apache-2.0
// Nodes that journals name, and how they prove that they are these.
//
// A journal says of its owner: URL, name, and a secret that the node drew at its start. Whoever can
// read the journal sends a nonce and compares the answer with the HMAC of it under that secret; so
// does a node answer that wrote this very journal, and nobody else who cannot read the store. A URL
// alone would not do: 127.0.0.1 leads to another node on another machine, and a port that became
// free to whoever took it.
//
// The proof is not privacy, and it only says that the node can write to this store. A token may be
// valid elsewhere too. So a token goes to this machine's own addresses, or to hosts that the
// operator has named.
#pragma once

#include "net/peer_challenge.h"
#include "owner/owner.h"

#define PEER_ASK_MS    1000
#define PEER_AWAY_MS   5000
#define PEER_HEADER    "Sluice-Node"      // who answered: the node's name
#define PEER_PROOF     "Sluice-Proof"     // the answer to a nonce
#define PEER_FORWARDED "Sluice-Forwarded" // of a request: it was brought here; do it yourself
#define PEER_HOSTS     "SLUICE_FORWARD_HOSTS"

struct http *peer_http(void); // for questions; the certificates to trust as for any node

#define PEER_PROOF_MAX 65
bool peer_nonce_ok(const char *text); // 32 to 64 hex digits
void peer_prove(const struct owner_name *self, const char *nonce, char out[PEER_PROOF_MAX]);
// For connections to that node; the name is borrowed.
struct peer_challenge peer_challenge_of(const struct owner_name *name);

enum peer {
    PEER_PROVEN,
    PEER_DECLINES, // something answers, and is not that node
    PEER_AWAY,     // nothing does, in time
    PEER_DOUBTED,  // it is being found out
};
enum peer peer_ask(struct http *http, const struct owner_name *name, int64_t wait_ms);

// What was found out about each of them lately, so that one that hangs costs a second, not one for
// each shard it owns. Lives of nodes are few: none is forgotten.
struct peers;
struct peers *peers_new(void);
void peers_free(struct peers *p); // NULL is fine
// Of those who ask at once, one does. Who did not answer is not asked again for PEER_AWAY_MS.
enum peer peers_ask(struct peers *p, const struct owner_name *name);
// It did not do what it was asked for: until somebody found out, nobody waits for its answer, and
// it counts as PEER_DOUBTED.
void peers_doubt(struct peers *p, const struct owner_name *name);
enum peer peers_find_out(struct peers *p, const struct owner_name *name);
// Without asking: PEER_AWAY, PEER_DOUBTED, or PEER_PROVEN when nothing speaks against it. Cheap.
enum peer peers_recall(struct peers *p, const struct owner_name *name);

// Whether a token may be sent to a node of this URL that has proven itself. hosts: "a, b:7333", the
// only ones; NULL: those of the environment (PEER_HOSTS). If neither names any: loopback only.
bool peer_may_have_token(const char *url, const char *hosts);
// Whether the list has that form.
bool peer_hosts_are_good(const char *hosts);
