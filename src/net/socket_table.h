// SPDX-License-Identifier: Apache-2.0
// The sockets one libcurl handle has open, so that a kept one can be looked at before it is used
// again. libcurl names a connection only by its local port.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
    int fd;
    uint64_t cookie; // the kernel's name of the socket, for the number may be another's by now
    int port;        // local; 0: not asked for yet
    bool plain;      // it has answered in HTTP/1, so it is silent between exchanges; the frames
                     // of HTTP/2 come at any time
};

struct socket_table {
    struct wire *all;
    size_t len;
    size_t cap;
};

void socket_table_done(struct socket_table *w);
int socket_table_open(struct socket_table *w, int family, int type,
                      int protocol); // -1: it cannot be had
int socket_table_close(struct socket_table *w, int fd);
// May the connection with this local port be sent on? False: it was used before and something lies
// there unasked, or the other side has gone; whatever is sent could get an answer that is not its
// own.
bool socket_table_good(struct socket_table *w, int port);
void socket_table_plain(struct socket_table *w, int port); // an answer in HTTP/1 came on it
