// SPDX-License-Identifier: Apache-2.0
// One shard: performs the effects of its publisher. A run takes the acknowledgements that came,
// publishes what the window allows, reads on in the journal, and commits the cursor now and then.
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "protocol/event_view.h"
#include "publish/content.h"
#include "publish/inside.h"

#include <stdio.h>

#define FOLLOW_MS       60000
#define COMMIT_EVERY_MS 10000 // an idle shard makes an entry of its own for the cursor
#define TICK_MS         1000
#define IDLE_TICK_MS    30000
#define LOOK_MS         100
#define READER_RETRY_MS 1000
#define FEW_EVENTS      64
#define CONTENT_MAX     (2 * (ENVELOPE_MAX + ((size_t)16 << 10)))

static void followed(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct published_shard *s =
        (struct published_shard *)((char *)async - offsetof(struct published_shard, follow));
    (void)a;
    LOCKED(&s->lock);
    s->following = false;
    s->has_events = err == ERR_OK || err == ERR_NOT_FOUND;
    s->reader_failed = !s->has_events;
    (void)pthread_cond_broadcast(&s->moved);
    task_schedule(&s->task); // under the lock: the shard is freed by a holder of it
}

static void follow(struct published_shard *s)
{
    (void)pthread_mutex_lock(&s->lock);
    bool begin = !s->following && !s->has_events && !s->reader_failed;
    if (begin) s->following = true;
    (void)pthread_mutex_unlock(&s->lock);
    if (begin) runner_follow_async(s->reader, FOLLOW_MS, &s->follow);
}

static void close_reader(struct published_shard *s)
{
    if (!s->reader) return;
    (void)pthread_mutex_lock(&s->lock);
    bool waits = s->following;
    (void)pthread_mutex_unlock(&s->lock);
    bool cancelled = waits && runner_cancel(s->reader, &s->follow);
    (void)pthread_mutex_lock(&s->lock);
    if (cancelled) s->following = false;
    while (s->following)
        (void)pthread_cond_wait(&s->moved, &s->lock);
    s->has_events = false;
    (void)pthread_mutex_unlock(&s->lock);
    runner_close(s->reader);
    s->reader = NULL;
}

static void open_reader(struct published_shard *s)
{
    struct sluice_error error;
    close_reader(s);
    s->read_slot = s->read_sequence = 0;
    bool failed = queue_event_runner(s->queue, s->shard, &s->reader, &error) != SLUICE_OK;
    if (failed) s->reader = NULL;
    LOCKED(&s->lock);
    s->reader_failed = failed;
}

static struct envelope_place place_of(const struct published_shard *s)
{
    return (struct envelope_place){.queue = s->queue->row.name, .node = s->all->node};
}

// Whether each event of the stream is one of this shard, and one message.
static bool is_alone(const struct published_shard *s)
{
    bool one = s->queue->row.birth.shards == 1 || publishes_by_shard(s);
    return one && s->all->config.window.also == 0;
}

// Writes the messages of the event: one for each version.
static void write_content(struct published_shard *s, const struct envelope *e)
{
    uint32_t versions[2];
    size_t len = envelope_versions(&s->all->config.window, clock_realtime_ms(), versions);
    buf_clear(&s->content);
    for (size_t i = 0; i < len; i++) {
        struct envelope one = *e;
        one.schema_version = versions[i];
        size_t at = s->content.len;
        buf_put_u32(&s->content, 0);
        enum err err = content_write(&one, publishes_by_shard(s), &s->content);
        CHECK(err == ERR_OK); // a queue's name is a name of a subject, and an envelope has a limit
        uint32_t size = (uint32_t)(s->content.len - at - 4);
        memcpy(s->content.data + at, &size, sizeof size); // read by this process only
    }
}

static void feed(struct published_shard *s, const struct envelope *e, uint64_t slot,
                 uint64_t missing)
{
    char why[SCHEMA_WHY_MAX];
    // An event that its schema refuses is our mistake. To lose it would be a second one.
    if (!schema_set_accepts(s->all->schemas, e, why)) {
        (void)pthread_mutex_lock(&s->lock);
        bool first = s->unfit++ == 0;
        (void)pthread_mutex_unlock(&s->lock);
        if (first) publishing_say(s->all, PUBLISHING_SCHEMA, s->queue->row.name, s->shard, why);
    }
    write_content(s, e);
    publisher_feed(s->publisher,
                   &(struct publisher_item){.sequence = e->sequence,
                                            .slot = slot,
                                            .at = e->timestamp,
                                            .missing = missing,
                                            .in_tail = is_alone(s) || publishes_by_shard(s) ||
                                                       envelope_subject(e).kind == SUBJECT_TASK,
                                            .content = buf_bytes(&s->content)});
}

static bool feed_gap(struct published_shard *s, uint64_t before, uint64_t slot, int64_t at)
{
    struct envelope_room room;
    char id[ENVELOPE_ID_MAX], queue_id[33], why[96];
    struct envelope_place place = place_of(s);
    uint64_t first, last;
    if (!publisher_gap(s->publisher, before, &first, &last)) return false;
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(queue_id + 2 * i, 3, "%02x", s->queue->row.id.bytes[i]);
    struct envelope e = envelope_gap(queue_id, &place, s->shard, first, last, at, &room, id);
    feed(s, &e, slot, last - first + 1);
    (void)snprintf(why, sizeof why, "events %llu to %llu are no longer in the journal",
                   (unsigned long long)first, (unsigned long long)last);
    publishing_say(s->all, PUBLISHING_GAP, s->queue->row.name, s->shard, why);
    return true;
}

static void take_event(void *ctx, const struct events *list, const struct event *e)
{
    struct published_shard *s = ctx;
    struct event_view view;
    if (e->sequence == 0) return; // before the events were counted
    s->read_slot = e->slot;
    s->read_sequence = e->sequence;
    if (!publisher_wants(s->publisher, e->sequence)) return;
    (void)feed_gap(s, e->sequence, e->slot, e->at);
    struct envelope_place place = place_of(s);
    event_view_fill(queue_ref(s->queue), s->shard, list, e, &view);
    struct envelope envelope = envelope_of(&view.event, &place);
    feed(s, &envelope, e->slot, 0);
}

static void count_events(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(uint64_t *)ctx = machine_event_count(m);
}

// The reader gave everything up to this count. What the publisher does not know was collected
// before the reader began, and no later event shows it.
static void read_end(struct published_shard *s, uint64_t count)
{
    uint64_t slot = s->read_slot > 0 ? s->read_slot : 1;
    if (count > 0 && publisher_wants(s->publisher, count + 1))
        (void)feed_gap(s, count + 1, slot, clock_realtime_ms());
}

// Returns whether something was fed.
static bool read_events(struct published_shard *s)
{
    uint64_t count = 0, before = s->read_sequence;
    if (!s->reader || !publisher_wants_more(s->publisher)) return false;
    (void)pthread_mutex_lock(&s->lock);
    bool has = s->has_events;
    s->has_events = false;
    (void)pthread_mutex_unlock(&s->lock);
    if (has) {
        runner_inspect(s->reader, count_events, &count);
        runner_events(s->reader, take_event, s);
        if (s->read_slot > 0) publisher_fed(s->publisher, s->read_slot, s->read_sequence);
        read_end(s, count);
    }
    // A few events at a time: the commits that make them need the processor more.
    int64_t now = clock_boot_ms();
    if (has && s->read_sequence - before < FEW_EVENTS) s->follow_at = now + PAUSE_MS;
    if (now >= s->follow_at && publisher_wants_more(s->publisher)) follow(s);
    return s->read_sequence > before;
}

static void look(void *ctx, const struct machine *m, int64_t now)
{
    struct machine_look *l = ctx;
    struct machine_publish_lag u;
    l->published = machine_published(m, &l->cursor.slot, &l->cursor.sequence);
    l->events = machine_event_count(m);
    l->overdue = machine_unpublished(m, now, &u) && u.overdue;
    l->off = machine_config(m)->publish == PUBLISH_OFF;
    l->now = now;
}

static struct machine_look look_at(struct published_shard *s)
{
    struct machine_look l = {0};
    runner_inspect(s->own, look, &l);
    return l;
}

static void set_why(struct published_shard *s, const char *why, bool refused)
{
    (void)pthread_mutex_lock(&s->lock);
    bool news = refused && !s->refused;
    s->refused = refused;
    if (why) (void)snprintf(s->why, sizeof s->why, "%s", why);
    (void)pthread_mutex_unlock(&s->lock);
    if (news)
        publishing_say(s->all, PUBLISHING_REFUSED, s->queue->row.name, s->shard, why ? why : "");
}

// The newest event of this shard, if it is of this life of the queue and in the journal. Any client
// of the bus can write another one.
static void read_tail(struct published_shard *s, const struct bus_message *m,
                      struct publisher_tail *tail)
{
    struct read_envelope in;
    char why[ENVELOPE_WHY_MAX], life[33];
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(life + 2 * i, 3, "%02x", s->queue->row.id.bytes[i]);
    if (envelope_read(m->body, &in, why) == ERR_OK &&
        strncmp(in.envelope.event_id, life, 32) == 0 && in.envelope.sequence <= look_at(s).events) {
        tail->sequence = in.envelope.sequence;
        tail->number = m->sequence;
    }
    envelope_in_done(&in);
}

static struct publisher_tail ask_tail(struct published_shard *s)
{
    char filter[SUBJECT_MAX], why[BUS_WHY_MAX] = "";
    struct bus_stream_state state = {0};
    struct bus_message last = {0};
    bool alone = is_alone(s);
    struct subject_filter shard = {.version = s->all->config.window.also,
                                   .kind = SUBJECT_TASK,
                                   .queue = bytes_str(s->queue->row.name),
                                   .shard = s->shard};
    struct publisher_tail tail = {.err = streams_ensure(s, &state, why)};
    if (!tail.err) tail.err = subject_filter_print(&shard, filter);
    tail.stream_last = state.last;
    tail.trimmed = state.first > 1;
    if (!tail.err && state.messages > 0) {
        tail.err = bus_stream_last(s->all->bus, s->stream, alone ? ">" : filter, &last, why);
        if (!tail.err) read_tail(s, &last, &tail);
        if (tail.err == ERR_NOT_FOUND) tail.err = ERR_OK; // of other shards only
        bus_message_done(&last);
    }
    bool refused = tail.err == ERR_CONFLICT || tail.err == ERR_DENIED || tail.err == ERR_LIMIT;
    set_why(s, tail.err ? why : NULL, refused);
    return tail;
}

static enum err publish_one(struct published_shard *s, const struct publisher_effect *e,
                            enum ack_of of, struct bytes content)
{
    struct content c;
    content_read(content, &c);
    struct bus_publish message = {.stream = s->stream,
                                  .subject = c.subject,
                                  .id = c.id,
                                  .headers = c.headers,
                                  .headers_len = c.headers_len,
                                  .body = c.body,
                                  .last_of_stream = e->fenced ? e->stream_last : BUS_NO_FENCE,
                                  .last_of_subject = BUS_NO_FENCE,
                                  .tag = e->tag};
    return bus_publish(s->ways[of].sender, &message);
}

static struct bytes take_part(struct bytes *from)
{
    uint32_t size;
    CHECK(from->len >= sizeof size);
    memcpy(&size, from->data, sizeof size);
    CHECK(size <= from->len - sizeof size);
    struct bytes part = bytes_of(from->data + sizeof size, size);
    *from = bytes_of(part.data + size, from->len - sizeof size - size);
    return part;
}

static void publish(struct published_shard *s, int64_t now, const struct publisher_effect *e)
{
    struct bytes rest = e->content, first = take_part(&rest);
    bool two = rest.len > 0;
    enum err err = publish_one(s, e, two ? ACK_OLDER : ACK_ONLY, first);
    if (!err && two) err = publish_one(s, e, ACK_NEWER, take_part(&rest));
    if (err == ERR_LIMIT) set_why(s, "an event is larger than the bus allows", true);
    if (err) publisher_refused(s->publisher, now, e->tag);
}

static void perform(struct published_shard *s)
{
    struct publisher_effect e;
    bool more = true;
    while (more) {
        int64_t now = clock_boot_ms();
        more = publisher_next(s->publisher, now, &e);
        if (more && e.kind == PUBLISHER_PUBLISH) publish(s, now, &e);
        if (more && e.kind == PUBLISHER_REWIND) {
            task_may_block(&s->task);
            open_reader(s);
        }
        if (more && e.kind == PUBLISHER_SYNC) {
            task_may_block(&s->task);
            struct publisher_tail tail = ask_tail(s);
            publisher_synced(s->publisher, clock_boot_ms(), e.tag, &tail);
        }
        if (!more) more = read_events(s);
    }
}

static void committed(struct runner_async *async, enum err err, struct kept_reply *a)
{
    struct published_shard *s =
        (struct published_shard *)((char *)async - offsetof(struct published_shard, commit_call));
    (void)a;
    LOCKED(&s->lock);
    s->committing = false;
    s->commit_ok = err == ERR_OK;
    (void)pthread_cond_broadcast(&s->moved);
    task_schedule(&s->task);
}

// The cursor goes with the entries that are written anyway, or after a pause in one of its own.
static void commit_cursor(struct published_shard *s, int64_t now, const struct machine_look *l)
{
    struct publisher_cursor c;
    (void)pthread_mutex_lock(&s->lock);
    bool done = s->commit_ok, busy = s->committing;
    s->commit_ok = false;
    (void)pthread_mutex_unlock(&s->lock);
    if (done) publisher_committed(s->publisher, s->commit);
    if (busy || !publisher_cursor(s->publisher, now, &c)) return;
    if (l->published && now - s->committed_at < COMMIT_EVERY_MS) return;
    struct op_published op = {.slot = c.slot, .sequence = c.sequence};
    entropy_fill(op.request.bytes, sizeof op.request.bytes);
    buf_clear(&s->payload);
    published_encode(&s->payload, &op);
    s->committed_at = now;
    s->commit = c;
    (void)pthread_mutex_lock(&s->lock);
    s->committing = true;
    (void)pthread_mutex_unlock(&s->lock);
    runner_do_async(s->own, (struct op){OP_PUBLISHED, buf_bytes(&s->payload)}, &s->commit_call);
}

static void check_bus(struct published_shard *s, int64_t now)
{
    uint64_t connection = bus_connections(s->all->bus);
    bool up = bus_is_up(s->all->bus);
    if (up == s->up && connection == s->connection) return;
    s->up = up;
    s->connection = connection;
    publisher_bus(s->publisher, now, up);
}

static void check_owner(struct published_shard *s, int64_t now, const struct machine_look *l)
{
    (void)pthread_mutex_lock(&s->lock);
    bool wanted = s->wanted && !l->off && !s->ending;
    (void)pthread_mutex_unlock(&s->lock);
    if (wanted == s->owns || (wanted && now < s->retry_at)) return;
    s->owns = wanted;
    if (wanted) {
        publisher_own(s->publisher, now, l->published ? &l->cursor : NULL);
        return;
    }
    publisher_lose(s->publisher);
    close_reader(s);
}

// A reader that failed, for example because the store is away, begins again after a pause.
static void check_reader(struct published_shard *s, int64_t now)
{
    (void)pthread_mutex_lock(&s->lock);
    bool failed = s->reader_failed;
    s->reader_failed = false;
    (void)pthread_mutex_unlock(&s->lock);
    if (!failed || !s->owns) return;
    publisher_lose(s->publisher);
    close_reader(s);
    s->owns = false;
    s->retry_at = now + READER_RETRY_MS;
}

static void show(struct published_shard *s, const struct machine_look *l)
{
    struct publisher_status status = publisher_status(s->publisher);
    (void)pthread_mutex_lock(&s->lock);
    uint64_t healed = s->status.healed;
    // The fold measures from the durable cursor, which waits after each acknowledgement. Events
    // that the bus has acknowledged do not wait.
    bool waits = l->overdue && status.acked < l->events;
    bool overdue = waits && !s->overdue && s->owns;
    s->status = status;
    s->events = l->events;
    s->now = l->now;
    s->overdue = waits;
    if (status.running && status.last_error == ERR_OK) s->refused = false;
    (void)pthread_mutex_unlock(&s->lock);
    if (status.healed > healed)
        publishing_say(s->all, PUBLISHING_HEALED, s->queue->row.name, s->shard, "");
    if (overdue)
        publishing_say(s->all, PUBLISHING_OVERDUE, s->queue->row.name, s->shard,
                       "events wait for longer than publishKeep");
}

// Returns whether nothing uses the shard any more.
static bool has_ended(struct published_shard *s)
{
    LOCKED(&s->lock);
    s->ended = s->ending && !s->committing;
    if (s->ended) (void)pthread_cond_broadcast(&s->moved);
    return s->ended;
}

static int64_t run(struct pool_task *task)
{
    struct published_shard *s = (struct published_shard *)task;
    int64_t now = clock_boot_ms();
    // The runner's lock is the one of the commits, so it is not taken for every acknowledgement.
    if (!s->owns || now - s->looked_at >= LOOK_MS) {
        s->looked_at = now;
        s->seen = look_at(s);
    }
    check_bus(s, now);
    check_owner(s, now, &s->seen);
    acks_take(s, now);
    perform(s);
    now = clock_boot_ms();
    check_reader(s, now);
    if (s->owns && !s->all->config.shadow) commit_cursor(s, now, &s->seen);
    show(s, &s->seen);
    if (has_ended(s)) return TASK_NEVER;
    int64_t wake = s->owns ? publisher_wake_at(s->publisher) : s->retry_at;
    if (!s->owns && wake <= now) return TASK_NEVER; // until the node owns the shard
    if (s->owns && s->follow_at > now && s->follow_at < wake) wake = s->follow_at;
    // An idle shard whose cursor is committed needs no look.
    bool idle = s->seen.published && s->seen.cursor.sequence >= s->seen.events;
    int64_t tick = now + (idle ? IDLE_TICK_MS : TICK_MS);
    return s->owns && tick < wake ? tick : wake;
}

struct published_shard *published_shard_new(struct publish_engine *all, struct open_queue *q,
                                            uint32_t shard, struct shard_runner *own)
{
    struct published_shard *s = NEW(struct published_shard);
    queue_hold(q);
    s->all = all;
    s->queue = q;
    s->shard = shard;
    s->own = own;
    s->follow.then = followed;
    s->commit_call.then = committed;
    buf_init(&s->content, CONTENT_MAX);
    buf_init(&s->payload, JOURNAL_OP_MAX);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->moved, NULL);
    s->publisher = publisher_new(
        &(struct publisher_config){.fenced = is_alone(s), .settle_ms = -1, .seed = entropy_u64()});
    enum err err = stream_name(s, shard, s->stream);
    for (int of = 0; !err && of < ACK_KINDS; of++) {
        s->ways[of] = (struct ack_target){.shard = s, .of = (enum ack_of)of};
        err = bus_sender_new(all->bus, acks_note, &s->ways[of], &s->ways[of].sender);
    }
    if (!err) err = pool_share_add(all->share, &s->task, run);
    if (!err) return s;
    s->task.pool = NULL; // it was not added
    published_shard_free(s);
    return NULL;
}

void published_shard_free(struct published_shard *s)
{
    if (s->task.pool) {
        (void)pthread_mutex_lock(&s->lock);
        s->ending = true;
        (void)pthread_mutex_unlock(&s->lock);
        task_schedule(&s->task);
        LOCKED(&s->lock);
        while (!s->ended)
            (void)pthread_cond_wait(&s->moved, &s->lock);
    }
    for (int of = 0; of < ACK_KINDS; of++)
        bus_sender_free(s->ways[of].sender);
    if (s->task.pool) task_remove(&s->task);
    publisher_free(s->publisher);
    queue_let_go(&s->queue);
    buf_done(&s->content);
    buf_done(&s->payload);
    (void)pthread_cond_destroy(&s->moved);
    (void)pthread_mutex_destroy(&s->lock);
    memory_free(s->acks);
    memory_free(s->half);
    memory_free(s);
}

void published_shard_want(struct published_shard *s, bool wanted)
{
    (void)pthread_mutex_lock(&s->lock);
    bool change = s->wanted != wanted || (wanted && !s->status.owns);
    s->wanted = wanted;
    (void)pthread_mutex_unlock(&s->lock);
    if (change) task_schedule(&s->task);
}

bool published_shard_is_done(struct published_shard *s)
{
    LOCKED(&s->lock);
    return !s->status.owns || s->status.acked >= s->events;
}
