// SPDX-License-Identifier: Apache-2.0
// The store in Redis, as its files share it.
#pragma once

#include "base/hash.h"
#include "base/map.h"
#include "store/redis/client.h"
#include "store/redis/keys.h"
#include "store/store.h"

// What this handle knows of a log: the last slot that it appended or read. After another life of
// the server that slot is read again, before anything else.
struct redis_log {
    char *name;
    uint64_t id; // hash of the name
    uint64_t slot;
    uint64_t body;  // hash of the slot's bytes
    uint64_t epoch; // the life of the server in which the slot was last seen
    bool used;
    bool lost;
    char why[STORE_WHY_MAX]; // of the loss; it stays while the loss is checked again
};

struct redis_logs {
    pthread_mutex_t lock;
    struct map by_id;
    struct redis_log *rows;
    size_t len, cap;
};

struct redis_wait {
    struct redis_wait *next;
    struct redis_key key;
    uint64_t slot;
    unsigned hash_slot; // of the key in a cluster; 0: no cluster
    bool asked;         // the read that is under way has it
    bool woken;
    bool failed;
    bool early; // ends before its time; the caller asks again
    pthread_cond_t wake;
};

// In a cluster, one blocking read has keys of one hash slot only. Each group has a connection.
#define WAIT_GROUPS 64

struct redis_waits {
    pthread_mutex_t lock; // guards everything
    struct redis_wait *first;
    struct redis_connection *connection; // only the reading caller uses it
    struct redis_server *server;         // the connection's
    uint64_t epoch;                      // the life of the server when it was made
    int64_t client_id;
    unsigned hash_slot; // of the read that is under way
    bool reading;
    bool blocked; // the blocking read was sent
    bool unblocking;
    char why[STORE_WHY_MAX];
};

struct redis {
    struct store base;
    struct redis_client client;
    struct redis_logs logs;
    struct redis_waits waits[WAIT_GROUPS]; // without a cluster only the first is used
    pthread_mutex_t tags_lock;
    struct map tags; // hashes of the tags that the server has in its list of tags
    pid_t pid;
};

static inline struct redis *redis_of(struct store *s)
{
    return (struct redis *)s;
}

void redis_logs_init(struct redis_logs *l);
void redis_logs_done(struct redis_logs *l);
enum err redis_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                      struct store_answer *a);
enum err redis_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                        struct store_answer *a);
enum err redis_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                       struct store_answer *a);
enum err redis_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                    struct store_answer *a);
void redis_rest(struct store *s, const char *log);
void redis_distrust(struct store *s, const char *log);
// Returns whether the server lost slots of a log that is in use; why names one log.
bool redis_lost_slots(struct redis *me, char why[static STORE_WHY_MAX]);
// Returns whether the slot exists or existed: the last slot is not before it.
enum err redis_has_slot(struct redis *me, const char *log, uint64_t slot, struct store_answer *a);

void redis_waits_init(struct redis_waits *w);
void redis_waits_done(struct redis_waits *w, bool ours);
enum err redis_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                    struct store_answer *a);

enum err redis_put_new(struct store *s, const char *key, struct bytes body, struct store_answer *a);
enum err redis_put(struct store *s, const char *key, struct bytes body, struct store_answer *a);
enum err redis_get(struct store *s, const char *key, size_t from, size_t len,
                   struct store_answer *a);
enum err redis_list(struct store *s, const char *prefix, const char *after, size_t limit,
                    struct store_answer *a);
enum err redis_delete(struct store *s, const char *const *keys, size_t count,
                      struct store_answer *a);
