// SPDX-License-Identifier: Apache-2.0
// Performs the effects of a call (call/step.h).
#include "local/call.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/asks.h"
#include "local/awaits.h"
#include "local/away.h"
#include "local/waiting.h"
#include "os/clock.h"

#include <stddef.h>
#include <string.h>

#define PAUSE_MIN_MS 5 // a blocking send tries a full queue again after this, then twice this ...
#define PAUSE_MAX_MS 200

void call_prepare(struct local_call *c, const struct call_type *type, struct sluice *s,
                  const char *queue, struct async_call *caller)
{
    call_init(&c->state, type->kind);
    c->type = type;
    c->handle = s;
    c->caller = caller;
    if (queue) memcpy(c->name, queue, strnlen(queue, sizeof c->name - 1));
    atomic_init(&c->refs, caller ? 1 : 2);
    (void)pthread_mutex_init(&c->lock, NULL);
    if (!caller) (void)pthread_cond_init(&c->ended, NULL);
}

void call_slot_free(struct call_slot *slot)
{
    runner_answer_done(&slot->async.answer);
    away_free(slot);
    slot->busy = false;
}

void call_release(struct local_call *c)
{
    if (atomic_fetch_sub(&c->refs, 1) > 1) return;
    for (size_t i = 0; i < c->slots_len; i++)
        if (c->slots[i].busy) call_slot_free(&c->slots[i]);
    if (c->slots != &c->one) memory_free(c->slots);
    if (c->owns_error) memory_free(c->error);
    memory_free(c->away);
    queue_let_go(&c->queue);
    call_done(&c->state);
    if (!c->caller) (void)pthread_cond_destroy(&c->ended);
    (void)pthread_mutex_destroy(&c->lock);
    c->type->release(c);
}

struct call_slot *call_slot_of(struct local_call *c, enum call_effect_kind effect, uint32_t index)
{
    for (size_t i = 0; i < c->slots_len; i++) {
        struct call_slot *slot = &c->slots[i];
        if (slot->busy && slot->effect == effect && slot->index == index) return slot;
    }
    return NULL;
}

static void run(struct local_call *c);

// Releases the lock. Runs the call, unless another thread does, or will: one that waits for it.
static void run_or_leave(struct local_call *c)
{
    bool waits = !c->caller && !c->answered;
    bool runs = !c->running && !waits;
    if (runs) c->running = true;
    if (waits) (void)pthread_cond_signal(&c->ended);
    (void)pthread_mutex_unlock(&c->lock);
    if (runs) run(c);
}

void call_note_slot(struct call_slot *slot)
{
    struct local_call *c = slot->call;
    (void)pthread_mutex_lock(&c->lock);
    slot->next = c->inbox;
    c->inbox = slot;
    run_or_leave(c);
}

void call_note_cancel(struct local_call *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->cancelled = true;
    run_or_leave(c);
}

void call_note_reroute(struct local_call *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->rerouted = true;
    run_or_leave(c);
}

void call_note_turn(struct local_call *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->has_turn = true;
    run_or_leave(c);
}

void call_note_resumed(struct local_call *c, bool last)
{
    (void)pthread_mutex_lock(&c->lock);
    c->resumed = true;
    c->last = last;
    run_or_leave(c);
}

// Passes the events that wait. Returns false if there are none: the thread no longer runs the call.
static bool take_events(struct local_call *c)
{
    (void)pthread_mutex_lock(&c->lock);
    struct call_slot *inbox = c->inbox;
    bool cancelled = c->cancelled, has_turn = c->has_turn, resumed = c->resumed, last = c->last;
    bool rerouted = c->rerouted;
    bool any = inbox || cancelled || has_turn || resumed || rerouted;
    c->inbox = NULL;
    c->cancelled = c->has_turn = c->resumed = c->rerouted = false;
    c->running = any;
    bool over = !any && !c->released && call_is_over(&c->state);
    c->released = c->released || over;
    (void)pthread_mutex_unlock(&c->lock);
    if (over) call_release(c); // c is not used any more
    for (struct call_slot *slot = inbox, *next; slot; slot = next) {
        next = slot->next;
        ask_ended(slot);
    }
    if (cancelled) call_cancel(&c->state);
    if (has_turn) call_has_turn(&c->state);
    if (resumed) call_resumed(&c->state, last);
    if (rerouted) call_reroute(&c->state);
    return any;
}

static bool needs_all_runners(const struct local_call *c)
{
    return c->caller || c->type->kind == CALL_RECEIVE;
}

static bool open_runners(struct local_call *c)
{
    struct shard_runner *d;
    for (uint32_t i = 0; needs_all_runners(c) && i < c->queue->row.birth.shards; i++)
        if (queue_work_runner(c->queue, i, &d, call_error(c))) return false;
    return true;
}

enum call_built call_open_queue(struct local_call *c, bool may_block)
{
    struct shard_runner *const *runners;
    if (c->queue) return CALL_BUILT;
    if (!may_block) {
        c->queue = queue_if_open(c->handle, c->name, &runners);
        return c->queue ? CALL_BUILT : CALL_BLOCKS;
    }
    if (queue_get(c->handle, c->name, &c->queue, call_error(c))) return CALL_ENDED;
    return open_runners(c) ? CALL_BUILT : CALL_ENDED;
}

bool call_open_again(struct local_call *c)
{
    queue_let_go(&c->queue);
    if (queue_get_fresh(c->handle, c->name, &c->queue, call_error(c))) return false;
    return open_runners(c);
}

struct shard_runner *call_runner(struct local_call *c, uint32_t shard)
{
    struct shard_runner *d;
    if (c->type->runner) return c->type->runner(c, shard);
    if (needs_all_runners(c)) return c->queue->runners[shard];
    return queue_work_runner(c->queue, shard, &d, call_error(c)) ? NULL : d;
}

static size_t slots_needed(const struct call_plan *p)
{
    size_t ops = p->ops < p->at_once ? p->ops : p->at_once;
    if (p->shards == 0) return ops;
    return ops + 1 + (p->shards > 1 ? p->shards * (size_t)(p->named ? 2 : 1) : 0);
}

static void make_slots(struct local_call *c, const struct call_plan *p)
{
    size_t len = slots_needed(p);
    if (len <= c->slots_len) return;
    if (c->slots != &c->one) memory_free(c->slots);
    c->slots = len == 1 ? &c->one : memory_zeroed(len, sizeof *c->slots);
    c->slots_len = len;
}

void call_own(struct local_call *c)
{
    if (!c->owns) c->type->own(c);
    c->owns = true;
}

// Runs the rest of the call on the pool.
static bool hand_over(struct local_call *c, enum call_effect_kind effect);

// Returns true if another thread runs the call from now on.
static bool build(struct local_call *c, bool may_block)
{
    struct call_plan plan = {0};
    switch (c->type->build(c, may_block, &plan)) {
    case CALL_BLOCKS:
        CHECK(!may_block);
        return hand_over(c, CALL_BUILD);
    case CALL_BUILT:
        make_slots(c, &plan);
        call_built(&c->state, &plan);
        break;
    case CALL_ENDED:
        call_failed(&c->state);
        break;
    }
    return false;
}

static bool deliver(struct local_call *c, bool may_block)
{
    turn_end(c);
    if (!c->type->deliver(c, may_block)) return hand_over(c, CALL_DELIVER);
    call_delivered(&c->state);
    return false;
}

// Finds the owners of the shards that have moved.
static bool find(struct local_call *c, bool may_block)
{
    if (!may_block) return hand_over(c, CALL_FIND);
    struct shard_runner *d;
    enum sluice_code code = queue_work_runner(c->queue, 0, &d, NULL);
    (void)code; // the next attempt reports the reason
    call_found(&c->state);
    return false;
}

static bool look(struct local_call *c, bool may_block)
{
    if (!may_block) return hand_over(c, CALL_LOOK);
    call_looked(&c->state, c->type->look(c, c->state.shard_next - 1));
    return false;
}

static void run_job(struct pool_job *job)
{
    struct local_call *c = (struct local_call *)((char *)job - offsetof(struct local_call, job));
    if (c->job_effect == CALL_BUILD)
        (void)build(c, true);
    else if (c->job_effect == CALL_LOOK)
        (void)look(c, true);
    else
        (void)(c->job_effect == CALL_FIND ? find(c, true) : deliver(c, true));
    run(c);
}

static bool hand_over(struct local_call *c, enum call_effect_kind effect)
{
    if (effect == CALL_BUILD) call_own(c);
    c->job_effect = effect;
    c->job = (struct pool_job){.run = run_job};
    if (async_run_job(c->handle, c->name, &c->job)) return true;
    if (effect == CALL_BUILD) {
        (void)refuse(call_error(c), ERR_UNAVAILABLE, "", "no thread can be created for this call");
        call_failed(&c->state);
        return false;
    }
    if (effect == CALL_FIND) {
        call_found(&c->state); // the next attempt finds the same owner, and then goes on here
        return false;
    }
    if (effect == CALL_LOOK) return look(c, true);
    (void)c->type->deliver(c, true); // the messages are locked already
    call_delivered(&c->state);
    return false;
}

// A thread that waits for the call sleeps itself.
static void pause_thread(struct local_call *c)
{
    bool last = clock_boot_ms() >= c->until;
    c->pause_ms = c->pause_ms == 0 ? PAUSE_MIN_MS : c->pause_ms * 2;
    if (c->pause_ms > PAUSE_MAX_MS) c->pause_ms = PAUSE_MAX_MS;
    if (!last) clock_sleep(c->pause_ms);
    call_resumed(&c->state, last);
}

static void pause_call(struct local_call *c)
{
    if (!c->caller) {
        pause_thread(c);
        return;
    }
    call_own(c);
    line_wait(c);
}

static void answer(struct local_call *c)
{
    static const struct sluice_error fine = {.code = SLUICE_OK};
    struct async_call *caller = c->caller;
    if (c->state.in_doubt) // an answer without an entry does not decide the call
        call_set_code(c, code_repeated(call_code(c)));
    if (c->type->ended) c->type->ended(c);
    waiting_end(c);
    turn_end(c);
    struct async_answer a = {.error = c->error ? c->error : &fine, .away = c->away};
    a.code = a.error->code;
    if (!caller) {
        (void)pthread_mutex_lock(&c->lock);
        c->answered = true; // from now on, any thread runs what is left
        (void)pthread_mutex_unlock(&c->lock);
        return;
    }
    c->type->answer(c, &a);
    (void)pthread_mutex_lock(&c->handle->lock);
    caller->inside = NULL;
    (void)pthread_mutex_unlock(&c->handle->lock);
    // After `done` the caller may close the handle, which waits for the holds of its queues.
    if (call_is_over(&c->state)) queue_let_go(&c->queue);
    caller->done(caller, &a);
}

// Returns true if another thread runs the call from now on.
static bool perform(struct local_call *c, const struct call_effect *e)
{
    switch (e->kind) {
    case CALL_BUILD:
        return build(c, !c->caller);
    case CALL_SUBMIT:
        ask_submit(c, e);
        break;
    case CALL_SUBMIT_JOINED:
        ask_joined(c, e);
        break;
    case CALL_CLAIM:
        ask_claim(c, e);
        break;
    case CALL_AWAIT:
        ask_await(c, e);
        break;
    case CALL_RECALL:
        ask_recall(c, e);
        break;
    case CALL_FIND:
        return find(c, !c->caller);
    case CALL_LOOK:
        return look(c, !c->caller);
    case CALL_WITHDRAW_AWAIT:
    case CALL_WITHDRAW_CLAIM:
        ask_withdraw(c, e);
        break;
    case CALL_NOTIFY:
        awaits_notify(c->queue, e->index);
        runner_notify_next(call_runner(c, e->index));
        break;
    case CALL_PAUSE:
        pause_call(c);
        break;
    case CALL_DELIVER:
        return deliver(c, !c->caller);
    case CALL_ANSWER:
        answer(c);
        break;
    }
    return false;
}

// Runs the call. The caller has made this thread the one that runs it.
static void run(struct local_call *c)
{
    struct call_effect e;
    do {
        while (call_next(&c->state, &e))
            if (perform(c, &e)) return;
    } while (take_events(c));
}

void call_start(struct local_call *c)
{
    if (c->caller) {
        (void)pthread_mutex_lock(&c->handle->lock);
        c->caller->inside = c;
        (void)pthread_mutex_unlock(&c->handle->lock);
    }
    c->running = true;
    run(c);
}

// Only this thread runs the call before it is answered, so it reads `answered` without the lock.
static void wait_until_answered(struct local_call *c)
{
    while (!c->answered) {
        (void)pthread_mutex_lock(&c->lock);
        while (!c->inbox && !c->cancelled && !c->has_turn && !c->rerouted)
            (void)pthread_cond_wait(&c->ended, &c->lock);
        c->running = true;
        (void)pthread_mutex_unlock(&c->lock);
        run(c);
    }
}

enum sluice_code call_blocking(struct local_call *c, struct sluice_error *error)
{
    struct sluice_error own = {.code = SLUICE_OK};
    c->error = &own;
    call_start(c);
    wait_until_answered(c);
    c->error = NULL;
    if (own.code && error) *error = own;
    enum sluice_code code = own.code;
    call_release(c);
    return code;
}

void async_cancel(struct sluice *s, struct async_call *l)
{
    (void)pthread_mutex_lock(&s->lock);
    struct local_call *c = l->inside;
    if (c) atomic_fetch_add(&c->refs, 1);
    (void)pthread_mutex_unlock(&s->lock);
    if (!c) return;
    call_note_cancel(c);
    call_release(c);
}
