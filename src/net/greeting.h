// SPDX-License-Identifier: Apache-2.0
// What the other end of a connection has to show before anything is said there: it is asked one
// question, with a nonce, and its answer is judged. The question itself tells nothing.
#pragma once

#include "net/http.h"

#define GREETING_NONCE 65
#define GREETING_PATH  160

struct greeting {
    // A fresh nonce, and the path to ask for with it.
    void (*ask)(const void *ctx, char nonce[GREETING_NONCE], char path[GREETING_PATH]);
    bool (*shown)(const void *ctx, const char *nonce, const struct http_call *answer);
    const void *ctx; // borrowed
};
