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
    struct list_link link; // among the keys with waiting jobs
    struct list jobs;      // that wait
    size_t running;
    uint64_t number;
};

struct pool_share {
    struct run_queue *queue;
    struct list_link link;
    size_t max;
    size_t each;
    size_t running;
    struct list keys; // that have waiting jobs
    struct pool_key *buckets[KEY_BUCKETS];
};

struct pool_share *run_share_new(struct run_queue *q, size_t max, size_t each)
{
    CHECK(max > 0 && each > 0);
    struct pool_share *share = NEW(struct pool_share);
    share->queue = q;
    share->max = max;
    share->each = each;
    list_add_first(&q->shares, &share->link);
    return share;
}

static void move_last(struct list *l, struct list_link *row)
{
    list_remove(l, row);
    list_add(l, row);
}

bool run_share_is_empty(const struct pool_share *share)
{
    return share->running == 0 && !share->keys.first;
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
    list_remove(&share->queue->shares, &share->link);
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
    if (key->running > 0 || key->jobs.first) return;
    *key_at(key->share, key->number) = key->next_in_bucket;
    memory_free(key);
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
    LIST_EACH(key, &share->keys, struct pool_key, link) {
        if (key_may_run(key)) return key;
    }
    return NULL;
}

static void job_unlink(struct pool_job *job)
{
    struct pool_key *key = job->key;
    list_remove(&key->jobs, &job->link);
    if (!key->jobs.first) list_remove(&key->share->keys, &key->link);
    job->queued = false;
}

void run_queue_add(struct pool_share *share, uint64_t number, struct pool_job *job)
{
    CHECK(!job->queued);
    struct pool_key *key = key_of(share, number);
    if (!key->jobs.first) list_add(&share->keys, &key->link);
    list_add(&key->jobs, &job->link);
    job->key = key;
    job->queued = true;
}

void run_queue_remove(struct pool_job *job)
{
    struct pool_key *key = job->key;
    CHECK(job->queued);
    job_unlink(job);
    key_free_if_unused(key);
}

bool run_queue_has_next(const struct run_queue *q)
{
    LIST_EACH(share, &q->shares, struct pool_share, link) {
        if (next_key(share)) return true;
    }
    return false;
}

struct pool_job *run_queue_next(struct run_queue *q)
{
    LIST_EACH(share, &q->shares, struct pool_share, link) {
        struct pool_key *key = next_key(share);
        if (!key) continue;
        struct pool_job *job = LIST_FIRST(&key->jobs, struct pool_job, link);
        job_unlink(job);
        if (key->jobs.first) move_last(&share->keys, &key->link);
        key->running++;
        share->running++;
        move_last(&q->shares, &share->link);
        return job;
    }
    return NULL;
}

// A key that had all threads that it may have waits behind the other keys again.
void run_queue_ended(struct pool_key *key)
{
    struct pool_share *share = key->share;
    CHECK(key->running > 0 && share->running > 0);
    bool used_all = key->running == share->each;
    key->running--;
    share->running--;
    if (used_all && key->jobs.first) move_last(&share->keys, &key->link);
    key_free_if_unused(key);
}
