// SPDX-License-Identifier: Apache-2.0
// The upkeep thread of a handle. It moves dead letters from the open queues to their dead-letter
// queues. Every process that has a queue open does so; a letter that is moved twice arrives once.
// The thread also closes queues without holds. When the handle is old enough, it starts the rounds
// over deleted queues.
#include "local/bodies.h"
#include "os/clock.h"
#include "upkeep/deleted_queues.h"

#include <string.h>
#include <time.h>

#define POLL_MS       250  // for messages that die because their lock expires
#define LAST_MOVE_MS  5000 // how long closing a handle waits for dead letters
#define MOVE_AGAIN_MS 5    // the pause while letters are left

struct outbox_state {
    uint64_t outbound; // messages in the outbox
    bool routed;       // the queue has a dead-letter queue
};

static void count_outbox(void *ctx, const struct machine *m, int64_t now)
{
    struct outbox_state *l = ctx;
    struct machine_stats stats;
    machine_stats(m, now, &stats);
    l->outbound += stats.counts[STATE_OUTBOUND];
    l->routed = l->routed || machine_config(m)->dead_letter_queue[0] != 0;
}

static enum err move(void *ctx, const char *to, struct op op)
{
    struct sluice *s = ctx;
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *d;
    enum sluice_code code = queue_ensure(s, to, NULL);
    if (!code) code = queue_get(s, to, &q, NULL);
    if (!code) code = queue_runner(q, 0, &d, NULL);
    if (code) return (enum err)code;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, JOURNAL_OP_MAX);
    struct runner_answer answer;
    runner_answer_init(&answer);
    enum err err = dead_letter_copy_body(q, d, op, &payload);
    if (!err) err = runner_do(d, (struct op){op.kind, buf_bytes(&payload)}, &answer);
    if (err == ERR_NOT_FOUND) queue_stale(q); // deleted meanwhile: the next try creates it again
    runner_answer_done(&answer);
    return err;
}

static struct outbox_state move_from(struct sluice *s, struct shard_runner *d)
{
    struct outbox_state mine = {0};
    runner_inspect(d, count_outbox, &mine);
    if (mine.outbound == 0) return mine;
    // A message that died by an expired lock is in no entry yet. An entry moves the fold's time on.
    if (runner_move_dead_letters(d, move, s) == 0 && runner_touch(d) == ERR_OK)
        (void)runner_move_dead_letters(d, move, s);
    mine.outbound = 0;
    runner_inspect(d, count_outbox, &mine);
    return mine;
}

// One round over all open runners. Returns the letters that are left.
static struct outbox_state move_all(struct sluice *s)
{
    struct outbox_state left = {0};
    struct open_queue **queues;
    size_t len = queues_hold(s, &queues);
    for (size_t i = 0; i < len; i++)
        for (uint32_t shard = 0; shard < queues[i]->row.birth.shards; shard++) {
            struct shard_runner *d = runner_if_open(queues[i], shard);
            struct outbox_state mine = d ? move_from(s, d) : (struct outbox_state){0};
            left.outbound += mine.outbound;
            left.routed = left.routed || mine.routed;
        }
    queues_let_go(queues, len);
    return left;
}

static void sleep_for(struct sluice *s, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&s->upkeep_woken, &s->lock, &until);
}

// Sleeps until upkeep_wake, or until the rounds over deleted queues must start. The caller holds
// the lock.
static void sleep_long(struct sluice *s)
{
    if (s->deleted) {
        (void)pthread_cond_wait(&s->upkeep_woken, &s->lock);
        return;
    }
    int64_t left = s->deleted_queues_at - clock_boot_ms();
    if (left > 0) sleep_for(s, left);
}

static void *run_upkeep(void *arg)
{
    struct sluice *s = arg;
    int64_t deadline = 0;
    struct outbox_state left = {0};
    (void)pthread_mutex_lock(&s->lock);
    for (;;) {
        if (s->closing && deadline == 0) deadline = clock_boot_ms() + LAST_MOVE_MS;
        bool last = s->closing && (left.outbound == 0 || clock_boot_ms() >= deadline);
        if (last && !s->upkeep_wanted) break;
        bool idle = !s->upkeep_wanted && !s->leaving;
        if (idle && left.outbound > 0) {
            sleep_for(s, MOVE_AGAIN_MS);
        } else if (idle && left.routed) {
            sleep_for(s, POLL_MS);
        } else if (idle) {
            sleep_long(s);
        }
        bool moves = s->upkeep_wanted || left.outbound > 0 || left.routed;
        bool old = !s->closing && !s->deleted && clock_boot_ms() >= s->deleted_queues_at;
        s->upkeep_wanted = false;
        (void)pthread_mutex_unlock(&s->lock);
        if (old) deleted_queues_start(s);
        queues_close_left(s);
        if (moves) left = move_all(s);
        (void)pthread_mutex_lock(&s->lock);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

void upkeep_start(struct sluice *s)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->upkeep_woken, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_create(&s->upkeep, NULL, run_upkeep, s);
}

void upkeep_wake(struct sluice *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->upkeep_wanted = true;
    (void)pthread_cond_signal(&s->upkeep_woken);
    (void)pthread_mutex_unlock(&s->lock);
}

void upkeep_stop(struct sluice *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->closing = true;
    s->upkeep_wanted = true;
    (void)pthread_cond_signal(&s->upkeep_woken);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->upkeep, NULL);
    (void)pthread_cond_destroy(&s->upkeep_woken);
}
