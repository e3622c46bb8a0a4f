// SPDX-License-Identifier: Apache-2.0
#include "ops/awaits.h"
#include "base/list.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/queue_calls.h"
#include "os/clock.h"
#include "os/lock.h"
#include "peer/link.h"
#include "protocol/shard_wire.h"
#include "queues/where.h"

#include <stddef.h>
#include <string.h>

// The polls of one queue at one node, with one token.
struct await_hub {
    struct await_hub *next; // of the queue
    struct pool_task task;  // ends the waits that are over
    struct open_queue *queue;
    struct link_target *target;
    char *token; // NULL: none
    pthread_mutex_t lock;
    pthread_cond_t ended; // a poll has ended
    struct list slots;    // that wait, the oldest first
    bool *covered;        // by shard: a poll waits for it
    struct list open;     // the polls that have no answer yet
    size_t polls;
};

struct await_poll {
    struct link_call link; // first
    struct await_hub *hub;
    struct list_link open;            // among the hub's polls
    struct call_slot *only;           // of a receive that does not wait: the poll is for it alone
    char worker[WORKER_NAME_MAX + 1]; // of the first receive, for a process that is not a node
    size_t len;
    uint32_t shards[];
};

// Call these under the hub's lock.
static void add(struct await_hub *h, struct call_slot *slot)
{
    slot->listed = true;
    list_add(&h->slots, &slot->waits);
}

static void take_out(struct await_hub *h, struct call_slot *slot)
{
    CHECK(slot->listed && slot->shared == h);
    list_remove(&h->slots, &slot->waits);
    slot->listed = false;
}

// Moves the slots that wait for the shard to `out`, or only the oldest of them.
static void take_waiting(struct await_poll *p, uint32_t shard, bool all, enum call_return how,
                         struct call_slot **out)
{
    struct await_hub *h = p->hub;
    if (p->only) {
        p->only->returned = how;
        p->only->err = ERR_OK;
        return;
    }
    LIST_EACH(s, &h->slots, struct call_slot, waits) {
        if (s->index != shard) continue;
        take_out(h, s);
        s->returned = how;
        s->err = ERR_OK;
        s->next = *out;
        *out = s;
        if (!all) return;
    }
}

static void note_all(struct call_slot *slots)
{
    for (struct call_slot *s = slots, *next; s; s = next) {
        next = s->next;
        call_note_slot(s);
    }
}

static void came_back(struct link_call *l, enum link_end end);

// Call it under the lock.
static void list(struct await_hub *h, struct await_poll *p)
{
    p->hub = h;
    h->polls++;
    list_add_first(&h->open, &p->open);
}

// Call it under the lock. The owner shows the worker. A node polls for many, and shows them itself.
static void set_worker(struct await_poll *p, struct call_slot *slot)
{
    struct bytes name = receive_claim(slot->call)->worker;
    bool node = atomic_load(&slot->call->engine->self);
    if (node) name = bytes_str(AWAIT_NODE);
    CHECK(name.len < sizeof p->worker);
    memcpy(p->worker, name.data, name.len);
}

// Call it under the lock. A poll for the shards that receives wait for and that no poll has. NULL:
// there are none.
static struct await_poll *next_poll(struct await_hub *h)
{
    uint32_t shards = h->queue->row.birth.shards;
    struct await_poll *p = NULL;
    LIST_EACH(s, &h->slots, struct call_slot, waits) {
        CHECK(s->index < shards);
        if (h->covered[s->index] || (p && p->len == SHARD_AWAITS_MAX)) continue;
        if (!p) {
            p = memory_zeroed(1, sizeof *p + shards * sizeof *p->shards);
            set_worker(p, s);
        }
        h->covered[s->index] = true;
        p->shards[p->len++] = s->index;
    }
    if (p) list(h, p);
    return p;
}

// Call it under the lock. A receive that does not wait must know whether there is something now.
static struct await_poll *poll_for(struct await_hub *h, struct call_slot *slot)
{
    struct await_poll *p = memory_zeroed(1, sizeof *p + sizeof *p->shards);
    p->shards[p->len++] = slot->index;
    p->only = slot;
    set_worker(p, slot);
    list(h, p);
    return p;
}

// The poll has ended. Call it under the lock, before its answer is passed on.
static void begin_end(struct await_poll *p, struct call_slot **woken)
{
    list_remove(&p->hub->open, &p->open);
    for (size_t i = 0; !p->only && i < p->len; i++)
        p->hub->covered[p->shards[i]] = false;
    if (!p->only) return;
    p->only->err = ERR_NOT_FOUND;
    p->only->next = *woken;
    *woken = p->only;
}

// Ends a poll: wakes the receives that it is about.
static void poll_over(struct await_poll *p, struct call_slot *woken)
{
    struct await_hub *h = p->hub;
    link_done(&p->link);
    memory_free(p);
    note_all(woken);
    LOCKED(&h->lock);
    h->polls--;
    (void)pthread_cond_broadcast(&h->ended);
}

static void poll_send(struct await_poll *p)
{
    struct await_hub *h = p->hub;
    struct shard_ask ask = {.kind = SHARD_AWAIT,
                            .queue = h->queue->row.id,
                            .wait_ms = p->only ? 0 : SHARD_WAIT_MAX_MS,
                            .worker = bytes_str(p->worker)};
    struct call_slot *woken = NULL;
    link_init(&p->link);
    shard_ask_put_await(&p->link.body, &ask, p->shards, p->len);
    p->link.done = came_back;
    const char *queue = h->queue->row.name;
    if (link_send(h->queue->engine->links, h->target, &p->link, queue, h->token, ask.wait_ms))
        return;
    (void)pthread_mutex_lock(&h->lock);
    begin_end(p, &woken);
    for (size_t i = 0; i < p->len; i++) {
        take_waiting(p, p->shards[i], true, STEP_UNDONE, &woken);
    }
    (void)pthread_mutex_unlock(&h->lock);
    poll_over(p, woken);
}

// Reads the answer. Call it under the lock.
static void take_answer(struct await_poll *p, struct call_slot **woken)
{
    struct await_hub *h = p->hub;
    CLEANUP(memory_let_go) struct shard_await_row *rows = memory_zeroed(p->len, sizeof *rows);
    bool moved = false;
    size_t len = shard_awaited_read(buf_bytes(&p->link.call.http.body_in), &moved, rows, p->len);
    bool good = len != SIZE_MAX && !moved;
    for (size_t i = 0; !good && i < p->len; i++) {
        take_waiting(p, p->shards[i], true, moved ? STEP_MOVED : STEP_UNDONE, woken);
        if (moved) where_moved(h->queue, p->shards[i]);
    }
    for (size_t i = 0; good && i < len; i++) {
        bool not_owner = rows[i].err == ERR_FENCED; // any more: only the owner hands out messages
        enum call_return how = not_owner ? STEP_MOVED : STEP_UNDONE;
        take_waiting(p, rows[i].shard, rows[i].err != ERR_OK, rows[i].err ? how : STEP_RESULT,
                     woken);
        if (not_owner) where_moved(h->queue, rows[i].shard);
    }
}

static void came_back(struct link_call *l, enum link_end end)
{
    struct await_poll *p = (struct await_poll *)l;
    struct await_hub *h = p->hub;
    struct call_slot *woken = NULL;
    (void)pthread_mutex_lock(&h->lock);
    begin_end(p, &woken);
    for (size_t i = 0; end != LINK_ANSWERED && i < p->len; i++)
        take_waiting(p, p->shards[i], true, STEP_UNDONE, &woken);
    if (end == LINK_ANSWERED) take_answer(p, &woken);
    struct await_poll *next = next_poll(h);
    (void)pthread_mutex_unlock(&h->lock);
    // The receives that are about to be woken keep the queue open.
    if (end != LINK_ANSWERED && woken) where_doubt(h->queue, h->target);
    if (next) poll_send(next);
    poll_over(p, woken);
}

// Ends the waits whose time is over. Returns when the next one is.
static int64_t end_waits(struct pool_task *task)
{
    struct await_hub *h = (struct await_hub *)((char *)task - offsetof(struct await_hub, task));
    struct call_slot *woken = NULL;
    int64_t now = clock_boot_ms(), wake_at = TASK_NEVER;
    (void)pthread_mutex_lock(&h->lock);
    LIST_EACH(s, &h->slots, struct call_slot, waits) {
        if (s->call->until > now) {
            if (s->call->until < wake_at) wake_at = s->call->until;
            continue;
        }
        take_out(h, s);
        s->err = ERR_NOT_FOUND;
        s->next = woken;
        woken = s;
    }
    (void)pthread_mutex_unlock(&h->lock);
    note_all(woken);
    return wake_at;
}

static bool same_token(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

// NULL: no thread can be created.
static struct await_hub *hub_of(struct open_queue *q, struct link_target *t, const char *token)
{
    LOCKED(&q->engine->lock);
    struct await_hub *h = q->calls->hubs;
    while (h && (h->target != t || !same_token(h->token, token)))
        h = h->next;
    if (!h) {
        h = NEW(struct await_hub);
        h->queue = q;
        h->target = t;
        h->token = memory_text(token);
        h->covered = memory_zeroed(q->row.birth.shards, sizeof *h->covered);
        (void)pthread_mutex_init(&h->lock, NULL);
        (void)pthread_cond_init(&h->ended, NULL);
        bool added = thread_pool_add(q->engine->pool, &h->task, end_waits) == ERR_OK;
        CHECK(added); // the pool has threads: it runs the queue
        h->next = q->calls->hubs;
        q->calls->hubs = h;
    }
    return h;
}

void awaits_begin(struct local_call *c, struct link_target *t, const char *token,
                  struct call_slot *slot)
{
    struct await_hub *h = hub_of(c->queue, t, token);
    slot->shared = h;
    kept_reply_init(&slot->async.answer);
    bool waits = receive_left_ms(c) > 0;
    (void)pthread_mutex_lock(&h->lock);
    if (waits) add(h, slot);
    struct await_poll *p = waits ? next_poll(h) : poll_for(h, slot);
    (void)pthread_mutex_unlock(&h->lock);
    if (waits) task_schedule_at(&h->task, c->until);
    if (p) poll_send(p);
}

bool awaits_cancel(struct call_slot *slot)
{
    struct await_hub *h = slot->shared;
    LOCKED(&h->lock);
    bool waits = slot->listed;
    if (waits) take_out(h, slot);
    return waits;
}

void awaits_notify(struct open_queue *q, uint32_t shard)
{
    struct call_slot *woken = NULL;
    (void)pthread_mutex_lock(&q->engine->lock);
    for (struct await_hub *h = q->calls->hubs; h && !woken; h = h->next) {
        struct await_poll any = {.hub = h};
        LOCKED(&h->lock);
        take_waiting(&any, shard, false, STEP_RESULT, &woken);
    }
    (void)pthread_mutex_unlock(&q->engine->lock);
    note_all(woken);
}

// Ends the polls that are under way. One over TLS is waited for.
static void end_polls(struct await_hub *h)
{
    LOCKED(&h->lock);
    CHECK(!h->slots.first);
    while (h->polls > 0) {
        // It is valid, because it leaves the list under the lock.
        struct await_poll *p = LIST_FIRST(&h->open, struct await_poll, open);
        if (p && link_cancel(&p->link)) {
            list_remove(&h->open, &p->open);
            h->polls--;
            link_done(&p->link);
            memory_free(p);
        } else {
            (void)pthread_cond_wait(&h->ended, &h->lock);
        }
    }
}

void awaits_free(struct open_queue *q)
{
    while (q->calls->hubs) {
        struct await_hub *h = q->calls->hubs;
        q->calls->hubs = h->next;
        end_polls(h);
        task_remove(&h->task);
        if (h->token) explicit_bzero(h->token, strlen(h->token));
        memory_free(h->token);
        memory_free(h->covered);
        (void)pthread_cond_destroy(&h->ended);
        (void)pthread_mutex_destroy(&h->lock);
        memory_free(h);
    }
}
