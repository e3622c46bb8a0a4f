// SPDX-License-Identifier: Apache-2.0
// The connections of a server: until when each is to have said what is expected of it, and how many
// each client may have. A client is an address, of IPv6 its first 64 bits: what one line at home or
// one machine in a data centre is given.
//
// Connections that were let in and have not sent a whole head yet are the cheapest to lose. They go
// first, the oldest before the others, when connections run short.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONNECTION_PEER_MAX 64
#define LINE_CLIENT_MAX     (CONNECTION_PEER_MAX + 4)
#define LINES_BUCKETS       512

struct connection {
    struct connection *next, *before;
    int fd;
    void *owner;              // the server's own, as is ...
    uint64_t slot;            // ... where its hang-up is looked for (hangup.h); 0: nowhere yet
    _Atomic int64_t deadline; // clock_boot_ms; 0: none
    char peer[CONNECTION_PEER_MAX]; // the other end's address
    char client[LINE_CLIENT_MAX];   // the same, or of IPv6 "2001:db8:1:2::/64"
    bool heard;                     // a whole head; its owner's thread alone looks at it
    // under the lock
    struct address *address;            // NULL: it does not count any more
    struct connection *older, *younger; // of those of its address without a whole head
    bool headless;                      // it is one of them
    int64_t since_ms;                   // clock_boot_ms
};

struct connections_config {
    unsigned connections_max;
    unsigned per_address_max; // 0: three times as many as are free
};

struct connections {
    struct connections_config config;
    pthread_mutex_t lock;
    struct connection *first;
    struct address *addresses[LINES_BUCKETS];
    size_t open; // that were let in, and not cut
    uint64_t seed;
};

void connections_init(struct connections *l, const struct connections_config *config);
void connections_done(struct connections *l); // there must be none left

// Before a connection is taken: whether this client may have one more. If not, its oldest without a
// whole head makes way, if there is one.
bool connections_admit(struct connections *l, const struct sockaddr *from);
void connections_unadmit(struct connections *l,
                         const struct sockaddr *from); // it was not taken after all
// All connections are open: ends some that had a second for a whole head and have sent none, the
// oldest of all first.
void connections_make_space(struct connections *l);

struct connection *connection_new(struct connections *l, int fd, const struct sockaddr *from,
                                  int64_t within_ms);
void connection_free(struct connections *l, struct connection *line); // before its socket is closed
void connection_heard(struct connections *l, struct connection *line); // a whole head
void connection_expect(struct connection *line, int64_t within_ms);    // 0: nothing
void connections_cut_late(
    struct connections *l); // ends those whose time is up; their owner finds them closed
