// SPDX-License-Identifier: Apache-2.0
// The settings of a node: from a file, then the environment, then options. The last one wins. Each
// value records its source. docs/serve.md lists the keys.
//
// Names begin with conf_, because config_ is a queue's configuration.
#pragma once

#include "server/server.h"

#include <stdbool.h>
#include <stddef.h>

// identifier, key, kind, default, minimum, maximum, may change while the node runs, help
#define CONF_LIST(X)                                                                               \
    X(LISTEN, "listen", TEXT, "127.0.0.1:7333", 0, 0, false, "address and port")                   \
    X(STORE, "store", URL, "", 0, 0, false, "where the queues are")                                \
    X(NODE, "node", TEXT, "", 0, 0, false, "the node's name; empty: host and port")                \
    X(ADVERTISE, "advertise", TEXT, "", 0, 0, false,                                               \
      "the URL that others reach it by; empty: from listen")                                       \
    X(COORD, "coord", TEXT, "store:", 0, 0, false,                                                 \
      "the coordination service: store:, etcd://h1,h2, consul://host; none: no cluster")           \
    X(CAPACITY, "capacity", NUMBER, "1", 1, 64, false,                                             \
      "share of the shards, relative to other nodes")                                              \
    X(OBSERVE_ONLY, "observeOnly", BOOL, "no", 0, 0, false,                                        \
      "show plans of the cluster, but claim no shard")                                             \
    X(CLUSTER_LEASE, "cluster.lease", DURATION, "0s", 0, 300000, false,                            \
      "of a node's session; 0s: 5s, on a high-latency store 15s")                                  \
    X(CLUSTER_OBSERVE, "cluster.observe", DURATION, "0s", 0, 600000, false,                        \
      "how long a node looks before it may lead; 0s: the lease")                                   \
    X(CLUSTER_COOL_DOWN, "cluster.coolDown", DURATION, "0s", 0, 86400000, false,                   \
      "how long a smaller name waits until it leads; 0s: six leases")                              \
    X(CLUSTER_MOVES, "cluster.moves", NUMBER, "0", 0, 4096, false,                                 \
      "shards that one round moves; 0: 16, or a sixteenth of all")                                 \
    X(CLUSTER_MOVE_PAUSE, "cluster.movePause", DURATION, "2s", 100, 600000, false,                 \
      "time between two rounds of moves")                                                          \
    X(CLUSTER_MOVE_COOL_DOWN, "cluster.moveCoolDown", DURATION, "60s", 1000, 86400000, false,      \
      "time before a shard that was moved is moved again")                                         \
    X(BUS, "bus", TEXT, "", 0, 0, false,                                                           \
      "the message bus for events: nats://h1,h2 or tls://host; empty: none")                       \
    X(BUS_BOTH_UNTIL, "bus.bothUntil", TEXT, "", 0, 0, false,                                      \
      "until when events are published in two versions: 2030-01-31T00:00:00.000Z; empty: in one")  \
    X(FLAGS_BUS, "flags.bus", ROLLOUT, "on", 0, 0, false,                                          \
      "events to the bus: off, shadow (nothing relies on them) or on")                             \
    X(FLAGS_PLACEMENT, "flags.placement", ROLLOUT, "on", 0, 0, false,                              \
      "the cluster's plan: off, shadow (shown, not followed) or on")                               \
    X(FLAGS_DISPATCH, "flags.dispatch", ROLLOUT, "on", 0, 0, true,                                 \
      "tickets for registered workers: off, shadow (counted, not granted) or on")                  \
    X(FLAGS_STREAM, "flags.stream", ROLLOUT, "on", 0, 0, true,                                     \
      "/v1/stream: off, shadow (the dashboard does not use it) or on")                             \
    X(PEERS, "peers", TEXT, "", 0, 0, false,                                                       \
      "hosts of other nodes that clients' tokens may be sent to")                                  \
    X(TOKENS, "tokens", TEXT, "", 0, 0, true, "a file of tokens")                                  \
    X(INSECURE, "insecure", BOOL, "no", 0, 0, false, "may be reached from outside without tokens") \
    X(THREADS, "threads", NUMBER, "2", 1, 64, false, "that speak HTTP")                            \
    X(TLS_CERTIFICATE, "tls.certificate", TEXT, "", 0, 0, true, "a PEM file, with its chain")      \
    X(TLS_KEY, "tls.key", TEXT, "", 0, 0, true, "a PEM file")                                      \
    X(TLS_CLIENT_CA, "tls.clientCa", TEXT, "", 0, 0, false,                                        \
      "a PEM file: clients must have a certificate signed by it")                                  \
    X(LIMITS_BODY, "limits.body", SIZE, "88MiB", 1024, (int64_t)1 << 30, false, "of a request")    \
    X(LIMITS_BODY_MEMORY, "limits.bodyMemory", SIZE, "256MiB", 4096, (int64_t)1 << 40, false,      \
      "of all requests at once")                                                                   \
    X(LIMITS_ANSWER_MEMORY, "limits.answerMemory", SIZE, "256MiB", 4096, (int64_t)1 << 40, false,  \
      "of all answers at once")                                                                    \
    X(LIMITS_BODY_TIMEOUT, "limits.bodyTimeout", DURATION, "60s", 1000, 3600000, false,            \
      "longest time for a request's body to arrive")                                               \
    X(LIMITS_CONNECTIONS, "limits.connections", NUMBER, "10000", 1, 1000000, false, "at once")     \
    X(LIMITS_PER_CLIENT, "limits.perClient", NUMBER, "0", 0, 1000000, false,                       \
      "connections of one address; 0: three times as many as are free")                            \
    X(LIMITS_HEAD_TIMEOUT, "limits.headTimeout", DURATION, "10s", 1000, 3600000, false,            \
      "longest time for a connection's first head to arrive")                                      \
    X(LIMITS_RATE, "limits.requestsPerSecond", NUMBER, "0", 0, 1000000, true,                      \
      "of one client; 0: no limit")                                                                \
    X(LIMITS_IDLE, "limits.idle", DURATION, "60s", 1000, 3600000, false,                           \
      "longest time without data on a connection")                                                 \
    X(LIMITS_WAITING, "limits.waiting", NUMBER, "10000", 1, 1000000, false, "receives that wait")  \
    X(LIMITS_STREAMS, "limits.streams", NUMBER, "64", 1, 10000, false, "event streams")            \
    X(LIMITS_SUBSCRIBERS, "limits.subscribers", NUMBER, "2000", 1, 100000, false,                  \
      "clients of /v1/stream")                                                                     \
    X(LIMITS_CALLS, "limits.calls", NUMBER, "16", 1, 1024, false,                                  \
      "calls that wait for the store at once; a quarter for one client")                           \
    X(LIMITS_CALLS_WAITING, "limits.callsWaiting", NUMBER, "1000", 1, 1000000, false,              \
      "calls that wait for a thread")                                                              \
    X(LOG_FORMAT, "log.format", LOG_FORMAT, "logfmt", 0, 0, true, "logfmt or json")                \
    X(LOG_LEVEL, "log.level", LOG_LEVEL, "info", 0, 0, true, "debug, info, warning or error")      \
    X(LOG_REQUESTS, "log.requests", BOOL, "no", 0, 0, true, "a line for every request")            \
    X(SHUTDOWN_DRAIN, "shutdown.drain", DURATION, "0s", 0, 3600000, true,                          \
      "time to keep serving after /readyz fails")                                                  \
    X(SHUTDOWN_DEADLINE, "shutdown.deadline", DURATION, "10s", 0, 3600000, true,                   \
      "time for running requests to end")

enum conf_key {
#define CONF_ENUM(name, key, kind, value, min, max, live, help) CONF_##name,
    CONF_LIST(CONF_ENUM)
#undef CONF_ENUM
        CONF_KEYS
};

#define CONF_ENV_MAX 64

struct conf;

struct conf *conf_new(void);
void conf_free(struct conf *c); // NULL is fine

// Each of these returns false on failure; `error` then names the fault and its source.
//
// A file has lines "key = value". "[limits]" puts "limits." before the keys that follow. The lines
// after "[tokens]" are those of a tokens file. # begins a comment.
bool conf_read_file(struct conf *c, const char *path, struct sluice_error *error);
bool conf_read_text(struct conf *c, const char *text, size_t len, const char *where,
                    struct sluice_error *error);
// SLUICE_LIMITS_PER_CLIENT for limits.perClient, and so on.
bool conf_read_environment(struct conf *c, const char *(*get)(const char *name),
                           struct sluice_error *error);
// `where` is the source, for example "--listen".
bool conf_set(struct conf *c, enum conf_key key, const char *value, const char *where,
              struct sluice_error *error);
// `pair` is "key=value", for example "limits.body=1MiB".
bool conf_set_pair(struct conf *c, const char *pair, const char *where, struct sluice_error *error);
// Call it after all of these. Reads the tokens file and checks settings that depend on each other.
bool conf_check(struct conf *c, struct sluice_error *error);
// The part of conf_check for the store's URL, the node's URL and its peers: checks their form.
bool conf_check_places(const struct conf *c, struct sluice_error *error);
// Returns whether the directory exists in which the store would be created.
bool conf_check_folder(const struct conf *c, struct sluice_error *error);

const char *conf_name(enum conf_key key);
const char *conf_text(const struct conf *c, enum conf_key key);   // as it was given
int64_t conf_number(const struct conf *c, enum conf_key key);     // number, bytes, ms, word's index
const char *conf_source(const struct conf *c, enum conf_key key); // "default", "file:3", ...
int64_t conf_both_until(const struct conf *c);                    // of bus.bothUntil; 0: none
// The text for display, without the user and password of a URL.
const char *conf_shown(const struct conf *c, enum conf_key key, char *out, size_t out_len);
// The value that an empty setting will get from the others; "" if it is set or has no such value.
const char *conf_default(const struct conf *c, enum conf_key key, char *out, size_t out_len);
size_t conf_tokens_len(const struct conf *c);
// Returns a key that differs and cannot change while the node runs; CONF_KEYS: there is none.
enum conf_key conf_differs(const struct conf *a, const struct conf *b);

// Sets `out` without the tokens. The conf owns the texts.
void conf_peek(const struct conf *c, struct server_config *out);
// The same with the tokens, which `out` then owns. Call it once, after conf_check.
void conf_server(struct conf *c, struct server_config *out);
