// SPDX-License-Identifier: Apache-2.0
// Chooses the node that gets a call, and falls back to a direct call if the node does not answer.
#include "owner/forward.h"

#include "base/memory.h"
#include "local/async.h"
#include "local/bodies.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "owner/peer.h"
#include "remote/remote.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AWAY_MS     5000 // an owner that did not answer is not asked again for this long
#define SYNC_MS     5000 // how often the journal is read while the owner does the work
#define CHECK_MS    1000 // ... and how often the folded state is checked otherwise
#define PATIENCE_MS 600  // for one answer; with the challenge after it, a second
#define ALIVE_MS    400
#define TRIES       5 // at an owner that is alive but slow
#define WAIT_MAX_MS (INT64_C(24) * 3600 * 1000)
#define WAIT_MS     5000 // how long a receive waits at the owner before it checks again
#define BYTES_MAX   ((size_t)4 << 20) // of the bodies of one call; larger calls are not sent twice

// One start of a node that owns, or owned, a shard. Freed with the handle.
struct owner_peer {
    struct owner_peer *next;
    struct owner_name name;
    // NULL: it never answered. Each of its connections proves the node's identity.
    struct sluice *remote;
    int64_t not_before; // clock_boot_ms
    bool away;          // not_before is set because no answer came
};

struct forward {
    struct http *http;
    struct owner_peer *peers; // under the handle's lock
    char *token;              // "": none
};

static const char *token_of(const struct sluice_options *options)
{
    const char *token = options && options->token ? options->token : getenv("SLUICE_TOKEN");
    return token && *token && strlen(token) <= REMOTE_TOKEN_MAX ? token : NULL;
}

struct forward *forward_new(const struct sluice_options *options)
{
    const char *setting = getenv("SLUICE_FORWARD"), *token = token_of(options);
    bool off = (options && options->direct) || (setting && strcmp(setting, "off") == 0);
    if (off) return NULL;
    struct forward *f = NEW(struct forward);
    f->http = peer_http();
    if (!token) token = "";
    f->token = memory_new(strlen(token) + 1);
    memcpy(f->token, token, strlen(token) + 1);
    return f;
}

void forward_free(struct forward *f)
{
    if (!f) return;
    while (f->peers) {
        struct owner_peer *p = f->peers;
        f->peers = p->next;
        sluice_close(p->remote);
        memory_free(p);
    }
    http_free(f->http);
    explicit_bzero(f->token, strlen(f->token));
    memory_free(f->token);
    memory_free(f);
}

static bool same_name(const struct owner_name *a, const struct owner_name *b)
{
    return strcmp(a->url, b->url) == 0 && strcmp(a->node, b->node) == 0 &&
           strcmp(a->incarnation, b->incarnation) == 0;
}

static struct owner_peer *peer_at(struct forward *f, const struct owner_name *name)
{
    struct owner_peer *p = f->peers;
    while (p && !same_name(&p->name, name))
        p = p->next;
    if (p) return p;
    p = NEW(struct owner_peer);
    p->name = *name;
    p->next = f->peers;
    f->peers = p;
    return p;
}

// Returns PEER_PROVEN if the node answers, proves its identity and may get the token. One caller at
// a time asks, without the lock.
static enum peer peer_answers(struct forward *f, struct owner_peer *p)
{
    enum peer peer = peer_ask(f->http, &p->name, PEER_ASK_MS);
    if (peer != PEER_PROVEN || p->remote) return peer;
    if (*f->token && !peer_may_have_token(p->name.url, NULL)) return PEER_DECLINES;
    struct sluice_options options = {.timeout_ms = PEER_ASK_MS, .token = f->token};
    struct sluice *remote = NULL;
    if (remote_open_peer(&p->name, &options, &remote)) return PEER_DECLINES;
    remote_of(remote)->patience_ms = PATIENCE_MS;
    p->remote = remote;
    return PEER_PROVEN;
}

// A direct writer pauses for a live owner. This owner is away, so the pauses end.
static void end_pauses(struct open_queue *q)
{
    for (uint32_t shard = 0; shard < q->row.birth.shards; shard++) {
        (void)pthread_mutex_lock(&q->handle->lock);
        struct shard_runner *d = q->runners[shard];
        (void)pthread_mutex_unlock(&q->handle->lock);
        if (d) runner_owner_away(d);
    }
}

// Reads the recorded owner from the journal and checks that the node answers.
static void refresh_owner(struct open_queue *q, bool sync)
{
    struct sluice *s = q->handle;
    struct shard_runner *d;
    struct runner_owner o;
    struct owner_name name;
    struct owner_peer *p = NULL;
    bool read = !queue_runner(q, 0, &d, NULL) && !(sync && runner_sync(d));
    if (read) runner_owner(d, &o);
    bool named = read && o.epoch != 0 && owner_parse(o.address, &name);
    int64_t now = clock_boot_ms();
    (void)pthread_mutex_lock(&s->lock);
    if (named) p = peer_at(s->forward, &name);
    bool asks = p && p != q->owner && now >= p->not_before;
    // Another queue's call found that the node is away.
    bool known_away = p && !asks && p->away && now < p->not_before;
    // No other caller asks meanwhile.
    if (asks) p->not_before = now + AWAY_MS;
    (void)pthread_mutex_unlock(&s->lock);
    enum peer peer = asks ? peer_answers(s->forward, p) : PEER_DECLINES;
    bool answers = peer == PEER_PROVEN;
    if (peer == PEER_AWAY || known_away) end_pauses(q);
    (void)pthread_mutex_lock(&s->lock);
    if (answers) p->not_before = 0;
    if (asks) p->away = peer == PEER_AWAY;
    // If the store is unreachable, the owner is not known to have changed.
    if (read && p != q->owner) q->owner = answers ? p : NULL;
    q->owner_check_at = clock_boot_ms() + (q->owner ? SYNC_MS : CHECK_MS);
    (void)pthread_mutex_unlock(&s->lock);
}

// The owner to ask about the queue, or NULL. Also sets *q to the open queue, held, and releases the
// one that was there.
static struct owner_peer *owner_to_ask(struct sluice *s, const char *queue, struct open_queue **q)
{
    queue_let_go(q);
    if (!s->forward || atomic_load(&s->is_node) || queue_get(s, queue, q, NULL)) return NULL;
    int64_t now = clock_boot_ms();
    (void)pthread_mutex_lock(&s->lock);
    bool first = (*q)->owner_check_at == 0;
    bool checks = now >= (*q)->owner_check_at;
    // A direct writer folds the journal anyway.
    bool sync = first || (*q)->owner;
    // Other callers continue as before meanwhile.
    if (checks) (*q)->owner_check_at = now + AWAY_MS;
    (void)pthread_mutex_unlock(&s->lock);
    if (checks) refresh_owner(*q, sync);
    (void)pthread_mutex_lock(&s->lock);
    struct owner_peer *p = (*q)->owner;
    if (p && now < p->not_before) p = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    return p;
}

static void drop_owner(struct open_queue *q, struct owner_peer *p, bool away)
{
    struct sluice *s = q->handle;
    int64_t now = clock_boot_ms();
    (void)pthread_mutex_lock(&s->lock);
    p->not_before = now + AWAY_MS;
    p->away = away;
    if (q->owner == p) q->owner = NULL;
    q->owner_check_at = now + CHECK_MS;
    (void)pthread_mutex_unlock(&s->lock);
}

bool forward_is_final(enum sluice_code code, const struct sluice_error *why)
{
    switch (code) {
    case SLUICE_OK:
    case SLUICE_INVALID:
    case SLUICE_NOT_FOUND:
    case SLUICE_CONFLICT:
    case SLUICE_FENCED:
        return true;
    case SLUICE_LIMIT:
        return strcmp(why->reason, reason_name(REASON_FULL)) == 0 ||
               strcmp(why->reason, reason_name(REASON_DEDUP_FULL)) == 0;
    default:
        return false;
    }
}

enum sluice_code code_repeated(enum sluice_code code)
{
    return (enum sluice_code)err_repeated((enum err)code);
}

void sent_repeated(struct sluice_sent *sent, size_t len)
{
    for (size_t i = 0; sent && i < len; i++)
        sent[i].code = code_repeated(sent[i].code);
}

void outcomes_repeated(struct sluice_outcome *outcomes, size_t len)
{
    for (size_t i = 0; outcomes && i < len; i++)
        if (!*outcomes[i].reason) outcomes[i].code = code_repeated(outcomes[i].code);
}

// A call at the owner, until it was answered or until waiting longer is pointless.
struct forwarded {
    struct sluice *handle;
    const char *queue;
    struct open_queue *at; // held
    struct owner_peer *peer;
    struct sluice_request id;
    struct sluice_error why;
    bool maybe_applied;
    enum sluice_code (*ask)(struct forwarded *f, struct sluice *remote);
    const struct sluice_send *messages;
    size_t len;
    struct sluice_sent *sent;
    struct settle settle;
    struct sluice_outcome *outcomes;
    size_t outcomes_len;
    struct sluice_receive receive;
    struct sluice_batch **batch;
};

static void forwarded_done(struct forwarded *f)
{
    queue_let_go(&f->at);
}

static bool answered(struct forwarded *f, enum sluice_code *code)
{
    struct http *http = f->handle->forward->http;
    bool there = true;
    for (int tries = 0; tries < TRIES && there; tries++) {
        f->why = (struct sluice_error){.code = SLUICE_OK};
        *code = f->ask(f, f->peer->remote);
        if (forward_is_final(*code, &f->why)) return true;
        f->maybe_applied = f->maybe_applied || *code == SLUICE_UNKNOWN || *code == SLUICE_CORRUPT;
        if (*code == SLUICE_DENIED || *code == SLUICE_LIMIT) break;
        there = peer_ask(http, &f->peer->name, ALIVE_MS) == PEER_PROVEN;
        // A request whose answer was lost may still be in progress, so the same id is sent again.
        if (*code != SLUICE_UNKNOWN) break;
    }
    drop_owner(f->at, f->peer, !there);
    if (!there) end_pauses(f->at);
    return false;
}

// The call was done directly, and gave code. If an attempt at the owner may still take effect, an
// answer without an entry does not decide the call.
static enum sluice_code concluded(const struct forwarded *f, enum sluice_code code,
                                  struct sluice_error *error)
{
    if (!f->maybe_applied) return code;
    sent_repeated(f->sent, f->len);
    outcomes_repeated(f->outcomes, f->outcomes_len);
    code = code_repeated(code);
    if (code && error) error->code = code;
    return code;
}

static enum sluice_code ended(const struct forwarded *f, enum sluice_code code,
                              struct sluice_error *error)
{
    if (code && error) *error = f->why;
    return concluded(f, code, error);
}

static struct sluice_request request_of(const struct sluice_request *given)
{
    struct sluice_request id;
    if (given) return *given;
    entropy_fill(id.bytes, sizeof id.bytes);
    return id;
}

// A send of several requests would have other ids than the ops of a direct send.
static bool may_forward(const struct sluice_send *messages, size_t len)
{
    size_t bytes = 0;
    for (size_t i = 0; i < len; i++) {
        if (messages[i].body_len > BODY_INLINE_MAX) return false;
        bytes += messages[i].body_len;
    }
    return len > 0 && bytes <= BYTES_MAX && remote_is_one_request(messages, len);
}

static enum sluice_code ask_send(struct forwarded *f, struct sluice *remote)
{
    return remote_send(remote, f->queue, f->messages, f->len, &f->id, f->sent, &f->why);
}

enum sluice_code forward_send(struct sluice *s, const char *queue,
                              const struct sluice_send *messages, size_t len,
                              const struct sluice_request *request, struct sluice_sent *sent,
                              struct sluice_error *error)
{
    CLEANUP(forwarded_done)
    struct forwarded f = {.handle = s,
                          .queue = queue,
                          .ask = ask_send,
                          .messages = messages,
                          .len = len,
                          .sent = sent};
    enum sluice_code code;
    if (may_forward(messages, len)) f.peer = owner_to_ask(s, queue, &f.at);
    if (!f.peer) return direct_send(s, queue, messages, len, request, sent, error);
    f.id = request_of(request);
    if (answered(&f, &code)) return ended(&f, code, error);
    return concluded(&f, direct_send(s, queue, messages, len, &f.id, sent, error), error);
}

static enum sluice_code ask_settle(struct forwarded *f, struct sluice *remote)
{
    return remote_settle(remote, f->queue, &f->settle, f->outcomes, &f->why);
}

enum sluice_code forward_settle(struct sluice *s, const char *queue, const struct settle *what,
                                struct sluice_outcome *outcomes, struct sluice_error *error)
{
    CLEANUP(forwarded_done)
    struct forwarded f = {.handle = s,
                          .queue = queue,
                          .ask = ask_settle,
                          .settle = *what,
                          .outcomes = outcomes,
                          .outcomes_len = what->len};
    enum sluice_code code;
    if (what->len > 0 && what->len <= CALL_ITEMS_MAX) f.peer = owner_to_ask(s, queue, &f.at);
    if (!f.peer) return direct_settle(s, queue, what, outcomes, error);
    f.id = request_of(what->request);
    f.settle.request = &f.id;
    if (answered(&f, &code)) return ended(&f, code, error);
    return concluded(&f, direct_settle(s, queue, &f.settle, outcomes, error), error);
}

static enum sluice_code ask_receive(struct forwarded *f, struct sluice *remote)
{
    return remote_receive(remote, f->queue, &f->receive, f->batch, &f->why);
}

static bool acks_answered(const struct sluice_receive *o)
{
    return o->acks_len > 0 && o->acked[0].status;
}

// Receives directly for the rest of the wait. A claim that may have been made is repeated with its
// id. So are acks, which may be done although the receive is not.
static enum sluice_code receive_rest(struct forwarded *f, const struct sluice_receive *o,
                                     int64_t until, struct sluice_error *error)
{
    struct sluice_receive rest = *o;
    int64_t left = until - clock_boot_ms();
    rest.wait_ms = left > 0 ? left : 0;
    bool asked = f->maybe_applied || (f->peer && o->acks_len > 0);
    if (acks_answered(o)) rest.acks_len = 0;
    if (asked) rest.request = &f->id;
    f->outcomes_len = rest.acks_len;
    return concluded(f, direct_receive(f->handle, f->queue, &rest, f->batch, error), error);
}

enum sluice_code forward_receive(struct sluice *s, const char *queue,
                                 const struct sluice_receive *options, struct sluice_batch **out,
                                 struct sluice_error *error)
{
    static const struct sluice_receive none = {0};
    const struct sluice_receive *o = options ? options : &none;
    CLEANUP(forwarded_done)
    struct forwarded f = {
        .handle = s, .queue = queue, .ask = ask_receive, .batch = out, .outcomes = o->acked};
    int64_t wait = o->wait_ms < 0 ? 0 : o->wait_ms < WAIT_MAX_MS ? o->wait_ms : WAIT_MAX_MS;
    int64_t until = clock_boot_ms() + wait;
    *out = NULL;
    for (;;) {
        enum sluice_code code = SLUICE_OK;
        f.peer = owner_to_ask(s, queue, &f.at);
        if (!f.peer) return receive_rest(&f, o, until, error);
        int64_t left = until - clock_boot_ms();
        f.id = request_of(o->request);
        f.receive = *o;
        f.receive.wait_ms = left < 0 ? 0 : left < WAIT_MS ? left : WAIT_MS;
        f.receive.request = &f.id;
        if (acks_answered(o)) f.receive.acks_len = 0; // they were answered with the first request
        f.maybe_applied = false;
        if (!answered(&f, &code)) return receive_rest(&f, o, until, error);
        bool over = code || (*out)->len > 0 || clock_boot_ms() >= until;
        if (over) return ended(&f, code, error);
        sluice_batch_free(*out);
        *out = NULL;
    }
}
