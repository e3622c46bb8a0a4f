// SPDX-License-Identifier: Apache-2.0
#include "peer/link.h"

#include "base/check.h"
#include "base/memory.h"
#include "net/http1.h"
#include "net/stream.h"
#include "os/lock.h"
#include "os/thread_pool.h"
#include "peer/peer.h"
#include "protocol/routes.h"
#include "protocol/shard_wire.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS   1000 // for an answer, beside the owner's wait for messages
#define ANSWER_MAX    ((size_t)64 << 20)
#define TLS_CALLS_MAX 64 // requests at once to owners with TLS

struct link_target {
    struct link_target *next;
    struct owner_name name;
    struct peer_identity identity; // that each connection proves
    struct http_async_host *place; // NULL: it uses TLS, or cannot be reached
    struct http1_client *tls;      // NULL: it does not use TLS, or cannot be reached
    bool may_have_token;
    atomic_bool doubted;
    struct list calls; // under way; under the lock
};

struct links {
    struct thread_pool *pool;
    char *token; // "": none
    char *hosts; // that may get tokens; NULL: as the environment says
    struct link_counts counts;
    pthread_mutex_t lock;
    // Created with the first target.
    struct http_async *async_http;   // NULL: the process cannot create a thread
    struct stream_tls *certificates; // NULL: they cannot be read
    struct pool_share *tls_share;
    _Atomic size_t tls_calls;
    struct link_target *all;
};

static const char *token_of(const struct peer_config *config)
{
    const char *token = config->token ? config->token : getenv("SLUICE_TOKEN");
    return token && *token && strlen(token) <= CLIENT_TOKEN_MAX ? token : "";
}

struct links *links_new(const struct peer_config *config, struct thread_pool *pool)
{
    const char *setting = getenv("SLUICE_FORWARD");
    if (config->off || (setting && strcmp(setting, "off") == 0)) return NULL;
    struct links *l = NEW(struct links);
    l->pool = pool;
    l->token = memory_text(token_of(config));
    (void)pthread_mutex_init(&l->lock, NULL);
    return l;
}

void links_free(struct links *l)
{
    if (!l) return;
    pool_share_free(l->tls_share);
    http_async_free(l->async_http);
    while (l->all) {
        struct link_target *t = l->all;
        l->all = t->next;
        CHECK(!t->calls.first);
        http1_free(t->tls);
        memory_free(t);
    }
    stream_tls_free(l->certificates);
    explicit_bzero(l->token, strlen(l->token));
    memory_free(l->token);
    memory_free(l->hosts);
    (void)pthread_mutex_destroy(&l->lock);
    memory_free(l);
}

void links_set_hosts(struct links *l, const char *hosts)
{
    if (l && hosts) l->hosts = memory_text(hosts);
}

const char *links_token(const struct links *l)
{
    return *l->token ? l->token : NULL;
}

struct link_counts *links_counts(struct links *l)
{
    return &l->counts;
}

const struct owner_name *link_target_name(const struct link_target *t)
{
    return &t->name;
}

bool link_may_have_token(const struct link_target *t)
{
    return t->may_have_token;
}

bool link_doubt_begin(struct link_target *t)
{
    return !atomic_exchange(&t->doubted, true);
}

void link_doubt_over(struct link_target *t)
{
    atomic_store(&t->doubted, false);
}

// Call it under the lock.
static struct link_target *target_find(struct links *l, const struct owner_name *name)
{
    struct link_target *t = l->all;
    while (t && !owner_name_equal(&t->name, name))
        t = t->next;
    return t;
}

// Call it under the lock.
static void start_clients(struct links *l)
{
    const char *ca = getenv("SLUICE_CA");
    char why[HTTP_WHY_MAX];
    if (!l->async_http) l->async_http = http_async_new();
    if (l->tls_share) return;
    l->certificates = stream_tls_new(ca && *ca ? ca : NULL, NULL, NULL, why, sizeof why);
    l->tls_share = pool_share_new(l->pool, TLS_CALLS_MAX, TLS_CALLS_MAX);
}

static struct link_target *target_new(struct links *l, const struct owner_name *name)
{
    struct link_target *t = NEW(struct link_target);
    t->name = *name;
    peer_identity_of(name, &t->identity);
    t->may_have_token = peer_may_have_token(name->url, l->hosts);
    struct peer_challenge challenge = peer_challenge_of(&t->identity);
    if (strncmp(name->url, "https://", 8) == 0)
        t->tls = http1_new(name->url, &(struct http1_config){.tls = l->certificates,
                                                             .challenge = &challenge,
                                                             .repeats = true});
    else if (l->async_http)
        t->place = http_async_host_new(l->async_http, name->url, &challenge);
    return t;
}

static bool is_reachable(const struct link_target *t)
{
    return t->tls || t->place;
}

struct link_target *links_target(struct links *l, const struct owner_name *name)
{
    (void)pthread_mutex_lock(&l->lock);
    start_clients(l);
    struct link_target *t = target_find(l, name);
    (void)pthread_mutex_unlock(&l->lock);
    if (t) return is_reachable(t) ? t : NULL;
    t = target_new(l, name); // without the lock: it resolves a name
    (void)pthread_mutex_lock(&l->lock);
    t->next = l->all; // if two threads add it, both stay: a host of the client refers to each
    l->all = t;
    (void)pthread_mutex_unlock(&l->lock);
    return is_reachable(t) ? t : NULL;
}

void link_init(struct link_call *c)
{
    *c = (struct link_call){0};
    buf_init(&c->body, SIZE_MAX);
    http_call_init(&c->call.http, "POST", "");
}

void link_done(struct link_call *c)
{
    CHECK(!c->is_listed);
    for (size_t i = 0; i < c->lines_len; i++) {
        explicit_bzero(c->lines[i], strlen(c->lines[i])); // one of them may have a token
        memory_free(c->lines[i]);
    }
    memory_free(c->url);
    http_call_done(&c->call.http);
    buf_done(&c->body);
}

static void add_line(struct link_call *c, const char *name, const char *before, const char *value)
{
    CHECK(c->lines_len < sizeof c->lines / sizeof *c->lines);
    size_t len = strlen(name) + strlen(before) + strlen(value) + 3;
    char *line = memory_new(len);
    (void)snprintf(line, len, "%s: %s%s", name, before, value);
    c->lines[c->lines_len++] = line;
}

static void write_request(struct link_call *c, const char *queue, const char *token,
                          int64_t wait_ms)
{
    const struct link_target *t = c->target;
    struct http_call *http = &c->call.http;
    size_t len = strlen(t->name.url) + strlen(queue) + 32;
    c->url = memory_new(len);
    (void)snprintf(c->url, len, "%s/v1/queues/%s/shards", t->name.url, queue);
    add_line(c, "Content-Type", "", SHARD_TYPE);
    if (token) add_line(c, "Authorization", "Bearer ", token);
    http->url = c->url;
    http->headers = (const char *const *)c->lines;
    http->headers_len = c->lines_len;
    http->body = buf_bytes(&c->body);
    http->timeout_ms = wait_ms + PATIENCE_MS;
    http->body_max = ANSWER_MAX;
}

// Call it under the lock.
static void unlist(struct link_call *c)
{
    if (c->is_listed) list_remove(&c->target->calls, &c->under_way);
    c->is_listed = false;
}

static enum link_end end_of(const struct http_call *http)
{
    if (http->end == HTTP_NOT_SENT) return LINK_UNDONE;
    if (http->end != HTTP_ANSWERED) return LINK_DOUBTED;
    if (http->status == 200) return LINK_ANSWERED;
    bool refused = (http->status >= 400 && http->status < 500) || http->status == 503;
    return refused ? LINK_UNDONE : LINK_DOUBTED;
}

static void came_back(struct http_async_call *call)
{
    struct link_call *c = (struct link_call *)call;
    struct links *l = c->links;
    (void)pthread_mutex_lock(&l->lock);
    unlist(c);
    (void)pthread_mutex_unlock(&l->lock);
    enum link_end end = end_of(&call->http);
    atomic_fetch_add(end == LINK_ANSWERED ? &l->counts.done : &l->counts.failed, 1);
    c->done(c, end);
}

static void do_over_tls(struct pool_job *job)
{
    struct link_call *c = (struct link_call *)((char *)job - offsetof(struct link_call, job));
    http1_do(c->target->tls, &c->call.http);
    atomic_fetch_sub(&c->links->tls_calls, 1);
    came_back(&c->call);
}

// Returns false if all threads for such requests are busy, or the process cannot create one.
static bool send_over_tls(struct links *l, struct link_call *c)
{
    c->job.run = do_over_tls;
    bool may = atomic_fetch_add(&l->tls_calls, 1) < TLS_CALLS_MAX;
    if (may && pool_share_run(l->tls_share, 0, &c->job) == ERR_OK) return true;
    atomic_fetch_sub(&l->tls_calls, 1);
    return false;
}

static bool fits(struct http_async_call *call, size_t body_len)
{
    struct link_call *c = (struct link_call *)call;
    if (call->http.status != 200) return true;
    atomic_store(&c->comes, true);
    return !c->fits || c->fits(c, body_len);
}

bool link_send(struct links *l, struct link_target *t, struct link_call *c, const char *queue,
               const char *token, int64_t wait_ms)
{
    c->links = l;
    c->target = t;
    write_request(c, queue, token, wait_ms);
    if (t->tls) return send_over_tls(l, c);
    c->call.place = t->place;
    c->call.fits = fits;
    c->call.done = came_back;
    LOCKED(&l->lock); // another thread may end it once it is listed
    list_add_first(&t->calls, &c->under_way);
    c->is_listed = true;
    http_async_do(l->async_http, &c->call);
    return true;
}

// Call it under the lock.
static bool cancel(struct links *l, struct link_call *c)
{
    if (!c->is_listed || !http_async_cancel(l->async_http, &c->call)) return false;
    unlist(c);
    return true;
}

bool link_cancel(struct link_call *c)
{
    LOCKED(&c->links->lock);
    // Messages that are being received are taken, so that they can be released.
    return !atomic_load(&c->comes) && cancel(c->links, c);
}

void link_target_away(struct links *l, struct link_target *t)
{
    struct list back = {0};
    (void)pthread_mutex_lock(&l->lock);
    LIST_EACH(c, &t->calls, struct link_call, under_way) {
        if (cancel(l, c)) list_add(&back, &c->under_way);
    }
    (void)pthread_mutex_unlock(&l->lock);
    LIST_EACH(c, &back, struct link_call, under_way) {
        list_remove(&back, &c->under_way);
        atomic_fetch_add(&l->counts.failed, 1);
        c->done(c, LINK_DOUBTED);
    }
}

bool link_ask(struct links *l, const struct peer_identity *to, const char *token, bool proves,
              struct http_call *call)
{
    char authorization[CLIENT_TOKEN_MAX + 32];
    const char *lines[] = {authorization};
    bool carries = token && *token;
    if (carries && (strlen(token) > CLIENT_TOKEN_MAX || !peer_may_have_token(to->url, l->hosts)))
        return false;
    (void)pthread_mutex_lock(&l->lock);
    start_clients(l);
    (void)pthread_mutex_unlock(&l->lock);
    struct peer_challenge challenge = peer_challenge_of(to);
    // Without a token, the request reveals nothing, and any node of the cluster may answer.
    struct http1_config config = {.tls = l->certificates,
                                  .challenge = carries || proves ? &challenge : NULL,
                                  .repeats = true};
    struct http1_client *client = http1_new(to->url, &config);
    if (!client) return false;
    (void)snprintf(authorization, sizeof authorization, "Authorization: Bearer %s",
                   carries ? token : "");
    call->headers = lines;
    call->headers_len = carries;
    http1_do(client, call);
    call->headers = NULL;
    call->headers_len = 0;
    explicit_bzero(authorization, sizeof authorization);
    http1_free(client);
    return call->end == HTTP_ANSWERED;
}
