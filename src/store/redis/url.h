// SPDX-License-Identifier: Apache-2.0
// Parses the URL of a store in Redis.
//
//   redis://[user@]host[:port][/db][?prefix=p&durability=always&timeoutMs=5000]
//   rediss://...?ca=FILE&cert=FILE&key=FILE     with TLS
//   redis+unix:///path/of/socket[?db=0&...]
//   redis+sentinel://[user@]host[:port],.../name[/db][?...]   the primary that Sentinels name
//   redis+cluster://[user@]host[:port],...[?...]              a Redis Cluster
//   rediss+sentinel://, rediss+cluster://                     the same with TLS
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
#define REDIS_PLACES_MAX  16
#define REDIS_NAME_MAX    100
#define REDIS_REPLICA_MAX 100

// What must be true on the server before an answer counts as durable.
enum redis_durability {
    REDIS_ALWAYS,   // the append-only file is synced before each answer
    REDIS_EVERYSEC, // it is synced once a second
    REDIS_REPLICAS, // a number of replicas has each write before its answer counts
    REDIS_NONE,     // nothing is required
};

enum redis_form {
    REDIS_ONE,      // one server
    REDIS_SENTINEL, // the places are Sentinels, which know the primary
    REDIS_CLUSTER,  // the places are servers of a cluster
};

struct redis_place {
    char host[REDIS_HOST_MAX + 1]; // without brackets
    char port[6];
};

struct redis_url {
    bool tls;
    enum redis_form form;
    struct redis_place places[REDIS_PLACES_MAX];
    size_t places_len;             // 0: path
    char path[REDIS_PATH_MAX + 1]; // of a Unix socket
    char name[REDIS_NAME_MAX + 1]; // of the primary, as the Sentinels know it
    char user[REDIS_USER_MAX + 1]; // "": not set, as for the next fields
    char prefix[REDIS_PREFIX_MAX + 1];
    char ca[REDIS_FILE_MAX];
    char cert[REDIS_FILE_MAX];
    char key[REDIS_FILE_MAX];
    char password_file[REDIS_FILE_MAX];
    int64_t db;
    int64_t timeout_ms;
    enum redis_durability durability;
    int64_t replicas; // with REDIS_REPLICAS; else 0
};

// Returns ERR_OK or ERR_INVALID; why names the part, its value and a right value. It never repeats
// a password.
MUST_USE enum err redis_url_parse(const char *url, struct redis_url *out, char *why,
                                  size_t why_len);
#define REDIS_DURABILITY_MAX 24
void redis_durability_text(const struct redis_url *u, char to[static REDIS_DURABILITY_MAX]);
