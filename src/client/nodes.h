// SPDX-License-Identifier: Apache-2.0
// The nodes of one URL: "http://a:7333,b:7333". All of them serve the same store, so a call may go
// to any of them. A node that does not answer is left out until a probe in the background gets an
// answer from it (client/probe.h): no call waits to find out.
//
// The nodes tell which of them owns each shard (protocol/owner_map.h). A later send or settle goes
// to that owner, which saves the forwarding. Only nodes of the list are ever used: an answer cannot
// direct a client to another host.
#pragma once

#include "net/http1.h"
#include "protocol/library_calls.h"

#include <pthread.h>
#include <stdatomic.h>

#define NODES_MAX      64
#define NODE_URL_MAX   1024
#define NODES_ANY      SIZE_MAX // no node is preferred
#define NODES_HASH_MAX 40       // a header line

struct client_node {
    char url[NODE_URL_MAX];
    struct http1_client *plain;  // NULL: libcurl is used, for TLS and proxies
    _Atomic int64_t probe_at;    // clock_boot_ms; 0: it answers. Else other nodes are asked first
    _Atomic unsigned failures;   // in a row, without an answer
    _Atomic int64_t answered_at; // clock_boot_ms of its last answer
    atomic_bool probing;         // a thread asks whether it answers
};

struct owner_cache; // the owners of a queue's shards

struct nodes {
    size_t len;
    struct client_node *all;
    _Atomic unsigned turn; // the node that the next call begins with
    pthread_mutex_t lock;  // for what follows
    struct owner_cache *learned;
};

// Reads the list. INVALID: the text is no list of nodes; the error names the bad one.
enum sluice_code nodes_init(struct nodes *n, const char *url, struct sluice_error *error);
void nodes_done(struct nodes *n);

// The nodes that one call has tried in this round.
struct nodes_walk {
    uint64_t tried;
    size_t left; // nodes that were not tried yet
};
struct nodes_walk nodes_walk(const struct nodes *n);
// Returns the node for the next attempt. It is `preferred` if that one was not tried and is not
// away. After all nodes were tried, the next round begins.
size_t nodes_next(struct nodes *n, struct nodes_walk *w, size_t preferred);
// Reports how an attempt at the node ended.
void nodes_report(struct nodes *n, size_t node, bool answered);

// Keeps what an answer's header tells about the queue. Text that is malformed is ignored.
void nodes_learn(struct nodes *n, const char *queue, struct bytes header);
// Writes the header line that asks for the owners. Returns false if there is one node only.
bool nodes_ask_owners(struct nodes *n, const char *queue, char line[NODES_HASH_MAX]);
// The node that owns the shards of most of the messages or tokens. For no item, it is the owner of
// a random shard, so that receives spread over the owners. NODES_ANY: not known.
size_t nodes_for_sends(struct nodes *n, const char *queue, const struct sluice_send *messages,
                       size_t len, const struct sluice_request *request);
size_t nodes_for_tokens(struct nodes *n, const char *queue, const char *const *tokens, size_t len);
