// SPDX-License-Identifier: Apache-2.0
// The listener: one thread receives the signals to all jobs. It waits in one call for all locks. A
// lock that has ended ends the call, so a slot that gets another job is listened to at once. If a
// slot is idle, its next job does not end the call, so the call is short.
#include "base/text.h"
#include "cli/work/pool.h"

#include "cli/cli.h"
#include "os/lock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_FULL_MS 2000 // every slot has a job; also how long the end of a worker can take
#define WAIT_MS      500
#define PAUSE_MS     1000 // after a call without an answer

struct listen_tokens {
    char tokens[WORK_JOBS_MAX][SLUICE_TOKEN_MAX];
    const char *views[WORK_JOBS_MAX];
    size_t len;
    int64_t wait_ms;
};

void listener_wake(struct worker_pool *p)
{
    uint64_t one = 1;
    (void)!write(p->listen_fd, &one, sizeof one);
}

static bool runs(const struct slot *s)
{
    return s->token[0] && !s->lost && (s->state == SLOT_RUNNING || s->state == SLOT_STOPPING);
}

// The locks to listen to. If polls cost requests, those that a renewal named.
static void collect(struct worker_pool *p, struct listen_tokens *l)
{
    bool polls = p->options.polls && !p->deaf;
    l->len = 0;
    for (uint32_t i = 0; i < p->options.jobs; i++) {
        struct slot *s = &p->slots[i];
        if (!runs(s) || (!polls && !s->waits)) continue;
        s->waits = false;
        memcpy(l->tokens[l->len], s->token, sizeof s->token);
        l->views[l->len] = l->tokens[l->len];
        l->len++;
    }
    bool full = l->len == p->options.jobs && atomic_load(&p->order) == WORK_GO;
    l->wait_ms = !polls ? 0 : full ? WAIT_FULL_MS : WAIT_MS;
}

void inbox_put(struct slot *s, const struct sluice_signal_state *signal)
{
    if (signal->number <= s->number) return;
    struct job_signal *row = job_signal_new(signal);
    s->number = signal->number;
    s->signals++;
    s->open++;
    if (s->inbox)
        s->inbox_last->next = row;
    else
        s->inbox = row;
    s->inbox_last = row;
    if (!row->interrupt) return;
    int64_t limit = row->until - s->store_ahead_ms;
    if (s->limit_ms == 0 || limit < s->limit_ms) s->limit_ms = limit;
    if (limit < s->deadline_ms) s->deadline_ms = limit;
}

static struct slot *holder_of(struct worker_pool *p, const char *token)
{
    for (uint32_t i = 0; i < p->options.jobs; i++)
        if (strcmp(p->slots[i].token, token) == 0) return &p->slots[i];
    return NULL;
}

// True if an interrupt without grace ended this lock: the newest of the message.
static bool was_cut(struct worker_pool *p, const char *message)
{
    struct sluice_signals *list = NULL;
    const struct sluice_signal_state *newest = NULL;
    if (sluice_signals(atomic_load(&p->store), p->options.queue, message, 0, &list, NULL))
        return false;
    for (size_t i = 0; i < list->len; i++)
        if (!newest || list->rows[i].ended_at > newest->ended_at) newest = &list->rows[i];
    bool cut = newest && strcmp(newest->state, "applied") == 0;
    sluice_signals_free(list);
    return cut;
}

static void lock_gone(struct worker_pool *p, const char *token)
{
    char message[SLUICE_ID_MAX];
    (void)pthread_mutex_lock(&p->lock);
    struct slot *s = holder_of(p, token);
    bool ours = s && runs(s);
    if (ours) (void)text_copy(message, sizeof message, s->id);
    (void)pthread_mutex_unlock(&p->lock);
    if (!ours) return; // the job has ended
    bool cut = was_cut(p, message);
    LOCKED(&p->lock);
    if (strcmp(s->token, token) == 0 && runs(s)) {
        s->lost = true;
        s->cut = cut;
        slot_wake(s);
    }
}

static void hand_out(struct worker_pool *p, const struct sluice_signals *list)
{
    for (size_t i = 0; i < list->len; i++) {
        const struct sluice_signal_state *row = &list->rows[i];
        if (row->code != SLUICE_OK) {
            lock_gone(p, row->token);
            continue;
        }
        LOCKED(&p->lock);
        struct slot *s = holder_of(p, row->token);
        if (s) inbox_put(s, row);
        if (s) slot_wake(s);
    }
}

// Sleeps until the jobs change, or for ms (-1: without end).
static void pause_for(struct worker_pool *p, int ms)
{
    struct pollfd fd = {.fd = p->listen_fd, .events = POLLIN};
    uint64_t count;
    if (poll(&fd, 1, ms) > 0) (void)!read(p->listen_fd, &count, sizeof count);
}

static void listen_once(struct worker_pool *p, const struct listen_tokens *l)
{
    struct sluice_signals *list = NULL;
    enum sluice_code code = sluice_signals_receive(atomic_load(&p->store), p->options.queue,
                                                   l->views, l->len, l->wait_ms, &list, NULL);
    bool rows = list && list->len > 0;
    if (rows) hand_out(p, list);
    sluice_signals_free(list);
    bool passes = code == SLUICE_UNAVAILABLE || code == SLUICE_UNKNOWN || code == SLUICE_LIMIT;
    if (passes) {
        pause_for(p, PAUSE_MS);
    } else if (code != SLUICE_OK && !rows) {
        LOCKED(&p->lock);
        p->deaf = true; // until a renewal says that a signal waits
    }
}

void *listener_main(void *ctx)
{
    struct worker_pool *p = ctx;
    struct listen_tokens *l = cli_alloc(sizeof *l);
    for (;;) {
        (void)pthread_mutex_lock(&p->lock);
        bool stop = p->heartbeat_stops;
        collect(p, l);
        (void)pthread_mutex_unlock(&p->lock);
        if (stop) break;
        if (l->len > 0)
            listen_once(p, l);
        else
            pause_for(p, -1);
    }
    free(l);
    return NULL;
}
