// SPDX-License-Identifier: Apache-2.0
// A proof that the server at the other end of a new connection must give before it gets a request.
// The client sends a request with a nonce, and checks the answer. The request reveals nothing. The
// client then proves itself with a header that is valid on this connection only.
#pragma once

#include "net/http.h"

#define CHALLENGE_NONCE 65
#define CHALLENGE_PATH  256
#define CHALLENGE_LINE  128

struct peer_challenge {
    // Sets a fresh nonce and the path of the request that carries it.
    void (*ask)(const void *ctx, char nonce[CHALLENGE_NONCE], char path[CHALLENGE_PATH]);
    // Returns whether the answer proves the server's identity. Sets a header line for all requests
    // on this connection; "": none.
    bool (*shown)(const void *ctx, const char *nonce, const struct http_call *answer,
                  char line[CHALLENGE_LINE]);
    const void *ctx; // borrowed
};
