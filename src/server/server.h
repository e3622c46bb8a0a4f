// SPDX-License-Identifier: Apache-2.0
// A node: every queue of a store over HTTP, as docs/http.md says. It holds no state of its own and
// may be killed at any time.
#pragma once

#include <sluice.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;

struct server_config {
    const char *listen;         // NULL: SERVER_LISTEN
    const char *node;           // its name; NULL: made from host and port
    const char *advertise;      // the URL that others reach it by; NULL: made from listen
    const char *peers;          // hosts of nodes that clients' tokens may be sent to; NULL: as the
                                // environment says (owner/peer.h)
    const char *store;          // the name that the node shows for the store
    bool insecure;              // may listen beyond loopback without authentication
    bool access_log;            // a line for every request
    unsigned threads;           // that speak HTTP; 0: 2
    size_t body_max;            // of a request; 0: SERVER_BODY_MAX
    size_t body_memory_max;     // of all requests; 0: 256 MiB, or twice body_max
    size_t answer_memory_max;   // of all answers; 0: 256 MiB
    unsigned connections_max;   // 0: 10,000
    unsigned per_address_max;   // 0: three times as many as are free
    unsigned waiting_max;       // receives that wait; 0: 10,000
    unsigned streams_max;       // event streams; 0: 64
    unsigned calls_max;         // that wait for the store, at once; 0: 16
    unsigned calls_waiting_max; // ... for their turn; 0: 1,000
    int64_t idle_ms;            // 0: 60 s
    int64_t first_head_ms;      // for a connection's first head to arrive; 0: 10 s
    int64_t body_ms;            // for a request's body to arrive; 0: 60 s
    const char *cert_file;      // PEM, with its chain; NULL: plain HTTP
    const char *key_file;
    const char *client_ca_file;  // clients must have a certificate signed by it; NULL: need not
    struct tokens *tokens;       // NULL: nobody is asked for one; the server's from the start on
    int64_t requests_per_second; // of a client; 0: no limit
    int log_level;               // server/log.h
    int log_format;
};

#define SERVER_LISTEN   "127.0.0.1:7333"
#define SERVER_BODY_MAX ((size_t)88 << 20) // 64 MiB of message as base64, and room for the rest

// The store's handle is borrowed until the server was stopped.
enum sluice_code server_start(const struct server_config *config, struct sluice *store,
                              struct server **out, struct sluice_error *error);
const char *server_address(const struct server *s); // "127.0.0.1:7333"
const char *server_node(const struct server *s);
// Takes over what may change while it runs, all or nothing: tokens, the clients' rate, the log, the
// certificate. The tokens are the server's afterwards, in both cases. A node that asks for tokens
// is not told to stop asking: DENIED. error may be NULL.
enum sluice_code server_reload(struct server *s, const struct server_config *config,
                               struct sluice_error *error);
// Whether the certificate's files will do, without serving.
enum sluice_code server_try_tls(const struct server_config *config, struct sluice_error *error);
// /readyz says no from here on, and everything else goes on: for those who send clients here.
void server_drain(struct server *s);
struct log *server_log(struct server *s);
// When it last looked after its connections (clock_boot_ms); about once a second, while it lives.
int64_t server_alive_ms(const struct server *s);
// Whether its store refuses everything from now on, and why: it has to be opened again.
bool server_store_is_dead(const struct server *s, struct sluice_error *error);
// Logs what an operator should know of the store, once when it comes and once when it has gone.
// Looks at most once in CONCERNS_EVERY_MS; one thread calls it now and then.
void server_tell_concerns(struct server *s);
// Accepts nothing more, ends what waits, and lets the rest be answered for up to drain_ms. Answers
// whether everything was; frees it. NULL is fine.
bool server_stop(struct server *s, int64_t drain_ms);
