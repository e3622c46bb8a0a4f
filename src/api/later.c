// SPDX-License-Identifier: Apache-2.0
// Calls for somebody who cannot wait. Most go straight to a desk (later_desk.c); the others are
// made by threads that can wait. There a receive that waits is parked; the few that waited longest
// in each queue are asked for in short slices, and whoever is given nothing goes back to its place.
// So thousands may wait on a handful of threads, first come first served.
#include "api/later.h"

#include "api/inside.h"
#include "api/later_desk.h"
#include "api/wire.h"
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 64
#define ASKING_MAX  48 // receives that wait in the store at once: the rest is for everybody else
#define ASKING_EACH 8  // ... of one queue
#define SLICE_MS    50

enum kind { SEND, RECEIVE, SETTLE, RUN };

struct job {
    struct job *next;
    enum kind kind;
    struct later *later;            // NULL: a receive that was cancelled while it was asked for
    char queue[QUEUE_NAME_MAX + 2]; // one longer than allowed is still refused
    struct buf copy;                // the arguments, as they travel
    struct wire_sends sends;
    struct wire_settle settle;
    enum later_outcome outcome;
    struct wire_receive receive;
    struct sluice_request request;
    bool has_request;
    int64_t until; // receive: clock_boot_ms
    void (*run)(void *ctx);
    void *run_ctx;
};

struct jobs {
    struct job *first, *last;
};

struct later_pool {
    struct sluice *handle;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct jobs ready;
    struct jobs parked;
    struct jobs asking;
    size_t asking_len;
    size_t idle;
    size_t threads_len;
    pthread_t threads[THREADS_MAX];
    bool stopping;
};

// ---- lists

static void append(struct jobs *l, struct job *j)
{
    j->next = NULL;
    if (l->last)
        l->last->next = j;
    else
        l->first = j;
    l->last = j;
}

static void prepend(struct jobs *l, struct job *j)
{
    j->next = l->first;
    l->first = j;
    if (!l->last) l->last = j;
}

static bool take_out(struct jobs *l, const struct job *j)
{
    struct job *before = NULL;
    for (struct job *at = l->first; at; before = at, at = at->next) {
        if (at != j) continue;
        if (before)
            before->next = at->next;
        else
            l->first = at->next;
        if (l->last == at) l->last = before;
        return true;
    }
    return false;
}

// ---- jobs

static struct job *job_new(enum kind kind, const char *queue, const struct sluice_request *request,
                           struct later *l)
{
    struct job *j = NEW(struct job);
    j->kind = kind;
    j->later = l;
    (void)snprintf(j->queue, sizeof j->queue, "%s", queue);
    buf_init(&j->copy, SIZE_MAX);
    j->has_request = request != NULL;
    if (request) j->request = *request;
    l->inside = j;
    l->at_desk = false;
    return j;
}

static void job_free(struct job *j)
{
    wire_sends_done(&j->sends);
    wire_settle_done(&j->settle);
    buf_done(&j->copy);
    memory_free(j);
}

// The last word on a job. Whoever cancels afterwards finds nothing inside.
static void finish(struct later_pool *p, struct job *j, const struct later_answer *a)
{
    (void)pthread_mutex_lock(&p->lock);
    struct later *l = j->later;
    if (l) l->inside = NULL;
    (void)pthread_mutex_unlock(&p->lock);
    if (l)
        l->done(l, a);
    else
        sluice_batch_free(a->batch);
    job_free(j);
}

static void run_send(struct later_pool *p, struct job *j)
{
    struct sluice_error error = {.code = SLUICE_OK};
    size_t len = j->sends.len;
    struct sluice_sent *sent = memory_zeroed(len + 1, sizeof *sent);
    enum sluice_code code = sluice_send(p->handle, j->queue, j->sends.messages, len,
                                        j->has_request ? &j->request : NULL, sent, &error);
    error.code = code;
    struct later_answer a = {.code = code, .error = &error, .sent = sent, .len = len};
    finish(p, j, &a);
    memory_free(sent);
}

static void run_settle(struct later_pool *p, struct job *j)
{
    const struct wire_settle *w = &j->settle;
    struct later_settle what = {.kind = j->outcome,
                                .tokens = (const char *const *)w->tokens,
                                .len = w->len,
                                .wait_ms = w->wait_ms,
                                .reason = w->reason,
                                .request = j->has_request ? &j->request : NULL};
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_outcome *outcomes = memory_zeroed(w->len + 1, sizeof *outcomes);
    enum sluice_code code = direct_settle(p->handle, j->queue, &what, outcomes, &error);
    error.code = code;
    // Every outcome has a status once it was looked at; a call that failed before has none.
    bool told = w->len > 0 && outcomes[0].status;
    struct later_answer a = {
        .code = code, .error = &error, .outcomes = outcomes, .len = told ? w->len : 0};
    finish(p, j, &a);
    memory_free(outcomes);
}

static void run_other(struct later_pool *p, struct job *j)
{
    (void)p;
    j->run(j->run_ctx);
    job_free(j);
}

static void give_back(struct sluice *s, const struct job *j, const struct sluice_batch *b)
{
    const char **tokens = memory_zeroed(b->len, sizeof *tokens);
    for (size_t i = 0; i < b->len; i++)
        tokens[i] = b->messages[i].token;
    (void)sluice_release(s, j->queue, tokens, b->len, 0, NULL, NULL);
    memory_free(tokens);
}

// One slice of waiting.
static void run_receive(struct later_pool *p, struct job *j)
{
    int64_t left = j->until - clock_boot_ms();
    struct sluice_receive ask = {.worker = *j->receive.worker ? j->receive.worker : NULL,
                                 .max = j->receive.max,
                                 .wait_ms = left < 0          ? 0
                                            : left < SLICE_MS ? left
                                                              : SLICE_MS,
                                 .visibility_ms = j->receive.visibility_ms,
                                 .request = j->has_request ? &j->request : NULL};
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_batch *batch = NULL;
    enum sluice_code code = sluice_receive(p->handle, j->queue, &ask, &batch, &error);
    error.code = code;
    bool nothing = !code && batch->len == 0;
    (void)pthread_mutex_lock(&p->lock);
    (void)take_out(&p->asking, j);
    p->asking_len--;
    bool cancelled = !j->later;
    bool again = nothing && !cancelled && !p->stopping && clock_boot_ms() < j->until;
    if (again) prepend(&p->parked, j);
    if (!again && !cancelled) j->later->inside = NULL; // too late to cancel
    (void)pthread_mutex_unlock(&p->lock);
    if (again) {
        sluice_batch_free(batch);
        return;
    }
    if (cancelled && !code && !nothing) give_back(p->handle, j, batch);
    struct later_answer a = {.code = code, .error = &error, .batch = batch};
    finish(p, j, &a);
}

// ---- threads

static size_t asked_for(const struct later_pool *p, const char *queue)
{
    size_t count = 0;
    for (const struct job *j = p->asking.first; j; j = j->next)
        if (strcmp(j->queue, queue) == 0) count++;
    return count;
}

// With the lock held: what to do next. A receive whose time is up, or that does not wait at all, is
// asked for once more whatever its turn.
static struct job *next_job(struct later_pool *p)
{
    struct job *j = p->ready.first;
    if (j) {
        (void)take_out(&p->ready, j);
        return j;
    }
    int64_t now = clock_boot_ms();
    for (j = p->parked.first; j; j = j->next) {
        bool due = j->until <= now || p->stopping;
        bool turn = p->asking_len < ASKING_MAX && asked_for(p, j->queue) < ASKING_EACH;
        if (!due && !turn) continue;
        (void)take_out(&p->parked, j);
        append(&p->asking, j);
        p->asking_len++;
        return j;
    }
    return NULL;
}

static void wait_for_work(struct later_pool *p)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SLICE_MS * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    p->idle++;
    if (p->parked.first)
        (void)pthread_cond_timedwait(&p->work, &p->lock, &until);
    else
        (void)pthread_cond_wait(&p->work, &p->lock);
    p->idle--;
}

static void *work(void *arg)
{
    static void (*const runs[])(struct later_pool *, struct job *) = {
        [SEND] = run_send, [RECEIVE] = run_receive, [SETTLE] = run_settle, [RUN] = run_other};
    struct later_pool *p = arg;
    (void)pthread_mutex_lock(&p->lock);
    for (;;) {
        struct job *j = next_job(p);
        if (!j && p->stopping) break;
        if (!j) {
            wait_for_work(p);
            continue;
        }
        (void)pthread_mutex_unlock(&p->lock);
        runs[j->kind](p, j);
        (void)pthread_mutex_lock(&p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

static struct later_pool *pool_of(struct sluice *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct later_pool *p = s->later;
    if (!p) {
        p = s->later = NEW(struct later_pool);
        p->handle = s;
        (void)pthread_mutex_init(&p->lock, NULL);
        pthread_condattr_t steady;
        (void)pthread_condattr_init(&steady);
        (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&p->work, &steady);
        (void)pthread_condattr_destroy(&steady);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return p;
}

static void submit(struct sluice *s, struct job *j)
{
    struct later_pool *p = pool_of(s);
    (void)pthread_mutex_lock(&p->lock);
    append(j->kind == RECEIVE ? &p->parked : &p->ready, j);
    if (p->idle == 0 && p->threads_len < THREADS_MAX &&
        pthread_create(&p->threads[p->threads_len], NULL, work, p) == 0)
        p->threads_len++;
    CHECK(p->threads_len > 0);
    (void)pthread_cond_signal(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
}

void later_stop(struct sluice *s)
{
    struct later_pool *p = s->later;
    if (!p) return;
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->threads_len; i++)
        (void)pthread_join(p->threads[i], NULL);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
    s->later = NULL;
}

void later_run(struct sluice *s, void (*run)(void *ctx), void *ctx)
{
    struct job *j = NEW(struct job);
    j->kind = RUN;
    j->run = run;
    j->run_ctx = ctx;
    buf_init(&j->copy, SIZE_MAX);
    submit(s, j);
}

// ---- the calls

static void refuse_count(struct job *j, size_t len)
{
    struct sluice_error error;
    enum sluice_code code = refuse(&error, ERR_LIMIT, "",
                                   "%zu at once are more than the %d allowed", len, WIRE_COUNT_MAX);
    struct later *l = j->later;
    l->inside = NULL;
    job_free(j);
    l->done(l, &(struct later_answer){.code = code, .error = &error});
}

void later_send(struct sluice *s, const char *queue, const struct sluice_send *messages, size_t len,
                const struct sluice_request *request, struct later *l)
{
    if (desk_way_send(s, queue, messages, len, request, l)) return;
    struct job *j = job_new(SEND, queue, request, l);
    wire_put_sends(&j->copy, messages, len);
    if (wire_read_sends(buf_bytes(&j->copy), &j->sends))
        submit(s, j);
    else
        refuse_count(j, len);
}

void later_settle(struct sluice *s, const char *queue, const struct later_settle *what,
                  struct later *l)
{
    if (desk_way_settle(s, queue, what, l)) return;
    struct job *j = job_new(SETTLE, queue, what->request, l);
    j->outcome = what->kind;
    wire_put_settle(&j->copy, what->tokens, what->len, what->wait_ms, what->reason);
    if (wire_read_settle(buf_bytes(&j->copy), &j->settle))
        submit(s, j);
    else
        refuse_count(j, what->len);
}

void later_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                   struct later *l)
{
    if (desk_way_receive(s, queue, options, l)) return;
    struct job *j = job_new(RECEIVE, queue, options->request, l);
    struct wire_receive ask = {.worker = options->worker,
                               .max = options->max,
                               .wait_ms = options->wait_ms,
                               .visibility_ms = options->visibility_ms};
    wire_put_receive(&j->copy, &ask);
    CHECK(wire_read_receive(buf_bytes(&j->copy), &j->receive));
    j->until = clock_boot_ms() + (ask.wait_ms > 0 ? ask.wait_ms : 0);
    submit(s, j);
}

bool later_cancel(struct sluice *s, struct later *l)
{
    if (l->at_desk) return desk_way_cancel(s, l);
    struct later_pool *p = pool_of(s);
    (void)pthread_mutex_lock(&p->lock);
    struct job *j = l->inside;
    bool cancelled = j && j->kind == RECEIVE;
    bool parked = cancelled && take_out(&p->parked, j);
    if (cancelled) j->later = l->inside = NULL; // one that is asked for gives back what it gets
    (void)pthread_mutex_unlock(&p->lock);
    if (parked) job_free(j);
    return cancelled;
}
