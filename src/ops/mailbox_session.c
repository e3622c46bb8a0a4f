// SPDX-License-Identifier: Apache-2.0
// Sessions, and the requests of their mailboxes. Any thread that waits in a call of the worker
// performs the next request; the others sleep until something changes.
#include "ops/mailbox_session.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "ops/mailbox_inside.h"
#include "ops/ops.h"
#include "ops/settle.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "queues/where.h"

#include <string.h>

#define OWNER_LIVES_MS 60000 // an owner that wrote so lately may answer
#define SLEEP_MAX_MS   100   // a sleeping call looks again
#define JOIN_SPREAD_MS 2000  // workers that start together join at different times
#define JOIN_ATTEMPTS  5
#define STEP_MAX       20 // effects of one shard in one step

struct mailbox_sessions {
    struct list all; // struct mailbox_session; under the handle's lock
};

bool mailbox_wanted(struct engine *e, const char *queue, bool asked)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *r;
    struct link_target *t;
    struct runner_owner o;
    if (!store_is_high_latency(e->store) || atomic_load(&e->self)) return false;
    if (asked) return true;
    if (queue_get(e, queue, &q, NULL) || queue_work_runner(q, 0, &r, NULL)) return false;
    runner_owner(r, &o);
    bool lives =
        o.epoch != 0 && o.seen_at != TIME_UNKNOWN && runner_time(r).lo - o.seen_at < OWNER_LIVES_MS;
    return lives && !o.mine && where_target(q, 0, &t) != OP_ROUTE_OWNER_PROVEN;
}

struct mailbox_session *session_find(struct engine *e, const char *queue, const char *worker,
                                     size_t skip)
{
    if (!atomic_load(&e->ops->mailboxes)) return NULL;
    LOCKED(&e->lock);
    LIST_EACH(m, &atomic_load(&e->ops->mailboxes)->all, struct mailbox_session, link) {
        if (strcmp(m->queue->row.name, queue) != 0 || (worker && strcmp(m->worker, worker) != 0))
            continue;
        if (skip-- > 0) continue;
        m->users++;
        return m;
    }
    return NULL;
}

bool mailbox_session_exists(struct engine *e, const char *queue, const char *worker)
{
    CLEANUP(session_let_go) struct mailbox_session *m = session_find(e, queue, worker, 0);
    return m;
}

void lock_row_free(struct list *of, struct mailbox_lock *l)
{
    list_remove(of, &l->link);
    bytes_free(l->message);
    memory_free(l);
}

static void session_free(struct mailbox_session *m)
{
    LIST_EACH(l, &m->arrived, struct mailbox_lock, link)
        lock_row_free(&m->arrived, l);
    LIST_EACH(l, &m->taken, struct mailbox_lock, link)
        lock_row_free(&m->taken, l);
    CHECK(!m->waits.first);
    for (uint32_t i = 0; i < m->lanes_len; i++)
        mailbox_worker_free(m->lanes[i].box);
    memory_free(m->lanes);
    memory_free(m->labels);
    (void)pthread_cond_destroy(&m->changed);
    (void)pthread_mutex_destroy(&m->lock);
    queue_let_go(&m->queue);
    memory_free(m);
}

void session_let_go(struct mailbox_session **m)
{
    if (!*m) return;
    struct engine *e = (*m)->engine;
    (void)pthread_mutex_lock(&e->lock);
    bool last = --(*m)->users == 0 && (*m)->over;
    (void)pthread_mutex_unlock(&e->lock);
    if (last) session_free(*m);
    *m = NULL;
}

// Commits one change of the registration in one shard.
static enum sluice_code change_row(struct mailbox_session *m, uint32_t shard, enum worker_act act,
                                   struct sluice_error *error)
{
    struct result result;
    enum reason reason = REASON_NONE;
    bool joins = act == WORKER_JOIN;
    struct worker_change row = {.act = act,
                                .name = bytes_str(m->worker),
                                .instance = m->instance,
                                .capacity = joins ? m->capacity : 0,
                                .ttl_ms = joins ? m->ttl_ms : 0,
                                .flags = joins ? WORKER_MAILBOX : 0,
                                .labels = joins ? bytes_str(m->labels) : BYTES_EMPTY};
    LOCAL(buf, rows, JOURNAL_OP_MAX);
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    worker_change_put(&rows, &row);
    struct op_workers op = {.count = 1, .rows = buf_bytes(&rows)};
    entropy_fill(op.request.bytes, sizeof op.request.bytes);
    workers_encode(&payload, &op);
    LOCAL(kept_reply, a);
    struct op one = {OP_WORKERS, buf_bytes(&payload)};
    enum err err = runner_do(m->lanes[shard].runner, one, &a);
    if (err == ERR_UNKNOWN) err = runner_do(m->lanes[shard].runner, one, &a);
    bool known = a.body.len > 0 && !result_open(buf_bytes(&a.body), OP_WORKERS, &result) &&
                 worker_reason_next(&result, &reason);
    enum sluice_code code = SLUICE_OK;
    if (known && reason != REASON_NONE)
        code = refuse_reason(error, reason, m->worker);
    else if (!known)
        code = refuse_op(error, err ? err : ERR_CORRUPT, OP_WORKERS, &a, m->queue->row.name);
    return code;
}

static enum sluice_code join_all(struct mailbox_session *m, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (uint32_t i = 0; i < m->lanes_len && !code; i++)
        code = change_row(m, i, WORKER_JOIN, error);
    return code;
}

// Direct commits of many workers race for the same slots: each costs a request for every other one
// that lost. So workers that start together spread their joins, and wait longer after a failure.
static enum sluice_code join_spread(struct mailbox_session *m, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_UNAVAILABLE;
    uint64_t spread_ms = JOIN_SPREAD_MS;
    for (int i = 0; i < JOIN_ATTEMPTS && code == SLUICE_UNAVAILABLE; i++, spread_ms *= 2) {
        clock_sleep((int64_t)(entropy_u64() % spread_ms));
        code = join_all(m, error);
    }
    return code;
}

static enum sluice_code open_lanes(struct mailbox_session *m, struct sluice_error *error)
{
    m->lanes_len = m->queue->row.birth.shards;
    m->lanes = memory_zeroed(m->lanes_len, sizeof *m->lanes);
    for (uint32_t i = 0; i < m->lanes_len; i++) {
        struct mailbox_lane *lane = &m->lanes[i];
        enum sluice_code code = queue_runner(m->queue, i, &lane->runner, error);
        if (code) return code;
        runner_prefix(lane->runner, lane->prefix);
        struct mailbox_worker_config config = {.queue = m->queue->row.id,
                                               .shard = i,
                                               .worker = bytes_str(m->worker),
                                               .instance = m->instance,
                                               .seed = entropy_u64(),
                                               .beat_ms = m->ttl_ms / 4};
        lane->box = mailbox_worker_new(&config, runner_time(lane->runner));
    }
    return SLUICE_OK;
}

static struct mailbox_sessions *sessions_of(struct engine *e)
{
    LOCKED(&e->lock);
    struct mailbox_sessions *all = atomic_load(&e->ops->mailboxes);
    if (!all) {
        all = NEW(struct mailbox_sessions);
        atomic_store(&e->ops->mailboxes, all);
    }
    return all;
}

static struct mailbox_session *session_new(struct engine *e, const struct mailbox_join *join)
{
    struct mailbox_session *m = NEW(struct mailbox_session);
    CHECK(join->instance > 0 && strlen(join->worker) < sizeof m->worker);
    m->engine = e;
    m->instance = join->instance;
    m->capacity = join->capacity;
    m->ttl_ms = join->ttl_ms;
    m->labels = memory_text(join->labels ? join->labels : "");
    (void)text_copy(m->worker, sizeof m->worker, join->worker);
    mailbox_box(m->box, m->instance, bytes_str(m->worker));
    (void)pthread_mutex_init(&m->lock, NULL);
    clock_cond_init(&m->changed);
    return m;
}

static void set_capacity(struct mailbox_session *m, uint32_t capacity)
{
    uint32_t shards = m->queue->row.birth.shards;
    m->capacity = (capacity + shards - 1) / shards;
}

enum sluice_code mailbox_join(struct engine *e, const char *queue, const struct mailbox_join *join,
                              struct sluice_error *error)
{
    CLEANUP(session_let_go)
    struct mailbox_session *known = session_find(e, queue, join->worker, 0);
    if (known) { // other values
        LOCKED(&known->lock);
        set_capacity(known, join->capacity);
        known->ttl_ms = join->ttl_ms;
        memory_free(known->labels);
        known->labels = memory_text(join->labels ? join->labels : "");
        return join_all(known, error);
    }
    struct mailbox_sessions *all = sessions_of(e);
    struct mailbox_session *m = session_new(e, join);
    enum sluice_code code = queue_get(e, queue, &m->queue, error);
    if (!code) code = open_lanes(m, error);
    if (!code) set_capacity(m, join->capacity);
    if (!code) code = join_spread(m, error);
    if (code) {
        session_free(m);
        return code;
    }
    LOCKED(&e->lock);
    list_add_first(&all->all, &m->link);
    return SLUICE_OK;
}

// The messages that no receive took return to their places.
static void release_arrived(struct mailbox_session *m)
{
    LIST_EACH(l, &m->arrived, struct mailbox_lock, link) {
        struct lock_name lock = {.shard = l->shard, .ref = l->ref};
        settle_locks(m->queue, OP_RELEASE, "", &lock, 1);
    }
}

static struct mailbox_session *take_session(struct engine *e, const char *queue, const char *worker)
{
    LOCKED(&e->lock);
    struct mailbox_sessions *all = atomic_load(&e->ops->mailboxes);
    if (!all) return NULL;
    LIST_EACH(m, &all->all, struct mailbox_session, link) {
        if (worker && (strcmp(m->worker, worker) != 0 || strcmp(m->queue->row.name, queue) != 0))
            continue;
        list_remove(&all->all, &m->link);
        m->over = true;
        m->users++;
        return m;
    }
    return NULL;
}

void mailbox_leave(struct engine *e, const char *queue, const char *worker)
{
    struct mailbox_session *m;
    while ((m = take_session(e, queue, worker))) {
        (void)pthread_mutex_lock(&m->lock);
        release_arrived(m);
        for (uint32_t i = 0; worker && i < m->lanes_len; i++)
            (void)change_row(m, i, WORKER_LEAVE, NULL);
        (void)pthread_mutex_unlock(&m->lock);
        session_let_go(&m);
    }
}

void mailbox_sessions_free(struct engine *e)
{
    mailbox_leave(e, NULL, NULL);
    memory_free(atomic_load(&e->ops->mailboxes));
    atomic_store(&e->ops->mailboxes, NULL);
}

bool session_is_direct(const struct mailbox_session *m)
{
    for (uint32_t i = 0; i < m->lanes_len; i++)
        if (mailbox_is_direct(m->lanes[i].box)) return true;
    return false;
}

bool session_takes(const struct mailbox_session *m)
{
    for (uint32_t i = 0; i < m->lanes_len; i++)
        if (mailbox_takes(m->lanes[i].box)) return true;
    return false;
}

void session_set_want(struct mailbox_session *m)
{
    for (uint32_t i = 0; i < m->lanes_len; i++)
        mailbox_want(m->lanes[i].box, m->want, m->lease_ms, runner_time(m->lanes[i].runner));
}

static void add_message(struct mailbox_session *m, uint32_t shard, const struct mailbox_effect *e)
{
    struct mailbox_lock *l = NEW(struct mailbox_lock);
    *l = (struct mailbox_lock){.shard = shard,
                               .ref = e->ref,
                               .deadline = e->deadline,
                               .has_signals = e->has_signals,
                               .message = bytes_copy(e->body)};
    list_add(&m->arrived, &l->link);
}

static void add_reply(struct mailbox_session *m, const struct mailbox_effect *e)
{
    LIST_EACH(w, &m->waits, struct mailbox_wait, link) { // none: its caller does not wait any more
        if (w->ticket != e->ticket) continue;
        w->done = true;
        w->err = e->err;
        buf_put(&w->body, e->body);
        buf_put(&w->signals, e->signals);
    }
}

static void write_object(struct mailbox_session *m, struct mailbox_lane *lane,
                         const struct mailbox_effect *e)
{
    char key[MAILBOX_KEY_MAX];
    LOCAL(store_answer, a);
    mailbox_key(key, lane->prefix, MAILBOX_OUT, m->box, e->number);
    struct bytes object = mailbox_writing(lane->box);
    (void)pthread_mutex_unlock(&m->lock);
    enum err err = store_put_new(m->engine->store, key, object, &a);
    runner_note_cost(lane->runner, &a);
    (void)pthread_mutex_lock(&m->lock);
    mailbox_written(lane->box, e->number, err, runner_time(lane->runner));
}

static void read_object(struct mailbox_session *m, struct mailbox_lane *lane,
                        const struct mailbox_effect *e)
{
    char key[MAILBOX_KEY_MAX];
    LOCAL(store_answer, a);
    mailbox_key(key, lane->prefix, MAILBOX_IN, m->box, e->number);
    (void)pthread_mutex_unlock(&m->lock);
    enum err err = store_get(m->engine->store, key, 0, SIZE_MAX, &a);
    runner_note_cost(lane->runner, &a);
    (void)pthread_mutex_lock(&m->lock);
    mailbox_read(lane->box, e->number, err, buf_bytes(&a.body), runner_time(lane->runner));
}

// Without a mark the owner is not slow: it is fast, or gone.
static void look_for_mark(struct mailbox_session *m, struct mailbox_lane *lane)
{
    char key[MAILBOX_KEY_MAX];
    LOCAL(store_answer, a);
    mailbox_mark_key(key, lane->prefix);
    (void)pthread_mutex_unlock(&m->lock);
    enum err err = store_get(m->engine->store, key, 0, SIZE_MAX, &a);
    runner_note_cost(lane->runner, &a);
    (void)pthread_mutex_lock(&m->lock);
    mailbox_looked(lane->box, err, a.modified, runner_time(lane->runner));
}

static void commit_directly(struct mailbox_session *m, struct mailbox_lane *lane,
                            const struct mailbox_effect *e)
{
    struct kept_reply a;
    struct bytes payload = bytes_copy(e->body);
    struct op op = {e->op_kind, payload};
    uint64_t id = e->id;
    kept_reply_init(&a);
    (void)pthread_mutex_unlock(&m->lock);
    enum err err = runner_do(lane->runner, op, &a);
    if (err == ERR_UNKNOWN) err = runner_do(lane->runner, op, &a);
    LOCAL(buf, signals, SIZE_MAX);
    for (size_t i = 0; a.signals && i < a.signals->len; i++)
        mailbox_signal_put(&signals, a.signals->rows[i].index, a.signals->rows[i].waiting);
    (void)pthread_mutex_lock(&m->lock);
    if (signals.len > 0) mailbox_done_signals(lane->box, id, buf_bytes(&signals));
    mailbox_done(lane->box, id, err, buf_bytes(&a.body), runner_time(lane->runner));
    kept_reply_done(&a);
    bytes_free(payload);
}

// The row has expired, or another process has the name now.
static void join_again(struct mailbox_session *m)
{
    (void)pthread_mutex_unlock(&m->lock);
    (void)join_all(m, NULL); // a refusal comes again with the next object
    (void)pthread_mutex_lock(&m->lock);
}

// Performs one effect of a lane. Returns false if there is none.
static bool perform_one(struct mailbox_session *m, uint32_t shard)
{
    struct mailbox_lane *lane = &m->lanes[shard];
    struct mailbox_effect e;
    mailbox_tick(lane->box, runner_time(lane->runner));
    if (!mailbox_effect(lane->box, &e)) return false;
    switch (e.kind) {
    case MAILBOX_WRITE:
        write_object(m, lane, &e);
        break;
    case MAILBOX_READ:
        read_object(m, lane, &e);
        break;
    case MAILBOX_LOOK:
        look_for_mark(m, lane);
        break;
    case MAILBOX_DIRECT:
        commit_directly(m, lane, &e);
        break;
    case MAILBOX_REPLY:
        add_reply(m, &e);
        break;
    case MAILBOX_MESSAGE:
        add_message(m, shard, &e);
        break;
    case MAILBOX_JOIN:
        join_again(m);
        break;
    }
    (void)pthread_cond_broadcast(&m->changed);
    return true;
}

static void sleep_a_moment(struct mailbox_session *m, int64_t until)
{
    int64_t ms = until - clock_boot_ms();
    if (ms > SLEEP_MAX_MS) ms = SLEEP_MAX_MS;
    for (uint32_t i = 0; i < m->lanes_len; i++) {
        int64_t at = mailbox_wake_at(m->lanes[i].box), now = runner_time(m->lanes[i].runner).lo;
        if (at != TIME_NEVER && at - now < ms) ms = at - now;
    }
    clock_wait(&m->changed, &m->lock, clock_boot_ms() + (ms < 1 ? 1 : ms));
}

void session_step(struct mailbox_session *m)
{
    for (uint32_t i = 0; i < m->lanes_len; i++)
        for (int n = 0; n < STEP_MAX && perform_one(m, i); n++)
            continue;
}

void session_drive(struct mailbox_session *m, bool (*done)(struct mailbox_session *m, void *ctx),
                   void *ctx, int64_t until)
{
    while (!done(m, ctx)) {
        bool any = false;
        for (uint32_t i = 0; i < m->lanes_len && !any; i++)
            any = perform_one(m, i);
        if (any) continue;
        if (clock_boot_ms() >= until) return;
        sleep_a_moment(m, until);
    }
}
