// SPDX-License-Identifier: Apache-2.0
#include "ops/blocked_sends.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/call.h"
#include "ops/ops.h"
#include "os/clock.h"

#define TRYING_MAX   8 // sends of one queue that try at once, if there is plenty of space
#define PAUSE_MIN_MS 5
#define PAUSE_MAX_MS 200

struct lines {
    struct pool_task task; // first; it wakes the sends
    pthread_mutex_t lock;
    struct local_call *first; // the sends that wait, in the order of their numbers
    uint64_t number;          // of the last send
    bool stopping;
};

static size_t width_of(const struct send_line *line)
{
    return line->width > 0 ? line->width : 1;
}

// Takes the sends that may try now. Returns when the next one may.
static int64_t take_due(struct lines *l, struct local_call **due)
{
    int64_t now = clock_boot_ms(), next = TASK_NEVER;
    struct local_call **end = due;
    (void)pthread_mutex_lock(&l->lock);
    for (struct local_call **at = &l->first; *at;) {
        struct local_call *c = *at;
        struct send_line *line = &c->queue->calls->line;
        bool room = line->trying < width_of(line);
        c->line.last = l->stopping || c->until <= now;
        if (c->line.last || (room && line->try_at <= now)) {
            *at = c->line.next;
            c->line.next = NULL;
            c->line.tries = true;
            line->trying++;
            *end = c;
            end = &c->line.next;
            continue;
        }
        int64_t then = room && line->try_at < c->until ? line->try_at : c->until;
        if (then < next) next = then;
        at = &c->line.next;
    }
    (void)pthread_mutex_unlock(&l->lock);
    return next;
}

static int64_t wake_sends(struct pool_task *task)
{
    struct local_call *due = NULL;
    int64_t next = take_due((struct lines *)task, &due);
    for (struct local_call *c = due, *after; c; c = after) {
        after = c->line.next;
        call_note_resumed(c, c->line.last);
    }
    return next;
}

enum err lines_new(struct engine *e, struct lines **out)
{
    struct lines *l = NEW(struct lines);
    enum err err = thread_pool_add(e->pool, &l->task, wake_sends);
    if (err) {
        memory_free(l);
        return err;
    }
    (void)pthread_mutex_init(&l->lock, NULL);
    *out = l;
    return ERR_OK;
}

void lines_stop(struct lines *l)
{
    if (!l) return;
    (void)pthread_mutex_lock(&l->lock);
    l->stopping = true;
    (void)pthread_mutex_unlock(&l->lock);
    task_remove(&l->task);
    (void)wake_sends(&l->task);
}

void lines_free(struct lines *l)
{
    if (!l) return;
    CHECK(!l->first);
    (void)pthread_mutex_destroy(&l->lock);
    memory_free(l);
}

bool line_enter(struct local_call *c)
{
    struct lines *l = c->engine->ops->lines;
    (void)pthread_mutex_lock(&l->lock);
    if (c->line.number == 0) c->line.number = ++l->number;
    bool behind = !c->line.blocked && c->queue->calls->line.blocked > 0;
    (void)pthread_mutex_unlock(&l->lock);
    return behind;
}

static void insert(struct lines *l, struct local_call *c)
{
    struct local_call **at = &l->first;
    while (*at && (*at)->line.number < c->line.number)
        at = &(*at)->line.next;
    c->line.next = *at;
    *at = c;
}

static void tried(struct send_line *line, struct local_call *c)
{
    if (!c->line.tries) return;
    CHECK(line->trying > 0);
    c->line.tries = false;
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

void line_wait(struct local_call *c)
{
    struct lines *l = c->engine->ops->lines;
    struct send_line *line = &c->queue->calls->line;
    (void)pthread_mutex_lock(&l->lock);
    CHECK(c->line.number > 0);
    tried(line, c);
    if (!c->line.blocked) line->blocked++;
    c->line.blocked = true;
    if (c->state.full) grow_pause(line);
    bool stopping = l->stopping;
    if (!stopping) insert(l, c);
    if (!stopping) task_schedule(&l->task);
    (void)pthread_mutex_unlock(&l->lock);
    if (stopping) call_note_resumed(c, true);
}

void line_leave(struct local_call *c, bool plenty)
{
    struct lines *l = c->engine->ops->lines;
    if (!c->line.blocked) return;
    struct send_line *line = &c->queue->calls->line;
    (void)pthread_mutex_lock(&l->lock);
    if (c->line.tries && !c->line.last) {
        size_t wider = 2 * width_of(line);
        line->width = !plenty ? 1 : wider < TRYING_MAX ? wider : TRYING_MAX;
        line->pause_ms = line->try_at = 0;
    }
    tried(line, c);
    line->blocked--;
    c->line.blocked = false;
    if (l->first && !l->stopping) task_schedule(&l->task);
    (void)pthread_mutex_unlock(&l->lock);
}

size_t line_blocked(struct engine *e, const char *queue)
{
    CLEANUP(queue_let_go) struct open_queue *q = queue_if_known(e, queue);
    if (!q) return 0;
    (void)pthread_mutex_lock(&e->ops->lines->lock);
    size_t blocked = q->calls->line.blocked;
    (void)pthread_mutex_unlock(&e->ops->lines->lock);
    return blocked;
}
