// SPDX-License-Identifier: Apache-2.0
// Performs the effects of a call (call/step.h).
#include "ops/call.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/asks.h"
#include "ops/forward.h"
#include "ops/waiting_receives.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stddef.h>
#include <string.h>

#define PAUSE_MIN_MS 5 // a blocking send tries a full queue again after this, then twice this ...
#define PAUSE_MAX_MS 200

void call_prepare(struct local_call *c, const struct call_type *type, struct engine *e,
                  const char *queue, struct async_call *caller)
{
    call_init(&c->state, type->kind);
    c->type = type;
    c->engine = e;
    c->caller = caller;
    if (queue) memcpy(c->name, queue, strnlen(queue, sizeof c->name - 1));
    atomic_init(&c->refs, caller && !type->held ? 1 : 2);
    (void)pthread_mutex_init(&c->lock, NULL);
}

void call_slot_free(struct call_slot *slot)
{
    kept_reply_done(&slot->async.answer);
    forward_free(slot);
    slot->busy = false;
}

void call_release(struct local_call *c)
{
    if (atomic_fetch_sub(&c->refs, 1) > 1) return;
    for (size_t i = 0; i < c->slots_len; i++)
        if (c->slots[i].busy) call_slot_free(&c->slots[i]);
    if (c->slots != &c->one) memory_free(c->slots);
    if (c->owns_error) memory_free(c->error);
    memory_free(c->forwarded);
    queue_let_go(&c->queue);
    call_done(&c->state);
    (void)pthread_mutex_destroy(&c->lock);
    c->type->release(c);
}

static bool slot_is(const struct call_slot *slot, enum call_effect_kind effect, uint32_t index)
{
    return slot->busy && slot->effect == effect && slot->index == index;
}

struct call_slot *call_slot_of(const struct local_call *c, enum call_effect_kind effect,
                               uint32_t index)
{
    if (index < c->slots_len && slot_is(&c->slots[index], effect, index)) return &c->slots[index];
    for (size_t i = 0; i < c->slots_len; i++)
        if (slot_is(&c->slots[i], effect, index)) return &c->slots[i];
    return NULL;
}

static void run(struct local_call *c);

// Releases the lock. Runs the call, unless another thread does, or will: one that waits for it.
static void run_or_leave(struct local_call *c)
{
    bool waits = !c->caller && !c->answered;
    bool runs = !c->running && !waits;
    if (runs) c->running = true;
    if (waits) (void)pthread_cond_signal(c->ended);
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
    return c->caller || c->type->kind == STEP_RECEIVE;
}

static bool open_runners(struct local_call *c)
{
    struct shard_runner *r;
    for (uint32_t i = 0; needs_all_runners(c) && i < c->queue->row.birth.shards; i++)
        if (queue_work_runner(c->queue, i, &r, call_error(c))) return false;
    return true;
}

enum call_built call_open_queue(struct local_call *c, bool may_block)
{
    struct shard_runner *const *runners;
    if (c->queue) return CALL_BUILT;
    if (!may_block) {
        c->queue = queue_if_open(c->engine, c->name, &runners);
        return c->queue ? CALL_BUILT : CALL_BLOCKS;
    }
    if (queue_get(c->engine, c->name, &c->queue, call_error(c))) return CALL_ENDED;
    return open_runners(c) ? CALL_BUILT : CALL_ENDED;
}

bool call_open_again(struct local_call *c)
{
    queue_let_go(&c->queue);
    if (queue_get_fresh(c->engine, c->name, &c->queue, call_error(c))) return false;
    return open_runners(c);
}

struct shard_runner *call_runner(struct local_call *c, uint32_t shard)
{
    struct shard_runner *r;
    if (c->type->runner) return c->type->runner(c, shard);
    if (needs_all_runners(c)) return c->queue->runners[shard];
    return queue_work_runner(c->queue, shard, &r, call_error(c)) ? NULL : r;
}

static size_t slots_needed(const struct local_call *c, const struct call_plan *p)
{
    size_t ops = p->ops < p->at_once ? p->ops : p->at_once;
    if (p->shards == 0 || p->awaits_only) return ops + p->shards;
    if (c->type->look) return 1;
    return ops + 1 + (p->shards > 1 ? p->shards * (size_t)(p->named ? 2 : 1) : 0);
}

static void make_slots(struct local_call *c, const struct call_plan *p)
{
    size_t len = slots_needed(c, p);
    if (len <= c->slots_len) return;
    if (c->slots != &c->one) memory_free(c->slots);
    c->slots = len == 1 ? &c->one : memory_zeroed(len, sizeof *c->slots);
    c->slots_len = len;
}

void call_own(struct local_call *c)
{
    if (!c->owns && c->type->own) c->type->own(c);
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
        return hand_over(c, STEP_BUILD);
    case CALL_BUILT:
        make_slots(c, &plan);
        call_built(&c->state, &plan);
        break;
    case CALL_ENDED:
        call_failed(&c->state);
        break;
    case CALL_MOVED:
        call_moved(&c->state);
        break;
    }
    return false;
}

static bool deliver(struct local_call *c, bool may_block)
{
    turn_end(c);
    if (!c->type->deliver(c, may_block)) return hand_over(c, STEP_DELIVER);
    call_delivered(&c->state);
    return false;
}

// Finds the owners of the shards that have moved.
static bool find(struct local_call *c, bool may_block)
{
    if (!may_block) return hand_over(c, STEP_FIND);
    struct shard_runner *r;
    enum sluice_code code = queue_work_runner(c->queue, 0, &r, NULL);
    (void)code; // the next attempt reports the reason
    call_found(&c->state);
    return false;
}

static void look(struct local_call *c, const struct call_effect *e)
{
    if (c->caller)
        ask_look(c, e);
    else
        call_looked(&c->state, c->type->look(c, e->index, NULL));
}

static void run_job(struct pool_job *job)
{
    struct local_call *c = (struct local_call *)((char *)job - offsetof(struct local_call, job));
    if (c->job_effect == STEP_BUILD)
        (void)build(c, true);
    else
        (void)(c->job_effect == STEP_FIND ? find(c, true) : deliver(c, true));
    run(c);
}

static bool hand_over(struct local_call *c, enum call_effect_kind effect)
{
    if (effect == STEP_BUILD) call_own(c);
    c->job_effect = effect;
    c->job = (struct pool_job){.run = run_job};
    if (engine_run_job(c->engine, c->name, &c->job)) return true;
    if (effect == STEP_BUILD) {
        (void)refuse(call_error(c), ERR_UNAVAILABLE, "", "no thread can be created for this call");
        call_failed(&c->state);
        return false;
    }
    if (effect == STEP_FIND) {
        call_found(&c->state); // the next attempt finds the same owner, and then goes on here
        return false;
    }
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
    blocked_send_wait(c);
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
    struct async_answer a = {.error = c->error ? c->error : &fine, .forwarded = c->forwarded};
    a.code = a.error->code;
    if (!caller) {
        LOCKED(&c->lock);
        c->answered = true; // from now on, any thread runs what is left
        return;
    }
    if (c->type->answer) c->type->answer(c, &a);
    if (!c->type->held) {
        (void)pthread_mutex_lock(&c->engine->lock);
        caller->inside = NULL;
        (void)pthread_mutex_unlock(&c->engine->lock);
        // After `done` the caller may close the handle, which waits for the holds of its queues.
        if (call_is_over(&c->state)) queue_let_go(&c->queue);
    }
    caller->done(caller, &a);
}

// Returns true if another thread runs the call from now on.
static bool perform(struct local_call *c, const struct call_effect *e)
{
    switch (e->kind) {
    case STEP_BUILD:
        return build(c, !c->caller);
    case STEP_SUBMIT:
        ask_submit(c, e);
        break;
    case STEP_SUBMIT_JOINED:
        ask_joined(c, e);
        break;
    case STEP_CLAIM:
        ask_claim(c, e);
        break;
    case STEP_AWAIT:
        ask_await(c, e);
        break;
    case STEP_RECALL:
        ask_recall(c, e);
        break;
    case STEP_FIND:
        return find(c, !c->caller);
    case STEP_LOOK:
        look(c, e);
        break;
    case STEP_WITHDRAW_AWAIT:
    case STEP_WITHDRAW_CLAIM:
        ask_withdraw(c, e);
        break;
    case STEP_NOTIFY:
        ask_notify(c, e->index);
        break;
    case STEP_PAUSE:
        pause_call(c);
        break;
    case STEP_DELIVER:
        return deliver(c, !c->caller);
    case STEP_ANSWER:
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
    if (c->caller && !c->type->held) {
        LOCKED(&c->engine->lock);
        c->caller->inside = c;
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
            (void)pthread_cond_wait(c->ended, &c->lock);
        c->running = true;
        (void)pthread_mutex_unlock(&c->lock);
        run(c);
    }
}

enum sluice_code call_blocking(struct local_call *c, struct sluice_error *error)
{
    struct sluice_error own = {.code = SLUICE_OK};
    pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
    c->error = &own;
    c->ended = &ended;
    call_start(c);
    wait_until_answered(c);
    (void)pthread_cond_destroy(&ended);
    c->error = NULL;
    if (own.code && error) *error = own;
    enum sluice_code code = own.code;
    call_release(c);
    return code;
}

enum sluice_code call_run(struct local_call *c, struct sluice_error *error)
{
    if (!c->caller) return call_blocking(c, error);
    call_start(c);
    return SLUICE_OK;
}

void async_cancel(struct engine *e, struct async_call *a)
{
    (void)pthread_mutex_lock(&e->lock);
    struct local_call *c = a->inside;
    if (c) atomic_fetch_add(&c->refs, 1);
    (void)pthread_mutex_unlock(&e->lock);
    if (!c) return;
    call_note_cancel(c);
    call_release(c);
}
