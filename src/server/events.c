// SPDX-License-Identifier: Apache-2.0
// The event stream as Server-Sent Events. Each stream has a thread that reads the journal.
//
// A stream's cursor is the queue's id and, for every shard, the slot of the last event and how many
// of that slot's events were sent: "3f9a...(32 digits)-17.2", or "...-17.2_9.1" with two shards.
// The cursor is the id of each event. So a client that reconnects with Last-Event-ID misses nothing
// and gets nothing twice.
//
// When a queue is deleted, its stream ends with an event "end". A client may reconnect all the
// same, as browsers do. It then finds no queue, or another queue of that name. In the second case
// the stream sends an event "gap" and then the new queue's events from the beginning. A refusal
// would end a browser's stream for good.
#include "base/memory.h"
#include "os/clock.h"
#include "queue/codec/event.h"
#include "server/inside.h"
#include "server/sse.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_BYTES ((size_t)64 << 10)
#define LIFE_LEN    32 // digits of a queue's id

struct event_position {
    uint64_t slot;
    uint64_t seen; // number of that slot's events that were sent
};

struct events_call {
    struct event_stream stream; // first
    struct sluice_events *events;
    char queue[QUEUE_NAME_MAX + 1];
    char message[SLUICE_ID_MAX]; // only the events of this message; "": of every message
    bool types[EVENT_COUNT];
    bool all_types;
    bool skips;              // skip everything that exists already
    char life[LIFE_LEN + 1]; // the queue's id
    bool gap;                // the cursor it was to continue from is of another life
    bool live;               // all events from before the start were sent; new ones follow
    uint32_t shards;
    struct event_position *from; // by shard: where to continue
    struct event_position *at;   // by shard: the last event that was read
};

static void call_free(struct event_stream *e)
{
    struct events_call *c = (struct events_call *)e;
    sluice_events_close(c->events);
    memory_free(c->from);
    memory_free(c->at);
    memory_free(c);
}

static enum sluice_code take_type(struct events_call *c, const char *name,
                                  struct sluice_error *error)
{
    for (int kind = 0; kind < EVENT_COUNT; kind++) {
        if (strcmp(event_name((enum event_kind)kind), name) != 0) continue;
        c->types[kind] = true;
        return SLUICE_OK;
    }
    *error = error_of(SLUICE_INVALID, "", "type", "\"%.60s\" is not a type of event", name);
    return error->code;
}

enum sluice_code filter_message(const char *id, char out[SLUICE_ID_MAX], struct sluice_error *error)
{
    char mark[9], shard[11], number[21];
    int len = 0;
    int found = sscanf(id, "%8[0-9a-f]-%10[0-9]-%20[0-9]%n", mark, shard, number, &len);
    if (found != 3 || id[len]) {
        *error = error_of(SLUICE_INVALID, "", "message",
                          "\"%.60s\" is not a message id; one looks like 3f9a01cc-0-17", id);
        return error->code;
    }
    (void)snprintf(out, SLUICE_ID_MAX, "%s", id);
    return SLUICE_OK;
}

// Reads a number of up to 64 bits. NULL: there is none.
static const char *take_number(const char *text, uint64_t *out)
{
    size_t digits = strspn(text, "0123456789");
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (*out > (UINT64_MAX - digit) / 10) return NULL;
        *out = *out * 10 + digit;
    }
    return digits > 0 ? text + digits : NULL;
}

// Reads the numbers of a cursor, or one slot number, which then holds for every shard.
static bool take_spots(struct events_call *c, const char *text)
{
    uint32_t shard = 0;
    for (;; shard++) {
        if (shard == c->shards) return false;
        text = take_number(text, &c->from[shard].slot);
        if (text && *text == '.') text = take_number(text + 1, &c->from[shard].seen);
        if (!text) return false;
        if (*text == '\0') break;
        if (*text++ != '_') return false;
    }
    for (uint32_t rest = shard + 1; shard == 0 && rest < c->shards; rest++)
        c->from[rest] = c->from[0]; // one number for all shards
    return shard == 0 || shard + 1 == c->shards;
}

// Reads a slot number, such as "17", or a cursor.
static bool take_place(struct events_call *c, const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (text[digits] == '\0') return take_spots(c, text);
    if (strspn(text, "0123456789abcdef") != LIFE_LEN || text[LIFE_LEN] != '-') return false;
    c->gap = strncmp(text, c->life, LIFE_LEN) != 0;
    uint32_t shards = 1;
    for (const char *at = text; (at = strchr(at, '_')); at++)
        shards++;
    return c->gap || (shards == c->shards && take_spots(c, text + LIFE_LEN + 1));
}

// For a queue with one shard, the current end is read before the stream opens, so no event in
// between is missed. Slot numbers of several shards are not comparable: then the existing events
// are skipped.
static enum sluice_code take_now(struct events_call *c, struct sluice_error *error)
{
    struct sluice_stats stats;
    c->skips = c->shards > 1;
    if (c->skips) return SLUICE_OK;
    enum sluice_code code = sluice_stats(c->stream.server->store, c->queue, &stats, error);
    if (!code) c->from[0].slot = stats.entries + 1;
    return code;
}

static enum sluice_code take_from(struct events_call *c, const char *from,
                                  struct sluice_error *error)
{
    if (strcmp(from, "now") == 0) return take_now(c, error);
    if (take_place(c, from)) return SLUICE_OK;
    *error = error_of(SLUICE_INVALID, "", "from",
                      "\"%.60s\" is not a place in this queue's events: an id of one, a position, "
                      "or now",
                      from);
    return error->code;
}

static enum sluice_code take_shards(struct events_call *c, struct sluice_error *error)
{
    struct sluice_queue_info *info = NULL;
    enum sluice_code code = sluice_queue_show(c->stream.server->store, c->queue, &info, error);
    if (code) return code;
    c->shards = 1;
    for (size_t i = 0; i < info->settings_len; i++)
        if (strcmp(info->settings[i].key, "shards") == 0)
            c->shards = (uint32_t)strtoul(info->settings[i].value, NULL, 10);
    (void)snprintf(c->life, sizeof c->life, "%s", info->id);
    sluice_queue_info_free(info);
    c->from = memory_zeroed(c->shards, sizeof *c->from);
    c->at = memory_zeroed(c->shards, sizeof *c->at);
    return SLUICE_OK;
}

static enum sluice_code take_query(struct events_call *c, const struct events_in *in,
                                   const char *last_event, struct sluice_error *error)
{
    // the header is newer than the URL
    const char *from = last_event ? last_event : in->from ? in->from : "0";
    enum sluice_code code = SLUICE_OK;
    c->all_types = in->types.len == 0;
    for (size_t i = 0; !code && i < in->types.len; i++)
        code = take_type(c, in->types.rows[i], error);
    if (!code && in->message) code = filter_message(in->message, c->message, error);
    return code ? code : take_from(c, from, error);
}

// The library's stream takes one slot number for all shards: the smallest of them.
static enum sluice_code open_events(struct events_call *c, struct sluice_error *error)
{
    uint64_t first = c->from[0].slot;
    for (uint32_t i = 1; i < c->shards; i++)
        if (c->from[i].slot < first) first = c->from[i].slot;
    enum sluice_code code =
        sluice_events_open(c->stream.server->store, c->queue, first, &c->events, error);
    struct sluice_event e;
    while (!code && c->skips && !atomic_load(&c->stream.server->stopping)) {
        code = sluice_events_next(c->events, 0, &e, error);
        if (code != SLUICE_NOT_FOUND) continue;
        c->skips = false;
        code = SLUICE_OK;
    }
    return code;
}

// Moves the cursor past the event. Returns false if the client has it already.
static bool advance(struct events_call *c, const struct sluice_event *e)
{
    struct event_position *at = &c->at[e->shard], *from = &c->from[e->shard];
    if (at->slot != e->position) *at = (struct event_position){.slot = e->position};
    at->seen++;
    return e->position > from->slot || (e->position == from->slot && at->seen > from->seen);
}

static bool wanted(const struct events_call *c, const struct sluice_event *e)
{
    if (c->message[0] && strcmp(c->message, e->message) != 0) return false;
    if (c->all_types) return true;
    for (int kind = 0; kind < EVENT_COUNT; kind++)
        if (c->types[kind] && strcmp(event_name((enum event_kind)kind), e->type) == 0) return true;
    return false;
}

static void put_text(struct buf *to, const char *text)
{
    buf_put(to, bytes_str(text));
}

static void put_spot(struct buf *to, const struct events_call *c)
{
    put_text(to, "id: ");
    put_text(to, c->life);
    put_text(to, "-");
    for (uint32_t i = 0; i < c->shards; i++) {
        const struct event_position *p = c->at[i].slot > 0 ? &c->at[i] : &c->from[i];
        char text[64];
        (void)snprintf(text, sizeof text, "%s%" PRIu64 ".%" PRIu64, i > 0 ? "_" : "", p->slot,
                       p->seen);
        put_text(to, text);
    }
    put_text(to, "\n");
}

// Writes an event of the stream itself ("gap", "end"). The client's filters do not apply to it.
static bool write_word(struct events_call *c, const char *word, const char *reason)
{
    struct json *o = json_new();
    json_text(o, "queue", c->queue);
    json_text(o, "queueId", c->life);
    json_text(o, "reason", reason);
    LOCAL(buf, text, EVENT_BYTES);
    put_spot(&text, c);
    put_text(&text, "event: ");
    put_text(&text, word);
    put_text(&text, "\ndata: ");
    json_write(o, &text);
    put_text(&text, "\n\n");
    return sse_write(&c->stream, &text);
}

static bool write_event(struct events_call *c, const struct sluice_event *e)
{
    LOCAL(buf, text, EVENT_BYTES);
    put_spot(&text, c);
    put_text(&text, "event: ");
    put_text(&text, e->type);
    put_text(&text, "\ndata: ");
    json_write(json_event(c->queue, e), &text);
    put_text(&text, "\n\n");
    METRICS_ADD(&c->stream.server->metrics, events, 1);
    if (c->live) metrics_event_lag(&c->stream.server->metrics, e->time);
    return !text.bad && sse_write(&c->stream, &text);
}

// The comment carries the cursor, so that filtered events need not be read again. It also shows
// that all existing events were sent.
static bool write_beat(struct events_call *c)
{
    LOCAL(buf, text, EVENT_BYTES);
    put_text(&text, ": \n");
    put_spot(&text, c);
    put_text(&text, "\n");
    return !text.bad && sse_write(&c->stream, &text);
}

static enum sse_end feed(struct event_stream *stream)
{
    struct events_call *c = (struct events_call *)stream;
    int64_t beat_at = clock_boot_ms() + SSE_BEAT_MS;
    bool open = !c->gap || write_word(c, "gap", "another-life"), at_end = false;
    while (open && !sse_is_over(&c->stream)) {
        struct sluice_event e;
        enum sluice_code code = sluice_events_next(c->events, at_end ? SSE_SLICE_MS : 0, &e, NULL);
        if (code == SLUICE_FENCED) (void)write_word(c, "end", "queue-deleted");
        if (code && code != SLUICE_NOT_FOUND) break; // the client reconnects and gets the error
        if (!code && strncmp(e.id, c->life, LIFE_LEN) != 0)
            break; // deleted before the stream opened
        if (!code && advance(c, &e) && wanted(c, &e)) open = write_event(c, &e);
        bool news = code == SLUICE_NOT_FOUND && !at_end;
        at_end = code == SLUICE_NOT_FOUND;
        c->live = c->live || at_end;
        if (!news && clock_boot_ms() < beat_at) continue;
        open = open && write_beat(c);
        beat_at = clock_boot_ms() + SSE_BEAT_MS;
    }
    return open ? SSE_ENDED : SSE_CUT;
}

void handle_events(struct exchange *x)
{
    struct sluice_error error;
    struct events_in in = {0};
    if (!read_request(x, &in)) return;
    struct events_call *c = NEW(struct events_call);
    c->stream.feed = feed;
    c->stream.free = call_free;
    if (!sse_begin(&c->stream, x)) {
        memory_free(c);
        return;
    }
    (void)snprintf(c->queue, sizeof c->queue, "%s", x->queue);
    enum sluice_code code = take_shards(c, &error);
    if (!code) code = take_query(c, &in, x->last_event, &error);
    if (!code && !x->head) code = open_events(c, &error);
    if (!code && !x->head) {
        if (sse_run(&c->stream, &error)) return;
        code = error.code;
    }
    if (answer_unless(x, code, &error)) answer_bytes(x, 200, "text/event-stream", NULL);
    sse_over(&c->stream);
}
