// SPDX-License-Identifier: Apache-2.0
// The open queues of an engine, by name, and their runners.
#include "queues/queues.h"

#include "base/array.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "queues/where.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct open_queue **bucket_of(struct engine *e, const char *name)
{
    return &e->queues[hash64_of(bytes_str(name), 0) % QUEUE_BUCKETS];
}

// The caller holds the lock.
static struct open_queue *find_open(struct engine *e, const char *name)
{
    struct open_queue *q = *bucket_of(e, name);
    while (q && (q->stale || strcmp(q->row.name, name) != 0))
        q = q->next;
    return q;
}

static struct shard_ownership *ownerships_new(uint32_t shards)
{
    struct shard_ownership *ownerships = memory_zeroed(shards, sizeof *ownerships);
    for (uint32_t i = 0; i < shards; i++)
        (void)pthread_mutex_init(&ownerships[i].lock, NULL);
    return ownerships;
}

static struct open_queue *add_open(struct engine *e, const struct catalog_row *row)
{
    LOCKED(&e->lock);
    struct open_queue *q = find_open(e, row->name); // another thread may have added it
    if (!q) {
        q = NEW(struct open_queue);
        q->engine = e;
        q->row = *row;
        q->holds = 1; // the handle's
        (void)pthread_mutex_init(&q->opening, NULL);
        q->runners = memory_zeroed(row->birth.shards, sizeof(struct shard_runner *));
        q->ownerships = ownerships_new(row->birth.shards);
        q->next_shard = (uint32_t)entropy_u64(); // processes start with different shards
        e->hooks.opened(q);
        struct open_queue **bucket = bucket_of(e, row->name);
        q->next = *bucket;
        *bucket = q;
    }
    q->holds++;
    return q;
}

void queue_close(struct open_queue *q)
{
    q->engine->hooks.closed(q);
    for (uint32_t shard = 0; shard < q->row.birth.shards; shard++) {
        runner_close(q->runners[shard]);
        (void)pthread_mutex_destroy(&q->ownerships[shard].lock);
    }
    (void)pthread_mutex_destroy(&q->opening);
    memory_free(q->runners);
    memory_free(q->ownerships);
    memory_free(q);
}

// The caller holds the lock.
static void drop_hold(struct open_queue *q)
{
    struct engine *e = q->engine;
    CHECK(q->holds > 0);
    q->holds--;
    if (e->closing) (void)pthread_cond_signal(&e->let_go);
    if (q->holds > 0) return;
    struct open_queue **at = bucket_of(e, q->row.name);
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->next = e->leaving;
    e->leaving = q;
    engine_wake_locked(e);
}

void queue_hold(struct open_queue *q)
{
    LOCKED(&q->engine->lock);
    q->holds++;
}

void queue_let_go(struct open_queue **q)
{
    if (!*q) return;
    struct engine *e = (*q)->engine;
    (void)pthread_mutex_lock(&e->lock);
    drop_hold(*q);
    (void)pthread_mutex_unlock(&e->lock);
    *q = NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct open_queue *const *)a)->row.name,
                  (*(struct open_queue *const *)b)->row.name);
}

size_t queues_hold(struct engine *e, struct open_queue ***out)
{
    size_t len = 0, cap = 0;
    *out = NULL;
    (void)pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < QUEUE_BUCKETS; i++)
        for (struct open_queue *q = e->queues[i]; q; q = q->next) {
            if (q->stale) continue;
            q->holds++;
            *ARRAY_ADD(*out, len, cap) = q;
        }
    (void)pthread_mutex_unlock(&e->lock);
    if (len > 1) qsort(*out, len, sizeof(struct open_queue *), by_name);
    return len;
}

void queues_let_go(struct open_queue **queues, size_t len)
{
    for (size_t i = 0; i < len; i++)
        queue_let_go(&queues[i]);
    memory_free(queues);
}

struct shard_runner *runner_if_open(struct open_queue *q, uint32_t shard)
{
    LOCKED(&q->engine->lock);
    return q->runners[shard];
}

// Whether the last folded state says so. It makes no request to the store.
static bool is_known_deleted(struct open_queue *q)
{
    const struct shard_runner *r = runner_if_open(q, 0);
    return r && runner_saw(r, RUNNER_DELETED);
}

static enum sluice_code find_in_catalog(struct engine *e, const char *name, struct catalog_row *row,
                                        struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    LOCAL(store_answer, answer);
    enum err err = catalog_find(e->store, name, row, &answer);
    if (err == ERR_NOT_FOUND) {
        code = refuse(error, err, "queue", "queue \"%s\" does not exist", name);
        if (error) (void)snprintf(error->reason, sizeof error->reason, "unknown-queue");
    } else if (err && catalog_is_newer(&answer)) {
        code = refuse_why(error, err, name, answer.why);
    } else if (err) {
        code = refuse_store(e, error, err, name, &answer);
    }
    return code;
}

static struct open_queue *get_open(struct engine *e, const char *name)
{
    LOCKED(&e->lock);
    struct open_queue *q = find_open(e, name);
    if (q) q->holds++;
    return q;
}

struct open_queue *queue_if_known(struct engine *e, const char *name)
{
    return get_open(e, name);
}

enum sluice_code queue_get(struct engine *e, const char *name, struct open_queue **out,
                           struct sluice_error *error)
{
    *out = name ? get_open(e, name) : NULL; // the name of an open queue was checked before
    if (*out && !is_known_deleted(*out)) return SLUICE_OK;
    queue_let_go(out);
    return queue_get_fresh(e, name, out, error);
}

enum sluice_code queue_get_fresh(struct engine *e, const char *name, struct open_queue **out,
                                 struct sluice_error *error)
{
    struct catalog_row row;
    *out = NULL;
    enum sluice_code code = queue_check_name(name, error);
    if (!code) code = find_in_catalog(e, name, &row, error);
    if (code && code != SLUICE_NOT_FOUND) return code;
    CLEANUP(queue_let_go) struct open_queue *before = get_open(e, name);
    bool same =
        !code && before && memcmp(before->row.id.bytes, row.id.bytes, sizeof row.id.bytes) == 0;
    if (before && !same) queue_stale(before); // deleted, perhaps with a new life of the name
    if (!code) *out = add_open(e, &row);
    return code;
}

uint64_t queue_key(const struct open_queue *q)
{
    uint64_t key; // the id is random
    memcpy(&key, q->row.id.bytes, sizeof key);
    return key;
}

void queue_stale(struct open_queue *q)
{
    struct engine *e = q->engine;
    LOCKED(&e->lock);
    bool first = !q->stale;
    q->stale = true;
    if (first) drop_hold(q); // the handle's
}

static enum err open_runner(struct open_queue *q, uint32_t shard, bool events,
                            struct shard_runner **out)
{
    struct runner_config config = {.pool = q->engine->pool,
                                   .id = {.shard = shard},
                                   .birth = q->row.birth,
                                   .rules = q->engine->rules,
                                   .from_oldest = events,
                                   .keeps_events = events,
                                   .moves_dead_letters = !events,
                                   .totals = events ? NULL : &q->engine->totals,
                                   .dispatch = &q->engine->dispatch,
                                   .no_courtesy = q->engine->no_courtesy,
                                   .patience_ms = q->engine->timeout_ms};
    memcpy(config.id.queue, q->row.id.bytes, sizeof config.id.queue);
    memcpy(config.queue, q->row.name, sizeof config.queue);
    return runner_open(q->engine->store, &config, out);
}

static enum sluice_code refuse_runner(struct open_queue *q, enum err err,
                                      struct sluice_error *error)
{
    struct store_answer silent = {.why = ""}; // the runner got the store's message
    (void)store_is_dead(q->engine->store, silent.why);
    return refuse_store(q->engine, error, err, q->row.name, &silent);
}

enum sluice_code queue_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                              struct sluice_error *error)
{
    *out = runner_if_open(q, shard);
    if (*out) return SLUICE_OK;
    enum err err = ERR_OK;
    (void)pthread_mutex_lock(&q->opening); // not the handle's: the store may be slow
    *out = runner_if_open(q, shard);
    bool opens = !*out;
    if (opens) err = open_runner(q, shard, false, out);
    (void)pthread_mutex_lock(&q->engine->lock);
    if (opens && !err) q->runners[shard] = *out;
    (void)pthread_mutex_unlock(&q->engine->lock);
    (void)pthread_mutex_unlock(&q->opening);
    if (opens) engine_wake(q->engine); // its outbox may have dead letters
    return err ? refuse_runner(q, err, error) : SLUICE_OK;
}

enum sluice_code queue_work_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                   struct sluice_error *error)
{
    enum sluice_code code = queue_runner(q, shard, out, error);
    for (uint32_t i = 0; !code && i < q->row.birth.shards; i++) {
        struct shard_runner *r = runner_if_open(q, i); // queue_if_open needs all of them checked
        if (r) where_check(q, i, r);
    }
    return code;
}

struct open_queue *queue_if_open(struct engine *e, const char *name,
                                 struct shard_runner *const **runners)
{
    (void)pthread_mutex_lock(&e->lock);
    struct open_queue *q = find_open(e, name);
    for (uint32_t i = 0; q && i < q->row.birth.shards; i++)
        if (!q->runners[i]) q = NULL;
    if (q) q->holds++;
    (void)pthread_mutex_unlock(&e->lock);
    if (!q) return NULL;
    bool ready = !is_known_deleted(q);
    for (uint32_t i = 0; ready && i < q->row.birth.shards; i++)
        ready = !where_is_due(q, i, q->runners[i]); // the check of the owner may block
    if (!ready) queue_let_go(&q);
    if (q) *runners = q->runners; // open runners stay open as long as the queue
    return q;
}

enum sluice_code queue_synced(struct open_queue *q, struct shard_runner *r, enum err err,
                              struct sluice_error *error)
{
    char why[STORE_WHY_MAX];
    if (err) runner_why(r, err, why);
    if (err) return refuse_why(error, err, q->row.name, why);
    if (!runner_saw(r, RUNNER_DELETED)) return SLUICE_OK;
    return refuse_reason(error, REASON_DELETED, q->row.name);
}

enum sluice_code queue_synced_runner(struct open_queue *q, uint32_t shard,
                                     struct shard_runner **out, struct sluice_error *error)
{
    enum sluice_code code = queue_runner(q, shard, out, error);
    if (code) return code;
    return queue_synced(q, *out, runner_sync(*out), error);
}

enum sluice_code queue_event_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                    struct sluice_error *error)
{
    enum err err = open_runner(q, shard, true, out);
    return err ? refuse_runner(q, err, error) : SLUICE_OK;
}

struct open_queue *queues_take_left(struct engine *e)
{
    LOCKED(&e->lock);
    struct open_queue *left = e->leaving;
    e->leaving = NULL;
    return left;
}

static void close_list(struct open_queue *list)
{
    while (list) {
        struct open_queue *q = list;
        list = q->next;
        queue_close(q);
    }
}

static bool any_held(const struct engine *e)
{
    for (size_t i = 0; i < QUEUE_BUCKETS; i++)
        for (const struct open_queue *q = e->queues[i]; q; q = q->next)
            if (q->stale || q->holds > 1) return true;
    return false;
}

// All calls have ended when a handle is closed, but the thread that answered one may still have a
// hold on a queue.
static void await_calls(struct engine *e)
{
    LOCKED(&e->lock);
    while (any_held(e))
        (void)pthread_cond_wait(&e->let_go, &e->lock);
}

void queues_close(struct engine *e)
{
    await_calls(e);
    for (size_t i = 0; i < QUEUE_BUCKETS; i++)
        close_list(e->queues[i]);
    close_list(queues_take_left(e));
}

enum sluice_code refuse_store(const struct engine *e, struct sluice_error *error, enum err err,
                              const char *thing, const struct store_answer *a)
{
    char why[STORE_WHY_MAX];
    if (err == ERR_DENIED && store_is_dead(e->store, why)) err = ERR_UNAVAILABLE;
    return refuse(error, err, "store", "%s: %s", thing, a->why[0] ? a->why : err_text(err));
}

static void copy_config(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(struct queue_config *)ctx = *machine_config(m);
}

bool queue_known_config(struct open_queue *q, struct queue_config *out)
{
    struct shard_runner *r;
    if (queue_runner(q, 0, &r, NULL)) return false;
    runner_inspect(r, copy_config, out);
    return true;
}

void refuse_large(struct sluice_error *error, struct open_queue *q, size_t body_len)
{
    struct queue_config config;
    struct config_pair limit = {.value = ""};
    (void)refuse_reason(error, REASON_TOO_LARGE, q->row.name);
    if (!error || !queue_known_config(q, &config)) return;
    for (size_t i = 0; config_show(&config, i, &limit); i++)
        if (strcmp(limit.key, "maxMessageBytes") == 0) break;
    (void)snprintf(error->field, sizeof error->field, "body");
    (void)snprintf(error->message, sizeof error->message,
                   "body has %zu bytes; queue %s allows %s (maxMessageBytes)", body_len,
                   q->row.name, limit.value);
}
