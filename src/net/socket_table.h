// SPDX-License-Identifier: Apache-2.0
// The open sockets of one libcurl handle, so that a kept socket can be checked before its reuse.
// libcurl identifies a connection only by its local port.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watched_socket {
    int fd;
    uint64_t cookie; // the kernel's id of the socket; the descriptor may have been reused since
    int port;        // local; 0: not read yet
    bool plain;      // it answered in HTTP/1, so it is silent between exchanges; HTTP/2 frames
                     // come at any time
};

struct socket_table {
    struct watched_socket *all;
    size_t len;
    size_t cap;
};

void socket_table_done(struct socket_table *w);
// Returns the descriptor; -1: the socket cannot be created.
int socket_table_open(struct socket_table *w, int family, int type, int protocol);
int socket_table_close(struct socket_table *w, int fd);
// Returns whether a request may be sent on the connection with this local port. False: it was used
// before, and unrequested bytes wait there or the server has closed it. A request could get an
// answer that is not its own.
bool socket_table_good(struct socket_table *w, int port);
void socket_table_plain(struct socket_table *w, int port); // it gave an answer in HTTP/1
