// SPDX-License-Identifier: Apache-2.0
// A shard with its driver, its collector and a watcher. The watcher polls the journal while a
// receive waits for messages that other processes send.
#include "node/runner.h"

#include "base/check.h"
#include "base/memory.h"
#include "node/driver.h"
#include "node/perform.h"
#include "node/runner_answer.h"
#include "node/runner_inside.h"
#include "os/entropy.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 30000

static void note_why(struct shard_runner *d, const struct response *r)
{
    bool fine = !r->err || r->err == ERR_NOT_FOUND || r->err == ERR_CONFLICT;
    d->why_err = fine ? ERR_OK : r->err;
    (void)snprintf(d->why, sizeof d->why, "%s", fine || !r->why ? "" : r->why);
}

// A call that timed out reports the error of the requests that kept failing. A halted journal names
// the read that failed, or has the sentence of the store.
static void copy_why(struct shard_runner *d, enum err err, char *out)
{
    const char *halted = NULL;
    const struct journal *j = shard_journal(d->shard);
    bool timed_out = err == ERR_UNAVAILABLE || err == ERR_UNKNOWN;
    const char *why = d->why_err == err || (timed_out && d->why_err) ? d->why : "";
    if (err == ERR_CORRUPT && store_is_dead(d->store, out)) return;
    if (journal_halt_err(j) == err && journal_halted(j, &halted)) why = halted;
    (void)snprintf(out, STORE_WHY_MAX, "%s", why);
}

void runner_why(struct shard_runner *d, enum err err, char out[static STORE_WHY_MAX])
{
    struct waiter w;
    out[0] = 0;
    if (driver_enter(d->driver, &w)) return;
    copy_why(d, err, out);
    driver_leave(d->driver, &w);
}

// The dispatch loop of a shard that this process owns: after each commit and each due time. It
// costs nothing while no registered worker may get a ticket.
static void dispatch(struct shard_runner *d, struct interval now)
{
    if (!shard_may_dispatch(d->shard) || !dispatch_is_on(d->dispatch)) return;
    uint8_t seed[16];
    entropy_fill(seed, sizeof seed);
    (void)shard_dispatch(d->shard, seed, now);
}

static void respond(void *ctx, const struct response *r, struct interval now)
{
    struct shard_runner *d = ctx;
    note_why(d, r);
    collector_respond(d->collector, r, now);
    shard_respond(d->shard, r, now);
    dispatch(d, now);
    if (collector_wants_time(d->collector)) shard_pass_time(d->shard, now);
    uint64_t snapshot = journal_last_snapshot(shard_journal(d->shard));
    if (snapshot == d->collected_at) return;
    d->collected_at = snapshot; // a new snapshot may let the floor rise
    collector_start(d->collector, now);
}

static void tick(void *ctx, struct interval now)
{
    struct shard_runner *d = ctx;
    shard_tick(d->shard, now);
    dispatch(d, now);
    collector_tick(d->collector, now);
}

// The entry has the time of the shard, which can be held before a deadline. Ops that need no entry
// are answered.
static void release_journal(void *ctx, struct interval now)
{
    struct shard_runner *d = ctx;
    journal_release(shard_journal(d->shard), shard_time(d->shard, now));
    shard_notify_next(d->shard, now);
}

static int64_t wake_at(void *ctx)
{
    const struct shard_runner *d = ctx;
    int64_t shard = shard_wake_at(d->shard), collector = collector_wake_at(d->collector);
    return shard < collector ? shard : collector;
}

static bool next_request(void *ctx, struct request *out)
{
    struct shard_runner *d = ctx;
    return shard_next_request(d->shard, out) || collector_next_request(d->collector, out);
}

// Only an entry or a snapshot changes the state, and both change the slot.
static void note_state(struct shard_runner *d)
{
    uint64_t slot = journal_slot(shard_journal(d->shard));
    if (d->noted && slot == atomic_load_explicit(&d->slot, memory_order_relaxed)) return;
    const struct machine *m = shard_machine(d->shard);
    uint32_t flags = machine_deleted(m) ? RUNNER_DELETED : 0;
    if (machine_config(m)->backpressure == BACKPRESSURE_BLOCK) flags |= RUNNER_BLOCKS_SENDERS;
    if (machine_claimable(m, TIME_UNKNOWN, BYTES_EMPTY)) flags |= RUNNER_HAS_READY;
    if (machine_rules(m) >= RULES_SIGNALS) flags |= RUNNER_SIGNALS;
    atomic_store_explicit(&d->slot, slot, memory_order_relaxed);
    atomic_store_explicit(&d->flags, flags, memory_order_relaxed);
    d->noted = true;
}

static void watch(struct shard_runner *d)
{
    enum watch wanted = WATCH_NOT;
    if (shard_has_waiting(d->shard))
        wanted = journal_is_owner(shard_journal(d->shard)) ? WATCH_RARELY : WATCH_CLOSELY;
    if (d->watched == wanted) return;
    d->watched = wanted;
    watcher_want(d->watcher, wanted);
}

static void deliver(void *ctx)
{
    struct shard_runner *d = ctx;
    struct shard_reply r;
    while (shard_next_reply(d->shard, &r)) {
        struct runner_call *c = (struct runner_call *)(uintptr_t)r.ticket;
        c->err = runner_answer_err(d->store, r.err);
        if (c->answer) {
            buf_put(&c->answer->body, r.body);
            char why[STORE_WHY_MAX] = "";
            if (r.err && r.body.len == 0) copy_why(d, r.err, why);
            if (*why) c->answer->why = (char *)bytes_copy(bytes_of(why, strlen(why) + 1)).data;
            if (r.deliveries_len + r.reasons_len + r.signals_len > 0)
                runner_answer_keep(c->answer, &r);
        }
        driver_wake(d->driver, &c->waiter);
    }
    note_state(d);
    watch(d);
}

// Folds the new entries, unless another thread did so since the poll.
static enum err catch_up(void *ctx)
{
    struct shard_runner *d = ctx;
    struct runner_call c = {0};
    enum err err = driver_enter(d->driver, &c.waiter);
    if (err) return err;
    if (journal_slot(shard_journal(d->shard)) != d->polled_after) {
        driver_leave(d->driver, &c.waiter);
        return ERR_OK;
    }
    struct interval now = shard_time(d->shard, driver_now(d->driver));
    shard_sync(d->shard, (uint64_t)(uintptr_t)&c, now.hi + WATCHER_POLL_MS, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

void runner_note_cost(struct shard_runner *d, const struct store_answer *answer)
{
    struct waiter w;
    if (cost_requests(&answer->cost) == 0 || driver_enter(d->driver, &w)) return;
    shard_add_cost(d->shard, &answer->cost);
    driver_leave(d->driver, &w);
}

static enum err poll_log(void *ctx, int64_t wait_ms)
{
    struct shard_runner *d = ctx;
    d->polled_after = atomic_load_explicit(&d->slot, memory_order_relaxed);
    struct store_answer answer CLEANUP(store_answer_done);
    store_answer_init(&answer);
    enum err err = store_wait(d->store, d->log, d->polled_after + 1, wait_ms, &answer);
    runner_note_cost(d, &answer);
    return err;
}

static enum err start(struct shard_runner *d, struct thread_pool *pool)
{
    struct steps steps = {.ctx = d,
                          .respond = respond,
                          .tick = tick,
                          .wake_at = wake_at,
                          .next_request = next_request,
                          .deliver = deliver,
                          .journal = shard_journal(d->shard),
                          .release = release_journal};
    struct watcher_calls calls = {.ctx = d,
                                  .poll = poll_log,
                                  .fetch = catch_up,
                                  .high_latency = store_is_high_latency(d->store)};
    struct waiter w;
    enum err err = driver_open(d->store, pool, &steps, &d->driver);
    if (!err) err = watcher_new(driver_pool(d->driver), &calls, &d->watcher);
    if (!err) err = driver_enter(d->driver, &w);
    if (err) return err;
    shard_start(d->shard, driver_now(d->driver));
    driver_leave(d->driver, &w);
    return ERR_OK;
}

static void release(struct shard_runner *d)
{
    watcher_free(d->watcher);
    driver_free(d->driver);
    store_rest(d->store, d->log);
    collector_free(d->collector);
    shard_free(d->shard);
    memory_free(d);
}

enum err runner_open(struct store *s, const struct runner_config *config, struct shard_runner **out)
{
    struct shard_config shard;
    runner_shard_config(s, config, &shard);
    struct shard_runner *d = NEW(struct shard_runner);
    d->store = s;
    d->id = config->id;
    d->dispatch = config->dispatch;
    d->timeout_ms = config->patience_ms != 0 ? config->patience_ms : PATIENCE_MS;
    (void)snprintf(d->log, sizeof d->log, "%s/log", shard.journal.prefix);
    d->shard = shard_new(&shard);
    d->collector = collector_new(shard_journal(d->shard));
    enum err err = start(d, config->pool);
    if (err) {
        release(d);
        return err;
    }
    *out = d;
    return ERR_OK;
}

void runner_close(struct shard_runner *d)
{
    if (d) release(d);
}

enum err runner_call_begin(struct shard_runner *d, struct runner_call *c, struct runner_answer *a,
                           struct interval *now)
{
    *c = (struct runner_call){.answer = a};
    if (a) runner_answer_clear(a);
    enum err err = driver_enter(d->driver, &c->waiter);
    if (!err) *now = shard_time(d->shard, driver_now(d->driver));
    if (!err) d->patience_ms = driver_patience_ms(d->driver, d->timeout_ms);
    return err;
}

struct interval runner_time(struct shard_runner *d)
{
    struct interval now;
    if (driver_time(d->driver, &now)) return (struct interval){0, 0}; // in a child of fork
    return now;
}

void runner_outcome_origin(struct shard_runner *d, struct op_outcome *op)
{
    memcpy(op->queue.bytes, d->id.queue, sizeof op->queue.bytes);
    op->shard = d->id.shard;
    op->arrived_at = runner_time(d).hi;
}

enum err runner_do(struct shard_runner *d, struct op op, struct runner_answer *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(d, &c, a, &now);
    if (err) return err;
    shard_submit(d->shard, ticket_of(&c), op, now.hi + d->patience_ms, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

enum err runner_receive(struct shard_runner *d, const struct op_claim *claim, int64_t wait_ms,
                        struct runner_answer *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(d, &c, a, &now);
    if (err) return err;
    int64_t wait_until = now.lo + wait_ms;
    shard_receive(d->shard, ticket_of(&c), claim, wait_until, wait_until + d->patience_ms, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

void runner_async_end(struct waiter *w)
{
    // struct runner_async begins with its call, which begins with the waiter: the same address.
    struct runner_async *l = (struct runner_async *)w;
    struct runner_answer answer = l->answer; // `then` may free l
    l->then(l, l->call.err, &answer);
    runner_answer_done(&answer);
}

bool runner_async_begin(struct shard_runner *d, struct runner_async *l, struct interval *now)
{
    l->runner = d;
    runner_answer_init(&l->answer);
    enum err err = runner_call_begin(d, &l->call, &l->answer, now);
    if (!err) return true;
    l->then(l, err, &l->answer);
    return false;
}

void runner_do_async(struct shard_runner *d, struct op op, struct runner_async *l)
{
    struct interval now;
    if (!runner_async_begin(d, l, &now)) return;
    shard_submit(d->shard, ticket_of(&l->call), op, now.hi + d->patience_ms, now);
    driver_async(d->driver, &l->call.waiter, runner_async_end);
}

void runner_receive_async(struct shard_runner *d, const struct op_claim *claim, int64_t wait_ms,
                          struct runner_async *l)
{
    struct interval now;
    if (!runner_async_begin(d, l, &now)) return;
    int64_t wait_until = now.lo + wait_ms;
    shard_receive(d->shard, ticket_of(&l->call), claim, wait_until, wait_until + d->patience_ms,
                  now);
    driver_async(d->driver, &l->call.waiter, runner_async_end);
}

// Called under the lock, which stays held. `done` gets the answer of the op, c that of the receive.
static void receive_after(struct shard_runner *d, struct op op, struct runner_async *done,
                          struct runner_call *c, const struct op_claim *claim, int64_t wait_ms,
                          struct interval now)
{
    int64_t wait_until = now.lo + wait_ms;
    done->runner = d;
    runner_answer_init(&done->answer);
    done->call = (struct runner_call){.answer = &done->answer};
    driver_async_too(d->driver, &done->call.waiter, runner_async_end);
    shard_receive_after(d->shard, ticket_of(&done->call), op, ticket_of(c), claim, wait_until,
                        now.hi + d->patience_ms, wait_until + d->patience_ms, now);
}

enum err runner_receive_after(struct shard_runner *d, struct op op, struct runner_async *done,
                              const struct op_claim *claim, int64_t wait_ms,
                              struct runner_answer *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(d, &c, a, &now);
    // In a child of fork, both calls end with the error.
    if (err && !runner_async_begin(d, done, &now)) return err;
    receive_after(d, op, done, &c, claim, wait_ms, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

void runner_receive_after_async(struct shard_runner *d, struct op op, struct runner_async *done,
                                const struct op_claim *claim, int64_t wait_ms,
                                struct runner_async *l)
{
    struct interval now;
    if (!runner_async_begin(d, l, &now) && !runner_async_begin(d, done, &now)) return;
    receive_after(d, op, done, &l->call, claim, wait_ms, now);
    driver_async(d->driver, &l->call.waiter, runner_async_end);
}

enum err runner_read(struct shard_runner *d, const struct shard_wants *wants,
                     struct runner_answer *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(d, &c, a, &now);
    if (err) return err;
    shard_read(d->shard, ticket_of(&c), wants, now.hi + d->patience_ms, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

// A call without arguments of its own.
static enum err call_plain(struct shard_runner *d,
                           void (*call)(struct shard *s, uint64_t ticket, int64_t deadline,
                                        struct interval now))
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(d, &c, NULL, &now);
    if (err) return err;
    call(d->shard, ticket_of(&c), now.hi + d->patience_ms, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

enum err runner_sync(struct shard_runner *d)
{
    return call_plain(d, shard_sync);
}

void runner_owner_away(struct shard_runner *d)
{
    struct waiter w;
    if (driver_enter(d->driver, &w)) return;
    journal_owner_away(shard_journal(d->shard), driver_now(d->driver));
    driver_leave(d->driver, &w);
}

enum err runner_own(struct shard_runner *d, uint64_t expected, const struct journal_owner *owner)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(d, &c, NULL, &now);
    if (err) return err;
    shard_own(d->shard, ticket_of(&c), expected, owner, now.hi + d->patience_ms, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

enum err runner_coord_switch(struct shard_runner *d, const uint8_t coord[16])
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(d, &c, NULL, &now);
    if (err) return err;
    shard_coord_switch(d->shard, ticket_of(&c), coord, now.hi + d->patience_ms, now);
    driver_wait(d->driver, &c.waiter);
    return c.err;
}

enum err runner_touch(struct shard_runner *d)
{
    return call_plain(d, shard_touch);
}

bool runner_dispatch(struct shard_runner *d)
{
    uint8_t seed[16];
    struct waiter w;
    entropy_fill(seed, sizeof seed);
    if (driver_enter(d->driver, &w)) return false;
    bool granted = shard_dispatch(d->shard, seed, driver_now(d->driver));
    driver_leave(d->driver, &w);
    return granted;
}

void runner_listed(struct shard_runner *d, int64_t listed_at)
{
    struct waiter w;
    if (driver_enter(d->driver, &w)) return;
    shard_listed(d->shard, listed_at, driver_now(d->driver));
    driver_leave(d->driver, &w);
}

void runner_prefix(const struct shard_runner *d, char out[static JOURNAL_PREFIX_MAX + 1])
{
    size_t len = strlen(d->log) - strlen("/log");
    CHECK(len <= JOURNAL_PREFIX_MAX);
    memcpy(out, d->log, len);
    out[len] = 0;
}

// Copies the next letter, commits it in the target queue without the lock, and reports the result
// to the shard. If the letter arrived, the shard then submits the outbox op. Returns false if there
// is no letter, or if it did not arrive.
static bool move_dead_letter(struct shard_runner *d, runner_move_fn *move, void *ctx)
{
    struct waiter w;
    struct dead_letter letter;
    if (driver_enter(d->driver, &w)) return false;
    bool there = shard_next_dead_letter(d->shard, &letter);
    char to[QUEUE_NAME_MAX + 1] = "";
    struct op op = {0};
    if (there) {
        (void)snprintf(to, sizeof to, "%s", letter.to);
        op = (struct op){.kind = letter.op.kind, .payload = bytes_copy(letter.op.payload)};
    }
    driver_leave(d->driver, &w);
    if (!there) return false;
    enum err err = move(ctx, to, op);
    bytes_free(op.payload);
    if (driver_enter(d->driver, &w)) return false;
    if (err == ERR_OK) {
        shard_dead_letter_arrived(d->shard, letter.number, driver_now(d->driver));
    } else {
        shard_dead_letter_failed(d->shard, letter.number, driver_now(d->driver));
    }
    driver_leave(d->driver, &w);
    return err == ERR_OK;
}

size_t runner_move_dead_letters(struct shard_runner *d, runner_move_fn *move, void *ctx)
{
    size_t moved = 0;
    while (call_plain(d, shard_dead_letters) == ERR_OK && move_dead_letter(d, move, ctx))
        moved++;
    return moved;
}

void runner_read_journal(struct shard_runner *d, runner_read_fn *read, void *ctx)
{
    struct waiter w;
    if (driver_enter(d->driver, &w)) return;
    read(ctx, shard_journal(d->shard), shard_machine(d->shard), driver_now(d->driver).lo);
    driver_leave(d->driver, &w);
}

bool runner_saw(const struct shard_runner *d, enum runner_flag flag)
{
    return atomic_load_explicit(&d->flags, memory_order_relaxed) & flag;
}

size_t runner_waiting(struct shard_runner *d)
{
    struct waiter w;
    if (driver_enter(d->driver, &w)) return 0;
    size_t waiting = shard_waiting(d->shard);
    driver_leave(d->driver, &w);
    return waiting;
}

void runner_counters(struct shard_runner *d, struct shard_counters *to)
{
    struct waiter w;
    *to = (struct shard_counters){0};
    if (driver_enter(d->driver, &w)) return;
    *to = *shard_counters(d->shard);
    driver_leave(d->driver, &w);
}

void runner_events(struct shard_runner *d, runner_event_fn *on_event, void *ctx)
{
    struct waiter w;
    if (driver_enter(d->driver, &w)) return;
    const struct events *list = shard_events(d->shard);
    for (size_t i = 0; i < list->len; i++)
        on_event(ctx, list, &list->rows[i]);
    shard_events_taken(d->shard);
    driver_leave(d->driver, &w);
}
