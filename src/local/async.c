// SPDX-License-Identifier: Apache-2.0
// The asynchronous calls. Most go directly to a runner (async_runner.c). The others become jobs of
// threads that may block (async_pool.c):
//   - the first calls to a queue: they open it, then go to its runners;
//   - sends that need several ops, or that find the queue full;
//   - a receive while the queue's owner is being decided: it receives in short slices until it can
//     go to the runners.
#include "local/async.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/async_pool.h"
#include "local/async_runner.h"
#include "local/receive_with_acks.h"
#include "local/send_attempts.h"
#include "os/clock.h"
#include "wire/wire.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SLICE_MS 50

struct async_job {
    struct pooled pooled; // first
    struct sluice *handle;
    // Under the pool's lock:
    struct async_call *async; // NULL: the job was cancelled, or is answered
    int holds;                // references to the job
    bool submitting;          // it is being submitted to the runners
    bool unwanted;            // it was cancelled during that, and is answered soon
    bool at_runner;           // the runners have it
    struct async_call runner; // ... and answer to this

    char queue[QUEUE_NAME_MAX + 2]; // a name that is too long stays too long, and is refused
    struct buf copy;                // the arguments, encoded as in wire.h
    struct wire_sends sends;
    struct wire_settle settle;
    enum settle_kind outcome;
    struct wire_receive receive;
    struct sluice_request request;
    bool has_request;
    bool refused;                   // send: the runner tried it, and the queue was full
    struct send_attempts *attempts; // send: this job tried it, and the queue was full
    struct sluice_sent *sent;
    struct sluice_error error;
    void (*run)(void *ctx);
    void *run_ctx;
};

static void runner_answered(struct async_call *l, const struct async_answer *a);

static struct async_job *job_new(struct sluice *s, const char *queue,
                                 enum job_result (*run)(struct pooled *, bool),
                                 const struct sluice_request *request, struct async_call *l)
{
    struct async_job *j = NEW(struct async_job);
    j->pooled.run = run;
    j->handle = s;
    j->holds = 1;
    j->async = l;
    j->runner.done = runner_answered;
    if (l) j->runner.budget = l->budget;
    if (l) j->runner.unnamed = l->unnamed;
    (void)snprintf(j->queue, sizeof j->queue, "%s", queue);
    buf_init(&j->copy, SIZE_MAX);
    j->has_request = request != NULL;
    if (request) j->request = *request;
    return j;
}

// Records what async_cancel will find; NULL: the call has ended. The caller holds the pool's lock.
// async_runner.c writes the same field under the handle's lock alone.
static void note_inside(struct sluice *s, struct async_call *l, struct async_job *j)
{
    (void)pthread_mutex_lock(&s->lock);
    l->inside = j;
    l->at_runner = false;
    (void)pthread_mutex_unlock(&s->lock);
}

static void submit(struct async_job *j, bool sends)
{
    struct sluice *s = j->handle; // j may be freed as soon as the lock is released
    pool_lock(s);
    if (j->async) note_inside(s, j->async, j);
    pool_submit(s, j->queue, &j->pooled, sends);
    pool_unlock(s);
}

static void job_free(struct async_job *j)
{
    wire_sends_done(&j->sends);
    wire_settle_done(&j->settle);
    buf_done(&j->copy);
    memory_free(j->sent);
    memory_free(j);
}

// Drops a hold. The caller holds the pool's lock, which it releases.
static void job_leave(struct async_job *j)
{
    bool last = --j->holds == 0;
    pool_unlock(j->handle);
    if (last) job_free(j);
}

static const struct sluice_request *request_of(const struct async_job *j)
{
    return j->has_request ? &j->request : NULL;
}

struct unwanted_batch {
    struct sluice *handle;
    char queue[QUEUE_NAME_MAX + 2];
    struct sluice_batch *batch;
};

static void release_batch(void *ctx)
{
    struct unwanted_batch *g = ctx;
    const struct sluice_batch *b = g->batch;
    const char **tokens = memory_zeroed(b->len, sizeof *tokens);
    for (size_t i = 0; i < b->len; i++)
        tokens[i] = b->messages[i].token;
    struct settle what = {.kind = SETTLE_RELEASE, .tokens = tokens, .len = b->len};
    (void)direct_settle(g->handle, g->queue, &what, NULL, NULL);
    memory_free(tokens);
    sluice_batch_free(g->batch);
    memory_free(g);
}

// Releases the messages of a receive that was cancelled. With a caller's request id the locks stay
// valid: a repeated receive with the id gets them.
static void release_unwanted(const struct async_job *j, const struct async_answer *a)
{
    if (j->has_request || !a->batch || a->batch->len == 0) {
        sluice_batch_free(a->batch);
        return;
    }
    struct unwanted_batch *g = NEW(struct unwanted_batch);
    g->handle = j->handle;
    g->batch = a->batch;
    (void)snprintf(g->queue, sizeof g->queue, "%s", j->queue);
    async_run(j->handle, j->queue, release_batch, g);
}

// Answers a job and drops a hold. A later async_cancel finds nothing inside the call.
static void finish(struct async_job *j, const struct async_answer *a)
{
    pool_lock(j->handle);
    struct async_call *l = j->async;
    if (l) note_inside(j->handle, l, NULL);
    j->async = NULL;
    pool_unlock(j->handle);
    if (l)
        l->done(l, a);
    else
        release_unwanted(j, a);
    pool_lock(j->handle);
    job_leave(j);
}

// As finish, for the answer of a runner. It drops the hold before it calls `done`: after that the
// caller may close the handle, and with it the pool.
static void runner_answered(struct async_call *at_runner, const struct async_answer *a)
{
    struct async_job *j =
        (struct async_job *)((char *)at_runner - offsetof(struct async_job, runner));
    pool_lock(j->handle);
    struct async_call *l = j->async;
    CHECK(l); // a cancelled receive was cancelled at the runner, which does not answer then
    note_inside(j->handle, l, NULL);
    j->async = NULL;
    job_leave(j);
    l->done(l, a);
}

static void finish_empty(struct async_job *j)
{
    struct async_answer a = {.error = &j->error, .batch = batch_take(batch_new(0))};
    finish(j, &a);
}

// Opens the queue and its runners. An error is the job's answer.
static enum sluice_code open_queue(struct async_job *j)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *d;
    enum sluice_code code = queue_get(j->handle, j->queue, &q, &j->error);
    for (uint32_t i = 0; !code && i < q->row.birth.shards; i++)
        code = queue_work_runner(q, i, &d, &j->error);
    return code;
}

// Begins the submission of a job to the runners, which may answer at once. False: the job was
// cancelled, and has ended.
static bool begin_submit(struct async_job *j)
{
    pool_lock(j->handle);
    bool wanted = j->async;
    if (!wanted) {
        job_leave(j);
        return false;
    }
    j->submitting = true;
    j->holds++; // the runner's
    pool_unlock(j->handle);
    return true;
}

// Ends the submission; went: a runner took the job. If so, it drops the pool's hold. A job that was
// cancelled during the submission is cancelled at the runner, unless it has an answer. That is not
// possible earlier, because its claim may be in the journal already. Returns went.
static bool end_submit(struct async_job *j, bool went)
{
    pool_lock(j->handle);
    j->submitting = false;
    if (!went) {
        j->holds--;
        pool_unlock(j->handle);
        return false;
    }
    j->at_runner = true;
    bool unwanted = j->unwanted;
    pool_unlock(j->handle);
    bool cancelled = unwanted && async_runner_cancel(j->handle, &j->runner);
    pool_lock(j->handle);
    if (!cancelled) {
        job_leave(j);
        return true;
    }
    j->holds--;
    pool_unlock(j->handle);
    finish_empty(j);
    return true;
}

static bool is_unwanted(struct async_job *j)
{
    pool_lock(j->handle);
    bool unwanted = j->unwanted;
    pool_unlock(j->handle);
    return unwanted;
}

static void answer_send(struct async_job *j, enum sluice_code code)
{
    j->error.code = code;
    struct async_answer a = {
        .code = code, .error = &j->error, .sent = j->sent, .len = j->sends.len};
    send_attempts_end(j->attempts);
    finish(j, &a);
}

static enum job_result begin_send(struct async_job *j, bool last)
{
    const struct wire_sends *w = &j->sends;
    enum sluice_code code = open_queue(j);
    for (size_t i = 0; code && i < w->len; i++)
        j->sent[i] = (struct sluice_sent){.code = code};
    if (!code) {
        if (!begin_submit(j)) return JOB_OVER;
        bool first = j->pooled.place == PLACE_READY; // no send of the queue is blocked
        bool went = first && async_runner_send(j->handle, j->queue, w->messages, w->len,
                                               request_of(j), &j->runner);
        if (end_submit(j, went)) return JOB_OVER;
        code = send_attempts_begin(j->handle, j->queue, w->messages, w->len, request_of(j), j->sent,
                                   &j->error, &j->attempts);
    }
    if (j->attempts && !last) return JOB_FULL;
    answer_send(j, code);
    return JOB_OVER;
}

static enum job_result run_send(struct pooled *pooled, bool last)
{
    struct async_job *j = (struct async_job *)pooled;
    const struct wire_sends *w = &j->sends;
    if (!j->attempts && !j->refused) return begin_send(j, last);
    if (!j->attempts && !last)
        j->attempts = send_attempts_resume(j->handle, j->queue, w->messages, w->len, &j->request,
                                           j->sent, &j->error);
    enum sluice_code code = last          ? SLUICE_LIMIT
                            : j->attempts ? send_attempts_again(j->attempts)
                                          : j->error.code;
    if (code == SLUICE_LIMIT && !last) return JOB_FULL;
    bool plenty = !code && send_attempts_saw_space(j->attempts);
    answer_send(j, code);
    return plenty ? JOB_SPACE : JOB_OVER;
}

static enum job_result run_settle(struct pooled *pooled, bool last)
{
    struct async_job *j = (struct async_job *)pooled;
    const struct wire_settle *w = &j->settle;
    struct settle what = {.kind = j->outcome,
                          .tokens = (const char *const *)w->tokens,
                          .len = w->len,
                          .wait_ms = w->wait_ms,
                          .reason = w->reason,
                          .request = request_of(j)};
    (void)last;
    if (open_queue(j) == SLUICE_OK) {
        if (!begin_submit(j)) return JOB_OVER;
        if (end_submit(j, async_runner_settle(j->handle, j->queue, &what, &j->runner)))
            return JOB_OVER;
    }
    struct sluice_outcome *outcomes = memory_zeroed(w->len + 1, sizeof *outcomes);
    enum sluice_code code = direct_settle(j->handle, j->queue, &what, outcomes, &j->error);
    j->error.code = code;
    // If the call failed before it reached the tokens, the outcomes have no status.
    bool answered = w->len > 0 && outcomes[0].status;
    struct async_answer a = {
        .code = code, .error = &j->error, .outcomes = outcomes, .len = answered ? w->len : 0};
    finish(j, &a);
    memory_free(outcomes);
    return JOB_OVER;
}

static struct sluice_receive options_of(const struct async_job *j, int64_t wait_max)
{
    int64_t left = j->pooled.until - clock_boot_ms();
    return (struct sluice_receive){.worker = *j->receive.worker ? j->receive.worker : NULL,
                                   .max = j->receive.max,
                                   .wait_ms = left < 0          ? 0
                                              : left < wait_max ? left
                                                                : wait_max,
                                   .visibility_ms = j->receive.visibility_ms,
                                   .request = request_of(j)};
}

static enum job_result run_receive(struct pooled *pooled, bool last)
{
    struct async_job *j = (struct async_job *)pooled;
    struct sluice_batch *batch = NULL;
    enum sluice_code code = open_queue(j);
    if (!code) {
        struct sluice_receive ask = options_of(j, INT64_MAX);
        if (last) ask.wait_ms = 0;
        if (!begin_submit(j)) return JOB_OVER;
        if (end_submit(j, async_runner_receive(j->handle, j->queue, &ask, &j->runner)))
            return JOB_OVER;
        if (is_unwanted(j)) {
            finish_empty(j);
            return JOB_OVER;
        }
        ask = options_of(j, last ? 0 : SLICE_MS);
        code = direct_receive(j->handle, j->queue, &ask, &batch, &j->error);
    }
    bool nothing = !code && batch->len == 0;
    pool_lock(j->handle);
    bool again = nothing && !last && j->async && !pool_stopping(j->handle);
    pool_unlock(j->handle);
    if (again) {
        sluice_batch_free(batch);
        return JOB_WAIT;
    }
    j->error.code = code;
    struct async_answer a = {.code = code, .error = &j->error, .batch = batch};
    finish(j, &a);
    return JOB_OVER;
}

static enum job_result run_call(struct pooled *pooled, bool last)
{
    struct async_job *j = (struct async_job *)pooled;
    (void)last;
    j->run(j->run_ctx);
    job_free(j);
    return JOB_OVER;
}

void async_run(struct sluice *s, const char *queue, void (*run)(void *ctx), void *ctx)
{
    struct async_job *j = job_new(s, queue, run_call, NULL, NULL);
    j->run = run;
    j->run_ctx = ctx;
    submit(j, false);
}

static void refuse_count(struct async_job *j, size_t len)
{
    struct sluice_error error;
    enum sluice_code code = refuse(
        &error, ERR_LIMIT, "", "%zu in one call are more than the %d allowed", len, CALL_ITEMS_MAX);
    struct async_call *l = j->async;
    job_free(j);
    l->done(l, &(struct async_answer){.code = code, .error = &error});
}

void async_send(struct sluice *s, const char *queue, const struct sluice_send *messages, size_t len,
                const struct sluice_request *request, struct async_call *l)
{
    if (pool_blocked(s, queue) == 0 && async_runner_send(s, queue, messages, len, request, l))
        return;
    struct async_job *j = job_new(s, queue, run_send, request, l);
    wire_put_sends(&j->copy, messages, len);
    if (!wire_read_sends(buf_bytes(&j->copy), &j->sends)) {
        refuse_count(j, len);
        return;
    }
    j->sent = memory_zeroed(len + 1, sizeof *j->sent);
    j->pooled.until = clock_boot_ms() + s->timeout_ms;
    submit(j, true);
}

void async_send_blocked(struct sluice *s, const char *queue, struct buf *messages,
                        const struct sluice_request *request, uint64_t number,
                        struct sluice_sent *sent, const struct sluice_error *why,
                        struct async_call *l)
{
    struct async_job *j = job_new(s, queue, run_send, request, l);
    j->copy = *messages; // taken
    buf_init(messages, SIZE_MAX);
    CHECK(wire_read_sends(buf_bytes(&j->copy), &j->sends));
    j->sent = sent;
    j->error = *why;
    j->refused = true;
    j->pooled.number = number;
    j->pooled.place = PLACE_BLOCKED;
    j->pooled.until = clock_boot_ms() + s->timeout_ms;
    submit(j, true);
}

void async_settle(struct sluice *s, const char *queue, const struct settle *what,
                  struct async_call *l)
{
    if (async_runner_settle(s, queue, what, l)) return;
    struct async_job *j = job_new(s, queue, run_settle, what->request, l);
    j->outcome = what->kind;
    wire_put_settle(&j->copy, what->tokens, what->len, what->wait_ms, what->reason);
    if (wire_read_settle(buf_bytes(&j->copy), &j->settle))
        submit(j, false);
    else
        refuse_count(j, what->len);
}

void async_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                   struct async_call *l)
{
    l->with_acks = options->acks_len > 0;
    if (l->with_acks) {
        receive_with_acks(s, queue, options, l);
        return;
    }
    if (async_runner_receive(s, queue, options, l)) return;
    struct async_job *j = job_new(s, queue, run_receive, options->request, l);
    struct wire_receive ask = {.worker = options->worker,
                               .max = options->max,
                               .wait_ms = options->wait_ms,
                               .visibility_ms = options->visibility_ms};
    wire_put_receive(&j->copy, &ask);
    CHECK(wire_read_receive(buf_bytes(&j->copy), &j->receive));
    j->pooled.place = PLACE_WAITING;
    j->pooled.until = clock_boot_ms() + (ask.wait_ms > 0 ? ask.wait_ms : 0);
    submit(j, false);
}

// The receive's job, if it can be cancelled now. A job that is being submitted to the runners is
// marked, and cancelled at the end of the submission. The caller holds the pool's lock.
static struct async_job *find_waiting(struct sluice *s, const struct async_call *l)
{
    (void)pthread_mutex_lock(&s->lock);
    struct async_job *j = l->at_runner ? NULL : l->inside;
    (void)pthread_mutex_unlock(&s->lock);
    if (!j || j->pooled.run != run_receive) return NULL;
    j->unwanted = j->unwanted || j->submitting;
    return j->unwanted ? NULL : j;
}

bool async_cancel(struct sluice *s, struct async_call *l)
{
    if (l->with_acks) {
        receive_with_acks_cancel(s, l);
        return false;
    }
    if (async_runner_cancel(s, l)) return true;
    pool_lock(s);
    struct async_job *j = find_waiting(s, l);
    if (!j) {
        pool_unlock(s);
        return false;
    }
    j->holds++;
    bool at_runner = j->at_runner;
    if (at_runner) pool_unlock(s);
    bool cancelled = !at_runner || async_runner_cancel(s, &j->runner);
    if (at_runner) pool_lock(s);
    if (cancelled) { // messages that a running job still receives are released (release_unwanted)
        j->async = NULL;
        note_inside(s, l, NULL);
    }
    if (cancelled && (at_runner || pool_withdraw(s, &j->pooled))) j->holds--;
    job_leave(j);
    return cancelled;
}
