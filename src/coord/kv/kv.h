// SPDX-License-Identifier: Apache-2.0
// What etcd and Consul have in common: keys with revisions, writes that are guarded by revisions,
// sessions that delete their keys when they end, and a way to wait for a change. kv.c builds the
// coordination on it, so both services get the same rules.
//
// The keys, all under the prefix of the URL:
//
//   live/member/<name>      the member's record; its session is the node's
//   live/leader/holder      the holder of the leader's lease; its session is the holder's
//   live/leader/token       the last epoch, which outlives the holder
//   live/plan/version       the version of the plan: epoch and number
//   plan/current            the plan
//   own/<shard>/holder      as of the leader
//   own/<shard>/token
//
// A claim is one transaction. It writes the next token and the holder, and is guarded by the
// revisions of both. So of two copies of a claim at most one is ever applied, and a claim whose
// answer was lost is decided by reading again and sending again.
#pragma once

#include "coord/backend.h"
#include "coord/record.h"

#define KV_KEY_MAX     511
#define KV_ITEMS_MAX   4096
#define KV_ANSWER_MAX  ((size_t)8 << 20)
#define KV_SESSION_MAX RECORD_SESSION_MAX

struct kv_item {
    char key[KV_KEY_MAX + 1];         // without the prefix
    char session[KV_SESSION_MAX + 1]; // empty: none
    uint64_t revision;                // of its last change; never 0
    size_t value_at, value_len;       // in kv_items.values
};

struct kv_items {
    struct kv_item *all;
    size_t len, cap;
    struct buf values;
    uint64_t at; // where a wait resumes
};
void kv_items_init(struct kv_items *items);
void kv_items_done(struct kv_items *items);
void kv_items_clear(struct kv_items *items);
// Appends an item. Returns NULL if there are KV_ITEMS_MAX, or if the key or the value is too long.
struct kv_item *kv_items_add(struct kv_items *items, const char *key, struct bytes value);
const struct kv_item *kv_items_find(const struct kv_items *items, const char *key);
struct bytes kv_value(const struct kv_items *items, const struct kv_item *item);

// One part of a guarded transaction: the key must still have this revision (0: be absent).
struct kv_write {
    const char *key;
    uint64_t revision;
    struct bytes value;
    const char *session; // NULL: none
    bool remove;
};
#define KV_WRITES_MAX 2

struct kv;
// The service. Each operation makes one exchange and returns before until_ms (clock_boot_ms). A
// write returns ERR_UNKNOWN if it may have been applied.
struct kv_ops {
    struct coord_ops coord;
    // Makes the session whose id the kv holds, or a new one. Sets lease_ms to what was granted.
    enum err (*session_new)(struct kv *k, char session[KV_SESSION_MAX + 1], int64_t *lease_ms,
                            int64_t until_ms, struct coord_answer *a);
    enum err (*session_renew)(struct kv *k, const char *session, int64_t until_ms,
                              struct coord_answer *a); // ERR_NOT_FOUND: it has ended
    enum err (*session_end)(struct kv *k, const char *session, int64_t until_ms,
                            struct coord_answer *a); // ERR_OK also if it had ended
    // Reads the keys that begin with `under`, which ends in '/'.
    enum err (*read)(struct kv *k, const char *under, struct kv_items *to, int64_t until_ms,
                     struct coord_answer *a);
    // ERR_CONFLICT: a guard did not hold. ERR_NOT_FOUND: the session has ended.
    enum err (*write)(struct kv *k, const struct kv_write *writes, size_t count, int64_t until_ms,
                      struct coord_answer *a);
    // ERR_NOT_FOUND: nothing under live/ changed since `at` until until_ms.
    enum err (*wait)(struct kv *k, uint64_t at, int64_t until_ms, struct coord_answer *a);
    void (*free)(struct kv *k);
};

// The first member of a backend's struct.
struct kv {
    struct coord base;
    const struct kv_ops *ops;
    pthread_mutex_t lock;             // guards the fields below
    char session[KV_SESSION_MAX + 1]; // empty: none
    bool joined;
    int64_t granted_ms; // length of the lease
    int64_t until_ms;
};

void kv_init(struct kv *k, const struct kv_ops *ops, const struct coord_config *config);
// Ends an open: passes the handle on, or says why it failed and frees it. Returns `e`.
enum err kv_opened(struct kv *k, enum err e, const struct coord_answer *a, struct coord **out,
                   char why[static COORD_WHY_MAX]);

// The members of struct coord_ops, for the backend's table.
enum err kv_join(struct coord *c, const struct coord_member *m, bool replace,
                 struct coord_answer *a);
enum err kv_heartbeat(struct coord *c, struct coord_answer *a);
enum err kv_leave(struct coord *c, struct coord_answer *a);
enum err kv_list(struct coord *c, struct coord_answer *a);
enum err kv_watch(struct coord *c, uint64_t at, int64_t wait_ms, struct coord_answer *a);
enum err kv_claim(struct coord *c, const char *what, uint64_t after, struct coord_answer *a);
enum err kv_release(struct coord *c, const char *what, uint64_t token, struct coord_answer *a);
enum err kv_read_claim(struct coord *c, const char *what, struct coord_answer *a);
enum err kv_plan_write(struct coord *c, uint64_t epoch, uint64_t number, struct bytes plan,
                       struct coord_answer *a);
enum err kv_plan_read(struct coord *c, struct buf *out, struct coord_answer *a);
void kv_free(struct coord *c);
#define KV_COORD_OPS(backend)                                                                      \
    {                                                                                              \
        .name = (backend), .join = kv_join, .heartbeat = kv_heartbeat, .leave = kv_leave,          \
        .list = kv_list, .watch = kv_watch, .claim = kv_claim, .release = kv_release,              \
        .read = kv_read_claim, .plan_write = kv_plan_write, .plan_read = kv_plan_read,             \
        .free = kv_free                                                                            \
    }
