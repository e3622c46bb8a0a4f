// SPDX-License-Identifier: Apache-2.0
// Inside the library: shared by its files, one per part of include/sluice.h.
#pragma once

#include "catalog/catalog.h"
#include "local/direct.h"
#include "node/runner.h"
#include "owner/owner.h"
#include "sluice.h"

#include <pthread.h>

#define QUEUE_BUCKETS         512
#define MULTI_RECEIVE_BUCKETS 16

// A queue that was opened. Counted: whoever gets one holds it until he lets it go, and so does the
// handle until the queue is stale. The last to let go leaves it to the porter, who closes its
// desks: that takes a while, and he may be somebody who must not block.
struct open_queue {
    struct open_queue *next;
    struct sluice *handle;
    struct catalog_row row;
    int holds;               // under the handle's lock
    bool stale;              // deleted, or an earlier life of its name; too
    pthread_mutex_t opening; // while somebody opens a desk
    struct shard_runner *
        *runners;            // one per shard, opened when first needed; under the handle's lock
    _Atomic uint64_t weight; // of a message, as the last receive found them; 0: not known
    uint32_t turn;           // which shard a receive starts with; under the handle's lock
    struct multi_receive
        *multis[MULTI_RECEIVE_BUCKETS]; // receives with an id of their callers'; too
    struct shard_ownership *ownerships; // one per shard: a node's
    struct owner_peer *owner; // whom calls go to; NULL: nobody. Under the handle's lock, as is ...
    int64_t owner_look_at;    // ... when to look who that is, clock_boot_ms
};

struct sluice {
    const struct transport *calls; // first
    struct store *store;           // metered
    struct store *identity;        // in it: whether it is still the one that was opened
    struct thread_pool *pool;      // serves all its desks
    struct shard_totals totals;    // of all its desks, those of deleted queues too
    int64_t timeout_ms;
    bool no_courtesy;           // of its desks: for tests whose time is their own
    struct journal_rules rules; // too; all zero: the defaults
    pthread_mutex_t lock;
    struct open_queue *queues[QUEUE_BUCKETS]; // by name
    struct open_queue *leaving;               // nobody holds them
    pthread_cond_t let_go;                    // while it closes: a queue was
    pthread_t upkeep;
    pthread_cond_t upkeep_woken;
    bool upkeep_wanted; // something may have died
    bool closing;
    struct deleted_queues *deleted; // NULL until it has lived for a while; the porter's
    int64_t deleted_queues_at; // when it will have, clock_boot_ms; the porter's, before it under
                               // the lock
    _Atomic bool is_node;      // it forwards nothing
    struct owner_self *_Atomic self; // what it is as a node; NULL: it is none
    struct forward *forward;         // NULL: it does not
    struct async_pool *async;        // NULL until later.h is used; made under the lock
};

// sluice_open on a store that is open already; owns it. url: what to call it.
enum sluice_code handle_open_take(struct store *store, const char *url,
                                  const struct sluice_options *options, struct sluice **out,
                                  struct sluice_error *error);

enum sluice_code refuse(struct sluice_error *error, enum err err, const char *field,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
enum sluice_code refuse_reason(struct sluice_error *error, enum reason reason, const char *thing);
// A handle that is dead refuses for good, like one without credentials; but whoever comes again
// later, when it was opened anew, will be served.
enum sluice_code refuse_store(const struct sluice *s, struct sluice_error *error, enum err err,
                              const char *thing, const struct store_answer *a);
// What the store did to a call. why: the store's own sentence; may be empty.
enum sluice_code refuse_why(struct sluice_error *error, enum err err, const char *queue,
                            const char *why);
// A stream of events is at its end, for its queue was deleted.
// Of a call that was applied to some of its parts, UNAVAILABLE ("not applied") is not true: it
// becomes UNKNOWN, and the sentence says to how many. Other codes stay.
enum sluice_code refuse_partly(struct sluice_error *error, enum sluice_code code, size_t done,
                               size_t all, const char *parts);
// The configuration as it was folded last, without asking the store. False: it cannot be opened.
bool queue_known_config(struct open_queue *q, struct queue_config *out);
// How many bytes the body of a message of an OP_SEND has.
size_t op_body_len(struct bytes op, size_t index);
// A body of so many bytes is over maxMessageBytes.
void refuse_large(struct sluice_error *error, struct open_queue *q, size_t body_len);
// INVALID unless the name of a worker has 1 to WORKER_NAME_MAX bytes of plain text.
enum sluice_code worker_check(const char *name, struct sluice_error *error);
// After sluice_queue_create went well: was there one before?
void note_existed(struct sluice_error *error, bool existed);
enum sluice_code refuse_ended(struct sluice_error *error, const char *queue);
// The outcome of an op: ERR_OK, or a refusal with the reason its result gives.
enum sluice_code refuse_op(struct sluice_error *error, enum err err, uint16_t kind,
                           const struct runner_answer *a, const char *queue);

// The store behind a URL that is not a node's, as it is: neither probed nor metered.
enum sluice_code handle_open_store(const char *url, struct store **out, struct sluice_error *error);

enum sluice_code queue_check_name(const char *name, struct sluice_error *error);
// Finds and opens the queue; a stale one is looked up again. Whatever a function here calls *out is
// held, or NULL: CLEANUP(queue_let_go) struct open_queue *q = NULL;
enum sluice_code queue_get(struct sluice *s, const char *name, struct open_queue **out,
                           struct sluice_error *error);
// ... and asks the catalog which life of the name is the present one.
enum sluice_code queue_get_fresh(struct sluice *s, const char *name, struct open_queue **out,
                                 struct sluice_error *error);
struct open_queue *queue_if_known(struct sluice *s, const char *name); // held; NULL: not open
void queue_hold(struct open_queue *q);                                 // once more
void queue_let_go(struct open_queue **q); // and forgets it; NULL is fine
// All that are open and not stale, each held, by name. queues_let_go frees the list too.
size_t queues_hold(struct sluice *s, struct open_queue ***out);
void queues_let_go(struct open_queue **queues, size_t len);
// A desk that has folded all there is; NOT_FOUND when the queue was deleted.
enum sluice_code queue_synced_runner(struct open_queue *q, uint32_t shard,
                                     struct shard_runner **out, struct sluice_error *error);
enum sluice_code queue_change_config(struct queue_config *c, const struct sluice_setting *settings,
                                     size_t len, struct sluice_error *error);
enum sluice_code queue_check_config(struct sluice *s, const char *name,
                                    const struct queue_config *c, struct sluice_error *error);
bool queue_dead_letter_queue(struct sluice *s, const char *name, char out[QUEUE_NAME_MAX + 1]);
struct shard_runner *runner_if_open(struct open_queue *q, uint32_t shard); // NULL: it is not
enum sluice_code queue_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                              struct sluice_error *error);
// ... for a call that a node makes as the shard's owner
enum sluice_code queue_work_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                   struct sluice_error *error);
// Without asking the store: NULL unless the queue and all its desks are open already. It is held;
// desks belongs to it.
struct open_queue *queue_if_open(struct sluice *s, const char *name,
                                 struct shard_runner *const **runners);
uint32_t queue_first_shard(struct open_queue *q); // which shard is the first to be looked into
enum sluice_code queue_event_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                    struct sluice_error *error); // the caller closes it
void queue_stale(struct open_queue *q); // an op was refused because the queue was deleted
enum sluice_code queue_ensure(struct sluice *s, const char *name, struct sluice_error *error);
// Deletes this life of the name, or finishes its deletion; nobody is asked whether he uses it.
enum sluice_code queue_end(struct open_queue *q, struct sluice_error *error); // queue_change.c
void queues_close_left(struct sluice *s); // those that nobody holds any more; blocks
void queues_close(struct sluice *s);      // all

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

// The id of part `number` of a request; of part 0 it is the request's own. Whoever makes the parts
// of a part takes numbers that nobody else does.
struct request_id request_part(const uint8_t whole[16], uint64_t number);

struct batch_builder;
struct batch_builder *batch_new(size_t max);
void batch_add(struct batch_builder *b, const struct open_queue *q, uint32_t shard,
               const struct delivery *d, const struct message_view *view, int64_t now);
struct sluice_batch *batch_take(struct batch_builder *b); // the builder becomes the batch
size_t batch_len(const struct batch_builder *b);

void async_stop(struct sluice *s); // what was begun is finished first
// ... on one of their threads; what it does is done for that queue
void async_run(struct sluice *s, const char *queue, void (*run)(void *ctx), void *ctx);

struct async_settle; // later.h
// False: it is not, or is refused before it is sent; the long way will do it, or say why not.
bool send_as_one_op(struct open_queue *q, const struct sluice_send *messages, size_t len,
                    const struct sluice_request *request, struct buf *payload, uint32_t *shard);
enum sluice_code send_concluded(struct open_queue *q, uint32_t shard, struct bytes op, size_t len,
                                enum err err, const struct runner_answer *a,
                                struct sluice_sent *sent, struct sluice_error *error);
bool settle_as_one_op(struct open_queue *q, const struct async_settle *what,
                      struct shard_runner *const *runners, uint32_t *shard, struct op *op,
                      struct buf *payload);
enum sluice_code settle_concluded(struct open_queue *q, uint16_t kind, size_t len, enum err err,
                                  const struct runner_answer *a, struct sluice_outcome *outcomes,
                                  struct sluice_error *error);
// Says the word for all of these locks, which are one shard's; whoever has them is not told.
void settle_locks(struct open_queue *q, uint16_t kind, const char *reason,
                  const struct lock_name *locks, size_t len);
bool receive_begin(struct shard_runner *d, const struct sluice_receive *o, struct runner_async *l);
// ... behind an op, as runner_receive_after_async
bool receive_begin_after(struct shard_runner *d, struct op op, struct runner_async *done,
                         const struct sluice_receive *o, struct runner_async *l);
enum sluice_code receive_check(const struct sluice_receive *o, struct sluice_error *error);
struct answer_budget;
// Blocks when batch_delivery_blocks.
enum sluice_code receive_concluded(struct open_queue *q, uint32_t shard, struct shard_runner *d,
                                   bool named, struct answer_budget *budget, enum err err,
                                   struct runner_answer *a, struct sluice_batch **out,
                                   struct sluice_error *error);

enum sluice_code direct_settle(struct sluice *s, const char *queue, const struct async_settle *what,
                               struct sluice_outcome *outcomes, struct sluice_error *error);

void upkeep_start(struct sluice *s);
void upkeep_stop(struct sluice *s); // carries what is there, then stops
void upkeep_wake(struct sluice *s);
