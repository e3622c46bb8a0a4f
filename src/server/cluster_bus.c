// SPDX-License-Identifier: Apache-2.0
// The events of the cluster on the bus, in one stream, best effort. The leader publishes what it
// sees of the members and of elections. A node publishes what happens to itself: the shards that it
// took, gave away or lost, and its coordination service. The leader does not see these.
#include "server/cluster_bus.h"
#include "base/memory.h"
#include "events/envelope.h"
#include "member/member.h"
#include "os/clock.h"
#include "os/lock.h"
#include "publish/content.h"
#include "publish/publish.h"
#include "server/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS     500
#define RETRY_MS    2000
#define SOME        64    // events that are copied at once
#define BEFORE_MS   60000 // a new leader also tells what it saw in this time before it led
#define CONTENT_MAX (ENVELOPE_MAX + ((size_t)16 << 10))

struct cluster_bus {
    struct pool_task task; // first
    struct server *server;
    struct bus *bus;
    struct bus_sender *sender;
    struct buf content;
    char life[17];
    uint64_t at;    // the counter of the last event that was looked at
    uint64_t ready; // the connection on which the stream was found; 0: none
    bool leads;
    pthread_mutex_t lock;
    char why[BUS_WHY_MAX]; // under the lock: the stream is refused, and the log says so; "": not
};

static void release(struct cluster_bus *c)
{
    bus_sender_free(c->sender);
    buf_done(&c->content);
    (void)pthread_mutex_destroy(&c->lock);
    memory_free(c);
}

static void ignore_ack(void *ctx, const struct bus_ack *ack)
{
    (void)ctx;
    (void)ack;
}

static void set_why(struct cluster_bus *c, const char *why)
{
    (void)pthread_mutex_lock(&c->lock);
    bool news = *why && !*c->why;
    (void)snprintf(c->why, sizeof c->why, "%s", why);
    (void)pthread_mutex_unlock(&c->lock);
    if (news)
        LOG(&c->server->log, LOG_WARNING, "bus-refused", LOG_TEXT("queue", ""),
            LOG_TEXT("why", why));
}

bool cluster_bus_refused(struct cluster_bus *c, char why[static BUS_WHY_MAX])
{
    if (!c) return false;
    LOCKED(&c->lock);
    memcpy(why, c->why, sizeof c->why);
    return *why;
}

// Makes sure that the stream exists. Returns false if events cannot be published now.
static bool has_stream(struct cluster_bus *c)
{
    static const char *const subjects[] = {"sluice.v1.cluster.*"};
    char why[BUS_WHY_MAX] = "";
    uint64_t connection = bus_connections(c->bus);
    if (!bus_is_up(c->bus)) return false;
    if (c->ready == connection) return true;
    struct bus_stream stream = {.name = SUBJECT_CLUSTER_STREAM,
                                .subjects = subjects,
                                .subjects_len = 1,
                                .limits = bus_limits(c->bus)};
    engine_store_id(c->server->engine, stream.store);
    enum err err = bus_stream_ensure(c->bus, &stream, NULL, why);
    set_why(c, err == ERR_CONFLICT ? why : "");
    if (!err) c->ready = connection;
    return !err;
}

// Returns false if there is no connection.
static bool publish(struct cluster_bus *c, const struct membership_event *from)
{
    char id[48], room_id[ENVELOPE_ID_MAX];
    struct envelope_room room;
    struct content content;
    (void)snprintf(id, sizeof id, "%s-%" PRIu64, c->life, from->counter);
    struct sluice_cluster_event e = {.id = id,
                                     .type = cluster_note_name(from->note),
                                     .time = from->at_ms,
                                     .node = from->node,
                                     .status = "",
                                     .queue = from->queue,
                                     .shard = from->shard,
                                     .epoch = from->epoch};
    if (from->note == NOTE_MEMBER) e.status = life_name(from->life);
    struct envelope made = envelope_cluster(&e, c->server->node, &room, room_id);
    buf_clear(&c->content);
    if (content_write(&made, false, &c->content)) return true; // too large: it is left out
    content_read(buf_bytes(&c->content), &content);
    struct bus_publish message = {.stream = SUBJECT_CLUSTER_STREAM,
                                  .subject = content.subject,
                                  .id = content.id,
                                  .headers = content.headers,
                                  .headers_len = content.headers_len,
                                  .body = content.body,
                                  .last_of_stream = BUS_NO_FENCE,
                                  .last_of_subject = BUS_NO_FENCE};
    return bus_publish(c->sender, &message) != ERR_UNAVAILABLE;
}

static bool is_of_the_cluster(enum cluster_note note)
{
    return note == NOTE_ELECTED || note == NOTE_MEMBER || note == NOTE_EPOCH_RENEWED;
}

// The node leads now. What it saw shortly before may be what ended the leader before it, which
// could not tell.
static bool publish_before(struct cluster_bus *c, const struct membership_event *promoted)
{
    CLEANUP(memory_let_go) struct membership_event *rows = memory_zeroed(SOME, sizeof *rows);
    uint64_t after = promoted->counter > SOME ? promoted->counter - SOME - 1 : 0;
    bool lost, up = true;
    size_t len = membership_events(c->server->member, after, rows, SOME, &lost);
    for (size_t i = 0; up && i < len && rows[i].counter < promoted->counter; i++)
        if (is_of_the_cluster(rows[i].note) && rows[i].at_ms >= promoted->at_ms - BEFORE_MS)
            up = publish(c, &rows[i]);
    return up;
}

static bool take(struct cluster_bus *c, const struct membership_event *e)
{
    bool up = true;
    if (e->note == NOTE_PROMOTED) {
        up = publish_before(c, e);
        c->leads = true;
    }
    if (up && (c->leads || !is_of_the_cluster(e->note))) up = publish(c, e);
    if (up && e->note == NOTE_DEMOTED) c->leads = false;
    return up;
}

// Publishes the events that are there. What cannot be published now is published later, if the
// node still has it then.
static bool publish_some(struct cluster_bus *c)
{
    CLEANUP(memory_let_go) struct membership_event *rows = memory_zeroed(SOME, sizeof *rows);
    bool lost, up = true;
    size_t len = membership_events(c->server->member, c->at, rows, SOME, &lost);
    for (size_t i = 0; up && i < len; i++) {
        up = take(c, &rows[i]);
        if (up) c->at = rows[i].counter;
    }
    return up && len == SOME;
}

static int64_t run(struct pool_task *task)
{
    struct cluster_bus *c = (struct cluster_bus *)task;
    task_may_block(task);
    if (!has_stream(c)) return clock_boot_ms() + RETRY_MS;
    while (publish_some(c)) {
    }
    return clock_boot_ms() + LOOK_MS;
}

struct cluster_bus *cluster_bus_new(struct server *s)
{
    if (!s->publishing || !atomic_load(&s->member)) return NULL;
    struct cluster_bus *c = NEW(struct cluster_bus);
    c->server = s;
    c->bus = publishing_bus(s->publishing);
    (void)pthread_mutex_init(&c->lock, NULL);
    buf_init(&c->content, CONTENT_MAX);
    membership_incarnation(s->member, c->life);
    bool made = bus_sender_new(c->bus, ignore_ack, c, &c->sender) == ERR_OK &&
                thread_pool_add(s->engine->pool, &c->task, run) == ERR_OK;
    if (made) {
        task_schedule(&c->task);
        return c;
    }
    release(c);
    return NULL;
}

void cluster_bus_free(struct cluster_bus *c)
{
    if (!c) return;
    task_remove(&c->task);
    if (has_stream(c)) (void)publish_some(c); // the shards that the node gave away
    release(c);
}
