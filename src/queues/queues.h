// SPDX-License-Identifier: Apache-2.0
// The engine of a handle on a store: its open queues, and what they share.
#pragma once

#include "os/thread_pool.h"
#include "protocol/batch.h"
#include "protocol/errors.h"
#include "protocol/names.h"
#include "queues/catalog.h"
#include "queues/owner.h"
#include "runner/runner.h"
#include "sluice.h"
#include "store/probe.h"

#include <pthread.h>

#define QUEUE_BUCKETS 512

// An open queue. It is reference counted: each user has a hold, and so has the engine until the
// queue is stale. The last release only puts it on the list `leaving`. Upkeep closes the runners on
// a thread of the pool, because closing blocks and the releasing thread may not block.
struct open_queue {
    struct open_queue *next;
    struct engine *engine;
    struct catalog_row row;
    int holds;               // under the engine's lock
    bool stale;              // deleted, or an earlier life of its name; under the engine's lock
    pthread_mutex_t opening; // held while a thread opens a runner
    // One per shard, opened at its first use. Under the engine's lock.
    struct shard_runner **runners;
    _Atomic uint64_t weight; // mean bytes of a message in the last receive; 0: not known
    uint32_t next_shard;     // the shard that the next receive starts with; under the engine's lock
    struct shard_ownership *ownerships; // one per shard
    struct queue_calls *calls;          // what its calls share (ops/queue_calls.h)
};

static inline struct queue_ref queue_ref(const struct open_queue *q)
{
    return (struct queue_ref){q->row.id, q->row.birth.shards, q->row.name};
}

// What the calls (src/ops) register. All are set before the first queue is opened.
struct engine_hooks {
    void (*opened)(struct open_queue *q); // sets q->calls; the engine's lock is held
    void (*closed)(struct open_queue *q); // frees q->calls
    void (*moved)(struct open_queue *q);  // a shard has another owner
};

struct engine {
    struct store *store;    // metered
    struct store *identity; // inside `store`: checks that it is still the same store
    uint8_t store_id[STORE_ID_LEN];
    struct thread_pool *pool;    // serves all its runners
    struct pool_share *parallel; // for os/parallel.h
    struct pool_share *jobs;     // threads for parts of calls that may block
    struct shard_totals totals;  // of all its runners, those of deleted queues included
    int64_t timeout_ms;
    bool no_courtesy; // runner_config; for tests that control the time
    struct dispatch_rollout dispatch;
    struct journal_rules rules; // runner_config; all zero: the defaults
    pthread_mutex_t lock;
    struct open_queue *queues[QUEUE_BUCKETS]; // by name
    struct open_queue *leaving;               // queues without holds; upkeep closes them
    pthread_cond_t let_go;                    // while the engine closes: a hold was dropped
    bool closing;
    struct engine_hooks hooks;
    struct pool_task *upkeep; // engine_wake schedules it; under the lock; NULL: none
    struct ops *ops;          // what the calls share (ops/ops.h)
    // The node, its peers and its cluster.
    struct owner_identity *_Atomic self;   // its identity as a node; NULL: it is no node
    struct owner_cluster *_Atomic cluster; // NULL: the node is no member of a cluster
    atomic_bool joins;          // it becomes a member of a cluster, or was one: see owner_joins
    _Atomic bool needs_token;   // its clients have tokens
    struct peers *peers;        // what is known about other nodes
    _Atomic int64_t learned_at; // clock_boot_ms of the last owner_learn
    struct links *links;        // requests to them; NULL: it sends none
    struct waiting_cache *waiting_cache; // workers that wait at nodes; NULL: none was asked
};

struct peer_config;
struct engine_config {
    struct store *identity; // inside the store
    const uint8_t *store_id;
    int64_t timeout_ms;
    const struct peer_config *peers;
};
// An engine on a store that was checked, which it takes.
struct engine *engine_new_take(struct store *store, const struct engine_config *config);
void engine_free(struct engine *e); // the calls have ended
// Background work may be due: a message may have died, or a queue has no hold.
void engine_wake(struct engine *e);
void engine_wake_locked(struct engine *e); // the same with the engine's lock held
// Whether it is a node that may own shards: it does not wait until it has joined a cluster.
bool engine_takes_shards(struct engine *e);
// The id of the store, in hex. It tells two stores apart.
#define ENGINE_STORE_ID 33
void engine_store_id(const struct engine *e, char out[ENGINE_STORE_ID]);
// How far the dispatch of tickets is rolled out in this process (enum rollout), and how often it
// was withheld in shadow.
void engine_dispatch(struct engine *e, int rollout);
uint64_t engine_dispatch_withheld(struct engine *e);

// A dead handle answers DENIED, like one without credentials. To the caller it becomes UNAVAILABLE,
// because the call succeeds once the store is opened again.
enum sluice_code refuse_store(const struct engine *e, struct sluice_error *error, enum err err,
                              const char *thing, const struct store_answer *a);
// The configuration in the last folded state; the store is not read. Returns false if the runner
// cannot be opened.
bool queue_known_config(struct open_queue *q, struct queue_config *out);
// The refusal of a body of body_len bytes: it is over maxMessageBytes.
void refuse_large(struct sluice_error *error, struct open_queue *q, size_t body_len);

// Finds and opens the queue. If the open one is known to be deleted, it reads the catalog. *out of
// the functions below has a hold, or is NULL. Use:
//     CLEANUP(queue_let_go) struct open_queue *q = NULL;
enum sluice_code queue_get(struct engine *e, const char *name, struct open_queue **out,
                           struct sluice_error *error);
// As queue_get, but always reads the present life of the name from the catalog.
enum sluice_code queue_get_fresh(struct engine *e, const char *name, struct open_queue **out,
                                 struct sluice_error *error);
struct open_queue *queue_if_known(struct engine *e,
                                  const char *name); // with a hold; NULL: not open
void queue_hold(struct open_queue *q);               // adds a hold
void queue_let_go(struct open_queue **q); // drops a hold and sets *q to NULL; NULL is fine
// The names of all queues of the store, in order. Closes open queues that other processes deleted.
enum sluice_code queues_list(struct engine *e, struct sluice_names **out,
                             struct sluice_error *error);
// All open queues that are not stale, in the order of their names, each with a hold. queues_let_go
// also frees the list.
size_t queues_hold(struct engine *e, struct open_queue ***out);
void queues_let_go(struct open_queue **queues, size_t len);
// A runner that has folded the journal up to its tail. NOT_FOUND: the queue was deleted.
enum sluice_code queue_synced_runner(struct open_queue *q, uint32_t shard,
                                     struct shard_runner **out, struct sluice_error *error);
// The end of runner_sync: err, or NOT_FOUND as above.
enum sluice_code queue_synced(struct open_queue *q, struct shard_runner *r, enum err err,
                              struct sluice_error *error);
struct shard_runner *runner_if_open(struct open_queue *q, uint32_t shard); // NULL: not open
// The shard's runner, which it opens if needed. The queue owns it.
enum sluice_code queue_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                              struct sluice_error *error);
// As queue_runner. It first finds the owners of the queue's shards. A node takes those that it
// should own.
enum sluice_code queue_work_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                   struct sluice_error *error);
// Without a request to the store. NULL unless the queue and all its runners are open and no
// ownership must be checked first. The queue has a hold, and it owns *runners.
struct open_queue *queue_if_open(struct engine *e, const char *name,
                                 struct shard_runner *const **runners);
enum sluice_code queue_event_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                    struct sluice_error *error); // the caller closes it
uint64_t queue_key(const struct open_queue *q); // for the shares of the thread pool
void queue_stale(struct open_queue *q);         // the queue was deleted: the handle drops its hold
struct open_queue *queues_take_left(struct engine *e); // the queues without holds, as a list
void queue_close(struct open_queue *q); // closes the runners of such a queue, and frees it; blocks
void queues_close(struct engine *e);    // waits until calls drop their holds, then closes all

// Calls run(ctx) on a thread of the pool. No queue uses more than a share of the threads. If no
// thread can be created, it runs at once.
void engine_run(struct engine *e, const char *queue, void (*run)(void *ctx), void *ctx);
bool engine_run_job(struct engine *e, const char *queue, struct pool_job *job); // false: no thread
