// SPDX-License-Identifier: Apache-2.0
// Parses the URL of a store in Redis.
//
//   redis://[user@]host[:port][/db][?prefix=p&durability=always&timeoutMs=5000]
//   rediss://...?ca=FILE&cert=FILE&key=FILE     with TLS
//   redis+unix:///path/of/socket[?db=0&...]
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_HOST_MAX    255
#define REDIS_USER_MAX    128
#define REDIS_PREFIX_MAX  100
#define REDIS_FILE_MAX    1024
#define REDIS_PATH_MAX    107 // of a Unix socket
#define REDIS_DB_MAX      100000
#define REDIS_TIMEOUT_MS  5000
#define REDIS_TIMEOUT_MAX 600000

// What must be true on the server before an answer counts as durable.
enum redis_durability {
    REDIS_ALWAYS,   // the append-only file is synced before each answer
    REDIS_EVERYSEC, // it is synced once a second
    REDIS_NONE,     // nothing is required
};

struct redis_url {
    bool tls;
    char host[REDIS_HOST_MAX + 1]; // without brackets; "": path
    char port[6];
    char path[REDIS_PATH_MAX + 1];
    char user[REDIS_USER_MAX + 1]; // "": not set, as for the next fields
    char prefix[REDIS_PREFIX_MAX + 1];
    char ca[REDIS_FILE_MAX];
    char cert[REDIS_FILE_MAX];
    char key[REDIS_FILE_MAX];
    char password_file[REDIS_FILE_MAX];
    int64_t db;
    int64_t timeout_ms;
    enum redis_durability durability;
};

// Returns ERR_INVALID; why names the part, its value and a right value. It never repeats a
// password.
MUST_USE enum err redis_url_parse(const char *url, struct redis_url *out, char *why,
                                  size_t why_len);
const char *redis_durability_name(enum redis_durability d); // "everysec"
