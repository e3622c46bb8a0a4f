// SPDX-License-Identifier: Apache-2.0
// A server that does what a test's script says, on plain sockets, one thread a connection.
#pragma once

#include "base/bytes.h"

#include <pthread.h>
#include <stdatomic.h>

#define PEERS_MAX      128
#define REQUEST_MAX    ((size_t)4 << 20)
#define SERVER_URL_MAX 64

struct server;

// One connection, seen from the server.
struct peer {
    struct server *server;
    pthread_t thread;
    int fd;
    int number;      // from 0, in the order of coming
    struct buf in;   // what was received and not yet taken
    struct buf head; // the last request's, ended by 0
    struct buf body;
};

struct server {
    int listening;
    int port;
    char url[SERVER_URL_MAX];      // http://127.0.0.1:port
    void (*serve)(struct peer *p); // the script; when it returns the connection is closed
    void *data;                    // the script's own
    pthread_t acceptor;
    struct peer peers[PEERS_MAX];
    atomic_int accepted;
    atomic_int requests; // read whole
};

// path: of a Unix socket, NULL: TCP on loopback, a port of the system's choice.
void server_start(struct server *s, const char *path, void (*serve)(struct peer *p), void *data);
// A port without a listener, kept from other sockets: one that was given back may be taken at once.
void server_claim(struct server *s);
void server_stop(struct server *s); // breaks all connections off and waits for the scripts

bool peer_request(struct peer *p); // reads one; false: the connection ended
void peer_say(struct peer *p, const char *text);
void peer_send(struct peer *p, struct bytes bytes);
void peer_reset(struct peer *p);    // a RST instead of an orderly end, when the script returns
void peer_wait_end(struct peer *p); // until the client closes
void serve_ok(struct peer *p);      // a script: "200 ok" to everything
