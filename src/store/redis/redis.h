// SPDX-License-Identifier: Apache-2.0
// A Redis server as a store.
#pragma once

#include "store/store.h"

// Checks the form of the URL. Returns ERR_INVALID with a sentence.
MUST_USE enum err store_redis_check(const char *url, char *why, size_t why_len);
// Connects and checks that the server keeps what it acknowledges. Returns ERR_INVALID for a bad URL
// or a server whose settings are refused, ERR_DENIED for credentials, ERR_UNAVAILABLE without a
// connection; why has one sentence.
MUST_USE enum err store_redis_open(const char *url, struct store **out, char *why, size_t why_len);
bool store_is_redis(const struct store *s);

// What doctor shows.
struct redis_status {
    char version[24];
    char place[300];   // host and port of a server, or the path of the socket
    char primary[104]; // the name that the Sentinels know; "": no Sentinels
    bool cluster;
    size_t servers;         // of a cluster
    char durability[24];    // the choice of the URL
    int64_t used_memory;    // of a cluster: of its fullest server
    int64_t startup_memory; // the part of it that an empty server has
    int64_t maxmemory;      // 0: no limit
    int64_t reserve;        // the part of it that new messages do not get
};
void store_redis_status(struct store *s, struct redis_status *out);
