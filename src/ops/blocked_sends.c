// SPDX-License-Identifier: Apache-2.0
#include "ops/blocked_sends.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/call.h"
#include "ops/ops.h"
#include "os/clock.h"
#include "os/lock.h"

#define TRYING_MAX   8 // sends of one queue that try at once, if there is plenty of space
#define PAUSE_MIN_MS 5
#define PAUSE_MAX_MS 200

struct blocked_sends {
    struct pool_task task; // first; it wakes the sends
    pthread_mutex_t lock;
    struct list sends;    // struct local_call: those that wait, in the order of their numbers
    uint64_t number;      // of the last send
    size_t blocked;       // sends that wait or try, in all queues
    pthread_cond_t ended; // `blocked` is 0
    bool stopping;
};

static size_t width_of(const struct send_line *line)
{
    return line->width > 0 ? line->width : 1;
}

// Takes the sends that may try now. Returns when the next one may.
static int64_t take_due(struct blocked_sends *l, struct list *due)
{
    int64_t now = clock_boot_ms(), next = TASK_NEVER;
    LOCKED(&l->lock);
    LIST_EACH(c, &l->sends, struct local_call, place.link) {
        struct send_line *line = &c->queue->calls->line;
        bool room = line->trying < width_of(line);
        c->place.last = l->stopping || c->until <= now;
        if (c->place.last || (room && line->try_at <= now)) {
            list_remove(&l->sends, &c->place.link);
            list_add(due, &c->place.link);
            c->place.tries = true;
            line->trying++;
            continue;
        }
        int64_t then = room && line->try_at < c->until ? line->try_at : c->until;
        if (then < next) next = then;
    }
    return next;
}

static int64_t wake_sends(struct pool_task *task)
{
    struct list due = {0};
    int64_t next = take_due((struct blocked_sends *)task, &due);
    LIST_EACH(c, &due, struct local_call, place.link) {
        list_remove(&due, &c->place.link); // it may wait again
        call_note_resumed(c, c->place.last);
    }
    return next;
}

enum err blocked_sends_new(struct engine *e, struct blocked_sends **out)
{
    struct blocked_sends *l = NEW(struct blocked_sends);
    enum err err = thread_pool_add(e->pool, &l->task, wake_sends);
    if (err) {
        memory_free(l);
        return err;
    }
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->ended, NULL);
    *out = l;
    return ERR_OK;
}

void blocked_sends_stop(struct blocked_sends *l)
{
    if (!l) return;
    (void)pthread_mutex_lock(&l->lock);
    l->stopping = true;
    (void)pthread_mutex_unlock(&l->lock);
    task_remove(&l->task);
    (void)wake_sends(&l->task);
    // Each tries once more, perhaps on another thread.
    LOCKED(&l->lock);
    while (l->blocked > 0)
        (void)pthread_cond_wait(&l->ended, &l->lock);
}

void blocked_sends_free(struct blocked_sends *l)
{
    if (!l) return;
    CHECK(!l->sends.first && l->blocked == 0);
    (void)pthread_cond_destroy(&l->ended);
    (void)pthread_mutex_destroy(&l->lock);
    memory_free(l);
}

bool blocked_send_enter(struct local_call *c)
{
    struct blocked_sends *l = c->engine->ops->blocked;
    LOCKED(&l->lock);
    if (c->place.number == 0) c->place.number = ++l->number;
    return !c->place.blocked && c->queue->calls->line.blocked > 0;
}

static void insert(struct blocked_sends *l, struct local_call *c)
{
    struct local_call *at = LIST_FIRST(&l->sends, struct local_call, place.link);
    while (at && at->place.number < c->place.number)
        at = LIST_NEXT(at, struct local_call, place.link);
    list_add_before(&l->sends, &c->place.link, at ? &at->place.link : NULL);
}

static void tried(struct send_line *line, struct local_call *c)
{
    if (!c->place.tries) return;
    CHECK(line->trying > 0);
    c->place.tries = false;
    line->trying--;
}

// Another send found the queue full: the pause grows.
static void grow_pause(struct send_line *line)
{
    line->width = 1;
    line->pause_ms = line->pause_ms == 0 ? PAUSE_MIN_MS : line->pause_ms * 2;
    if (line->pause_ms > PAUSE_MAX_MS) line->pause_ms = PAUSE_MAX_MS;
    line->try_at = clock_boot_ms() + line->pause_ms;
}

void blocked_send_wait(struct local_call *c)
{
    struct blocked_sends *l = c->engine->ops->blocked;
    struct send_line *line = &c->queue->calls->line;
    (void)pthread_mutex_lock(&l->lock);
    CHECK(c->place.number > 0);
    tried(line, c);
    if (!c->place.blocked) line->blocked++, l->blocked++;
    c->place.blocked = true;
    if (c->state.full) grow_pause(line);
    bool stopping = l->stopping;
    if (!stopping) insert(l, c);
    if (!stopping) task_schedule(&l->task);
    (void)pthread_mutex_unlock(&l->lock);
    if (stopping) call_note_resumed(c, true);
}

void blocked_send_leave(struct local_call *c, bool plenty)
{
    struct blocked_sends *l = c->engine->ops->blocked;
    if (!c->place.blocked) return;
    struct send_line *line = &c->queue->calls->line;
    LOCKED(&l->lock);
    if (c->place.tries && !c->place.last) {
        size_t wider = 2 * width_of(line);
        line->width = !plenty ? 1 : wider < TRYING_MAX ? wider : TRYING_MAX;
        line->pause_ms = line->try_at = 0;
    }
    tried(line, c);
    line->blocked--;
    c->place.blocked = false;
    if (--l->blocked == 0) (void)pthread_cond_broadcast(&l->ended);
    if (l->sends.first && !l->stopping) task_schedule(&l->task);
}

size_t blocked_sends_count(struct engine *e, const char *queue)
{
    CLEANUP(queue_let_go) struct open_queue *q = queue_if_known(e, queue);
    if (!q) return 0;
    LOCKED(&e->ops->blocked->lock);
    return q->calls->line.blocked;
}
