// SPDX-License-Identifier: Apache-2.0
// A node: serves every queue of a store over HTTP, as in docs/http.md. It holds no state of its own
// and may be killed at any time.
#pragma once

#include "cluster/tuning.h"
#include "runner/rollout.h"

#include <sluice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;

struct server_config {
    const char *listen;    // NULL: SERVER_LISTEN
    const char *node;      // its name; NULL: made from host and port
    const char *advertise; // the URL that other nodes reach it by; NULL: made from listen
    const char *peers;     // hosts of nodes that clients' tokens may be sent to; NULL: as the
                           // environment says (peer/peer.h)
    const char *coord;     // the coordination service (coord/coord.h); NULL: no member of a cluster
    const char *bus;       // the message bus for events (bus/bus.h); NULL: none
    int64_t bus_both_until;   // events are published in two versions before this; 0: in one
    unsigned capacity;        // its share of the shards, relative to other nodes; 0: 1
    struct tuning tuning;     // of the cluster
    bool observe_only;        // plans are computed and shown, and no shard is claimed
    void (*leave)(void *ctx); // ends the node in order; NULL: it cannot be asked to
    void *leave_ctx;
    const char *store;           // the name that the node shows for the store
    bool insecure;               // may listen beyond loopback without authentication
    bool access_log;             // a line for every request
    unsigned threads;            // HTTP threads; 0: 2
    size_t body_max;             // of a request; 0: SERVER_BODY_MAX
    size_t body_memory_max;      // of all requests; 0: 256 MiB, or 3 * body_max if that is more
    size_t answer_memory_max;    // of all answers; 0: 256 MiB
    unsigned connections_max;    // 0: 10,000
    unsigned per_address_max;    // 0: three times the number of free connections
    unsigned waiting_max;        // receives that wait; 0: 10,000
    int flags[CAPABILITY_COUNT]; // enum rollout
    unsigned streams_max;        // event streams; 0: 64
    unsigned subscribers_max;    // clients of /v1/stream; 0: 2000
    unsigned calls_max;          // blocking calls at once; 0: 16
    unsigned calls_waiting_max;  // calls that wait for a thread; 0: 1,000
    int64_t idle_ms;             // 0: 60 s
    int64_t first_head_ms;       // for a connection's first head to arrive; 0: 10 s
    int64_t body_ms;             // for a request's body to arrive; 0: 60 s
    const char *cert_file;       // PEM, with its chain; NULL: plain HTTP
    const char *key_file;
    const char *client_ca_file;  // signs the certificates that clients must have; NULL: none needed
    struct tokens *tokens;       // NULL: no token is required; server_start takes them
    int64_t requests_per_second; // of a client; 0: no limit
    int log_level;               // server/log.h
    int log_format;
};

#define SERVER_LISTEN   "127.0.0.1:7333"
#define SERVER_BODY_MAX ((size_t)88 << 20) // 64 MiB of message as base64, and the rest of the JSON

// The store's handle is borrowed until server_stop has returned true.
enum sluice_code server_start(const struct server_config *config, struct sluice *store,
                              struct server **out, struct sluice_error *error);
const char *server_address(const struct server *s); // "127.0.0.1:7333"
const char *server_node(const struct server *s);
// Adopts the settings that may change while the node runs: tokens, rate, log, certificate. It
// adopts all or none. The server owns the tokens afterwards, in both cases. DENIED: the node
// requires tokens and the new configuration has none. `error` may be NULL.
enum sluice_code server_reload(struct server *s, const struct server_config *config,
                               struct sluice_error *error);
// Checks the certificate's files without serving.
enum sluice_code server_try_tls(const struct server_config *config, struct sluice_error *error);
// Makes /readyz refuse from here on, so that load balancers send no more clients. All else
// continues.
void server_drain(struct server *s);
struct log *server_log(struct server *s);
// clock_boot_ms of the last check of the connections' deadlines: about once a second.
int64_t server_alive_ms(const struct server *s);
// Returns whether the store refuses everything for good, and why. The process must open it again.
bool server_store_is_dead(const struct server *s, struct sluice_error *error);
// Logs each warning about the store once when it begins and once when it ends. Checks at most once
// in CONCERNS_EVERY_MS. One thread calls it now and then.
void server_tell_concerns(struct server *s);
// Accepts no more connections, ends the receives that wait, and waits up to drain_ms for the
// answers of the rest. Returns whether all were answered. Frees the server, unless library calls
// are still in progress. NULL is fine.
bool server_stop(struct server *s, int64_t drain_ms);
