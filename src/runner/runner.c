// SPDX-License-Identifier: Apache-2.0
// A shard with its driver, its collector and a watcher. The watcher polls the journal while a
// receive waits for messages that other processes send.
#include "runner/runner.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/entropy.h"
#include "runner/driver.h"
#include "runner/runner_answer.h"
#include "runner/runner_inside.h"

#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 30000

static void note_why(struct shard_runner *runner, const struct response *r)
{
    bool fine = !r->err || r->err == ERR_NOT_FOUND || r->err == ERR_CONFLICT;
    runner->why_err = fine ? ERR_OK : r->err;
    (void)snprintf(runner->why, sizeof runner->why, "%s", fine || !r->why ? "" : r->why);
}

// A call that timed out reports the error of the requests that kept failing. A halted journal names
// the read that failed, or has the sentence of the store.
static void copy_why(struct shard_runner *r, enum err err, char *out)
{
    const char *halted = NULL;
    const struct journal *j = shard_journal(r->shard);
    bool timed_out = err == ERR_UNAVAILABLE || err == ERR_UNKNOWN;
    const char *why = r->why_err == err || (timed_out && r->why_err) ? r->why : "";
    if (err == ERR_CORRUPT && store_is_dead(r->store, out)) return;
    if (journal_halt_err(j) == err && journal_halted(j, &halted)) why = halted;
    (void)snprintf(out, STORE_WHY_MAX, "%s", why);
}

void runner_why(struct shard_runner *r, enum err err, char out[static STORE_WHY_MAX])
{
    struct waiter w;
    out[0] = 0;
    if (driver_enter(r->driver, &w)) return;
    copy_why(r, err, out);
    driver_leave(r->driver, &w);
}

// The dispatch loop of a shard that this process owns: after each commit and each due time. It
// costs nothing while no registered worker may get a ticket.
static void dispatch(struct shard_runner *r, struct interval now)
{
    if (!shard_may_dispatch(r->shard) || !dispatch_is_on(r->dispatch)) return;
    uint8_t seed[16];
    entropy_fill(seed, sizeof seed);
    (void)shard_dispatch(r->shard, seed, now);
}

static void respond(void *ctx, const struct response *r, struct interval now)
{
    struct shard_runner *runner = ctx;
    note_why(runner, r);
    collector_respond(runner->collector, r, now);
    shard_respond(runner->shard, r, now);
    dispatch(runner, now);
    if (collector_wants_time(runner->collector)) shard_pass_time(runner->shard, now);
    uint64_t snapshot = journal_last_snapshot(shard_journal(runner->shard));
    if (snapshot == runner->collected_at) return;
    runner->collected_at = snapshot; // a new snapshot may let the floor rise
    collector_start(runner->collector, now);
}

static void tick(void *ctx, struct interval now)
{
    struct shard_runner *r = ctx;
    shard_tick(r->shard, now);
    dispatch(r, now);
    collector_tick(r->collector, now);
}

// The entry has the time of the shard, which can be held before a deadline. Ops that need no entry
// are answered.
static void release_journal(void *ctx, struct interval now)
{
    struct shard_runner *r = ctx;
    journal_release(shard_journal(r->shard), shard_time(r->shard, now));
    shard_notify_next(r->shard, now);
}

static int64_t wake_at(void *ctx)
{
    const struct shard_runner *r = ctx;
    int64_t shard = shard_wake_at(r->shard), collector = collector_wake_at(r->collector);
    return shard < collector ? shard : collector;
}

static bool next_request(void *ctx, struct request *out)
{
    struct shard_runner *r = ctx;
    return shard_next_request(r->shard, out) || collector_next_request(r->collector, out);
}

// Only an entry or a snapshot changes the state, and both change the slot.
static void note_state(struct shard_runner *r)
{
    uint64_t slot = journal_slot(shard_journal(r->shard));
    if (r->noted && slot == atomic_load_explicit(&r->slot, memory_order_relaxed)) return;
    const struct machine *m = shard_machine(r->shard);
    uint32_t flags = machine_deleted(m) ? RUNNER_DELETED : 0;
    if (machine_config(m)->backpressure == BACKPRESSURE_BLOCK) flags |= RUNNER_BLOCKS_SENDERS;
    if (machine_claimable(m, TIME_UNKNOWN, BYTES_EMPTY)) flags |= RUNNER_HAS_READY;
    atomic_store_explicit(&r->slot, slot, memory_order_relaxed);
    atomic_store_explicit(&r->flags, flags, memory_order_relaxed);
    r->noted = true;
}

static void watch(struct shard_runner *r)
{
    enum watch wanted = WATCH_NOT;
    if (shard_has_waiting(r->shard))
        wanted = journal_is_owner(shard_journal(r->shard)) ? WATCH_RARELY : WATCH_CLOSELY;
    if (r->watched == wanted) return;
    r->watched = wanted;
    watcher_want(r->watcher, wanted);
}

static void deliver(void *ctx)
{
    struct shard_runner *runner = ctx;
    struct shard_reply r;
    while (shard_next_reply(runner->shard, &r)) {
        struct runner_call *c = (struct runner_call *)(uintptr_t)r.ticket;
        c->err = runner_answer_err(runner->store, r.err);
        if (c->answer) {
            buf_put(&c->answer->body, r.body);
            char why[STORE_WHY_MAX] = "";
            if (r.err && r.body.len == 0) copy_why(runner, r.err, why);
            if (*why) c->answer->why = (char *)bytes_copy(bytes_of(why, strlen(why) + 1)).data;
            if (r.deliveries_len + r.reasons_len + r.signals_len > 0)
                kept_reply_keep(c->answer, &r);
        }
        driver_wake(runner->driver, &c->waiter);
    }
    note_state(runner);
    watch(runner);
}

// Folds the new entries, unless another thread did so since the poll.
static enum err catch_up(void *ctx)
{
    struct shard_runner *r = ctx;
    struct runner_call c = {0};
    enum err err = driver_enter(r->driver, &c.waiter);
    if (err) return err;
    if (journal_slot(shard_journal(r->shard)) != r->polled_after) {
        driver_leave(r->driver, &c.waiter);
        return ERR_OK;
    }
    struct interval now = shard_time(r->shard, driver_now(r->driver));
    shard_sync(r->shard, (uint64_t)(uintptr_t)&c, now.hi + WATCHER_POLL_MS, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

void runner_note_cost(struct shard_runner *r, const struct store_answer *answer)
{
    struct waiter w;
    if (cost_requests(&answer->cost) == 0 || driver_enter(r->driver, &w)) return;
    shard_add_cost(r->shard, &answer->cost);
    driver_leave(r->driver, &w);
}

static enum err poll_log(void *ctx, int64_t wait_ms)
{
    struct shard_runner *r = ctx;
    r->polled_after = atomic_load_explicit(&r->slot, memory_order_relaxed);
    LOCAL(store_answer, answer);
    enum err err = store_wait(r->store, r->log, r->polled_after + 1, wait_ms, &answer);
    runner_note_cost(r, &answer);
    return err;
}

static enum err start(struct shard_runner *r, struct thread_pool *pool)
{
    struct step_functions steps = {.ctx = r,
                                   .respond = respond,
                                   .tick = tick,
                                   .wake_at = wake_at,
                                   .next_request = next_request,
                                   .deliver = deliver,
                                   .journal = shard_journal(r->shard),
                                   .release = release_journal};
    struct watcher_calls calls = {.ctx = r,
                                  .poll = poll_log,
                                  .fetch = catch_up,
                                  .high_latency = store_is_high_latency(r->store)};
    struct waiter w;
    enum err err = driver_open(r->store, pool, &steps, &r->driver);
    if (!err) err = watcher_new(driver_pool(r->driver), &calls, &r->watcher);
    if (!err) err = driver_enter(r->driver, &w);
    if (err) return err;
    shard_start(r->shard, driver_now(r->driver));
    driver_leave(r->driver, &w);
    return ERR_OK;
}

static void release(struct shard_runner *r)
{
    watcher_free(r->watcher);
    driver_free(r->driver);
    store_rest(r->store, r->log);
    collector_free(r->collector);
    shard_free(r->shard);
    memory_free(r);
}

enum err runner_open(struct store *s, const struct runner_config *config, struct shard_runner **out)
{
    struct shard_config shard;
    runner_shard_config(s, config, &shard);
    struct shard_runner *r = NEW(struct shard_runner);
    r->store = s;
    r->id = config->id;
    r->dispatch = config->dispatch;
    r->timeout_ms = config->patience_ms != 0 ? config->patience_ms : PATIENCE_MS;
    (void)snprintf(r->log, sizeof r->log, "%s/log", shard.journal.prefix);
    r->shard = shard_new(&shard);
    r->collector = collector_new(shard_journal(r->shard));
    enum err err = start(r, config->pool);
    if (err) {
        release(r);
        return err;
    }
    *out = r;
    return ERR_OK;
}

void runner_close(struct shard_runner *r)
{
    if (r) release(r);
}

static enum err runner_call_begin(struct shard_runner *r, struct runner_call *c,
                                  struct kept_reply *a, struct interval *now)
{
    *c = (struct runner_call){.answer = a};
    if (a) kept_reply_clear(a);
    enum err err = driver_enter(r->driver, &c->waiter);
    if (!err) *now = shard_time(r->shard, driver_now(r->driver));
    if (!err) r->patience_ms = driver_patience_ms(r->driver, r->timeout_ms);
    return err;
}

struct interval runner_time(struct shard_runner *r)
{
    struct interval now;
    if (driver_time(r->driver, &now)) return (struct interval){0, 0}; // in a child of fork
    return now;
}

void runner_outcome_origin(struct shard_runner *r, struct op_outcome *op)
{
    memcpy(op->queue.bytes, r->id.queue, sizeof op->queue.bytes);
    op->shard = r->id.shard;
    op->arrived_at = runner_time(r).hi;
}

enum err runner_do(struct shard_runner *r, struct op op, struct kept_reply *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(r, &c, a, &now);
    if (err) return err;
    shard_submit(r->shard, ticket_of(&c), op, now.hi + r->patience_ms, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

enum err runner_receive(struct shard_runner *r, const struct op_claim *claim, int64_t wait_ms,
                        struct kept_reply *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(r, &c, a, &now);
    if (err) return err;
    int64_t wait_until = now.lo + wait_ms;
    shard_receive(r->shard, ticket_of(&c), claim, wait_until, wait_until + r->patience_ms, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

void runner_async_end(struct waiter *w)
{
    // struct runner_async begins with its call, which begins with the waiter: the same address.
    struct runner_async *a = (struct runner_async *)w;
    struct kept_reply answer = a->answer; // `then` may free a
    a->then(a, a->call.err, &answer);
    kept_reply_done(&answer);
}

bool runner_async_begin(struct shard_runner *r, struct runner_async *a, struct interval *now)
{
    a->runner = r;
    kept_reply_init(&a->answer);
    enum err err = runner_call_begin(r, &a->call, &a->answer, now);
    if (!err) return true;
    a->then(a, err, &a->answer);
    return false;
}

void runner_sync_async(struct shard_runner *r, struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now)) return;
    shard_sync(r->shard, ticket_of(&a->call), now.hi + r->patience_ms, now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

void runner_do_async(struct shard_runner *r, struct op op, struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now)) return;
    shard_submit(r->shard, ticket_of(&a->call), op, now.hi + r->patience_ms, now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

void runner_receive_async(struct shard_runner *r, const struct op_claim *claim, int64_t wait_ms,
                          struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now)) return;
    int64_t wait_until = now.lo + wait_ms;
    shard_receive(r->shard, ticket_of(&a->call), claim, wait_until, wait_until + r->patience_ms,
                  now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

// Called under the lock, which stays held. `done` gets the answer of the op, c that of the receive.
static void receive_after(struct shard_runner *r, struct op op, struct runner_async *done,
                          struct runner_call *c, const struct op_claim *claim, int64_t wait_ms,
                          struct interval now)
{
    int64_t wait_until = now.lo + wait_ms;
    done->runner = r;
    kept_reply_init(&done->answer);
    done->call = (struct runner_call){.answer = &done->answer};
    driver_async_too(r->driver, &done->call.waiter, runner_async_end);
    shard_receive_after(r->shard, ticket_of(&done->call), op, ticket_of(c), claim, wait_until,
                        now.hi + r->patience_ms, wait_until + r->patience_ms, now);
}

enum err runner_receive_after(struct shard_runner *r, struct op op, struct runner_async *done,
                              const struct op_claim *claim, int64_t wait_ms, struct kept_reply *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(r, &c, a, &now);
    // In a child of fork, both calls end with the error.
    if (err && !runner_async_begin(r, done, &now)) return err;
    receive_after(r, op, done, &c, claim, wait_ms, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

void runner_receive_after_async(struct shard_runner *r, struct op op, struct runner_async *done,
                                const struct op_claim *claim, int64_t wait_ms,
                                struct runner_async *a)
{
    struct interval now;
    if (!runner_async_begin(r, a, &now) && !runner_async_begin(r, done, &now)) return;
    receive_after(r, op, done, &a->call, claim, wait_ms, now);
    driver_async(r->driver, &a->call.waiter, runner_async_end);
}

enum err runner_read(struct shard_runner *r, const struct shard_places *wants, struct kept_reply *a)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(r, &c, a, &now);
    if (err) return err;
    shard_read(r->shard, ticket_of(&c), wants, now.hi + r->patience_ms, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

// A call without arguments of its own.
static enum err call_plain(struct shard_runner *r,
                           void (*call)(struct shard *s, uint64_t ticket, int64_t deadline,
                                        struct interval now))
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(r, &c, NULL, &now);
    if (err) return err;
    call(r->shard, ticket_of(&c), now.hi + r->patience_ms, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

enum err runner_sync(struct shard_runner *r)
{
    return call_plain(r, shard_sync);
}

void runner_owner_away(struct shard_runner *r)
{
    struct waiter w;
    if (driver_enter(r->driver, &w)) return;
    journal_owner_away(shard_journal(r->shard), driver_now(r->driver));
    driver_leave(r->driver, &w);
}

enum err runner_own(struct shard_runner *r, uint64_t expected, const struct journal_owner *owner)
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(r, &c, NULL, &now);
    if (err) return err;
    shard_own(r->shard, ticket_of(&c), expected, owner, now.hi + r->patience_ms, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

enum err runner_coord_switch(struct shard_runner *r, const uint8_t coord[16])
{
    struct runner_call c;
    struct interval now;
    enum err err = runner_call_begin(r, &c, NULL, &now);
    if (err) return err;
    shard_coord_switch(r->shard, ticket_of(&c), coord, now.hi + r->patience_ms, now);
    driver_wait(r->driver, &c.waiter);
    return c.err;
}

enum err runner_touch(struct shard_runner *r)
{
    return call_plain(r, shard_touch);
}

bool runner_dispatch(struct shard_runner *r)
{
    uint8_t seed[16];
    struct waiter w;
    entropy_fill(seed, sizeof seed);
    if (driver_enter(r->driver, &w)) return false;
    bool granted = shard_dispatch(r->shard, seed, driver_now(r->driver));
    driver_leave(r->driver, &w);
    return granted;
}

void runner_listed(struct shard_runner *r, int64_t listed_at)
{
    struct waiter w;
    if (driver_enter(r->driver, &w)) return;
    shard_listed(r->shard, listed_at, driver_now(r->driver));
    driver_leave(r->driver, &w);
}

void runner_prefix(const struct shard_runner *r, char out[static JOURNAL_PREFIX_MAX + 1])
{
    size_t len = strlen(r->log) - strlen("/log");
    CHECK(len <= JOURNAL_PREFIX_MAX);
    memcpy(out, r->log, len);
    out[len] = 0;
}

// Copies the next letter, commits it in the target queue without the lock, and reports the result
// to the shard. If the letter arrived, the shard then submits the outbox op. Returns false if there
// is no letter, or if it did not arrive.
static bool move_dead_letter(struct shard_runner *r, runner_move_fn *move, void *ctx)
{
    struct waiter w;
    struct dead_letter letter;
    if (driver_enter(r->driver, &w)) return false;
    bool there = shard_next_dead_letter(r->shard, &letter);
    char to[QUEUE_NAME_MAX + 1] = "";
    struct op op = {0};
    if (there) {
        (void)snprintf(to, sizeof to, "%s", letter.to);
        op = (struct op){.kind = letter.op.kind, .payload = bytes_copy(letter.op.payload)};
    }
    driver_leave(r->driver, &w);
    if (!there) return false;
    enum err err = move(ctx, to, op);
    bytes_free(op.payload);
    if (driver_enter(r->driver, &w)) return false;
    if (err == ERR_OK) {
        shard_dead_letter_arrived(r->shard, letter.number, driver_now(r->driver));
    } else {
        shard_dead_letter_failed(r->shard, letter.number, driver_now(r->driver));
    }
    driver_leave(r->driver, &w);
    return err == ERR_OK;
}

size_t runner_move_dead_letters(struct shard_runner *r, runner_move_fn *move, void *ctx)
{
    size_t moved = 0;
    while (call_plain(r, shard_dead_letters) == ERR_OK && move_dead_letter(r, move, ctx))
        moved++;
    return moved;
}

void runner_read_journal(struct shard_runner *r, runner_read_fn *read, void *ctx)
{
    struct waiter w;
    if (driver_enter(r->driver, &w)) return;
    read(ctx, shard_journal(r->shard), shard_machine(r->shard), driver_now(r->driver).lo);
    driver_leave(r->driver, &w);
}

bool runner_saw(const struct shard_runner *r, enum runner_flag flag)
{
    return atomic_load_explicit(&r->flags, memory_order_relaxed) & flag;
}

size_t runner_waiting(struct shard_runner *r)
{
    struct waiter w;
    if (driver_enter(r->driver, &w)) return 0;
    size_t waiting = shard_waiting(r->shard);
    driver_leave(r->driver, &w);
    return waiting;
}

void runner_counters(struct shard_runner *r, struct shard_counters *to)
{
    struct waiter w;
    *to = (struct shard_counters){0};
    if (driver_enter(r->driver, &w)) return;
    *to = *shard_counters(r->shard);
    driver_leave(r->driver, &w);
}

void runner_events(struct shard_runner *r, runner_event_fn *on_event, void *ctx)
{
    struct waiter w;
    if (driver_enter(r->driver, &w)) return;
    const struct events *list = shard_events(r->shard);
    for (size_t i = 0; i < list->len; i++)
        on_event(ctx, list, &list->rows[i]);
    shard_events_taken(r->shard);
    driver_leave(r->driver, &w);
}
