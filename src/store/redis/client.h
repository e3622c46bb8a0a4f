// SPDX-License-Identifier: Apache-2.0
// The client of one server: its connection, which is made again when it fails, and the calls of
// scripts.
#pragma once

#include "store/redis/connection.h"
#include "store/redis/facts.h"
#include "store/redis/scripts.h"
#include "store/redis/url.h"

#include <pthread.h>
#include <stdatomic.h>

#define REDIS_SHA_LEN      40
#define REDIS_PASSWORD_MAX 512

// A connection and the number of threads that use it.
struct redis_line {
    struct redis_connection *connection;
    size_t users;
    uint64_t epoch;
};

struct redis_client {
    const struct store *store; // for its deadline
    struct redis_url url;
    char user[REDIS_USER_MAX + 1];
    char password[REDIS_PASSWORD_MAX];
    struct stream_tls *tls;
    char sha[SCRIPTS][REDIS_SHA_LEN + 1];
    _Atomic int64_t last_ms; // the latest time that a caller was told
    pthread_mutex_t lock;    // guards the fields below
    pthread_cond_t changed;
    struct redis_line *line; // NULL: none
    bool connecting;
    bool checking;
    uint64_t epoch; // counts the lives of the server that this handle has seen, from 1
    struct redis_facts facts;
    int64_t facts_ms;     // when they were asked, by clock_boot_ms
    int64_t memory_ms;    // the same for the memory
    int64_t clock_off_ms; // the server's clock minus this machine's
};

// Takes user and password from the environment and the file that the URL names.
MUST_USE enum err redis_client_init(struct redis_client *c, const struct redis_url *url, char *why,
                                    size_t why_len);
void redis_client_done(struct redis_client *c, bool ours); // ours: false in a child of fork
// Connects for the first time. Returns a refusal as it is; redis_run makes it ERR_UNAVAILABLE.
// round_trip_ns is the fastest of a few bare requests.
MUST_USE enum err redis_client_open(struct redis_client *c, int64_t *round_trip_ns, char *why,
                                    size_t why_len);

// A call of a script.
struct redis_script_call {
    enum redis_script script;
    size_t keys;              // of args: how many are keys
    const struct bytes *args; // keys, then values
    size_t args_len;
    bool writes;
    // The life of the server that the caller has checked; 0: any. If the server has another one,
    // the call is not made, `moved` is set, and `epoch` becomes the new one.
    uint64_t epoch;
    bool moved;
};

// Runs the script. After ERR_OK the caller owns *reply, which is a list. Otherwise a->why is set.
// Without an answer, a call that only reads is repeated until its time is over.
MUST_USE enum err redis_run(struct redis_client *c, struct redis_script_call *call,
                            struct resp **reply, struct store_answer *a);
// Sends one command. The same outcomes; the reply can have any kind but an error.
MUST_USE enum err redis_command(struct redis_client *c, struct bytes command, bool writes,
                                struct resp **reply, struct store_answer *a);
// Opens a second connection, on which a caller may block. *id: its id for CLIENT UNBLOCK.
MUST_USE enum err redis_client_dial(struct redis_client *c, int64_t until,
                                    struct redis_connection **out, int64_t *id,
                                    struct store_answer *a);

// Sets a->time. The time that callers are told never goes back.
int64_t redis_time(struct redis_client *c, int64_t server_ms, struct store_answer *a);
// Memory in use and its limit, at most a second old.
MUST_USE enum err redis_memory(struct redis_client *c, int64_t *used, int64_t *limit,
                               struct store_answer *a);

// In hello.c: connects, logs in, asks the facts and loads the scripts. *out is NULL after an error.
MUST_USE enum err redis_hello(struct redis_client *c, int64_t until, struct redis_connection **out,
                              struct redis_facts *facts, char why[static STORE_WHY_MAX]);
// In hello.c: asks the facts again.
MUST_USE enum err redis_ask_facts(struct redis_client *c, struct redis_connection *on,
                                  int64_t until, struct redis_facts *facts,
                                  char why[static STORE_WHY_MAX]);
