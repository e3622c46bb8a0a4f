// SPDX-License-Identifier: Apache-2.0
// Reports when the client of a socket has disconnected while no code reads from the socket, as when
// a request waits for its answer. One thread and one epoll set serve all sockets. A socket that
// waits costs no CPU time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct disconnect_watch;

struct disconnect_watch_config {
    void (*gone)(void *ctx, void *what); // once per watch, on the watch's thread; never after _end
    void (*tick)(void *ctx);             // about once a second, on the same thread
    void *ctx;
};

// NULL: the process cannot create a thread.
struct disconnect_watch *disconnect_watch_new(const struct disconnect_watch_config *config);
// NULL is fine. `gone` is not called for what is still watched.
void disconnect_watch_free(struct disconnect_watch *h);

// Adds an open socket to the epoll set and returns its slot, which is never 0. The socket keeps the
// slot until it is closed, so that a request that waits needs no system call.
uint64_t disconnect_watch_add(struct disconnect_watch *h, int fd);
// Frees the slot and ends its watch. Call it while the socket is open.
void disconnect_watch_remove(struct disconnect_watch *h, uint64_t slot);
// Starts a watch and returns its key, which is never 0. A slot has at most one watch at a time. A
// half-closed socket counts as disconnected: a client that closes its side does not wait for the
// answer.
uint64_t disconnect_watch_begin(struct disconnect_watch *h, uint64_t slot, void *what);
// Ends a watch. Returns true if `gone` will not be called; false if it was, or is about to be.
bool disconnect_watch_end(struct disconnect_watch *h, uint64_t key);
// Reads the state of the socket now, without a watch.
bool socket_is_gone(int fd);
