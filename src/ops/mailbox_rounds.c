// SPDX-License-Identifier: Apache-2.0
// The requests of one step of a round run in parallel. A step waits for the one before it.
#include "ops/mailbox_rounds.h"

#include "base/array.h"
#include "base/memory.h"
#include "base/text.h"
#include "mailbox/owner.h"
#include "ops/queue_calls.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "os/parallel.h"
#include "protocol/shard_wire.h"

#include <stdlib.h>
#include <string.h>

#define TICKETS_MAX      1000 // of one worker
#define DISPATCH_WAIT_MS 150  // how long a round waits for the tickets of its own commits
#define DISPATCH_POLL_MS 5
#define MARK_POLL_MS     200 // a step that waits looks whether a mark is due

#define DELETES_NONE     (-1)
#define DELETES_RUN      (-2)
#define DELETE_KEYS      100 // of one request

struct shard_rounds {
    struct mailbox_owner *owner; // NULL: none
    _Atomic int deleted;         // enum err of deletes that have ended, DELETES_NONE or DELETES_RUN
    uint64_t epoch;              // of the ownership that it belongs to
};

struct mailbox_rounds {
    uint32_t shards;
    struct shard_rounds rows[];
};

void mailbox_rounds_free(struct mailbox_rounds *r)
{
    for (uint32_t i = 0; r && i < r->shards; i++)
        mailbox_owner_free(r->rows[i].owner);
    memory_free(r);
}

static bool has_mailbox(const struct worker_view *w, int64_t now)
{
    return w->instance != 0 && (w->flags & WORKER_MAILBOX) && w->mode != WORKER_IS_EVICTED &&
           w->expires_at > now;
}

struct count {
    uint32_t boxes;
};

static void count_boxes(void *ctx, const struct machine *m, int64_t now)
{
    struct count *c = ctx;
    struct worker_view w;
    for (size_t i = 0; machine_rows(m) > 0 && machine_worker(m, i, &w); i++)
        c->boxes += has_mailbox(&w, now);
}

static struct shard_runner *own_runner(struct open_queue *q, uint32_t shard, uint64_t *epoch)
{
    struct runner_owner o = {.mine = false};
    struct shard_runner *r = runner_if_open(q, shard);
    if (r) runner_owner(r, &o);
    *epoch = o.epoch;
    return o.mine ? r : NULL;
}

enum mailbox_need mailbox_rounds_need(struct open_queue *q)
{
    enum mailbox_need need = MAILBOX_NEEDS_NOTHING;
    uint64_t epoch;
    if (!atomic_load(&q->engine->self) || !store_is_high_latency(q->engine->store)) return need;
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct count c = {0};
        struct shard_runner *r = own_runner(q, i, &epoch);
        if (!r) continue;
        runner_inspect(r, count_boxes, &c);
        enum mailbox_need one = c.boxes > 0 ? MAILBOX_NEEDS_ROUNDS : MAILBOX_NEEDS_POLL;
        if (one > need) need = one;
    }
    return need;
}

void mailbox_rounds_poll(struct open_queue *q)
{
    uint64_t epoch;
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *r = own_runner(q, i, &epoch);
        if (r && runner_sync(r)) return;
    }
}

// One round of one shard.
struct round {
    struct engine *e;
    struct open_queue *q;
    uint32_t shard;
    struct shard_runner *runner;
    struct shard_rounds *row;
    struct mailbox_owner *owner;
    char prefix[MAILBOX_KEY_MAX];
    pthread_mutex_t lock; // of the owner, in the parallel steps
    pthread_cond_t committed;
    size_t open_ops;
    struct ticket_grant {
        char worker[WORKER_NAME_MAX + 1];
        uint64_t instance;
        uint64_t served; // the round in which the worker was served last
        struct grant grant;
    } * found;
    size_t found_len, found_cap;
    bool full;        // more workers have tickets than the round delivers
    struct buf beats; // rows of OP_WORKERS
};

static void note_cost(struct round *r, const struct store_answer *a)
{
    runner_note_cost(r->runner, a);
}

// Tells workers that wait that this owner lives. Without the mark they commit directly.
static void mark_if_due(struct round *r)
{
    char key[MAILBOX_KEY_MAX];
    LOCAL(store_answer, a);
    (void)pthread_mutex_lock(&r->lock);
    bool due = owner_mark_due(r->owner, runner_time(r->runner).lo);
    (void)pthread_mutex_unlock(&r->lock);
    if (!due) return;
    mailbox_mark_key(key, r->prefix);
    (void)!store_put(r->e->store, key, bytes_str("m"), &a); // the next one comes in a second
    note_cost(r, &a);
}

static enum err list_one(struct round *r, enum mailbox_way way)
{
    char folder[MAILBOX_KEY_MAX], after[STORE_KEY_MAX + 1] = "";
    LOCAL(store_answer, a);
    mailbox_folder(folder, r->prefix, way);
    do {
        enum err err = store_list(r->e->store, folder, *after ? after : NULL, STORE_LIST_MAX, &a);
        note_cost(r, &a);
        if (err) return err;
        for (size_t i = 0; i < a.rows_len; i++) {
            if (way == MAILBOX_IN)
                owner_in_listed(r->owner, store_row_key(&a, i));
            else
                owner_listed(r->owner, store_row_key(&a, i), a.rows[i].modified);
        }
        if (a.rows_len > 0) (void)text_copy(after, sizeof after, store_row_key(&a, a.rows_len - 1));
    } while (a.more && a.rows_len > 0);
    return ERR_OK;
}

static void read_one(void *ctx, size_t i)
{
    struct round *r = ctx;
    char key[MAILBOX_KEY_MAX];
    LOCAL(store_answer, a);
    (void)pthread_mutex_lock(&r->lock);
    owner_read_key(r->owner, i, key);
    (void)pthread_mutex_unlock(&r->lock);
    enum err err = store_get(r->e->store, key, 0, SIZE_MAX, &a);
    note_cost(r, &a);
    (void)pthread_mutex_lock(&r->lock);
    owner_object(r->owner, i, err, buf_bytes(&a.body));
    (void)pthread_mutex_unlock(&r->lock);
    mark_if_due(r);
}

struct round_commit {
    struct runner_async async; // first
    struct round *round;
    size_t index;
};

static void op_done(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct round_commit *c = (struct round_commit *)async;
    struct round *r = c->round;
    LOCAL(buf, signals, SIZE_MAX);
    for (size_t i = 0; a->signals && i < a->signals->len; i++)
        mailbox_signal_put(&signals, a->signals->rows[i].index, a->signals->rows[i].waiting);
    LOCKED(&r->lock);
    if (a->body.len > 0 && signals.len > 0) owner_signals(r->owner, c->index, buf_bytes(&signals));
    owner_committed(r->owner, c->index, err, buf_bytes(&a->body));
    if (--r->open_ops == 0) (void)pthread_cond_broadcast(&r->committed);
}

// Waits for the ops that were submitted. A commit can take long, so the owner marks meanwhile.
static void await_commits(struct round *r)
{
    (void)pthread_mutex_lock(&r->lock);
    while (r->open_ops > 0) {
        clock_wait(&r->committed, &r->lock, clock_boot_ms() + MARK_POLL_MS);
        if (r->open_ops == 0) break;
        (void)pthread_mutex_unlock(&r->lock);
        mark_if_due(r);
        (void)pthread_mutex_lock(&r->lock);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

// All ops are submitted before one is answered, so that one entry has them.
static void commit_ops(struct round *r, int64_t begun)
{
    size_t len = owner_ops(r->owner);
    CLEANUP(memory_let_go) struct round_commit *commits = memory_zeroed(len, sizeof *commits);
    bool all = owner_has_all(r->owner);
    r->open_ops = len;
    for (size_t i = 0; i < len; i++) {
        commits[i].async.then = op_done;
        commits[i].round = r;
        commits[i].index = i;
        (void)pthread_mutex_lock(&r->lock);
        struct op op = owner_op(r->owner, i);
        (void)pthread_mutex_unlock(&r->lock);
        runner_do_async(r->runner, op, &commits[i].async);
    }
    if (all) runner_listed(r->runner, begun);
    await_commits(r);
}

static void is_dispatched(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(bool *)ctx = !machine_dispatchable(m);
}

// The tickets for the room that the acks made go into the same objects as the answers.
static void dispatch(struct round *r)
{
    bool done = false;
    int64_t until = clock_boot_ms() + DISPATCH_WAIT_MS;
    (void)runner_dispatch(r->runner);
    for (;;) {
        runner_inspect(r->runner, is_dispatched, &done);
        if (done || clock_boot_ms() >= until) return;
        clock_sleep(DISPATCH_POLL_MS);
    }
}

static void add_found(struct round *r, const struct worker_view *w, const struct grant *g)
{
    struct lock_ref ref = {.seq = g->seq, .token = g->token};
    if (!owner_ticket(r->owner, w->name, w->instance, &ref)) return;
    struct ticket_grant *f = ARRAY_ADD(r->found, r->found_len, r->found_cap);
    *f = (struct ticket_grant){.instance = w->instance, .grant = *g};
    f->served = owner_served(r->owner, w->name, w->instance);
    memcpy(f->worker, w->name.data, w->name.len);
}

static void find_tickets(void *ctx, const struct machine *m, int64_t now)
{
    struct round *r = ctx;
    struct worker_view w;
    CLEANUP(memory_let_go) struct grant *grants = memory_zeroed(TICKETS_MAX, sizeof *grants);
    for (size_t i = 0; machine_worker(m, i, &w); i++) {
        if (!has_mailbox(&w, now)) continue;
        if (owner_worker(r->owner, w.name, w.instance, w.ttl_ms / 3))
            worker_change_put(&r->beats, &(struct worker_change){.act = WORKER_BEAT,
                                                                 .name = w.name,
                                                                 .instance = w.instance});
        size_t len = machine_tickets(m, w.name, grants, TICKETS_MAX);
        for (size_t g = 0; g < len; g++)
            add_found(r, &w, &grants[g]);
    }
}

static void beats_done(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct round *r = ((struct round_commit *)async)->round;
    (void)err, (void)a; // the next round beats again before the row expires
    LOCKED(&r->lock);
    r->open_ops = 0;
    (void)pthread_cond_broadcast(&r->committed);
}

// An op for the heartbeats of as many workers as it takes.
static void write_beats(struct round *r)
{
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    struct reader rows = reader_of(buf_bytes(&r->beats));
    while (rows.left > 0) {
        struct op_workers op = {.rows = bytes_of(rows.at, rows.left)};
        struct worker_change row;
        while (op.count < WORKER_ROWS_MAX && worker_change_next(&rows, &row))
            op.count++;
        op.rows.len -= rows.left;
        entropy_fill(op.request.bytes, sizeof op.request.bytes);
        buf_clear(&payload);
        workers_encode(&payload, &op);
        struct round_commit commit = {.async = {.then = beats_done}, .round = r};
        r->open_ops = 1;
        runner_do_async(r->runner, (struct op){OP_WORKERS, buf_bytes(&payload)}, &commit.async);
        await_commits(r);
    }
}

static void deliver_one(struct round *r, const struct ticket_grant *f, struct delivery *row)
{
    LOCAL(buf, message, MAILBOX_OBJECT_MAX);
    row->grant = f->grant;
    struct kept_reply one = {.deliveries = row, .deliveries_len = 1};
    shard_answer_begin(&message, false, 1);
    shard_answer_put(&message, ERR_OK, false, &one);
    if (message.bad) return; // it returns to its place
    struct mailbox_ticket ticket = {.ref = {.seq = f->grant.seq, .token = f->grant.token},
                                    .deadline = f->grant.deadline,
                                    .message = buf_bytes(&message)};
    owner_deliver(r->owner, bytes_str(f->worker), f->instance, &ticket);
}

static bool read_messages(struct round *r, const struct ticket_grant *found, size_t len)
{
    struct kept_reply a;
    CLEANUP(memory_let_go) struct place *places = memory_zeroed(len, sizeof *places);
    kept_reply_init(&a);
    for (size_t i = 0; i < len; i++)
        places[i] = found[i].grant.place;
    enum err err = runner_fetch(r->runner, places, len, &a);
    for (size_t i = 0; !err && i < len && i < a.deliveries_len; i++)
        deliver_one(r, &found[i], &a.deliveries[i]);
    kept_reply_done(&a);
    return !err;
}

static int compare_served(const void *a, const void *b)
{
    const struct ticket_grant *x = a, *y = b;
    if (x->served != y->served) return x->served < y->served ? -1 : 1;
    if (x->instance != y->instance) return x->instance < y->instance ? -1 : 1;
    return x->grant.order < y->grant.order ? -1 : x->grant.order > y->grant.order;
}

// Keeps the tickets of as many workers as the round serves.
static void keep_room(struct round *r)
{
    uint32_t workers = 0;
    qsort(r->found, r->found_len, sizeof *r->found, compare_served);
    for (size_t i = 0; i < r->found_len; i++) {
        if (i == 0 || r->found[i].instance != r->found[i - 1].instance) workers++;
        if (workers <= owner_room(r->owner)) continue;
        r->found_len = i;
        r->full = true;
    }
}

static void deliver_tickets(struct round *r)
{
    buf_init(&r->beats, JOURNAL_OP_MAX);
    runner_inspect(r->runner, find_tickets, r);
    write_beats(r);
    if (r->found_len > 0) keep_room(r);
    // If the slot of one message was collected, the others are read one by one.
    bool all = r->found_len == 0 || read_messages(r, r->found, r->found_len);
    for (size_t i = 0; !all && i < r->found_len; i++)
        (void)read_messages(r, &r->found[i], 1);
    buf_done(&r->beats);
    memory_free(r->found);
}

static void write_one(void *ctx, size_t i)
{
    struct round *r = ctx;
    char key[MAILBOX_KEY_MAX];
    struct bytes object;
    LOCAL(store_answer, a);
    (void)pthread_mutex_lock(&r->lock);
    owner_write(r->owner, i, key, &object);
    (void)pthread_mutex_unlock(&r->lock);
    enum err err = store_put_new(r->e->store, key, object, &a);
    note_cost(r, &a);
    (void)pthread_mutex_lock(&r->lock);
    owner_written(r->owner, i, err);
    (void)pthread_mutex_unlock(&r->lock);
    mark_if_due(r);
}

// Deletes in the background. It ends before the queue is closed, because it has a hold.
struct delete_run {
    struct open_queue *queue;
    struct shard_runner *runner;
    struct shard_rounds *row;
    size_t len;
    char *keys; // MAILBOX_KEY_MAX each
};

static void run_deletes(void *ctx)
{
    struct delete_run *run = ctx;
    const char *keys[DELETE_KEYS];
    enum err err = ERR_OK;
    LOCAL(store_answer, a);
    for (size_t at = 0; at < run->len && !err; at += DELETE_KEYS) {
        size_t len = run->len - at < DELETE_KEYS ? run->len - at : DELETE_KEYS;
        for (size_t i = 0; i < len; i++)
            keys[i] = run->keys + (at + i) * MAILBOX_KEY_MAX;
        err = store_delete(run->queue->engine->store, keys, len, &a);
        runner_note_cost(run->runner, &a);
    }
    atomic_store(&run->row->deleted, (int)err);
    queue_let_go(&run->queue);
    memory_free(run->keys);
    memory_free(run);
}

static void delete_old(struct round *r)
{
    size_t len = atomic_load(&r->row->deleted) == DELETES_RUN ? 0 : owner_deletes(r->owner);
    if (len == 0) return;
    struct delete_run *run = NEW(struct delete_run);
    *run = (struct delete_run){.queue = r->q, .runner = r->runner, .row = r->row, .len = len};
    run->keys = memory_zeroed(len, MAILBOX_KEY_MAX);
    for (size_t i = 0; i < len; i++)
        owner_delete_key(r->owner, i, run->keys + i * MAILBOX_KEY_MAX);
    queue_hold(r->q);
    atomic_store(&r->row->deleted, DELETES_RUN);
    engine_run(r->e, r->q->row.name, run_deletes, run);
}

// Notes the end of the deletes of an earlier round.
static void end_deletes(struct round *r)
{
    int err = atomic_load(&r->row->deleted);
    if (err == DELETES_RUN || err == DELETES_NONE) return;
    atomic_store(&r->row->deleted, DELETES_NONE);
    owner_deleted(r->owner, (enum err)err);
}

static void perform(struct round *r)
{
    struct interval begun = runner_time(r->runner);
    int64_t from = clock_boot_ms();
    uint64_t key = queue_key(r->q);
    end_deletes(r);
    owner_begin(r->owner, begun);
    enum err err = ERR_OK;
    mark_if_due(r);
    if (owner_lists_in(r->owner)) {
        err = list_one(r, MAILBOX_IN);
        if (!err) owner_in_done(r->owner);
    }
    if (!err) err = list_one(r, MAILBOX_OUT);
    if (!err) {
        parallel_for_with(r->e->parallel, key, PARALLEL_MOST, owner_reads(r->owner), read_one, r);
        commit_ops(r, begun.lo);
        mark_if_due(r);
        dispatch(r);
        deliver_tickets(r);
        mark_if_due(r);
        parallel_for_with(r->e->parallel, key, PARALLEL_MOST, owner_writes(r->owner), write_one, r);
        delete_old(r);
    }
    owner_took(r->owner, clock_boot_ms() - from, r->full);
    owner_end(r->owner);
}

static void run_shard(struct open_queue *q, uint32_t shard, struct shard_rounds *row)
{
    uint64_t epoch;
    struct count c = {0};
    struct shard_runner *runner = own_runner(q, shard, &epoch);
    if (runner) runner_inspect(runner, count_boxes, &c);
    bool over = !runner || c.boxes == 0 || row->epoch != epoch;
    if (over && atomic_load(&row->deleted) == DELETES_RUN) return; // the next round ends it
    if (over) {
        atomic_store(&row->deleted, DELETES_NONE);
        mailbox_owner_free(row->owner);
        row->owner = NULL;
        row->epoch = epoch;
        if (runner_if_open(q, shard)) runner_listed(runner_if_open(q, shard), TIME_NEVER);
    }
    if (!runner || c.boxes == 0) return;
    struct round r = {.e = q->engine, .q = q, .shard = shard, .runner = runner, .row = row};
    struct queue_id id;
    memcpy(id.bytes, q->row.id.bytes, sizeof id.bytes);
    runner_prefix(runner, r.prefix);
    if (!row->owner) row->owner = mailbox_owner_new(r.prefix, &id, shard);
    r.owner = row->owner;
    (void)pthread_mutex_init(&r.lock, NULL);
    clock_cond_init(&r.committed);
    perform(&r);
    (void)pthread_cond_destroy(&r.committed);
    (void)pthread_mutex_destroy(&r.lock);
}

void mailbox_rounds_run(struct open_queue *q)
{
    uint32_t shards = q->row.birth.shards;
    if (!q->calls->mailbox_rounds) {
        q->calls->mailbox_rounds = memory_zeroed(1, sizeof *q->calls->mailbox_rounds +
                                                        shards * sizeof(struct shard_rounds));
        q->calls->mailbox_rounds->shards = shards;
        for (uint32_t i = 0; i < shards; i++)
            atomic_store(&q->calls->mailbox_rounds->rows[i].deleted, DELETES_NONE);
    }
    bool any = false;
    for (uint32_t i = 0; i < shards; i++) {
        run_shard(q, i, &q->calls->mailbox_rounds->rows[i]);
        any = any || q->calls->mailbox_rounds->rows[i].owner ||
              atomic_load(&q->calls->mailbox_rounds->rows[i].deleted) == DELETES_RUN;
    }
    if (any) return;
    mailbox_rounds_free(q->calls->mailbox_rounds);
    q->calls->mailbox_rounds = NULL;
}
