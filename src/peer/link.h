// SPDX-License-Identifier: Apache-2.0
// Requests to the nodes that own shards. A handle has one struct links, with a target for each
// start of a node that a journal named. Each connection to a node proves the node's identity before
// a request is sent on it (peer/peer.h).
//
// A request carries the caller's own token. The connection adds the proof that the caller can read
// the store.
#pragma once

#include "base/list.h"
#include "net/http_async.h"
#include "os/run_queue.h"
#include "peer/owner_name.h"

#include <stdatomic.h>

struct links;
struct link_target;
struct thread_pool;

struct peer_config {
    const char *token; // of the handle; NULL: SLUICE_TOKEN
    bool off;          // it sends no requests; SLUICE_FORWARD=off does the same
};
// Requests over TLS block threads of the pool. NULL: forwarding is off.
struct links *links_new(const struct peer_config *config, struct thread_pool *pool);
void links_free(struct links *l);                         // NULL is fine; nothing may be under way
void links_set_hosts(struct links *l, const char *hosts); // for peer_may_have_token; copied
const char *links_token(const struct links *l);           // of the handle; NULL: none

// The target of that name, which lives as long as the links. NULL: it cannot be reached. It is
// added if it is new, which may block to resolve the host's name.
struct link_target *links_target(struct links *l, const struct owner_name *name);
const struct owner_name *link_target_name(const struct link_target *t);
bool link_may_have_token(const struct link_target *t);

enum link_end {
    LINK_ANSWERED, // the body of the answer is in call.http.body_in
    LINK_UNDONE,   // certainly not done
    LINK_DOUBTED,  // perhaps done, now or later
};

struct link_call {
    struct http_async_call call; // first
    struct pool_job job;         // over TLS
    struct links *links;
    struct link_target *target;
    struct list_link under_way; // among the target's requests, under the lock
    bool is_listed;
    atomic_bool comes; // an answer is being received
    struct buf body;   // the caller encodes its question here
    char *url;
    char *lines[4];
    size_t lines_len;
    // Reserves the memory of an answer before it is received; NULL: any fits. Must not block.
    bool (*fits)(struct link_call *c, size_t body_len);
    // Called once, on any thread. It must not block.
    void (*done)(struct link_call *c, enum link_end end);
};

void link_init(struct link_call *c);
void link_done(struct link_call *c);
// Sends c->body. `token`: of the caller; NULL: none. `wait_ms`: how long the owner may wait for
// messages. Returns false if it cannot be sent now; `done` is not called then.
bool link_send(struct links *l, struct link_target *t, struct link_call *c, const char *queue,
               const char *token, int64_t wait_ms);
// Asks a node and waits for the answer, on a connection of its own. The node must prove its
// identity on that connection before it gets the token (NULL: none). proves: also without a token,
// because the node must know this process. call->url: with to->url in front. Returns false if no
// answer came, or the node may not have the token. link_send and this function are the only ways by
// which a token gets to another node.
struct peer_identity;
bool link_ask(struct links *l, const struct peer_identity *to, const char *token, bool proves,
              struct http_call *call);
// Returns true if `done` will not be called. The connection is closed, so that the owner notices.
// A request over TLS, or one whose answer is being received, is not cancelled.
bool link_cancel(struct link_call *c);
// Ends all requests to the target as LINK_DOUBTED, because it is known to be away.
void link_target_away(struct links *l, struct link_target *t);
// True for the first caller until link_doubt_over: that caller finds out whether the node is away.
bool link_doubt_begin(struct link_target *t);
void link_doubt_over(struct link_target *t);

struct link_counts {
    _Atomic uint64_t done, failed;
};
struct link_counts *links_counts(struct links *l);
