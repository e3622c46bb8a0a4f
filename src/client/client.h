// SPDX-License-Identifier: Apache-2.0
// The client of a node: each call of sluice.h becomes a request of docs/http.md.
//
// If a request gets no answer, it is sent again until the handle's timeout. A write has a request
// id, so the node applies it once. At the timeout the call returns UNAVAILABLE if no attempt can
// have taken effect, else UNKNOWN.
//
// A URL may name several nodes (nodes.h). An attempt that got no answer is then repeated at another
// node.
#pragma once

#include "client/nodes.h"
#include "net/http.h"
#include "os/fork_guard.h"
#include "os/thread_pool.h"
#include "protocol/errors.h"
#include "protocol/library_calls.h"
#include "protocol/routes.h"
#include "json/json.h"

struct node_client {
    struct nodes nodes;
    int64_t timeout_ms;
    struct thread_pool *pool;    // for probes, and for several calls at once
    struct pool_share *parallel; // for os/parallel.h
    // Finds the worker whose sign of life a call is: of this name, or any that joined for the queue
    // (NULL). Set by the handle; NULL: no worker joins.
    bool (*worker)(void *ctx, const char *queue, const char *worker, char name[WORKER_NAME_MAX + 1],
                   uint64_t *instance);
    void *worker_ctx;
    // a header line, "" without a token; secret, never printed
    char authorization[CLIENT_TOKEN_MAX + 32];
    struct http *http;       // libcurl: for TLS, proxies and event streams
    struct http *probe_http; // ... for probes, which do not wait for the connections of calls
    struct fork_guard guard;
};

// sluice_open for the URL of a node. An error never repeats a secret that the URL may contain.
enum sluice_code client_open(const char *url, const struct sluice_options *options,
                             struct node_client **out, struct sluice_error *error);
void client_close(struct node_client *c);

struct ask {
    enum route_id call; // its row has the method, the path, and whether it may be repeated
    const char *queue;  // in the path; NULL: the path names none
    const char *id;     // the message or workflow in the path
    const void *in;     // the request struct, whose fields become the query; NULL: none
    struct bytes body;  // JSON, or in the compact encoding
    bool wire;          // the body and the answer are in the compact encoding
    bool wire_answer;   // only the answer is
    bool same_if_twice; // it may be repeated, even if its row says that it may not
    const struct sluice_request *request; // NULL for none
    const char *worker; // ROUTE_RECEIVE: whose sign of life it is. NULL: of any that joined
    int64_t until;      // deadline by clock_boot_ms; 0: one attempt
    int64_t wait_ms;    // how long the node may wait on purpose; the network's time is added
    size_t prefer;      // 1 + the node that the first attempt goes to; 0: any
    bool only;          // ... and all other attempts, too
};

// Sends the request, and repeats it if that is safe, until it is answered. On SLUICE_OK, the
// answer's body is in call->body_in. `again` (may be NULL) becomes true if an earlier attempt may
// have been applied.
enum sluice_code client_ask(struct node_client *r, const struct ask *ask, struct http_call *call,
                            bool *again, struct sluice_error *error);
// The URL and headers of a request to the node, for a caller that sends it itself. The pointers are
// valid as long as `head`.
#define ASK_HEADERS_MAX 9
#define ASK_REQUEST_MAX 64
#define ASK_WORKER_MAX  (sizeof WORKER_HEADER + 20 + WORKER_NAME_MAX)
#define ASK_PATH_MAX    4608 // with the query; each byte of a value may become three
struct ask_head {
    char url[NODE_URL_MAX + ASK_PATH_MAX];
    char owners[NODES_HASH_MAX];
    char request[ASK_REQUEST_MAX];
    char worker[ASK_WORKER_MAX];
    char content_type[64];
    const char *lines[ASK_HEADERS_MAX];
    size_t lines_len;
};
void ask_head_make(struct node_client *r, size_t node, const struct ask *ask,
                   struct ask_head *head);
// Reads the error from an answer whose status is not 2xx.
enum sluice_code ask_read_error(const struct http_call *call, struct sluice_error *out);
// the deadline of a call that starts now, by clock_boot_ms
int64_t client_until(const struct node_client *r);
// Sleeps before the next attempt. The pause grows with each attempt and is random, so that clients
// do not retry at the same moment.
void client_pause(unsigned tries, int64_t until);
// Returns INVALID for an invalid queue name, or in a child process if the handle was opened before
// fork.
enum sluice_code client_check(const struct node_client *r, const char *queue,
                              struct sluice_error *error);
// Makes a call whose answer is a JSON object, which the caller frees. The fields of ask->in become
// the query or the body. On NULL, code says why.
struct json *client_ask_json(struct node_client *r, struct ask *ask, enum sluice_code *code,
                             struct sluice_error *error);
// Parses the body as a JSON object, which the caller frees. On NULL, error is set.
struct json *client_json(const struct http_call *call, struct sluice_error *error);
enum sluice_code client_unreadable(const struct http_call *call, struct sluice_error *error);

// A stream of events, of a queue or of the cluster (queue is NULL). from: where it begins; may be
// NULL. Free it with client_events_close.
struct client_events;
enum sluice_code client_stream_open(struct node_client *r, enum route_id call, const char *queue,
                                    const char *from, struct client_events **out,
                                    struct sluice_error *error);
// The event's object is valid until the next call.
enum sluice_code client_stream_next(struct client_events *e, int64_t wait_ms, struct json **out,
                                    struct sluice_error *error);

// src/api/cluster.c decides which of these and those of src/ops is called.
enum sluice_code client_cluster_show(struct node_client *s, struct sluice_cluster **out,
                                     struct sluice_error *error);
enum sluice_code client_cluster_plan(struct node_client *s, struct sluice_plan **out,
                                     struct sluice_error *error);
// ROUTE_CLUSTER_DRAIN, ROUTE_CLUSTER_UNDRAIN or ROUTE_CLUSTER_LEAVE
enum sluice_code client_cluster_order(struct node_client *s, enum route_id call, const char *node,
                                      struct sluice_error *error);

// client_<name>, the calls of sluice.h at a node.
#define CLIENT_CALL(result, public, made, name, params, args) result client_##name params;
LIBRARY_CALLS(CLIENT_CALL, struct node_client *c)
#undef CLIENT_CALL
enum sluice_code client_events_next(struct sluice_events *e, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error);
void client_events_close(struct sluice_events *e);
