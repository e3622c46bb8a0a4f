// SPDX-License-Identifier: Apache-2.0
// The functions of sluice_bus.h: one subscription and one consumer for each stream. A queue has one
// stream, or one for each of its shards.
#include "base/text.h"
#include "sluice_bus.h"

#include "api/bus_position.h"
#include "base/check.h"
#include "base/memory.h"
#include "bus/bus.h"
#include "events/consumer.h"
#include "os/clock.h"
#include "queues/queues.h"

#include <string.h>

#define OPEN_MS    10000
#define SLICE_MS   20 // with several queues, the longest wait for one of them
#define QUEUES_MAX 1000

struct feed {
    char queue[QUEUE_NAME_MAX + 1];
    char stream[SUBJECT_STREAM_MAX];
    bool by_shard; // the stream has only `shard`, and its subjects name it
    uint32_t shard;
    struct consumer *consumer;
    struct bus_subscription *from; // NULL: to be opened
    int64_t created_at;            // of the stream
    uint64_t last;                 // the newest message that it had when it was opened
};

struct sluice_bus_events {
    struct bus *bus;
    struct schema_set *schemas;
    struct feed *feeds;
    size_t len;
    size_t turn;
    char *type; // NULL: every type
    char *workflow;
    char *task;
    char *kept; // the text of the last event, with a zero
    struct buf position;
};

static const char *const field_bus = "bus";

void sluice_bus_close(struct sluice_bus_events *e)
{
    if (!e) return;
    for (size_t i = 0; i < e->len; i++) {
        bus_unsubscribe(e->feeds[i].from);
        consumer_free(e->feeds[i].consumer);
    }
    bus_close(e->bus);
    schema_set_free(e->schemas);
    memory_free(e->feeds);
    memory_free(e->type);
    memory_free(e->workflow);
    memory_free(e->task);
    memory_free(e->kept);
    buf_done(&e->position);
    memory_free(e);
}

// A read changes nothing, so a read without a certain answer is the same as one that failed.
static enum sluice_code refuse_bus(struct sluice_error *error, enum err err, const char *why)
{
    if (err == ERR_UNKNOWN) err = ERR_UNAVAILABLE;
    return refuse(error, err, field_bus, "the bus: %s", why);
}

// NULL: the whole stream. The server takes a filter only within one of the stream's subjects, so it
// must name the kind.
static const char *filter_of(const struct sluice_bus_events *e, const struct feed *f,
                             char out[SUBJECT_MAX])
{
    if (!e->type) return NULL;
    bool workflow = strncmp(e->type, "workflow-", 9) == 0 && !f->by_shard;
    struct subject_filter filter = {.kind = workflow ? SUBJECT_WORKFLOW : SUBJECT_TASK,
                                    .every_shard = !f->by_shard,
                                    .shard = f->shard,
                                    .queue = bytes_str(f->queue),
                                    .event = bytes_str(e->type)};
    enum err err = subject_filter_print(&filter, out);
    CHECK(err == ERR_OK); // the names were checked
    return out;
}

static enum sluice_code subscribe(struct sluice_bus_events *e, struct feed *f, bool now,
                                  struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "", room[SUBJECT_MAX];
    struct bus_start from = {.stream = f->stream,
                             .filter = filter_of(e, f, room),
                             .sequence = now ? 0 : consumer_resume(f->consumer)};
    enum err err = bus_subscribe(e->bus, &from, &f->from, why);
    return err ? refuse_bus(error, err, why) : SLUICE_OK;
}

// The newest message that the filter lets through.
static enum err newest(struct sluice_bus_events *e, struct feed *f,
                       const struct bus_stream_state *state, char why[BUS_WHY_MAX])
{
    char room[SUBJECT_MAX];
    struct bus_message m = {0};
    const char *filter = filter_of(e, f, room);
    f->last = state->messages > 0 ? state->last : 0;
    if (!filter) return ERR_OK;
    enum err err = bus_stream_last(e->bus, f->stream, filter, &m, why);
    f->last = err ? 0 : m.sequence;
    bus_message_done(&m);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum sluice_code feed_open(struct sluice_bus_events *e, struct feed *f,
                                  const struct sluice_bus_options *o, struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "";
    struct bus_stream_state state = {0};
    struct consumer_config config = {.filtered = e->type != NULL};
    f->consumer = consumer_new(&config, e->schemas);
    enum err err = bus_stream_state(e->bus, f->stream, &state, why);
    if (!err) err = newest(e, f, &state, why);
    if (err) return refuse_bus(error, err, why);
    f->created_at = state.created_at;
    if (o->position) {
        int64_t created_at = 0;
        if (bus_position_take(o->position, f->stream, f->consumer, &created_at, why) != ERR_OK)
            return refuse(error, ERR_INVALID, "position", "%s", why);
        if (created_at != f->created_at) consumer_restart(f->consumer); // another stream
    }
    bool now = !o->position && o->from_now;
    if (now) f->last = 0;
    return subscribe(e, f, now, error);
}

static void name_stream(struct feed *f)
{
    struct bytes queue = bytes_str(f->queue);
    enum err err = f->by_shard ? subject_shard_stream(queue, f->shard, f->stream)
                               : subject_stream(queue, f->stream);
    CHECK(err == ERR_OK); // the name was checked
}

// Whether the bus has a stream of this name.
static enum err has_stream(struct sluice_bus_events *e, const struct feed *f, bool *has,
                           char why[BUS_WHY_MAX])
{
    struct bus_stream_state state;
    enum err err = bus_stream_state(e->bus, f->stream, &state, why);
    *has = err == ERR_OK;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

// The queue has no stream for all its shards: adds a feed for the stream of each shard.
static enum sluice_code find_shards(struct sluice_bus_events *e, size_t at,
                                    struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "";
    struct feed one = e->feeds[at];
    bool has = true;
    one.by_shard = true;
    for (uint32_t shard = 0; has && shard < SUBJECT_SHARD_STREAMS_MAX; shard++) {
        one.shard = shard;
        name_stream(&one);
        enum err err = has_stream(e, &one, &has, why);
        if (err) return refuse_bus(error, err, why);
        if (!has && shard == 0)
            return refuse(error, ERR_NOT_FOUND, "queue",
                          "the bus has no stream %.100s: no node has published events of queue %s",
                          e->feeds[at].stream, one.queue);
        if (!has) break;
        if (shard > 0) e->feeds = memory_resize(e->feeds, (e->len + 1) * sizeof *e->feeds);
        e->feeds[shard > 0 ? e->len++ : at] = one;
    }
    return SLUICE_OK;
}

static enum sluice_code find_streams(struct sluice_bus_events *e, struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "";
    size_t queues = e->len;
    enum sluice_code code = SLUICE_OK;
    for (size_t i = 0; !code && i < queues; i++) {
        bool has;
        enum err err = has_stream(e, &e->feeds[i], &has, why);
        if (err) return refuse_bus(error, err, why);
        if (!has) code = find_shards(e, i, error);
    }
    return code;
}

static enum sluice_code take_queues(struct sluice_bus_events *e, const struct sluice_bus_options *o,
                                    struct sluice_error *error)
{
    if (o->queues_len == 0 || o->queues_len > QUEUES_MAX)
        return refuse(error, ERR_INVALID, "queue", "%zu queues are given; 1 to %d are possible",
                      o->queues_len, QUEUES_MAX);
    e->feeds = memory_zeroed(o->queues_len, sizeof *e->feeds);
    for (size_t i = 0; i < o->queues_len; i++) {
        struct feed *f = &e->feeds[e->len++];
        if (!queue_name_ok(o->queues[i]))
            return refuse(error, ERR_INVALID, "queue", "\"%.100s\" is not the name of a queue",
                          o->queues[i]);
        (void)text_copy(f->queue, sizeof f->queue, o->queues[i]);
        name_stream(f);
    }
    return SLUICE_OK;
}

// A later release may have other types, so only the form is checked.
static bool is_word(const char *text, const char *letters, size_t max)
{
    size_t len = strspn(text, letters);
    return len > 0 && len <= max && !text[len];
}

static enum sluice_code take_options(struct sluice_bus_events *e,
                                     const struct sluice_bus_options *o, struct sluice_error *error)
{
    if (o->type && !is_word(o->type, "abcdefghijklmnopqrstuvwxyz0123456789-", SUBJECT_NAME_MAX))
        return refuse(error, ERR_INVALID, "type",
                      "\"%.100s\" is not a type of event, as in message-outcome", o->type);
    if (o->task && !is_word(o->task, "0123456789abcdef-", SLUICE_ID_MAX - 1))
        return refuse(error, ERR_INVALID, "task",
                      "\"%.100s\" is not the id of a message, as in 3f9a01cc-0-9", o->task);
    e->type = memory_text(o->type);
    e->workflow = memory_text(o->workflow);
    e->task = memory_text(o->task);
    return take_queues(e, o, error);
}

static enum sluice_code connect_bus(struct sluice_bus_events *e, const char *url, int64_t wait_ms,
                                    struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "";
    struct bus_config config = {.url = url, .name = "sluice events"};
    enum err err = bus_open(&config, &e->bus, why);
    if (!err) err = bus_wait(e->bus, wait_ms, why);
    return err ? refuse_bus(error, err, why) : SLUICE_OK;
}

enum sluice_code sluice_bus_open(const char *url, const struct sluice_bus_options *options,
                                 struct sluice_bus_events **out, struct sluice_error *error)
{
    struct sluice_bus_events *e = NEW(struct sluice_bus_events);
    int64_t wait_ms = options->timeout_ms > 0 ? options->timeout_ms : OPEN_MS;
    *out = NULL;
    buf_init(&e->position, SIZE_MAX);
    e->schemas = schema_set_new();
    enum sluice_code code = take_options(e, options, error);
    if (!code) code = connect_bus(e, url, wait_ms, error);
    if (!code) code = find_streams(e, error);
    for (size_t i = 0; !code && i < e->len; i++)
        code = feed_open(e, &e->feeds[i], options, error);
    if (code) {
        sluice_bus_close(e);
        return code;
    }
    *out = e;
    return SLUICE_OK;
}

static bool is_wanted(const struct sluice_bus_events *e, const struct consumer_result *o)
{
    if (o->kind != CONSUMER_EVENT) return true;
    if (e->workflow && strcmp(e->workflow, o->envelope->workflow_id) != 0) return false;
    return !e->task || strcmp(e->task, o->envelope->task_id) == 0;
}

static void fill(struct sluice_bus_events *e, const struct feed *f, const struct consumer_result *o,
                 struct sluice_bus_event *out)
{
    struct envelope empty = envelope_empty();
    const struct envelope *v = o->envelope ? o->envelope : &empty;
    bool event = o->kind == CONSUMER_EVENT, gap = o->kind == CONSUMER_GAP;
    memory_free(e->kept);
    e->kept = memory_new(o->text.len + 1);
    if (o->text.len > 0) memcpy(e->kept, o->text.data, o->text.len);
    e->kept[o->text.len] = '\0';
    *out = (struct sluice_bus_event){.kind = event ? SLUICE_BUS_EVENT
                                             : gap ? SLUICE_BUS_GAP
                                                   : SLUICE_BUS_REFUSED,
                                     .json = e->kept,
                                     .json_len = o->text.len,
                                     .id = v->event_id,
                                     .type = v->event_type,
                                     .time = v->timestamp,
                                     .node = v->node_id,
                                     .queue = f->queue,
                                     .shard = gap ? o->shard : v->shard,
                                     .task = v->task_id,
                                     .workflow = v->workflow_id,
                                     .ordering_key = v->ordering_key,
                                     .sequence = v->sequence,
                                     .attempt = v->attempt,
                                     .status = v->payload.status,
                                     .worker = v->payload.worker,
                                     .signal = v->payload.signal,
                                     .signal_kind = v->payload.signal_kind,
                                     .count = v->payload.count,
                                     .reason = event ? v->payload.reason : o->why,
                                     .first = o->first,
                                     .last = o->last};
}

// Returns an event that a consumer has ready.
static bool take_ready(struct sluice_bus_events *e, struct feed *f, struct sluice_bus_event *out)
{
    struct consumer_result o;
    while (consumer_next(f->consumer, clock_boot_ms(), &o)) {
        if (!is_wanted(e, &o)) continue;
        fill(e, f, &o, out);
        return true;
    }
    return false;
}

// The stream is another one now, or it lost its end: it is read from its beginning. The consumer
// drops what it had.
static enum sluice_code feed_again(struct sluice_bus_events *e, struct feed *f,
                                   struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "";
    struct bus_stream_state state = {0};
    bus_unsubscribe(f->from);
    f->from = NULL;
    enum err err = bus_stream_state(e->bus, f->stream, &state, why);
    if (err) return refuse_bus(error, err == ERR_NOT_FOUND ? ERR_UNAVAILABLE : err, why);
    f->created_at = state.created_at;
    consumer_restart(f->consumer);
    return subscribe(e, f, false, error);
}

static enum sluice_code take_message(struct sluice_bus_events *e, struct feed *f, int64_t wait_ms,
                                     struct sluice_error *error)
{
    char why[BUS_WHY_MAX] = "";
    struct bus_message m = {0};
    if (!f->from) return feed_again(e, f, error);
    enum err err = bus_next(f->from, wait_ms, &m, why);
    if (err == ERR_OK) consumer_take(f->consumer, m.sequence, m.body, clock_boot_ms());
    if (err == ERR_OK) return SLUICE_OK;
    if (err == ERR_FENCED) return feed_again(e, f, error);
    if (err == ERR_NOT_FOUND) return refuse(error, ERR_NOT_FOUND, "", "no event came");
    return refuse_bus(error, err, why);
}

// How long to wait for a message of one queue.
static int64_t slice(const struct sluice_bus_events *e, const struct feed *f, int64_t now,
                     int64_t until)
{
    int64_t wake = consumer_wake_at(f->consumer), end = until < wake ? until : wake;
    int64_t wait = end > now ? end - now : 0;
    return e->len > 1 && wait > SLICE_MS ? SLICE_MS : wait;
}

enum sluice_code sluice_bus_next(struct sluice_bus_events *e, int64_t wait_ms,
                                 struct sluice_bus_event *out, struct sluice_error *error)
{
    int64_t until = clock_boot_ms() + wait_ms;
    size_t empty = 0; // queues in a row that had nothing
    for (;;) {
        struct feed *f = &e->feeds[e->turn];
        if (take_ready(e, f, out)) return SLUICE_OK;
        int64_t now = clock_boot_ms();
        enum sluice_code code =
            take_message(e, f, empty >= e->len ? slice(e, f, now, until) : 0, error);
        if (!code) {
            empty = 0;
            continue;
        }
        if (code != SLUICE_NOT_FOUND) return code;
        if (take_ready(e, f, out)) return SLUICE_OK; // a gap became due
        empty++;
        e->turn = (e->turn + 1) % e->len;
        if (empty > e->len && clock_boot_ms() >= until) return code;
    }
}

int sluice_bus_caught_up(const struct sluice_bus_events *e)
{
    for (size_t i = 0; i < e->len; i++)
        if (consumer_resume(e->feeds[i].consumer) <= e->feeds[i].last) return 0;
    return 1;
}

const char *sluice_bus_position(struct sluice_bus_events *e)
{
    buf_clear(&e->position);
    bus_position_begin(&e->position);
    for (size_t i = 0; i < e->len; i++)
        bus_position_put(&e->position, e->feeds[i].stream, e->feeds[i].created_at,
                         e->feeds[i].consumer);
    buf_put_u8(&e->position, 0);
    CHECK(!e->position.bad);
    return (const char *)e->position.data;
}
