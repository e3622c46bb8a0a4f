// SPDX-License-Identifier: Apache-2.0
// What the other end of a connection has to show before anything is said there: it is asked one
// question, with a nonce, and its answer is judged. The question itself tells nothing.
#pragma once

#include "net/http.h"

#define CHALLENGE_NONCE 65
#define CHALLENGE_PATH  160

struct peer_challenge {
    // A fresh nonce, and the path to ask for with it.
    void (*ask)(const void *ctx, char nonce[CHALLENGE_NONCE], char path[CHALLENGE_PATH]);
    bool (*shown)(const void *ctx, const char *nonce, const struct http_call *answer);
    const void *ctx; // borrowed
};
