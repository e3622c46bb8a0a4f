// SPDX-License-Identifier: Apache-2.0
// The connections of a server: the deadline of each, and how many each client may have. A client is
// an IPv4 address or the first 64 bits of an IPv6 address, which is what one household or one
// machine in a data centre is assigned.
//
// Connections that have not sent a whole head yet cost least to lose. When connections run short,
// the server closes these first, the oldest before the others.
#pragma once

#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONNECTION_PEER_MAX 64
#define LINE_CLIENT_MAX     (CONNECTION_PEER_MAX + 4)
#define CONNECTION_NOTE_MAX 72
#define LINES_BUCKETS       512

struct connection {
    struct list_link link;
    int fd;
    void *owner;                    // set and read by the server
    uint64_t slot;                  // its slot in the disconnect watch; 0: it has none yet
    _Atomic int64_t deadline;       // clock_boot_ms; 0: none
    char peer[CONNECTION_PEER_MAX]; // the client's address
    char client[LINE_CLIENT_MAX];   // the same, or for IPv6 the prefix: "2001:db8:1:2::/64"
    char note[CONNECTION_NOTE_MAX]; // httpd_note; only the owner's thread uses it
    bool has_head;                  // a whole head came; only the owner's thread reads this
    // The lock guards the fields below.
    struct address *address;        // NULL: the connection is no longer counted
    struct list_link headless_link; // among its address's connections without a head
    bool headless;                  // it is in that list
    int64_t since_ms;               // clock_boot_ms of its start
};

struct connections_config {
    unsigned connections_max;
    unsigned per_address_max; // 0: three times the number of free connections
};

struct connections {
    struct connections_config config;
    pthread_mutex_t lock;
    struct list all;
    struct address *addresses[LINES_BUCKETS];
    size_t open; // connections that were admitted and not shut down
    uint64_t seed;
};

void connections_init(struct connections *l, const struct connections_config *config);
void connections_done(struct connections *l); // every connection must have been freed

// Call it before a connection is taken. Returns whether this client may have one more. If the
// client is at its limit, its oldest connection without a whole head is shut down, and the call
// returns true. Returns false if the client has no such connection.
bool connections_admit(struct connections *l, const struct sockaddr *from);
void connections_unadmit(struct connections *l,
                         const struct sockaddr *from); // the connection was not taken after all
// Call it when all connections are in use. Shuts down a few connections that are older than a
// second and have sent no whole head, the oldest of all clients first.
void connections_make_space(struct connections *l);

struct connection *connection_new(struct connections *l, int fd, const struct sockaddr *from,
                                  int64_t within_ms);
void connection_free(struct connections *l, struct connection *line); // before its socket is closed
void connection_heard(struct connections *l, struct connection *line); // a whole head came
void connection_expect(struct connection *line, int64_t within_ms);    // sets the deadline; 0: none
// Shuts down the connections whose deadline has passed. Their owner finds them closed.
void connections_cut_late(struct connections *l);
