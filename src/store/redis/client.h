// SPDX-License-Identifier: Apache-2.0
// The client of a store in Redis: its servers, their connections, which are made again when they
// fail, and the calls of scripts.
#pragma once

#include "store/redis/connection.h"
#include "store/redis/facts.h"
#include "store/redis/scripts.h"
#include "store/redis/url.h"

#include <pthread.h>
#include <stdatomic.h>

#define REDIS_SHA_LEN      40
#define REDIS_PASSWORD_MAX 512
#define REDIS_SERVERS_MAX  256
#define REDIS_SLOTS        16384 // of a cluster

// A connection and the number of threads that use it.
struct redis_line {
    struct redis_connection *connection;
    size_t users;
    uint64_t epoch;
};

// One server. The client's lock guards it.
struct redis_server {
    struct redis_place at;   // with Sentinels: where the primary was found last
    struct redis_line *line; // NULL: none
    bool connecting;
    bool checking;
    uint64_t epoch; // names the life of the server; 0: never connected
    struct redis_facts facts;
    int64_t facts_ms;     // when they were asked, by clock_boot_ms
    int64_t memory_ms;    // the same for the memory
    int64_t sent_bytes;   // that this handle has sent since, in writes
    int64_t clock_off_ms; // the server's clock minus this machine's
};

struct redis_client {
    const struct store *store; // for its deadline
    struct redis_url url;
    char user[REDIS_USER_MAX + 1];
    char password[REDIS_PASSWORD_MAX];
    struct stream_tls *tls;
    char sha[SCRIPTS][REDIS_SHA_LEN + 1];
    _Atomic int64_t last_ms; // the latest time that a caller was told
    _Atomic bool tight;      // a server has little more memory than the reserve
    pthread_mutex_t lock;    // guards the fields below
    pthread_cond_t changed;
    uint64_t epochs; // the lives of servers that this handle has seen
    // Without a cluster there is one server. A server stays until the client ends.
    struct redis_server *servers[REDIS_SERVERS_MAX];
    size_t servers_len;
    uint16_t *slots;  // the server of each slot of a cluster; NULL: no cluster
    int64_t slots_ms; // when they were asked
};

// Takes user and password from the environment and the file that the URL names.
MUST_USE enum err redis_client_init(struct redis_client *c, const struct redis_url *url, char *why,
                                    size_t why_len);
void redis_client_done(struct redis_client *c, bool ours); // ours: false in a child of fork
// Connects for the first time. Returns a refusal as it is; redis_run makes it ERR_UNAVAILABLE.
// round_trip_ns is the fastest of a few bare requests.
MUST_USE enum err redis_client_open(struct redis_client *c, int64_t *round_trip_ns, char *why,
                                    size_t why_len);

// A call of a script or a command.
struct redis_call {
    enum redis_script script;
    bool raw;                 // no script: args are the words of a command; args[1] is its key
    size_t keys;              // of args: how many are keys
    const struct bytes *args; // keys, then values
    size_t args_len;
    bool writes;
    struct redis_server *server; // NULL: the one that has the first key
    // The life of the server that the caller has checked; 0: any. If the server has another one,
    // the call is not made, `moved` is set, and `epoch` becomes the new one. After a call that was
    // made, `epoch` is the life of its server.
    uint64_t epoch;
    bool moved;
    bool asked; // the answer is of a server that does not have all keys of the slot yet
};

// Runs the script. Sets a->tight. After ERR_OK the caller owns *reply, which is a list; the reply
// to a command can have any kind but an error. Otherwise a->why is set. Without an answer, a call
// that only reads is repeated until its time is over. A write that too few replicas have
// (durability=replicas:N) is ERR_UNKNOWN.
MUST_USE enum err redis_run(struct redis_client *c, struct redis_call *call, struct resp **reply,
                            struct store_answer *a);
// With durability=replicas:N, returns once the replicas have all that the server had when it was
// asked. mark is a key, which is written. Otherwise returns at once. The epoch is as in redis_run.
MUST_USE enum err redis_confirm(struct redis_client *c, const char *mark, uint64_t *epoch,
                                bool *moved, struct store_answer *a);

// Opens a second connection, on which a caller may block, to the server that has the key. *id: its
// id for CLIENT UNBLOCK.
MUST_USE enum err redis_client_dial(struct redis_client *c, struct redis_server *server,
                                    int64_t until, struct redis_connection **out, int64_t *id,
                                    struct store_answer *a);

// Sets a->time. The time that callers are told never goes back.
int64_t redis_time(struct redis_client *c, int64_t server_ms, struct store_answer *a);
// Memory in use and its limit; of a cluster, those of the fullest server. It is at most a second
// old, and what this handle has written since is added. The nearer the reserve is, the more often
// the server is asked.
MUST_USE enum err redis_memory(struct redis_client *c, int64_t *used, int64_t *limit,
                               struct store_answer *a);
// The last part of the memory is for claims and outcomes, so that a full server can be drained.
int64_t redis_reserve_of(int64_t limit);
// The memory from what is known, without a request. Returns the server's facts.
struct redis_facts redis_fullest(struct redis_client *c);

// In hello.c: connects, logs in, asks the facts and loads the scripts. *out is NULL after an error.
MUST_USE enum err redis_hello(struct redis_client *c, const struct redis_place *at, int64_t until,
                              struct redis_connection **out, struct redis_facts *facts,
                              char why[static STORE_WHY_MAX]);
// In hello.c: connects. id: also logs in; *id is the connection's for CLIENT UNBLOCK.
MUST_USE enum err redis_dial(struct redis_client *c, const struct redis_place *at, int64_t until,
                             struct redis_connection **out, int64_t *id,
                             char why[static STORE_WHY_MAX]);
// In hello.c: says why the first requests on a connection got no answer.
MUST_USE enum err redis_say_lost(const struct redis_client *c, const struct redis_place *at,
                                 struct redis_connection *on, char why[static STORE_WHY_MAX]);
// In hello.c: appends AUTH to a request. Returns false if there is no password.
bool redis_put_auth(const struct redis_client *c, struct buf *to);
// In hello.c: asks the facts again.
MUST_USE enum err redis_ask_facts(struct redis_client *c, const struct redis_place *at,
                                  struct redis_connection *on, int64_t until,
                                  struct redis_facts *facts, char why[static STORE_WHY_MAX]);

void redis_note_tight(struct redis_client *c); // from the facts; the caller holds the lock

// In server.c: finds or makes a connection that works. The caller leaves it.
MUST_USE enum err redis_line_enter(struct redis_client *c, struct redis_server *server,
                                   int64_t until, struct redis_line **out, uint64_t *epoch,
                                   char why[static STORE_WHY_MAX]);
void redis_line_leave(struct redis_client *c, struct redis_server *server, struct redis_line *line);
void redis_server_free(struct redis_server *s, bool ours);
// Later calls connect again. Calls in progress end on the connections that they have.
void redis_lines_retire(struct redis_client *c);

// In sentinel.c: asks the Sentinels where the primary is. Returns ERR_INVALID if they know no such
// name, ERR_UNAVAILABLE if none answers.
MUST_USE enum err redis_sentinel_find(struct redis_client *c, int64_t until,
                                      struct redis_place *out, char why[static STORE_WHY_MAX]);

// Reads an answer to SENTINEL MASTER. Returns false if it names no place.
bool redis_sentinel_read(const struct resp *reply, struct redis_place *at, int64_t *epoch);

// In cluster.c.
unsigned redis_slot_of(const char *key); // by its hash tag
// Returns the server that has the key, or NULL with the reason in why.
struct redis_server *redis_server_of(struct redis_client *c, const char *key, int64_t until,
                                     char why[static STORE_WHY_MAX]);
// Asks the cluster again which server has which slot, but not again and again.
MUST_USE enum err redis_cluster_ask(struct redis_client *c, int64_t until,
                                    char why[static STORE_WHY_MAX]);
// Takes the table of slots from an answer to CLUSTER SLOTS. asked: the host that answered.
void redis_cluster_take(struct redis_client *c, const struct resp *reply, const char *asked);
// Follows "MOVED slot host:port" or "ASK ...", an answer of `from`. Returns the other server, or
// NULL if the text cannot be followed. *asking: ASKING must precede the next command there.
struct redis_server *redis_cluster_follow(struct redis_client *c, const struct redis_server *from,
                                          const char *text, bool *asking);
