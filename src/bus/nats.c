// SPDX-License-Identifier: Apache-2.0
// The bus on NATS JetStream, by libnats. One thread of the bus makes the connection, makes it again
// when it ends, and reads the acknowledgements. libnats does not reconnect by itself: then nothing
// that was written before an outage leaves after it, and changed credentials are read again.
//
// A publish is a plain request to the subject, whose answer is the acknowledgement. Its reply
// subject has the number of the sender and the tag.
#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "bus/ack.h"
#include "bus/credentials.h"
#include "bus/nats_inside.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"

#include <nats/nats.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS      2000 // for one server
#define PING_MS         2000 // two pings without an answer end the connection
#define BACKOFF_MIN_MS  50
#define BACKOFF_MAX_MS  5000
#define CLOSED_POLL_MS  500
#define ACKS_MAX        (1 << 20) // acknowledgements that wait in memory
#define WRITE_MS        10000
#define FLUSH_MS        5000
// Messages that wait for the listener. More are lost.
#define HEARD_MAX       (1 << 16)
#define HEARD_BYTES_MAX (64 << 20)

enum err nats_err(int status, int code)
{
    natsStatus s = (natsStatus)status;
    if (s == NATS_OK) return ERR_OK;
    if (code != 0) return bus_error_of(code);
    if (s == NATS_TIMEOUT) return ERR_UNKNOWN;
    if (s == NATS_NOT_FOUND) return ERR_NOT_FOUND;
    if (s == NATS_CONNECTION_AUTH_FAILED || s == NATS_NOT_PERMITTED) return ERR_DENIED;
    if (s == NATS_MAX_PAYLOAD || s == NATS_NO_MEMORY) return ERR_LIMIT;
    return ERR_UNAVAILABLE;
}

// The reason of the calling thread's last error. libnats adds the place in its source: "(f.c:9): ".
void nats_reason(int status, char why[static BUS_WHY_MAX])
{
    natsStatus s = (natsStatus)status;
    const char *text = nats_GetLastError(NULL);
    const char *behind = text && text[0] == '(' ? strstr(text, "): ") : NULL;
    if (behind) text = behind + 3;
    (void)snprintf(why, BUS_WHY_MAX, "%.200s", text && text[0] ? text : natsStatus_GetText(s));
}

struct nats_link *nats_link_take(struct bus *b)
{
    LOCKED(&b->lock);
    struct nats_link *l = b->link;
    if (l) l->users++;
    return l;
}

void nats_link_drop(struct nats_link *l)
{
    if (!l) return;
    struct bus *b = l->bus;
    (void)pthread_mutex_lock(&b->lock);
    CHECK(l->users > 0);
    bool last = --l->users == 0;
    (void)pthread_mutex_unlock(&b->lock);
    if (!last) return;
    if (l->nc) natsConnection_Close(l->nc); // the reader ends before its subscriptions
    natsSubscription_Destroy(l->acks);
    natsSubscription_Destroy(l->listening);
    jsCtx_Destroy(l->js);
    natsConnection_Destroy(l->nc);
    memory_free(l);
}

// The reader of libnats 3.4 keeps no hold on the subscription whose message it has: it would lock
// freed memory. Behind the answer to a PING it has no message of an ended subscription.
void nats_link_end(struct nats_link *l, natsSubscription *sub)
{
    (void)natsSubscription_Unsubscribe(sub);
    if (natsConnection_FlushTimeout(l->nc, FLUSH_MS) != NATS_OK) natsConnection_Close(l->nc);
    natsSubscription_Destroy(sub);
}

static void note(struct bus *b, natsStatus s, const char *why)
{
    LOCKED(&b->lock);
    b->denied = s == NATS_CONNECTION_AUTH_FAILED;
    (void)snprintf(b->why, sizeof b->why, "%.*s", BUS_WHY_MAX - 1, why);
}

// What the server says beside the answers, for example about permissions.
static void on_error(natsConnection *nc, natsSubscription *sub, natsStatus s, void *ctx)
{
    const char *text = NULL;
    (void)sub;
    if (s == NATS_MISSED_HEARTBEAT || s == NATS_MISMATCH || s == NATS_SLOW_CONSUMER) return;
    (void)natsConnection_GetLastError(nc, &text);
    note(ctx, s, text && text[0] ? text : natsStatus_GetText(s));
}

// The last callback of a connection, and the last one of its subscription.
static void note_end(struct bus *b)
{
    LOCKED(&b->lock);
    CHECK(b->open > 0);
    b->open--;
    (void)pthread_cond_broadcast(&b->moved);
}

static void note_end_of(void *bus)
{
    note_end(bus);
}

static void on_closed(natsConnection *nc, void *ctx)
{
    (void)nc;
    note_end(ctx);
}

static void note_begin(struct bus *b)
{
    LOCKED(&b->lock);
    b->open++;
}

static struct bus_sender *find_sender(struct bus *b, uint64_t number)
{
    for (struct bus_sender *s = b->senders; s; s = s->next)
        if (s->number == number) return s;
    return NULL;
}

static void give_ack(struct bus *b, uint64_t number, const struct bus_ack *ack)
{
    (void)pthread_mutex_lock(&b->lock);
    struct bus_sender *s = find_sender(b, number);
    if (s) s->calls++;
    (void)pthread_mutex_unlock(&b->lock);
    if (!s) return;
    s->acked(s->ctx, ack);
    LOCKED(&b->lock);
    if (--s->calls == 0) (void)pthread_cond_broadcast(&b->moved);
}

static void on_ack(natsConnection *nc, natsSubscription *sub, natsMsg *m, void *ctx)
{
    struct bus *b = ctx;
    char why[BUS_WHY_MAX] = "";
    uint64_t number;
    struct bus_ack ack = {.err = ERR_UNAVAILABLE, .why = "no stream of the bus takes the event"};
    (void)nc;
    (void)sub;
    if (bus_ack_subject(natsMsg_GetSubject(m), b->inbox, &number, &ack.tag)) {
        if (!natsMsg_IsNoResponders(m))
            bus_ack_read(bytes_of(natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m)), &ack, why);
        give_ack(b, number, &ack);
    }
    natsMsg_Destroy(m);
}

static void on_message(natsConnection *nc, natsSubscription *sub, natsMsg *m, void *ctx)
{
    struct bus *b = ctx;
    (void)nc;
    (void)sub;
    const char *subject = natsMsg_GetSubject(m);
    struct bus_message message = {
        .subject = subject ? bus_url_own(&b->url, subject) : "",
        .id = "",
        .body = bytes_of(natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m)),
        .inside = m};
    b->on_message(b->ctx, &message);
    natsMsg_Destroy(m);
}

static natsStatus set_credentials(natsOptions *o, const struct bus_credentials *c, bool tls,
                                  char why[static BUS_WHY_MAX])
{
    char key[BUS_NKEY_LEN + 1];
    natsStatus s = NATS_OK;
    if (c->user[0]) s = natsOptions_SetUserInfo(o, c->user, c->password);
    if (c->token[0]) s = natsOptions_SetToken(o, c->token);
    if (c->creds_file[0]) s = natsOptions_SetUserCredentialsFromFiles(o, c->creds_file, NULL);
    if (c->nkey_file[0]) {
        if (bus_nkey_public(c->nkey_file, key, why)) return NATS_INVALID_ARG;
        s = natsOptions_SetNKeyFromSeed(o, key, c->nkey_file);
    }
    if (s == NATS_OK && tls) s = natsOptions_SetSecure(o, true);
    if (s == NATS_OK && c->ca_file[0]) s = natsOptions_LoadCATrustedCertificates(o, c->ca_file);
    if (s == NATS_OK && c->cert_file[0])
        s = natsOptions_LoadCertificatesChain(o, c->cert_file, c->key_file);
    return s;
}

static natsStatus set_options(struct bus *b, natsOptions *o, const struct bus_credentials *c,
                              char why[static BUS_WHY_MAX])
{
    const char *servers[BUS_SERVERS_MAX];
    for (size_t i = 0; i < b->url.servers_len; i++)
        servers[i] = b->url.servers[i];
    natsStatus s = natsOptions_SetServers(o, servers, (int)b->url.servers_len);
    if (s == NATS_OK) s = natsOptions_SetName(o, b->name);
    if (s == NATS_OK) s = natsOptions_SetTimeout(o, CONNECT_MS);
    if (s == NATS_OK) s = natsOptions_SetAllowReconnect(o, false);
    if (s == NATS_OK) s = natsOptions_SetPingInterval(o, PING_MS);
    if (s == NATS_OK) s = natsOptions_SetMaxPingsOut(o, 2);
    if (s == NATS_OK) s = natsOptions_SetWriteDeadline(o, WRITE_MS);
    if (s == NATS_OK) s = natsOptions_SetErrorHandler(o, on_error, b);
    if (s == NATS_OK) s = natsOptions_SetClosedCB(o, on_closed, b);
    return s == NATS_OK ? set_credentials(o, c, b->url.tls, why) : s;
}

static natsStatus make_options(struct bus *b, natsOptions **out, char why[static BUS_WHY_MAX])
{
    struct bus_credentials c;
    if (bus_credentials_read(&c, why)) return NATS_INVALID_ARG;
    natsStatus s = natsOptions_Create(out);
    why[0] = 0;
    if (s == NATS_OK) s = set_options(b, *out, &c, why);
    if (s != NATS_OK && !why[0]) nats_reason((int)s, why);
    bus_credentials_done(&c);
    return s;
}

static natsStatus subscribe(struct nats_link *l, natsSubscription **out, const char *subject,
                            natsMsgHandler call, int messages_max, int bytes_max)
{
    struct bus *b = l->bus;
    natsStatus s = natsConnection_Subscribe(out, l->nc, subject, call, b);
    if (s != NATS_OK) return s;
    note_begin(b);
    s = natsSubscription_SetOnCompleteCB(*out, note_end_of, b);
    if (s != NATS_OK)
        note_end(b);
    else
        s = natsSubscription_SetPendingLimits(*out, messages_max, bytes_max);
    return s;
}

static natsStatus link_prepare(struct nats_link *l)
{
    struct bus *b = l->bus;
    char subject[BUS_INBOX_MAX + 2];
    natsStatus s = natsConnection_JetStream(&l->js, l->nc, NULL);
    (void)snprintf(subject, sizeof subject, "%s.*", b->inbox);
    if (s == NATS_OK) s = subscribe(l, &l->acks, subject, on_ack, ACKS_MAX, ACKS_MAX * 128);
    if (s == NATS_OK && b->listen[0])
        s = subscribe(l, &l->listening, b->listen, on_message, HEARD_MAX, HEARD_BYTES_MAX);
    return s;
}

// One attempt. NULL: it failed, and the reason was noted.
static struct nats_link *link_new(struct bus *b)
{
    char why[BUS_WHY_MAX];
    natsOptions *options = NULL;
    struct nats_link *l = NEW(struct nats_link);
    *l = (struct nats_link){.bus = b, .users = 1};
    natsStatus s = make_options(b, &options, why);
    if (s == NATS_OK) {
        note_begin(b); // before any callback
        s = natsConnection_Connect(&l->nc, options);
        if (s != NATS_OK) nats_reason((int)s, why);
        if (!l->nc) note_end(b);
    }
    if (s == NATS_OK && (s = link_prepare(l)) != NATS_OK) nats_reason((int)s, why);
    natsOptions_Destroy(options);
    if (s == NATS_OK) return l;
    note(b, s, why);
    nats_link_drop(l);
    return NULL;
}

static void set_link(struct bus *b, struct nats_link *l)
{
    (void)pthread_mutex_lock(&b->lock);
    b->link = l;
    if (l) {
        b->connections++;
        b->denied = false;
        b->why[0] = 0;
    } else if (!b->why[0]) {
        (void)snprintf(b->why, sizeof b->why, "the connection to the bus ended");
    }
    (void)pthread_cond_broadcast(&b->moved);
    (void)pthread_mutex_unlock(&b->lock);
    if (b->changed) b->changed(b->ctx, l != NULL);
}

// Waits until the connection ends or the bus closes.
static void serve_link(struct bus *b, struct nats_link *l)
{
    LOCKED(&b->lock);
    while (!b->stopping && !natsConnection_IsClosed(l->nc))
        clock_wait(&b->moved, &b->lock, clock_boot_ms() + CLOSED_POLL_MS);
}

// Sleeps a random time that grows with the failures. False: the bus closes.
static bool back_off(struct bus *b, uint32_t failures)
{
    int64_t most = BACKOFF_MIN_MS;
    for (uint32_t i = 0; i < failures && most < BACKOFF_MAX_MS; i++)
        most *= 2;
    if (most > BACKOFF_MAX_MS) most = BACKOFF_MAX_MS;
    int64_t until = clock_boot_ms() + rng_range(&b->rng, most / 2, most);
    LOCKED(&b->lock);
    while (!b->stopping && clock_boot_ms() < until)
        clock_wait(&b->moved, &b->lock, until);
    return !b->stopping;
}

static void *bus_run(void *arg)
{
    struct bus *b = arg;
    uint32_t failures = 0;
    do {
        struct nats_link *l = link_new(b);
        if (!l) {
            failures++;
            continue;
        }
        set_link(b, l);
        failures = 0;
        serve_link(b, l);
        set_link(b, NULL);
        natsConnection_Close(l->nc); // other users of the link notice at once
        nats_link_drop(l);
    } while (back_off(b, failures));
    nats_ReleaseThreadMemory();
    return NULL;
}

enum err bus_open(const struct bus_config *config, struct bus **out, char why[static BUS_WHY_MAX])
{
    natsOptions *options = NULL;
    struct bus *b = NEW(struct bus);
    *b = (struct bus){
        .changed = config->changed, .on_message = config->on_message, .ctx = config->ctx};
    CHECK(!config->listen || config->on_message);
    enum err e = bus_url_read(config->url, &b->url, why);
    if (config->listen)
        CHECK(bus_url_subject(&b->url, config->listen, b->listen, sizeof b->listen));
    (void)snprintf(b->name, sizeof b->name, "%.100s", config->name ? config->name : "sluice");
    (void)pthread_mutex_init(&b->lock, NULL);
    clock_cond_init(&b->moved);
    if (!e && make_options(b, &options, why) != NATS_OK) e = ERR_INVALID; // credentials
    natsOptions_Destroy(options);
    (void)snprintf(b->inbox, sizeof b->inbox, "_INBOX.sluice%016" PRIx64, entropy_u64());
    rng_init(&b->rng, entropy_u64());
    if (!e && (e = thread_start(&b->thread, bus_run, b)) != ERR_OK)
        (void)snprintf(why, BUS_WHY_MAX, "%s", THREAD_REFUSED);
    if (e)
        bus_close(b);
    else
        *out = b;
    return e;
}

void bus_close(struct bus *b)
{
    if (!b) return;
    (void)pthread_mutex_lock(&b->lock);
    CHECK(!b->senders);
    b->stopping = true;
    (void)pthread_cond_broadcast(&b->moved);
    struct nats_link *l = b->link;
    if (l) l->users++;
    (void)pthread_mutex_unlock(&b->lock);
    if (l) natsConnection_Close(l->nc); // wakes the reader
    nats_link_drop(l);
    thread_join(&b->thread);
    (void)pthread_mutex_lock(&b->lock);
    while (b->open > 0)
        (void)pthread_cond_wait(&b->moved, &b->lock);
    (void)pthread_mutex_unlock(&b->lock);
    (void)pthread_cond_destroy(&b->moved);
    (void)pthread_mutex_destroy(&b->lock);
    memory_free(b);
}

enum err bus_wait(struct bus *b, int64_t wait_ms, char why[static BUS_WHY_MAX])
{
    int64_t until = clock_boot_ms() + wait_ms;
    LOCKED(&b->lock);
    while (!b->link && clock_boot_ms() < until)
        clock_wait(&b->moved, &b->lock, until);
    enum err e = b->link ? ERR_OK : b->denied ? ERR_DENIED : ERR_UNAVAILABLE;
    if (e) (void)snprintf(why, BUS_WHY_MAX, "%s", b->why[0] ? b->why : "no server answered yet");
    return e;
}

bool bus_is_up(struct bus *b)
{
    LOCKED(&b->lock);
    return b->link != NULL;
}

uint64_t bus_connections(struct bus *b)
{
    LOCKED(&b->lock);
    return b->connections;
}

void bus_why(struct bus *b, char why[static BUS_WHY_MAX])
{
    LOCKED(&b->lock);
    (void)snprintf(why, BUS_WHY_MAX, "%s", b->why);
}

struct bus_limits bus_limits(const struct bus *b)
{
    return b->url.limits;
}

enum err bus_sender_new(struct bus *b, bus_ack_fn *acked, void *ctx, struct bus_sender **out)
{
    struct bus_sender *s = NEW(struct bus_sender);
    *s = (struct bus_sender){.bus = b, .acked = acked, .ctx = ctx};
    (void)pthread_mutex_lock(&b->lock);
    s->number = ++b->numbers;
    s->next = b->senders;
    b->senders = s;
    (void)pthread_mutex_unlock(&b->lock);
    *out = s;
    return ERR_OK;
}

void bus_sender_free(struct bus_sender *s)
{
    if (!s) return;
    struct bus *b = s->bus;
    (void)pthread_mutex_lock(&b->lock);
    struct bus_sender **at = &b->senders;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    while (s->calls > 0)
        (void)pthread_cond_wait(&b->moved, &b->lock);
    (void)pthread_mutex_unlock(&b->lock);
    memory_free(s);
}

static natsStatus set_number(natsMsg *m, const char *name, uint64_t value)
{
    char text[24];
    if (value == BUS_NO_FENCE) return NATS_OK;
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return natsMsgHeader_Set(m, name, text);
}

// stream: "" if any stream may have the message.
static natsStatus set_headers(natsMsg *m, const struct bus_publish *p, const char *stream)
{
    natsStatus s = natsMsgHeader_Set(m, "Nats-Msg-Id", p->id);
    if (s == NATS_OK && *stream) s = natsMsgHeader_Set(m, "Nats-Expected-Stream", stream);
    if (s == NATS_OK) s = set_number(m, "Nats-Expected-Last-Sequence", p->last_of_stream);
    if (s == NATS_OK) s = set_number(m, "Nats-Expected-Last-Subject-Sequence", p->last_of_subject);
    for (size_t i = 0; s == NATS_OK && i < p->headers_len; i++)
        s = natsMsgHeader_Set(m, p->headers[i].name, p->headers[i].value);
    return s;
}

enum err bus_publish(struct bus_sender *s, const struct bus_publish *p)
{
    CHECK(p->subject && p->id && p->headers_len <= BUS_HEADERS_MAX);
    char reply[BUS_INBOX_MAX + 48], subject[BUS_SUBJECT_WIRE_MAX], stream[BUS_STREAM_WIRE_MAX] = "";
    natsMsg *m = NULL;
    if (!bus_url_subject(&s->bus->url, p->subject, subject, sizeof subject)) return ERR_LIMIT;
    if (p->stream && !bus_url_stream(&s->bus->url, p->stream, stream, sizeof stream))
        return ERR_LIMIT;
    struct nats_link *l = nats_link_take(s->bus);
    if (!l) return ERR_UNAVAILABLE;
    (void)snprintf(reply, sizeof reply, "%s.%" PRIu64 "-%" PRIu64, s->bus->inbox, s->number,
                   p->tag);
    natsStatus status =
        natsMsg_Create(&m, subject, reply, (const char *)p->body.data, (int)p->body.len);
    if (status == NATS_OK) status = set_headers(m, p, stream);
    if (status == NATS_OK) status = natsConnection_PublishMsg(l->nc, m);
    natsMsg_Destroy(m);
    nats_link_drop(l);
    enum err e = nats_err((int)status, 0);
    return e == ERR_OK || e == ERR_LIMIT ? e : ERR_UNAVAILABLE;
}
