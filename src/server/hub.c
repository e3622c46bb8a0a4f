// SPDX-License-Identifier: Apache-2.0
// Subscribers of the hub: what they are told, and when they end. A tick ends the subscribers whose
// clients have left, writes comments that keep connections open, and frees sources.
#include "server/hub.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/lock.h"
#include "server/hub_inside.h"
#include "server/sse.h"

#include <stddef.h>
#include <string.h>

#define TICK_MS       1000
#define BEAT_MS       15000
#define LIST_MS       5000                // between listings of the queues, for streams of all
#define UNUSED_MS     30000               // a source without subscribers is kept so long
#define LAG_BYTES     ((size_t)512 << 10) // unread bytes of a client that is told that it lags
#define STALL_BYTES   ((size_t)128 << 10) // ... of a client that catches up
#define TEXT_MAX      ((size_t)512 << 10)
#define CUT_MS        1000
#define ID_SHARDS_MAX 16 // streams of more shards have their id only once a second

static void put_id(struct buf *to, struct subscriber *s)
{
    bool first = true;
    buf_put(to, bytes_str("id: "));
    LIST_EACH(p, &s->parts, struct subscription, link) {
        if (p->joining) continue;
        struct stream_position places[STREAM_SHARDS_MAX];
        for (uint32_t i = 0; i < p->shards; i++)
            places[i] = p->by_shard[i].at;
        stream_cursor_put(to, first, p->life, places, p->shards);
        first = false;
    }
    buf_put(to, bytes_str("\n"));
    s->dirty = false;
}

static void write_text(struct subscriber *s, const struct buf *text)
{
    if (s->over) return;
    if (text->bad || !httpd_stream_write(s->http, buf_bytes(text), 0)) s->over = s->cut = true;
}

// Writes an event of the stream itself: gap, end, lagged.
static void write_word(struct subscriber *s, const char *word, struct json *about)
{
    LOCAL(buf, text, TEXT_MAX);
    put_id(&text, s);
    buf_put(&text, bytes_str("event: "));
    buf_put(&text, bytes_str(word));
    buf_put(&text, bytes_str("\ndata: "));
    json_write(about, &text);
    buf_put(&text, bytes_str("\n\n"));
    write_text(s, &text);
}

static struct json *about_queue(const struct subscription *p, const char *reason)
{
    struct json *o = json_new();
    json_text(o, "queue", p->queue);
    json_text(o, "queueId", p->life);
    json_text(o, "reason", reason);
    return o;
}

static const char *gap_detail(const char *reason)
{
    if (strcmp(reason, "beyond-the-end") == 0)
        return "Last-Event-ID is behind the newest event of the queue; the stream goes on with new "
               "events";
    if (strcmp(reason, "another-life") == 0)
        return "Last-Event-ID has no place in this queue, which was created after the event; the "
               "stream begins with the queue's oldest event";
    return "the events after Last-Event-ID are no longer in the journal; the stream goes on with "
           "the oldest event that is";
}

static void write_gap(struct subscription *p, uint32_t shard, const char *reason)
{
    struct json *o = about_queue(p, reason);
    json_text(o, "detail", gap_detail(reason));
    json_number(o, "shard", shard);
    write_word(p->owner, "gap", o);
}

// The client can come back with the id that it has, and then it misses nothing.
static bool is_lagging(struct subscriber *s)
{
    if (s->over || httpd_stream_pending(s->http) < LAG_BYTES) return s->over;
    struct json *o = json_new();
    json_text(o, "reason", "slow-reader");
    json_number(o, "unreadBytes", (int64_t)httpd_stream_pending(s->http));
    write_word(s, "lagged", o);
    METRICS_ADD(&s->hub->server->metrics, streams_lagged, 1);
    s->over = true;
    return true;
}

static bool wants(const struct subscriber *s, const struct stream_event *t)
{
    const struct stream_filter *f = &s->filter;
    if (f->message[0] && strcmp(f->message, t->message) != 0) return false;
    if (f->workflow[0] && strcmp(f->workflow, t->workflow) != 0) return false;
    return f->all_types || (t->kind < EVENT_COUNT && f->types[t->kind]);
}

static void write_event(struct subscriber *s, const struct stream_event *t)
{
    LOCAL(buf, text, TEXT_MAX);
    if (s->shards <= ID_SHARDS_MAX)
        put_id(&text, s);
    else
        s->dirty = true;
    buf_put(&text, bytes_str("event: "));
    buf_put(&text, bytes_str(event_name((enum event_kind)t->kind)));
    buf_put(&text, bytes_str("\ndata: "));
    buf_put(&text, t->data);
    buf_put(&text, bytes_str("\n\n"));
    METRICS_ADD(&s->hub->server->metrics, events, 1);
    if (t->time > 0) metrics_event_lag(&s->hub->server->metrics, t->time);
    write_text(s, &text);
}

void part_tell(struct subscription *p, const struct stream_event *t)
{
    struct subscriber *s = p->owner;
    CHECK(t->shard < p->shards);
    struct part_shard *shard = &p->by_shard[t->shard];
    int order = stream_place_compare(&t->place, &shard->at);
    if (order == 0) shard->resumes = false;
    if (p->joining || order <= 0 || is_lagging(s)) return; // before the cursor moves
    if (shard->resumes) write_gap(p, t->shard, "collected");
    *shard = (struct part_shard){.at = t->place};
    if (wants(s, t))
        write_event(s, t);
    else
        s->dirty = true;
}

// A comment with the cursor: events that were passed over need not be read again.
static void write_beat(struct subscriber *s)
{
    LOCAL(buf, text, TEXT_MAX);
    buf_put(&text, bytes_str(": \n"));
    put_id(&text, s);
    buf_put(&text, bytes_str("\n"));
    write_text(s, &text);
    s->beat_at = clock_boot_ms() + BEAT_MS;
}

static bool all_began(const struct subscriber *s)
{
    LIST_EACH(p, &s->parts, struct subscription, link)
        if (!p->began) return false;
    return true;
}

// The first comment says that everything from before was sent, of all queues.
void part_began(struct subscription *p)
{
    for (uint32_t i = 0; i < p->shards; i++) {
        if (p->by_shard[i].resumes) write_gap(p, i, "beyond-the-end");
        if (p->joining || p->by_shard[i].resumes)
            p->by_shard[i] = (struct part_shard){.at = p->source->by_shard[i].at};
    }
    p->joining = false;
    p->began = true;
    if (p->gap) {
        struct json *o = about_queue(p, "another-life");
        json_text(o, "detail", gap_detail("another-life"));
        write_word(p->owner, "gap", o);
    }
    p->gap = false;
    if (all_began(p->owner)) write_beat(p->owner);
}

bool part_stalls(const struct subscription *p)
{
    return !p->owner->over && httpd_stream_pending(p->owner->http) > STALL_BYTES;
}

static void part_free(struct subscription *p)
{
    memory_free(p->by_shard);
    memory_free(p);
}

static void part_remove(struct subscription *p)
{
    list_remove(&p->owner->parts, &p->link);
    p->owner->shards -= p->shards;
    if (p->source) source_leave(p);
    part_free(p);
}

void part_ended(struct subscription *p, const char *why)
{
    struct subscriber *s = p->owner;
    write_word(s, "end", about_queue(p, why));
    part_remove(p);
    if (!s->parts.first && !s->all) s->over = true;
}

static void part_add(struct subscriber *s, const struct stream_queue *q)
{
    struct subscription *p = NEW(struct subscription);
    p->owner = s;
    p->shards = q->shards;
    p->gap = q->gap;
    p->joining = q->now;
    (void)text_copy(p->queue, sizeof p->queue, q->name);
    (void)text_copy(p->life, sizeof p->life, q->life);
    p->by_shard = memory_zeroed(q->shards, sizeof *p->by_shard);
    for (uint32_t i = 0; q->places && i < q->shards; i++)
        p->by_shard[i] = (struct part_shard){.at = q->places[i], .resumes = q->places[i].slot > 0};
    list_add_first(&s->parts, &p->link);
    s->shards += q->shards;
    struct source *from = q->now ? source_shared(s->hub, q) : source_new(s->hub, q, true);
    source_join(from, p);
    source_start(from);
    if (q->now && from->live) part_began(p);
}

// Returns false, after an answer, if there is no place for another subscriber.
static bool take_place(struct hub *h, struct subscriber *s, struct exchange *x)
{
    struct server *server = h->server;
    struct share *lost = NULL;
    (void)pthread_mutex_lock(&server->lock);
    bool taken = share_take(&server->subscribing, &s->share, x->client, &lost);
    if (taken) server->calls++;
    if (lost) atomic_store(&((struct subscriber *)lost)->lost, true);
    (void)pthread_mutex_unlock(&server->lock);
    if (taken) return true;
    return refuse_request(x, SLUICE_LIMIT, "too-many-streams", "",
                          "%u streams are open already (limits.subscribers), and this client has "
                          "its share; close one, or try again later",
                          server->config.subscribers_max);
}

bool hub_subscribe(struct hub *h, struct exchange *x, const struct stream_request *request)
{
    static const struct httpd_pair fresh = {"Cache-Control", "no-store"};
    struct httpd_answer a = {.status = 200,
                             .type = "text/event-stream",
                             .body = bytes_str("retry: 1000\n\n"),
                             .headers = &fresh,
                             .headers_len = 1};
    struct subscriber *s = NEW(struct subscriber);
    s->hub = h;
    s->exchange = x;
    s->token_changes = atomic_load(&h->server->token_changes);
    s->filter = request->filter;
    s->all = request->all;
    s->beat_at = clock_boot_ms() + BEAT_MS;
    if (!take_place(h, s, x)) {
        memory_free(s);
        return false;
    }
    METRICS_ADD(&h->server->metrics, streams, 1);
    x->status = 200;
    s->http = httpd_stream_open(x->http, &a);
    (void)pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < request->len; i++)
        part_add(s, &request->queues[i]);
    if (request->len == 0) write_beat(s); // there is nothing from before
    list_add_first(&h->subscribers, &s->link);
    h->len++;
    (void)pthread_mutex_unlock(&h->lock);
    task_schedule_at(&h->tick, clock_boot_ms() + TICK_MS);
    return true;
}

static bool has_ended(struct subscriber *s)
{
    return s->over || atomic_load(&s->lost) || atomic_load(&s->hub->server->stopping) ||
           httpd_stream_gone(s->http);
}

// Without the lock: a stream that ends may call into the server.
static void subscriber_end(struct subscriber *s)
{
    struct server *server = s->hub->server;
    if (s->cut || atomic_load(&s->lost))
        httpd_stream_cut(s->http, CUT_MS);
    else
        httpd_stream_end(s->http);
    (void)pthread_mutex_lock(&server->lock);
    share_give(&server->subscribing, &s->share);
    (void)pthread_mutex_unlock(&server->lock);
    memory_free(s);
    call_end(server);
}

static bool may_read(const struct subscriber *s)
{
    if (s->all) return auth_may(s->exchange, SCOPE_READ, NULL);
    LIST_EACH(p, &s->parts, struct subscription, link)
        if (!auth_may(s->exchange, SCOPE_READ, p->queue)) return false;
    return auth_still(s->exchange);
}

// Tokens are removed and expire while a stream is open: they are checked after a reload and before
// each comment.
static void check_token(struct subscriber *s)
{
    uint64_t changes = atomic_load(&s->hub->server->token_changes);
    if (s->over || (changes == s->token_changes && clock_boot_ms() < s->beat_at)) return;
    s->token_changes = changes;
    if (may_read(s)) return;
    (void)httpd_stream_write(s->http, bytes_str(SSE_TOKEN_END), 0);
    s->over = true;
}

// Removes the subscribers that have ended. Needs the lock.
static void take_ended(struct hub *h, struct list *ended)
{
    LIST_EACH(s, &h->subscribers, struct subscriber, link) {
        check_token(s);
        if (!has_ended(s)) {
            if (clock_boot_ms() >= s->beat_at || s->dirty) write_beat(s);
            continue;
        }
        LIST_EACH(p, &s->parts, struct subscription, link)
            part_remove(p);
        list_remove(&h->subscribers, &s->link);
        list_add(ended, &s->link);
        h->len--;
    }
}

// Starts sources that had no thread or no place, and closes those without subscribers. Needs the
// lock.
static void look_at_source(struct source *s)
{
    int64_t now = clock_boot_ms();
    source_start(s);
    if (s->parts.first)
        s->unused_ms = 0;
    else if (s->unused_ms == 0)
        s->unused_ms = now;
    if (!s->parts.first && !s->over && (s->alone || now >= s->unused_ms + UNUSED_MS))
        source_close(s);
}

// Removes the sources that are closed. Those whose wait is under way are cancelled. Needs the lock.
static void take_closed(struct hub *h, struct list *closed, struct source **cancel)
{
    LIST_EACH(s, &h->sources, struct source, link) {
        look_at_source(s);
        if (s->over && s->waiting && !*cancel) *cancel = s;
        if (!source_is_closed(s)) continue;
        list_remove(&h->sources, &s->link);
        list_add(closed, &s->link);
    }
}

// Frees what has ended. Only the tick and hub_free do this, one at a time.
static void sweep(struct hub *h)
{
    struct source *cancel = NULL;
    struct list ended = {0}, closed = {0};
    (void)pthread_mutex_lock(&h->lock);
    take_ended(h, &ended);
    take_closed(h, &closed, &cancel);
    (void)pthread_mutex_unlock(&h->lock);
    LIST_EACH(s, &ended, struct subscriber, link)
        subscriber_end(s);
    LIST_EACH(s, &closed, struct source, link)
        source_free(s);
    if (cancel) async_cancel(h->server->engine, &cancel->wait);
}

static bool wants_all(struct hub *h)
{
    LOCKED(&h->lock);
    bool all = false;
    LIST_EACH(s, &h->subscribers, struct subscriber, link)
        all = all || s->all;
    return all && clock_boot_ms() >= h->listed_ms + LIST_MS;
}

static bool has_queue(const struct subscriber *s, const char *name)
{
    LIST_EACH(p, &s->parts, struct subscription, link)
        if (strcmp(p->queue, name) == 0) return true;
    return false;
}

static bool is_missed(struct hub *h, const char *name)
{
    LOCKED(&h->lock);
    bool missed = false;
    LIST_EACH(s, &h->subscribers, struct subscriber, link)
        missed = missed || (s->all && !has_queue(s, name));
    return missed;
}

// Streams of all queues have those too that were created after them, from their first event.
static void add_new_queue(struct hub *h, const char *name)
{
    struct stream_queue q;
    if (!is_missed(h, name) || stream_queue_find(h->server, name, &q, NULL)) return;
    LOCKED(&h->lock);
    LIST_EACH(s, &h->subscribers, struct subscriber, link)
        if (s->all && !has_queue(s, name) && s->shards + q.shards <= STREAM_SHARDS_MAX)
            part_add(s, &q);
}

static void look_for_queues(struct hub *h)
{
    struct sluice_names *names = NULL;
    h->listed_ms = clock_boot_ms();
    if (sluice_queue_list(h->server->store, &names, NULL)) return;
    for (size_t i = 0; i < names->len; i++)
        add_new_queue(h, names->names[i]);
    sluice_names_free(names);
}

static int64_t run_tick(struct pool_task *task)
{
    struct hub *h = (struct hub *)((char *)task - offsetof(struct hub, tick));
    task_may_block(task);
    sweep(h);
    hub_bus_look(h);
    if (wants_all(h)) look_for_queues(h);
    (void)pthread_mutex_lock(&h->lock);
    bool idle = !h->subscribers.first && !h->sources.first && !h->bus;
    (void)pthread_mutex_unlock(&h->lock);
    return idle ? TASK_NEVER : clock_boot_ms() + TICK_MS;
}

struct hub *hub_new(struct server *s)
{
    struct hub *h = NEW(struct hub);
    h->server = s;
    (void)pthread_mutex_init(&h->lock, NULL);
    if (thread_pool_add(s->engine->pool, &h->tick, run_tick) == ERR_OK) return h;
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h);
    return NULL;
}

static bool is_empty(struct hub *h)
{
    LOCKED(&h->lock);
    LIST_EACH(s, &h->sources, struct source, link)
        if (!s->parts.first) source_close(s);
    return !h->sources.first && !h->subscribers.first;
}

void hub_free(struct hub *h)
{
    if (!h) return;
    CHECK(atomic_load(&h->server->stopping));
    task_remove(&h->tick);
    hub_bus_close(h);
    while (!is_empty(h)) {
        sweep(h);
        clock_sleep(1);
    }
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h);
}

void hub_end(struct hub *h)
{
    CHECK(atomic_load(&h->server->stopping));
    task_schedule(&h->tick);
}

void hub_tokens_changed(struct hub *h)
{
    if (h) task_schedule(&h->tick);
}

size_t hub_subscribers(struct hub *h)
{
    LOCKED(&h->lock);
    return h->len;
}
