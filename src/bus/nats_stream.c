// SPDX-License-Identifier: Apache-2.0
// Streams of JetStream: created, compared, read. A subscription is a push consumer without acks. It
// counts what it delivers, so a message that was lost on the way is noticed, and the consumer is
// made again behind the last message that arrived.
#include "base/check.h"
#include "base/memory.h"
#include "bus/nats_inside.h"
#include "bus/stream.h"
#include "os/clock.h"

#include <nats/nats.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REQUEST_MS      5000
#define NS_PER_MS       1000000LL
#define QUIET_MS        3000 // without a message, until the consumer is asked for
#define HEARTBEAT_NS    (1000 * NS_PER_MS)
#define FETCH_BYTES_MAX (64 << 20)

static jsOptions patience(void)
{
    jsOptions o;
    (void)jsOptions_Init(&o);
    o.Wait = REQUEST_MS;
    return o;
}

// For a call that waits for the server: the error and its reason.
static enum err answer_of(struct bus *b, natsStatus s, jsErrCode code, char why[static BUS_WHY_MAX])
{
    if (s == NATS_OK) return ERR_OK;
    nats_reason((int)s, why);
    if (code == 0 && s == NATS_NO_RESPONDERS)
        (void)snprintf(why, BUS_WHY_MAX, "JetStream does not answer at the bus");
    if (!bus_is_up(b)) return ERR_UNAVAILABLE;
    return nats_err((int)s, (int)code);
}

static enum err no_link(struct bus *b, char why[static BUS_WHY_MAX])
{
    bus_why(b, why);
    if (!why[0]) (void)snprintf(why, BUS_WHY_MAX, "no server answered yet");
    return ERR_UNAVAILABLE;
}

// The server is another machine: libnats answers OK also for an answer that lacks what was asked.
static enum err no_answer(const char *what, const char *stream, char why[static BUS_WHY_MAX])
{
    (void)snprintf(why, BUS_WHY_MAX, "the bus answered without the %s of stream %.100s", what,
                   stream);
    return ERR_UNKNOWN;
}

static struct bus_stream_state state_of(const jsStreamInfo *info)
{
    return (struct bus_stream_state){.first = info->State.Msgs > 0 ? info->State.FirstSeq
                                                                   : info->State.LastSeq + 1,
                                     .last = info->State.LastSeq,
                                     .messages = info->State.Msgs,
                                     .created_at = info->Created / NS_PER_MS};
}

static enum err compare(const struct bus_stream *s, const jsStreamInfo *info,
                        char why[static BUS_WHY_MAX])
{
    const jsStreamConfig *c = info->Config;
    struct bus_stream_settings found = {
        .subjects = (const char *const *)c->Subjects,
        .subjects_len = (size_t)c->SubjectsLen,
        .limits = {.replicas = (uint32_t)c->Replicas,
                   .max_age_ms = c->MaxAge / NS_PER_MS,
                   .max_bytes = c->MaxBytes > 0 ? c->MaxBytes : 0,
                   .dedup_ms = c->Duplicates / NS_PER_MS},
        .in_files = c->Storage == js_FileStorage,
        .keeps_by_limits = c->Retention == js_LimitsPolicy && c->Discard == js_DiscardOld &&
                           c->MaxMsgs <= 0 && c->MaxMsgsPerSubject <= 0};
    return bus_stream_compare(s, &found, why);
}

#define STORE_WORDS "events of the sluice store "

// Two environments on one server must not write to one stream: consumers could not tell them apart.
static enum err compare_store(const struct bus_stream *s, const jsStreamInfo *info,
                              char why[static BUS_WHY_MAX])
{
    const char *has = info->Config->Description;
    if (!s->store[0] || !has || strncmp(has, STORE_WORDS, strlen(STORE_WORDS)) != 0) return ERR_OK;
    has += strlen(STORE_WORDS);
    if (strcmp(has, s->store) == 0) return ERR_OK;
    (void)snprintf(why, BUS_WHY_MAX,
                   "stream %.100s of the bus has the events of store %.32s, and this node has the "
                   "store %s: give each store a prefix, as in nats://host?prefix=staging",
                   s->name, has, s->store);
    return ERR_CONFLICT;
}

// The stream as the server knows it: with the prefix of the URL.
struct wire_stream {
    struct bus_stream stream;
    const char *list[BUS_STREAM_SUBJECTS_MAX];
    char subjects[BUS_STREAM_SUBJECTS_MAX][BUS_SUBJECT_WIRE_MAX];
};

static bool wire_stream_init(struct wire_stream *w, const struct bus *b, const struct bus_stream *s)
{
    CHECK(s->subjects_len <= BUS_STREAM_SUBJECTS_MAX);
    w->stream = *s;
    w->stream.subjects = w->list;
    bool good = bus_url_stream(&b->url, s->name, w->stream.name, sizeof w->stream.name);
    for (size_t i = 0; good && i < s->subjects_len; i++) {
        w->list[i] = w->subjects[i];
        good = bus_url_subject(&b->url, s->subjects[i], w->subjects[i], sizeof w->subjects[i]);
    }
    return good;
}

static enum err too_long(const char *stream, char why[static BUS_WHY_MAX])
{
    (void)snprintf(why, BUS_WHY_MAX,
                   "the name of stream %.100s is too long for the bus with this prefix", stream);
    return ERR_LIMIT;
}

static natsStatus create(struct nats_link *l, const struct bus_stream *s, jsStreamInfo **info,
                         jsErrCode *code)
{
    jsStreamConfig c;
    jsOptions o = patience();
    (void)jsStreamConfig_Init(&c);
    c.Name = s->name;
    c.Subjects = (const char **)(uintptr_t)s->subjects;
    c.SubjectsLen = (int)s->subjects_len;
    c.Storage = js_FileStorage;
    c.Retention = js_LimitsPolicy;
    c.Discard = js_DiscardOld;
    c.Replicas = s->limits.replicas;
    c.MaxAge = s->limits.max_age_ms * NS_PER_MS;
    c.MaxBytes = s->limits.max_bytes > 0 ? s->limits.max_bytes : -1;
    c.Duplicates = s->limits.dedup_ms * NS_PER_MS;
    char about[sizeof STORE_WORDS + BUS_STORE_MAX];
    (void)snprintf(about, sizeof about, STORE_WORDS "%s", s->store);
    if (s->store[0]) c.Description = about;
    return js_AddStream(info, l->js, &c, &o, code);
}

static enum err ensure(struct bus *b, const struct bus_stream *s, struct bus_stream_state *out,
                       char why[static BUS_WHY_MAX])
{
    struct nats_link *l = nats_link_take(b);
    if (!l) return no_link(b, why);
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    jsOptions o = patience();
    natsStatus status = js_GetStreamInfo(&info, l->js, s->name, &o, &code);
    if (status == NATS_NOT_FOUND || code == JSStreamNotFoundErr)
        status = create(l, s, &info, &code);
    if (code == JSStreamNameExistErr) status = js_GetStreamInfo(&info, l->js, s->name, &o, &code);
    enum err e = answer_of(b, status, code, why);
    if (code == JSStreamSubjectOverlapErr)
        (void)snprintf(why, BUS_WHY_MAX,
                       "stream %.100s cannot be made: another stream of the bus has its subjects, "
                       "perhaps one of the other form (streams=queue, streams=shard). Delete it, "
                       "or use its form",
                       s->name);
    if (!e && (!info || !info->Config)) e = no_answer("configuration", s->name, why);
    if (!e) e = compare_store(s, info, why);
    if (!e) e = compare(s, info, why);
    if (!e && out) *out = state_of(info);
    jsStreamInfo_Destroy(info);
    nats_link_drop(l);
    return e;
}

enum err bus_stream_ensure(struct bus *b, const struct bus_stream *s, struct bus_stream_state *out,
                           char why[static BUS_WHY_MAX])
{
    CLEANUP(memory_let_go) struct wire_stream *w = NEW(struct wire_stream);
    return wire_stream_init(w, b, s) ? ensure(b, &w->stream, out, why) : too_long(s->name, why);
}

// stream: as the server knows it.
static enum err ask_state(struct bus *b, const char *stream, struct bus_stream_state *out,
                          char why[static BUS_WHY_MAX])
{
    struct nats_link *l = nats_link_take(b);
    if (!l) return no_link(b, why);
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    jsOptions o = patience();
    natsStatus status = js_GetStreamInfo(&info, l->js, stream, &o, &code);
    enum err e = answer_of(b, status, code, why);
    if (!e && !info) e = no_answer("state", stream, why);
    if (!e) *out = state_of(info);
    jsStreamInfo_Destroy(info);
    nats_link_drop(l);
    return e;
}

enum err bus_stream_state(struct bus *b, const char *stream, struct bus_stream_state *out,
                          char why[static BUS_WHY_MAX])
{
    char name[BUS_STREAM_MAX];
    if (!bus_url_stream(&b->url, stream, name, sizeof name)) return too_long(stream, why);
    return ask_state(b, name, out, why);
}

static void fill_message(const struct bus *b, natsMsg *m, uint64_t sequence, int64_t at_ns,
                         struct bus_message *out)
{
    const char *id = NULL, *subject = natsMsg_GetSubject(m);
    if (natsMsgHeader_Get(m, "Nats-Msg-Id", &id) != NATS_OK) id = NULL;
    *out =
        (struct bus_message){.sequence = sequence,
                             .at = at_ns / NS_PER_MS,
                             .subject = subject ? bus_url_own(&b->url, subject) : "",
                             .id = id ? id : "",
                             .body = bytes_of(natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m)),
                             .inside = m};
}

void bus_message_done(struct bus_message *m)
{
    natsMsg_Destroy(m->inside);
    *m = (struct bus_message){0};
}

const char *bus_message_header(const struct bus_message *m, const char *name)
{
    const char *value = NULL;
    return natsMsgHeader_Get(m->inside, name, &value) == NATS_OK ? value : NULL;
}

enum err bus_stream_last(struct bus *b, const char *stream, const char *filter,
                         struct bus_message *out, char why[static BUS_WHY_MAX])
{
    char name[BUS_STREAM_MAX], subject[BUS_SUBJECT_WIRE_MAX];
    if (!bus_url_stream(&b->url, stream, name, sizeof name) ||
        !bus_url_subject(&b->url, filter, subject, sizeof subject))
        return too_long(stream, why);
    struct nats_link *l = nats_link_take(b);
    if (!l) return no_link(b, why);
    natsMsg *m = NULL;
    jsErrCode code = 0;
    jsOptions o = patience();
    natsStatus status = js_GetLastMsg(&m, l->js, name, subject, &o, &code);
    enum err e = answer_of(b, status, code, why);
    if (!e && !m) e = no_answer("newest message", stream, why);
    if (!e) fill_message(b, m, natsMsg_GetSequence(m), natsMsg_GetTime(m), out);
    nats_link_drop(l);
    return e;
}

struct bus_subscription {
    struct bus *bus;
    char stream[BUS_STREAM_MAX];
    char filter[BUS_SUBJECT_WIRE_MAX];
    uint64_t next;          // the number of the next message, or a smaller one
    int64_t created_at;     // of the stream
    struct nats_link *link; // of sub
    natsSubscription *sub;
    uint64_t delivered; // messages of sub, as its consumer counts them
    int64_t alive_at;   // when a message came, or the server knew the consumer
    uint64_t last;      // the number of the last message; 0: none
    int64_t last_ns;    // ... and when it was stored
    struct bus_message message;
};

static void sub_end(struct bus_subscription *s)
{
    if (s->sub) nats_link_end(s->link, s->sub);
    nats_link_drop(s->link);
    s->sub = NULL;
    s->link = NULL;
    s->delivered = 0;
}

static enum err fenced(const struct bus_subscription *s, const struct bus_stream_state *now,
                       char why[static BUS_WHY_MAX])
{
    if (s->created_at != 0 && now->created_at != s->created_at)
        (void)snprintf(why, BUS_WHY_MAX, "stream %.100s is another one of that name", s->stream);
    else if (s->next > now->last + 1)
        (void)snprintf(why, BUS_WHY_MAX,
                       "stream %.100s ends at %" PRIu64 "; the position is %" PRIu64, s->stream,
                       now->last, s->next);
    else
        return ERR_OK;
    return ERR_FENCED;
}

// A stream that lost its tail can have another message with the number of the last one. The time
// tells.
static enum err check_last(struct bus_subscription *s, const struct bus_stream_state *now,
                           char why[static BUS_WHY_MAX])
{
    jsOptions o = patience();
    jsErrCode code = 0;
    natsMsg *m = NULL;
    if (s->last == 0 || s->last < now->first) return ERR_OK; // nothing to compare
    natsStatus status = js_GetMsg(&m, s->link->js, s->stream, s->last, &o, &code);
    bool same = status == NATS_OK && m && natsMsg_GetTime(m) == s->last_ns;
    natsMsg_Destroy(m);
    enum err e = answer_of(s->bus, status, code, why);
    if (e == ERR_NOT_FOUND)
        same = true; // it was removed
    else if (e)
        return e;
    if (same) return ERR_OK;
    (void)snprintf(why, BUS_WHY_MAX, "stream %.100s lost its newest messages", s->stream);
    return ERR_FENCED;
}

static enum err sub_begin(struct bus_subscription *s, char why[static BUS_WHY_MAX])
{
    struct bus_stream_state now;
    jsSubOptions o;
    jsOptions js = patience();
    jsErrCode code = 0;
    enum err e = ask_state(s->bus, s->stream, &now, why);
    if (!e) e = fenced(s, &now, why);
    if (e) return e == ERR_NOT_FOUND && s->created_at != 0 ? ERR_FENCED : e;
    s->created_at = now.created_at;
    if (s->next == 0) s->next = now.last + 1;
    s->link = nats_link_take(s->bus);
    if (!s->link) return no_link(s->bus, why);
    e = check_last(s, &now, why);
    if (e) {
        sub_end(s);
        return e;
    }
    (void)jsSubOptions_Init(&o);
    o.Stream = s->stream;
    o.Config.DeliverPolicy = js_DeliverByStartSequence;
    o.Config.OptStartSeq = s->next;
    o.Config.AckPolicy = js_AckNone;
    o.Config.FlowControl = true;
    o.Config.Heartbeat = HEARTBEAT_NS;
    o.Config.MaxDeliver = 1;
    natsStatus status =
        js_SubscribeSync(&s->sub, s->link->js, s->filter[0] ? s->filter : ">", &js, &o, &code);
    if (status == NATS_OK) (void)natsSubscription_SetPendingLimits(s->sub, -1, FETCH_BYTES_MAX);
    e = answer_of(s->bus, status, code, why);
    if (e) sub_end(s);
    s->alive_at = clock_boot_ms();
    return e;
}

// A consumer that was on a server which died is gone, and the library does not tell. So a quiet
// consumer is asked for.
static bool sub_is_dead(struct bus_subscription *s)
{
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    jsOptions o = patience();
    if (clock_boot_ms() - s->alive_at < QUIET_MS) return false;
    natsStatus status = natsSubscription_GetConsumerInfo(&info, s->sub, &o, &code);
    jsConsumerInfo_Destroy(info);
    s->alive_at = clock_boot_ms();
    return status != NATS_OK;
}

enum err bus_subscribe(struct bus *b, const struct bus_start *from, struct bus_subscription **out,
                       char why[static BUS_WHY_MAX])
{
    struct bus_subscription *s = NEW(struct bus_subscription);
    *s = (struct bus_subscription){.bus = b, .next = from->sequence};
    bool good = bus_url_stream(&b->url, from->stream, s->stream, sizeof s->stream);
    if (good && from->filter)
        good = bus_url_subject(&b->url, from->filter, s->filter, sizeof s->filter);
    enum err e = good ? sub_begin(s, why) : too_long(from->stream, why);
    if (e)
        memory_free(s);
    else
        *out = s;
    return e;
}

// Takes a message if it is the next of the consumer. False: one was lost on the way.
static bool sub_take(struct bus_subscription *s, natsMsg *m)
{
    jsMsgMetaData *meta = NULL;
    if (natsMsg_GetMetaData(&meta, m) != NATS_OK) return false;
    bool next = meta->Sequence.Consumer == s->delivered + 1 && meta->Sequence.Stream >= s->next;
    if (next) {
        s->delivered++;
        s->next = meta->Sequence.Stream + 1;
        s->last = meta->Sequence.Stream;
        s->last_ns = meta->Timestamp;
        fill_message(s->bus, m, meta->Sequence.Stream, meta->Timestamp, &s->message);
    }
    jsMsgMetaData_Destroy(meta);
    return next;
}

enum err bus_next(struct bus_subscription *s, int64_t wait_ms, struct bus_message *out,
                  char why[static BUS_WHY_MAX])
{
    int64_t until = clock_boot_ms() + wait_ms;
    bus_message_done(&s->message);
    why[0] = 0;
    for (;;) {
        natsMsg *m = NULL;
        enum err e = s->sub ? ERR_OK : sub_begin(s, why);
        if (e) return e;
        int64_t left = until - clock_boot_ms();
        natsStatus status = natsSubscription_NextMsg(&m, s->sub, left > 0 ? left : 0);
        bool quiet = status == NATS_TIMEOUT && !natsConnection_IsClosed(s->link->nc);
        if (quiet && !sub_is_dead(s)) return ERR_NOT_FOUND;
        if (status == NATS_OK && sub_take(s, m)) {
            s->alive_at = clock_boot_ms();
            *out = s->message;
            return ERR_OK;
        }
        natsMsg_Destroy(m);
        sub_end(s); // begin again behind the last message
        if (clock_boot_ms() >= until) return ERR_NOT_FOUND;
    }
}

void bus_unsubscribe(struct bus_subscription *s)
{
    if (!s) return;
    bus_message_done(&s->message);
    sub_end(s);
    memory_free(s);
}
