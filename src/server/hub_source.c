// SPDX-License-Identifier: Apache-2.0
// A source: it waits for the events of a queue without a thread, reads them when they are there,
// and passes each one to its subscribers.
#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "events/envelope.h"
#include "os/clock.h"
#include "os/lock.h"
#include "server/hub_inside.h"

#include <stddef.h>
#include <string.h>

#define CATCHING_MAX 16 // sources of single subscribers at once: each folds a whole queue
#define WAIT_MS      20000
#define STALL_MS     50    // until a slow client is looked at again
#define RETRY_MS     1000  // after an error of the store
#define LOOK_MS      10000 // between looks at the journal while the bus names the events
#define DATA_MAX     ((size_t)256 << 10)

static struct source *source_of_task(struct pool_task *task)
{
    return (struct source *)((char *)task - offsetof(struct source, task));
}

static void wait_ended(struct async_call *async, const struct async_answer *a)
{
    struct source *s = (struct source *)((char *)async - offsetof(struct source, wait));
    struct hub *h = s->hub;
    s->waited = a->code;
    LOCKED(&h->lock);
    s->waiting = false;
    task_schedule(&s->task);
}

static void recent_fill(struct recent_events *r, const struct stream_event *t)
{
    *r = (struct recent_events){.data = bytes_copy(t->data),
                                .place = t->place,
                                .time = t->time,
                                .shard = t->shard,
                                .kind = t->kind};
    (void)text_copy(r->message, sizeof r->message, t->message);
    (void)text_copy(r->workflow, sizeof r->workflow, t->workflow);
}

static struct stream_event recent_told(const struct recent_events *r)
{
    return (struct stream_event){.data = r->data,
                                 .place = r->place,
                                 .time = r->time,
                                 .shard = r->shard,
                                 .kind = r->kind,
                                 .message = r->message,
                                 .workflow = r->workflow};
}

static void keep_recent(struct source *s, const struct stream_event *t)
{
    struct recent_events *r = &s->recent[s->recent_len % RECENT];
    if (s->recent_len++ >= RECENT) s->by_shard[r->shard].dropped = r->place;
    bytes_free(r->data);
    recent_fill(r, t);
    r->time = 0; // a subscriber that joins does not measure the lag
}

static uint16_t kind_of(const char *type)
{
    for (int kind = 0; kind < EVENT_COUNT; kind++)
        if (strcmp(event_name((enum event_kind)kind), type) == 0) return (uint16_t)kind;
    return EVENT_COUNT;
}

// Passes an event on to the subscribers. place.n is filled here.
static void source_tell(struct source *s, struct stream_event *t)
{
    CHECK(t->shard < s->shards);
    struct source_shard *shard = &s->by_shard[t->shard];
    t->place.n = shard->at.slot == t->place.slot ? shard->at.n + 1 : 1;
    CHECK(stream_place_compare(&t->place, &shard->at) > 0);
    shard->at = t->place;
    bus_progress_read(&s->bus, t->shard, t->sequence);
    if (!s->alone && s->live)
        keep_recent(s, t);
    else
        shard->dropped = t->place;
    LIST_EACH(p, &s->parts, struct subscription, in)
        part_tell(p, t);
}

static bool stalls(struct source *s)
{
    LOCKED(&s->hub->lock);
    const struct subscription *first = LIST_FIRST(&s->parts, struct subscription, in);
    return s->alone && first && part_stalls(first);
}

static void print_event(const struct source *s, const struct sluice_event *e, struct buf *to)
{
    struct envelope_place place = {.queue = s->queue, .node = s->hub->server->node};
    struct envelope made = envelope_of(e, &place);
    envelope_print(&made, to);
}

// Returns false if a slow client must read first.
static bool drain(struct source *s)
{
    struct sluice_event e;
    LOCAL(buf, data, DATA_MAX);
    while (!stalls(s)) {
        if (!async_events_take(s->events, &e)) return true;
        if (strncmp(e.id, s->life, strlen(s->life)) != 0) continue; // of an earlier life
        buf_clear(&data);
        // A shared source that catches up passes no event on.
        if (s->alone || s->live) print_event(s, &e, &data);
        struct stream_event t = {.data = buf_bytes(&data),
                                 .place = {.slot = e.position},
                                 .sequence = e.sequence,
                                 .shard = e.shard,
                                 .kind = kind_of(e.type),
                                 .message = e.message,
                                 .workflow = e.workflow,
                                 .time = e.time};
        LOCKED(&s->hub->lock);
        source_tell(s, &t);
    }
    return false;
}

struct source *source_find_shared(struct hub *h, const char *life)
{
    LIST_EACH(s, &h->sources, struct source, link)
        if (!s->alone && !s->over && strcmp(s->life, life) == 0) return s;
    return NULL;
}

// Returns whether the shared source still has every event after the part's place.
static bool has_all_since(const struct source *shared, const struct subscription *p)
{
    for (uint32_t i = 0; i < shared->shards; i++)
        if (stream_place_compare(&p->by_shard[i].at, &shared->by_shard[i].dropped) < 0)
            return false;
    return true;
}

static void tell_recent(const struct source *shared, struct subscription *p)
{
    size_t kept = shared->recent_len < RECENT ? shared->recent_len : RECENT;
    for (size_t i = kept; i-- > 0;) {
        struct stream_event t = recent_told(&shared->recent[(shared->recent_len - 1 - i) % RECENT]);
        part_tell(p, &t);
    }
}

// No other source reads this queue: further subscribers use this one.
static void share(struct source *s)
{
    CHECK(s->alone && s->hub->catching > 0);
    s->alone = false;
    s->hub->catching--;
    s->recent = memory_zeroed(RECENT, sizeof *s->recent);
}

// The source of one subscriber has read all that exists: the subscriber joins the shared source, if
// that has no event that the subscriber misses.
static void meet(struct source *s)
{
    struct subscription *p = LIST_FIRST(&s->parts, struct subscription, in);
    struct source *shared = source_find_shared(s->hub, s->life);
    if (p && !shared) share(s);
    if (!p || !shared || !shared->live || !has_all_since(shared, p)) return;
    source_leave(p);
    source_join(shared, p);
    tell_recent(shared, p);
    source_close(s);
}

static void read_all(struct source *s)
{
    LOCKED(&s->hub->lock);
    bool first = !s->live;
    s->live = true;
    if (first) bus_progress_begin(&s->bus, s->hub->bus_up);
    LIST_EACH(p, &s->parts, struct subscription, in)
        if (first) part_began(p);
    if (s->alone) meet(s);
}

static void end(struct source *s, const char *why)
{
    LOCKED(&s->hub->lock);
    source_close(s);
    LIST_EACH(p, &s->parts, struct subscription, in)
        part_ended(p, why);
}

static bool open_events(struct source *s)
{
    struct sluice_error error;
    task_may_block(&s->task);
    enum sluice_code code =
        sluice_events_open(s->hub->server->store, s->queue, 0, &s->events, &error);
    if (code == SLUICE_NOT_FOUND) end(s, "queue-deleted");
    return !code;
}

// A source that is not live does not wait: it looks for the end first.
static void start_wait(struct source *s, bool look)
{
    (void)pthread_mutex_lock(&s->hub->lock);
    int64_t wait_ms = !s->live || look ? 0 : s->alone ? STALL_MS : WAIT_MS;
    bool closing = s->over;
    s->waiting = !closing;
    (void)pthread_mutex_unlock(&s->hub->lock);
    s->looked_at_all = look;
    if (!closing) async_events_wait(s->events, wait_ms, &s->wait);
}

static void look_at_shard(struct source *s, uint32_t shard)
{
    (void)pthread_mutex_lock(&s->hub->lock);
    bool closing = s->over;
    s->waiting = !closing;
    (void)pthread_mutex_unlock(&s->hub->lock);
    s->looked_at_all = false;
    if (!closing) async_events_look(s->events, shard, &s->wait);
}

static bool may_run(struct source *s)
{
    LOCKED(&s->hub->lock);
    return !s->waiting && !s->over;
}

// A look that found events of which the bus said nothing shows that the bus is behind.
static enum bus_progress_next next_of(struct source *s, bool found, uint32_t *shard)
{
    enum bus_progress_next next = BUS_PROGRESS_FOLLOW;
    LOCKED(&s->hub->lock);
    if (s->live && !s->alone && !(s->looked_at_all && found))
        next = bus_progress_next(&s->bus, found, shard);
    s->sleeps = next == BUS_PROGRESS_SLEEP;
    return next;
}

// Reads on: at the journal, at one shard of it, or when the bus names an event. Returns when the
// task runs next.
static int64_t go_on(struct source *s, bool found)
{
    uint32_t shard = 0;
    enum bus_progress_next next = next_of(s, found, &shard);
    if (next == BUS_PROGRESS_SLEEP) return clock_boot_ms() + LOOK_MS;
    if (next == BUS_PROGRESS_LOOK)
        look_at_shard(s, shard);
    else
        start_wait(s, false);
    return TASK_NEVER;
}

// The sleep ends: looks at the shard that the bus named, or at all.
static void wake_up(struct source *s)
{
    uint32_t shard = 0;
    (void)pthread_mutex_lock(&s->hub->lock);
    s->sleeps = false;
    bool one = bus_progress_next(&s->bus, true, &shard) == BUS_PROGRESS_LOOK;
    (void)pthread_mutex_unlock(&s->hub->lock);
    if (one)
        look_at_shard(s, shard);
    else
        start_wait(s, true);
}

static bool is_asleep(struct source *s)
{
    LOCKED(&s->hub->lock);
    return s->sleeps;
}

static int64_t run_source(struct pool_task *task)
{
    struct source *s = source_of_task(task);
    if (!may_run(s)) return TASK_NEVER;
    if (!s->events && !open_events(s)) return clock_boot_ms() + RETRY_MS;
    if (!s->opened) {
        s->opened = true;
        start_wait(s, false);
        return TASK_NEVER;
    }
    if (is_asleep(s)) {
        wake_up(s);
        return TASK_NEVER;
    }
    if (!drain(s)) return clock_boot_ms() + STALL_MS;
    if (s->waited) {
        s->waited = SLUICE_OK;
        s->retry_at = clock_boot_ms() + RETRY_MS;
    } else if (async_events_end(s->events) == EVENTS_DELETED) {
        end(s, "queue-deleted");
    } else if (async_events_end(s->events) == EVENTS_NONE) {
        read_all(s);
    }
    if (s->retry_at > clock_boot_ms()) return s->retry_at;
    return go_on(s, async_events_end(s->events) == EVENTS_CAME);
}

struct source *source_new(struct hub *h, const struct stream_queue *q, bool alone)
{
    struct source *s = NEW(struct source);
    s->hub = h;
    s->alone = alone;
    s->shards = q->shards;
    (void)text_copy(s->queue, sizeof s->queue, q->name);
    (void)text_copy(s->life, sizeof s->life, q->life);
    s->by_shard = memory_zeroed(q->shards, sizeof *s->by_shard);
    bus_progress_init(&s->bus, q->shards);
    if (!alone) s->recent = memory_zeroed(RECENT, sizeof *s->recent);
    s->wait.done = wait_ended;
    list_add_first(&h->sources, &s->link);
    return s;
}

void source_start(struct source *s)
{
    struct hub *h = s->hub;
    if (s->added || s->over || (s->alone && h->catching >= CATCHING_MAX)) return;
    if (thread_pool_add(h->server->engine->pool, &s->task, run_source) != ERR_OK)
        return; // the tick tries again
    s->added = true;
    if (s->alone) h->catching++;
    task_schedule(&s->task);
}

struct source *source_shared(struct hub *h, const struct stream_queue *q)
{
    struct source *s = source_find_shared(h, q->life);
    if (!s) s = source_new(h, q, false);
    source_start(s);
    return s;
}

void source_join(struct source *s, struct subscription *p)
{
    CHECK(!p->source);
    p->source = s;
    list_add_first(&s->parts, &p->in);
}

void source_leave(struct subscription *p)
{
    list_remove(&p->source->parts, &p->in);
    p->source = NULL;
}

void source_close(struct source *s)
{
    if (!s->over && s->added && s->alone) s->hub->catching--;
    s->over = true;
}

bool source_is_closed(const struct source *s)
{
    return s->over && !s->waiting;
}

void source_free(struct source *s)
{
    CHECK(!s->parts.first && s->over);
    if (s->added) task_remove(&s->task);
    if (s->events) sluice_events_close(s->events);
    bus_progress_done(&s->bus);
    for (size_t i = 0; s->recent && i < RECENT; i++)
        bytes_free(s->recent[i].data);
    memory_free(s->recent);
    memory_free(s->by_shard);
    memory_free(s);
}
