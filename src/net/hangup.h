// SPDX-License-Identifier: Apache-2.0
// Tells when the other end of a socket is gone while nobody reads from it: a request that waits for
// its answer. One thread and one epoll set for all of them; waiting costs nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hangup;

struct hangup_config {
    void (*gone)(void *ctx, void *what); // on the watching thread, once, and never after forgetting
    void (*tick)(void *ctx);             // about once a second
    void *ctx;
};

struct hangup *hangup_new(const struct hangup_config *config);
void hangup_free(struct hangup *h); // NULL is fine; what is still watched is not told

// A key that is never 0. The socket stays open until it is forgotten or was told. One that is
// half closed counts as gone: who asks and closes does not wait for an answer.
uint64_t hangup_watch(struct hangup *h, int fd, void *what);
// True: it was watched and will not be told. False: `gone` was called, or is about to be.
bool hangup_forget(struct hangup *h, uint64_t key);
// Asks at once.
bool hangup_gone(int fd);
