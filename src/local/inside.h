// SPDX-License-Identifier: Apache-2.0
// What the files of the library share: the handle, its open queues, and the parts of the calls.
#pragma once

#include "catalog/catalog.h"
#include "local/line.h"
#include "local/transport.h"
#include "node/runner.h"
#include "owner/owner.h"
#include "sluice.h"
#include "store/probe.h"

#include <pthread.h>

#define QUEUE_BUCKETS 512
#define TURN_BUCKETS  16

// An open queue. It is reference counted: each user has a hold, and so has the handle until the
// queue is stale. The last release only puts it on the list `leaving`. Upkeep closes the runners on
// a thread of the pool, because closing blocks and the releasing thread may not block.
struct open_queue {
    struct open_queue *next;
    struct sluice *handle;
    struct catalog_row row;
    int holds;               // under the handle's lock
    bool stale;              // deleted, or an earlier life of its name; under the handle's lock
    pthread_mutex_t opening; // held while a thread opens a runner
    // One per shard, opened at its first use. Under the handle's lock.
    struct shard_runner **runners;
    _Atomic uint64_t weight; // mean bytes of a message in the last receive; 0: not known
    uint32_t next_shard;     // the shard that the next receive starts with; under the handle's lock
    // Receives with a caller's request id, by the id (turns.h). Under the handle's lock.
    struct local_call *turns[TURN_BUCKETS];
    struct send_line line;              // sends that wait for space (line.h)
    struct shard_ownership *ownerships; // one per shard
    struct await_hub *hubs;     // its polls at other nodes (awaits.c); under the handle's lock
    struct local_call *waiting; // receives that wait (call.c); under the handle's lock
    struct pool_job upkeep_job; // moves its dead letters, or closes it
    struct mailbox_rounds *mailbox_rounds; // of its shards that this node owns; the job's
    struct pool_job mailbox_job;
    int64_t mailbox_at; // clock_boot_ms of the next one; under the handle's lock
    bool mailbox_runs;  // the job waits or runs; under the handle's lock
    bool upkeep_runs;   // the job waits or runs; under the handle's lock
};

struct sluice {
    const struct transport *calls; // first
    struct store *store;           // metered
    struct store *identity;        // inside `store`: checks that it is still the same store
    uint8_t store_id[STORE_ID_LEN];
    struct thread_pool *pool;    // serves all its runners
    struct pool_share *parallel; // for local/parallel.h
    struct shard_totals totals;  // of all its runners, those of deleted queues included
    int64_t timeout_ms;
    bool no_courtesy; // runner_config; for tests that control the time
    struct dispatch_rollout dispatch;
    struct journal_rules rules; // runner_config; all zero: the defaults
    pthread_mutex_t lock;
    struct open_queue *queues[QUEUE_BUCKETS]; // by name
    struct open_queue *leaving;               // queues without holds; upkeep closes them
    pthread_cond_t let_go;                    // while the handle closes: a hold was dropped
    struct upkeep *upkeep;                    // NULL before upkeep_start and after upkeep_stop
    bool closing;
    struct owner_self *_Atomic self;       // its identity as a node; NULL: it is no node
    struct owner_cluster *_Atomic cluster; // NULL: the node is no member of a cluster
    atomic_bool joins;          // it becomes a member of a cluster, or was one: see owner_joins
    _Atomic bool needs_token;   // its clients have tokens
    struct peers *peers;        // what is known about other nodes
    _Atomic int64_t learned_at; // clock_boot_ms of the last owner_learn
    struct links *links;        // requests to them; NULL: it sends none
    struct notices *notices;    // messages that were announced to other processes
    struct joined_workers *_Atomic joined;      // workers that joined with it (api/workers.c)
    struct owner_heard *heard;                  // workers that wait at nodes; NULL: none was asked
    struct lines *lines;                        // of sends that wait for space
    struct pool_share *jobs;                    // threads for parts of calls that may block
    struct mailbox_sessions *_Atomic mailboxes; // of its workers; NULL: none
    struct handed_out *_Atomic handed_out;      // signals (api/handed_out.h); NULL: none
};

// sluice_open on an open store, which it takes. url: the store's name in errors.
enum sluice_code handle_open_take(struct store *store, const char *url,
                                  const struct sluice_options *options, struct sluice **out,
                                  struct sluice_error *error);

enum sluice_code refuse(struct sluice_error *error, enum err err, const char *field,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
enum sluice_code refuse_reason(struct sluice_error *error, enum reason reason, const char *thing);
// A dead handle answers DENIED, like one without credentials. To the caller it becomes UNAVAILABLE,
// because the call succeeds once the store is opened again.
enum sluice_code refuse_store(const struct sluice *s, struct sluice_error *error, enum err err,
                              const char *thing, const struct store_answer *a);
// A call failed because of the store. why: the store's message; may be empty. If the queue needs
// another version of this program, the reason is UPGRADE_NEEDED.
#define UPGRADE_NEEDED "upgrade-needed"
// The reason of a receive from a queue with consume=owner that no owner can serve.
#define NO_OWNER       "no-owner"
enum sluice_code refuse_why(struct sluice_error *error, enum err err, const char *queue,
                            const char *why);
// If a call was applied to some of its parts, UNAVAILABLE ("not applied") is not true. It becomes
// UNKNOWN, and the message says how many parts were done. Other codes stay.
enum sluice_code refuse_partly(struct sluice_error *error, enum sluice_code code, size_t done,
                               size_t all, const char *parts);
// The configuration in the last folded state; the store is not read. Returns false if the runner
// cannot be opened.
bool queue_known_config(struct open_queue *q, struct queue_config *out);
// The body's length of message `index` of an OP_SEND.
size_t op_body_len(struct bytes op, size_t index);
// The refusal of a body of body_len bytes: it is over maxMessageBytes.
void refuse_large(struct sluice_error *error, struct open_queue *q, size_t body_len);
// INVALID unless the name of a worker has 1 to WORKER_NAME_MAX bytes of plain text.
enum sluice_code worker_check(const char *name, struct sluice_error *error);
void worker_default(char name[static WORKER_NAME_MAX + 1]); // the host and the process
// After a successful sluice_queue_create: sets the reason "exists" if the queue existed before.
void note_existed(struct sluice_error *error, bool existed);
// A stream of events has ended, because its queue was deleted.
enum sluice_code refuse_ended(struct sluice_error *error, const char *queue);
// The outcome of an op: SLUICE_OK, or a refusal with the reason that the op's result gives.
enum sluice_code refuse_op(struct sluice_error *error, enum err err, uint16_t kind,
                           const struct runner_answer *a, const char *queue);

enum sluice_code queue_check_name(const char *name, struct sluice_error *error);
// Finds and opens the queue. If the open one is known to be deleted, it reads the catalog. *out of
// the functions below has a hold, or is NULL. Use:
//     CLEANUP(queue_let_go) struct open_queue *q = NULL;
enum sluice_code queue_get(struct sluice *s, const char *name, struct open_queue **out,
                           struct sluice_error *error);
// As queue_get, but always reads the present life of the name from the catalog.
enum sluice_code queue_get_fresh(struct sluice *s, const char *name, struct open_queue **out,
                                 struct sluice_error *error);
struct open_queue *queue_if_known(struct sluice *s,
                                  const char *name); // with a hold; NULL: not open
void queue_hold(struct open_queue *q);               // adds a hold
void queue_let_go(struct open_queue **q); // drops a hold and sets *q to NULL; NULL is fine
// All open queues that are not stale, in the order of their names, each with a hold. queues_let_go
// also frees the list.
size_t queues_hold(struct sluice *s, struct open_queue ***out);
void queues_let_go(struct open_queue **queues, size_t len);
// A runner that has folded the journal up to its tail. NOT_FOUND: the queue was deleted.
enum sluice_code queue_synced_runner(struct open_queue *q, uint32_t shard,
                                     struct shard_runner **out, struct sluice_error *error);
enum sluice_code queue_change_config(struct queue_config *c, const struct sluice_setting *settings,
                                     size_t len, struct sluice_error *error);
enum sluice_code queue_check_config(struct sluice *s, const char *name,
                                    const struct queue_config *c, struct sluice_error *error);
// The dead-letter queue of a queue. False: it has none, or it cannot be read.
bool queue_dead_letter_queue(struct sluice *s, const char *name, char out[QUEUE_NAME_MAX + 1]);
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
struct open_queue *queue_if_open(struct sluice *s, const char *name,
                                 struct shard_runner *const **runners);
// A shard has another owner now: receives that wait for it go there.
void queue_reroute(struct open_queue *q);
uint32_t queue_first_shard(struct open_queue *q); // the shard that a receive starts with; rotates
enum sluice_code queue_event_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                    struct sluice_error *error); // the caller closes it
uint64_t queue_key(const struct open_queue *q); // for the shares of the thread pool
void queue_stale(struct open_queue *q);         // the queue was deleted: the handle drops its hold
// Creates the queue with the default settings if it does not exist. It begins with a version of the
// rules that is not newer than this one (0: any).
enum sluice_code queue_ensure(struct sluice *s, const char *name, uint16_t rules,
                              struct sluice_error *error);
// The version of the rules that a new queue begins with: the newest one that this program and all
// members of the cluster know. In upgrade.c.
uint16_t rules_of_new_queue(struct sluice *s);
// Only at the creation of a queue: the version of the rules that it begins with. It is no setting
// of the table, because it is no part of the configuration: `sluice upgrade` raises the version.
#define SETTING_RULES "rules"
enum sluice_code rules_read(const char *value, uint16_t *out, struct sluice_error *error);
// Deletes this life of the name, or completes its deletion. It does not check whether other queues
// use it as their dead-letter queue. In queue_change.c.
enum sluice_code queue_end(struct open_queue *q, struct sluice_error *error);
struct open_queue *queues_take_left(struct sluice *s); // the queues without holds, as a list
void queue_close(struct open_queue *q); // closes the runners of such a queue, and frees it; blocks
void queues_close(struct sluice *s);    // waits until calls drop their holds, then closes all

struct lock_name {
    uint32_t shard;
    struct lock_ref ref;
};
void id_print(const struct open_queue *q, uint32_t shard, uint64_t seq, char out[SLUICE_ID_MAX]);
enum sluice_code id_parse(const struct open_queue *q, const char *text, uint32_t *shard,
                          uint64_t *seq, struct sluice_error *error);
void token_print(const struct open_queue *q, const struct lock_name *lock,
                 char out[SLUICE_TOKEN_MAX]);
enum sluice_code token_parse(const struct open_queue *q, const char *text, struct lock_name *out,
                             struct sluice_error *error);

// The id of part `number` of a request. Part 0 has the request's own id. Each kind of part uses its
// own range of numbers.
struct request_id request_part(const uint8_t whole[16], uint64_t number);

struct batch_builder;
struct batch_builder *batch_new(size_t max);
// Adds a message. view: a message that is only read; NULL: this call locked the message.
// d->message may be empty. now: store time, from which lease_ms counts.
void batch_add(struct batch_builder *b, const struct open_queue *q, uint32_t shard,
               const struct delivery *d, const struct message_view *view, int64_t now);
// Copies the text to *at, ends it with 0, and moves *at past it. Returns the copy.
const char *text_append(char **at, struct bytes from);
struct sluice_batch *batch_take(struct batch_builder *b); // the builder becomes the batch
// The messages are views into `input` and have rows of `headers`. The batch frees both.
void batch_own(struct batch_builder *b, struct bytes input, struct sluice_header *headers);
size_t batch_len(const struct batch_builder *b);
// Copies the bytes into memory of the batch, ends them with 0, and returns the copy.
const char *batch_keep(struct batch_builder *b, struct bytes text);
void batch_drop_last(struct batch_builder *b); // a message that batch_add added

// Calls run(ctx) on a thread of the pool. No queue uses more than a share of the threads. If no
// thread can be created, it runs at once.
void async_run(struct sluice *s, const char *queue, void (*run)(void *ctx), void *ctx);
struct pool_job;
bool async_run_job(struct sluice *s, const char *queue, struct pool_job *job); // false: no thread
MUST_USE enum err async_start(struct sluice *s); // ERR_LIMIT: no thread can be created
void async_stop(struct sluice *s);               // ends what waits, and waits for the jobs

// Background work on the handle's pool: dead letters, closing queues, deleted queues. ERR_LIMIT:
// the process cannot create a thread.
MUST_USE enum err upkeep_start(struct sluice *s);
// Ends it, then moves the dead letters that are left, for a few seconds.
void upkeep_stop(struct sluice *s);
// Whether it is a node that may own shards: it does not wait until it has joined a cluster.
bool handle_takes_shards(struct sluice *s);
void upkeep_wake(struct sluice *s);        // a message may have died
void upkeep_wake_locked(struct sluice *s); // the same with the handle's lock held
