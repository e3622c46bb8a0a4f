// SPDX-License-Identifier: Apache-2.0
// A share has a list of the keys that have waiting jobs. The first key that has fewer running jobs
// than it may have is served next, and goes to the end of the list. At most `max` keys can be
// skipped, because a skipped key has a running job.
#include "os/run_queue.h"

#include "base/check.h"
#include "base/memory.h"

#define KEY_BUCKETS 64

struct pool_key {
    struct pool_share *share;
    struct pool_key *next_in_bucket;
    struct pool_key *next, *before; // in the list of keys with waiting jobs
    struct pool_job *first, *last;  // its waiting jobs
    size_t running;
    uint64_t number;
};

struct pool_share {
    struct run_queue *queue;
    struct pool_share *next;
    size_t max;
    size_t each;
    size_t running;
    struct pool_key *first, *last; // the keys that have waiting jobs
    struct pool_key *buckets[KEY_BUCKETS];
};

struct pool_share *run_share_new(struct run_queue *q, size_t max, size_t each)
{
    CHECK(max > 0 && each > 0);
    struct pool_share *share = NEW(struct pool_share);
    share->queue = q;
    share->max = max;
    share->each = each;
    share->next = q->first;
    q->first = share;
    return share;
}

static void share_unlink(struct pool_share *share)
{
    struct pool_share **at = &share->queue->first;
    while (*at != share)
        at = &(*at)->next;
    *at = share->next;
}

static void share_move_last(struct pool_share *share)
{
    if (!share->next) return;
    share_unlink(share);
    struct pool_share **at = &share->queue->first;
    while (*at)
        at = &(*at)->next;
    *at = share;
    share->next = NULL;
}

bool run_share_is_empty(const struct pool_share *share)
{
    return share->running == 0 && !share->first;
}

size_t run_share_max(const struct pool_share *share)
{
    return share->max;
}

struct run_queue *run_share_queue(const struct pool_share *share)
{
    return share->queue;
}

struct pool_share *run_key_share(const struct pool_key *key)
{
    return key->share;
}

void run_share_free(struct pool_share *share)
{
    CHECK(run_share_is_empty(share));
    share_unlink(share);
    memory_free(share);
}

static struct pool_key **key_at(struct pool_share *share, uint64_t number)
{
    struct pool_key **at = &share->buckets[number % KEY_BUCKETS];
    while (*at && (*at)->number != number)
        at = &(*at)->next_in_bucket;
    return at;
}

static struct pool_key *key_of(struct pool_share *share, uint64_t number)
{
    struct pool_key **at = key_at(share, number);
    if (*at) return *at;
    struct pool_key *key = *at = NEW(struct pool_key);
    key->share = share;
    key->number = number;
    return key;
}

static void key_free_if_unused(struct pool_key *key)
{
    if (key->running > 0 || key->first) return;
    *key_at(key->share, key->number) = key->next_in_bucket;
    memory_free(key);
}

static void key_append(struct pool_key *key)
{
    struct pool_share *share = key->share;
    key->before = share->last;
    key->next = NULL;
    *(share->last ? &share->last->next : &share->first) = key;
    share->last = key;
}

static void key_unlink(struct pool_key *key)
{
    struct pool_share *share = key->share;
    *(key->before ? &key->before->next : &share->first) = key->next;
    *(key->next ? &key->next->before : &share->last) = key->before;
}

static bool key_may_run(const struct pool_key *key)
{
    const struct pool_share *share = key->share;
    size_t free = share->max - share->running;
    bool leaves = share->each == share->max || key->running < free;
    return key->running < share->each && leaves;
}

static struct pool_key *next_key(const struct pool_share *share)
{
    if (share->running == share->max) return NULL;
    struct pool_key *key = share->first;
    while (key && !key_may_run(key))
        key = key->next;
    return key;
}

static void job_unlink(struct pool_job *job)
{
    struct pool_key *key = job->key;
    *(job->before ? &job->before->next : &key->first) = job->next;
    *(job->next ? &job->next->before : &key->last) = job->before;
    job->queued = false;
}

void run_queue_add(struct pool_share *share, uint64_t number, struct pool_job *job)
{
    CHECK(!job->queued);
    struct pool_key *key = key_of(share, number);
    if (!key->first) key_append(key);
    job->key = key;
    job->next = NULL;
    job->before = key->last;
    *(key->last ? &key->last->next : &key->first) = job;
    key->last = job;
    job->queued = true;
}

void run_queue_remove(struct pool_job *job)
{
    struct pool_key *key = job->key;
    CHECK(job->queued);
    job_unlink(job);
    if (!key->first) key_unlink(key);
    key_free_if_unused(key);
}

bool run_queue_has_next(const struct run_queue *q)
{
    const struct pool_share *share = q->first;
    while (share && !next_key(share))
        share = share->next;
    return share;
}

struct pool_job *run_queue_next(struct run_queue *q)
{
    struct pool_share *share = q->first;
    struct pool_key *key = NULL;
    while (share && !(key = next_key(share)))
        share = share->next;
    if (!share) return NULL;
    struct pool_job *job = key->first;
    job_unlink(job);
    key_unlink(key);
    if (key->first) key_append(key);
    key->running++;
    share->running++;
    share_move_last(share);
    return job;
}

// A key that had all threads that it may have waits behind the other keys again.
void run_queue_ended(struct pool_key *key)
{
    struct pool_share *share = key->share;
    CHECK(key->running > 0 && share->running > 0);
    bool used_all = key->running == share->each;
    key->running--;
    share->running--;
    if (used_all && key->first) {
        key_unlink(key);
        key_append(key);
    }
    key_free_if_unused(key);
}
