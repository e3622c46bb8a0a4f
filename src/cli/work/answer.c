// SPDX-License-Identifier: Apache-2.0
// The answering thread: it sends the ends of signals to the store, for all jobs. A slot must not
// wait for the store, because it watches a program. An answer is repeated until its outcome is
// known. The lock's token makes it safe: the first end of a signal counts.
#include "cli/work/pool.h"

#include "cli/cli.h"
#include "os/clock.h"
#include "os/lock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH    64
#define PAUSE_MS 500
#define FLUSH_MS 100 // how often a slot checks its lock while it waits
#define NOT_SAID SLUICE_INVALID

void answer_wake(struct worker_pool *p)
{
    uint64_t one = 1;
    (void)!write(p->answer_fd, &one, sizeof one);
}

void answer_put(struct slot *s, struct job_signal *signal)
{
    struct worker_pool *p = s->pool;
    struct job_answer *a = cli_alloc(sizeof *a);
    *a = (struct job_answer){.slot = s, .signal = signal};
    (void)pthread_mutex_lock(&p->lock);
    (void)snprintf(a->token, sizeof a->token, "%s", s->token);
    (void)snprintf(a->message, sizeof a->message, "%s", s->id);
    s->answers++;
    if (s->open > 0) s->open--;
    if (p->answers)
        p->answers_last->next = a;
    else
        p->answers = a;
    p->answers_last = a;
    (void)pthread_mutex_unlock(&p->lock);
    answer_wake(p);
}

void answer_flush(struct slot *s)
{
    struct worker_pool *p = s->pool;
    for (;;) {
        (void)pthread_mutex_lock(&p->lock);
        bool wait = s->answers > 0 && !s->lost && clock_boot_ms() < s->deadline_ms;
        (void)pthread_mutex_unlock(&p->lock);
        if (!wait || atomic_load(&p->order) == WORK_AT_ONCE) return;
        slot_sleep(s, FLUSH_MS);
    }
}

// The answer is there, or refused. The slot may have another job by now.
static void settled(struct worker_pool *p, struct job_answer *a, const struct sluice_outcome *o)
{
    struct job_signal *signal = a->signal;
    bool settled = o->code == SLUICE_OK || strcmp(o->reason, "signal-settled") == 0;
    const char *state = !settled ? "refused" : signal->decline ? "declined" : "acked";
    const char *reason = !settled ? o->reason : signal->decline ? signal->answer : "";
    work_ui_signal(p, a->message, signal, state, reason);
    (void)pthread_mutex_lock(&p->lock);
    if (a->slot->answers > 0) a->slot->answers--;
    (void)pthread_mutex_unlock(&p->lock);
    slot_wake(a->slot);
    job_signal_free(signal);
    free(a);
}

struct answer_batch {
    struct job_answer *rows[BATCH];
    struct sluice_signal_answer views[BATCH];
    struct sluice_outcome outcomes[BATCH];
    size_t len;
};

static void take_batch(struct worker_pool *p, struct answer_batch *b)
{
    LOCKED(&p->lock);
    while (b->len < BATCH && p->answers) {
        b->rows[b->len++] = p->answers;
        p->answers = p->answers->next;
    }
}

// Sends the batch once. Rows whose outcome is open stay in it.
static void send_batch(struct worker_pool *p, struct answer_batch *b, bool last)
{
    struct sluice_error error = {.code = SLUICE_OK};
    for (size_t i = 0; i < b->len; i++) {
        const struct job_signal *s = b->rows[i]->signal;
        b->views[i] = (struct sluice_signal_answer){.token = b->rows[i]->token,
                                                    .number = s->number,
                                                    .decline = s->decline,
                                                    .answer = s->answer,
                                                    .answer_len = s->answer_len};
        b->outcomes[i] = (struct sluice_outcome){.code = NOT_SAID};
    }
    enum sluice_code code = sluice_signals_ack(atomic_load(&p->store), p->options.queue, b->views,
                                               b->len, b->outcomes, &error);
    size_t kept = 0;
    for (size_t i = 0; i < b->len; i++) {
        struct sluice_outcome *o = &b->outcomes[i];
        if (o->code == NOT_SAID && !*o->reason) {
            o->code = code;
            (void)snprintf(o->reason, sizeof o->reason, "%s", error.reason);
        }
        if (work_undecided(o->code) && !last)
            b->rows[kept++] = b->rows[i];
        else
            settled(p, b->rows[i], o);
    }
    b->len = kept;
    if (kept > 0) work_ui_trouble(p, "an answer to a signal got no answer: %s", error.message);
}

void *answer_main(void *ctx)
{
    struct worker_pool *p = ctx;
    struct answer_batch *b = cli_alloc(sizeof *b);
    b->len = 0;
    for (;;) {
        (void)pthread_mutex_lock(&p->lock);
        bool stop = p->heartbeat_stops;
        (void)pthread_mutex_unlock(&p->lock);
        take_batch(p, b);
        size_t before = b->len;
        if (b->len > 0) send_batch(p, b, stop);
        if (stop && b->len == 0 && before == 0) break;
        if (b->len == 0 && before > 0) continue; // there may be more
        struct pollfd fd = {.fd = p->answer_fd, .events = POLLIN};
        uint64_t count;
        if (poll(&fd, 1, b->len > 0 ? PAUSE_MS : -1) > 0)
            (void)!read(p->answer_fd, &count, sizeof count);
    }
    free(b);
    return NULL;
}
