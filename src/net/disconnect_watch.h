// SPDX-License-Identifier: Apache-2.0
// Tells when the other end of a socket is gone while nobody reads from it: a request that waits for
// its answer. One thread and one epoll set for all of them; waiting costs nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct disconnect_watch;

struct disconnect_watch_config {
    void (*gone)(void *ctx, void *what); // on the watching thread, once, and never after forgetting
    void (*tick)(void *ctx);             // about once a second
    void *ctx;
};

struct disconnect_watch *disconnect_watch_new(const struct disconnect_watch_config *config);
void disconnect_watch_free(
    struct disconnect_watch *h); // NULL is fine; what is still watched is not told

// A seat for a socket, never 0, until it is closed: so the kernel hears of each socket once, and
// not with every request that waits.
uint64_t disconnect_watch_add(struct disconnect_watch *h, int fd);
void disconnect_watch_remove(struct disconnect_watch *h,
                             uint64_t slot); // while it is open; nobody watches it any more
// One at a time for each seat. A key that is never 0. A socket that is half closed counts as gone:
// who asks and closes does not wait for an answer.
uint64_t disconnect_watch_begin(struct disconnect_watch *h, uint64_t slot, void *what);
// True: it was watched and will not be told. False: `gone` was called, or is about to be.
bool disconnect_watch_end(struct disconnect_watch *h, uint64_t key);
// Asks at once.
bool socket_is_gone(int fd);
