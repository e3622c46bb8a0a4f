// SPDX-License-Identifier: Apache-2.0
// Sends a request to the node that owns its queue, and answers the client with the owner's answer.
// Without a final answer, the handler runs again on this node.
//
// A forwarded request carries the client's own token and no right of this node. Each connection to
// the owner proves the owner's identity before a request is sent on it (owner/peer.h).
#include "server/relay.h"

#include "base/memory.h"
#include "net/http_async.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "owner/forward.h"
#include "owner/owner.h"
#include "owner/peer.h"
#include "remote/remote.h"
#include "server/inside.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PATIENCE_MS   1000              // for an answer, beside the owner's wait for messages
#define BODY_MAX      ((size_t)4 << 20) // a request with a larger body is not forwarded
#define LINES_MAX     264               // header lines, including a message's own
#define TLS_CALLS_MAX 64                // requests at once to owners with TLS

// One incarnation of a node that requests go to. It lives as long as the server.
struct forward_target {
    struct forward_target *next;
    struct owner_name name;
    struct http_async_host *place; // NULL: it uses TLS, or its name does not resolve
    bool tls;
    bool may_have_token;
    struct relay *first; // its requests that can be cancelled; under the server's lock
};

struct relays {
    char *hosts; // that may get tokens; NULL: as the environment says
    struct http_async *async_http;
    struct http *tls_http;        // blocking calls, for requests over TLS
    struct pool_share *tls_share; // their threads
    _Atomic size_t tls_calls;
    pthread_mutex_t lock;
    struct forward_target *all;
};

struct relay {
    struct http_async_call call; // first
    struct pool_job job;         // over TLS
    struct exchange *exchange;
    struct forward_target *forward_to;
    struct relay *next, *before;
    atomic_bool comes; // an answer with messages is being received
    char *url;
    char *lines[LINES_MAX];
    size_t lines_len;
};

struct relays *relays_new(const char *hosts, struct thread_pool *pool)
{
    struct relays *r = NEW(struct relays);
    if (hosts) {
        r->hosts = memory_new(strlen(hosts) + 1);
        memcpy(r->hosts, hosts, strlen(hosts) + 1);
    }
    const char *ca = getenv("SLUICE_CA");
    struct http_config config = {.ca_file = ca && *ca ? ca : NULL,
                                 .connect_ms = PATIENCE_MS,
                                 .connections_max = TLS_CALLS_MAX};
    r->async_http = http_async_new();
    r->tls_http = http_new(&config);
    r->tls_share = pool_share_new(pool, TLS_CALLS_MAX, TLS_CALLS_MAX);
    (void)pthread_mutex_init(&r->lock, NULL);
    if (r->async_http) return r;
    relays_free(r);
    return NULL;
}

void relays_free(struct relays *r)
{
    if (!r) return;
    pool_share_free(r->tls_share);
    http_free(r->tls_http);
    http_async_free(r->async_http);
    while (r->all) {
        struct forward_target *t = r->all;
        r->all = t->next;
        memory_free(t);
    }
    (void)pthread_mutex_destroy(&r->lock);
    memory_free(r->hosts);
    memory_free(r);
}

static struct forward_target *forward_target_find(struct relays *r, const struct owner_name *name)
{
    (void)pthread_mutex_lock(&r->lock);
    struct forward_target *t = r->all;
    while (t && (strcmp(t->name.incarnation, name->incarnation) != 0 ||
                 strcmp(t->name.url, name->url) != 0 || strcmp(t->name.node, name->node) != 0))
        t = t->next;
    (void)pthread_mutex_unlock(&r->lock);
    return t;
}

// May block, because it resolves a name.
static void forward_target_add(struct relays *r, const struct owner_name *name)
{
    struct forward_target *t = NEW(struct forward_target);
    t->name = *name;
    struct peer_challenge challenge = peer_challenge_of(&t->name);
    t->tls = strncmp(name->url, "https://", 8) == 0;
    if (!t->tls) t->place = http_async_host_new(r->async_http, name->url, &challenge);
    t->may_have_token = peer_may_have_token(name->url, r->hosts);
    (void)pthread_mutex_lock(&r->lock);
    t->next = r->all;
    r->all = t;
    (void)pthread_mutex_unlock(&r->lock);
}

static void relay_free(struct relay *r)
{
    for (size_t i = 0; i < r->lines_len; i++) {
        explicit_bzero(r->lines[i], strlen(r->lines[i])); // one of them may have a token
        memory_free(r->lines[i]);
    }
    memory_free(r->url);
    http_call_done(&r->call.http);
    memory_free(r);
}

static void add_line(struct relay *r, const char *name, const char *value)
{
    if (r->lines_len == LINES_MAX) return;
    size_t len = strlen(name) + strlen(value) + 3;
    char *line = memory_new(len);
    (void)snprintf(line, len, "%s: %s", name, value);
    r->lines[r->lines_len++] = line;
}

static void copy_line(void *ctx, const char *name, const char *value)
{
    static const char *const travel[] = {"Content-Type", "Accept", "Authorization"};
    bool copies = strncasecmp(name, MESSAGE_HEADER, strlen(MESSAGE_HEADER)) == 0;
    for (size_t i = 0; i < sizeof travel / sizeof *travel; i++)
        copies = copies || strcasecmp(name, travel[i]) == 0;
    if (copies && !strpbrk(value, "\r\n")) add_line(ctx, name, value);
}

// A request without an id gets one, because this node may have to do it after all.
static void name_request(struct exchange *x)
{
    if (x->has_request) return;
    entropy_fill(x->request.bytes, sizeof x->request.bytes);
    x->has_request = true;
    x->named_here = true;
}

static void write_request(struct relay *r, const struct forward_target *t, int64_t wait_ms)
{
    struct exchange *x = r->exchange;
    struct http_call *http = &r->call.http;
    char id[2 * sizeof x->request.bytes + 1];
    const char *target = httpd_target(x->http);
    size_t len = strlen(t->name.url) + strlen(target) + 1;
    r->url = memory_new(len);
    (void)snprintf(r->url, len, "%s%s", t->name.url, target);
    httpd_each_header(x->http, copy_line, r);
    for (size_t i = 0; i < sizeof x->request.bytes; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", x->request.bytes[i]);
    add_line(r, REQUEST_HEADER, id);
    add_line(r, PEER_FORWARDED, x->server->node);
    http_call_init(http, "POST", r->url);
    http->headers = (const char *const *)r->lines;
    http->headers_len = r->lines_len;
    http->body = httpd_body(x->http);
    http->timeout_ms = wait_ms + PATIENCE_MS;
    http->body_max = budget_share(&x->server->budget); // for a larger answer, the handler runs here
}

static void link_relay(struct relay *r)
{
    struct relay **first = &r->forward_to->first;
    r->next = *first;
    if (*first) (*first)->before = r;
    *first = r;
    r->exchange->relay = r;
}

static void unlink_relay(struct relay *r)
{
    if (r->exchange->relay != r) return; // a request over TLS is never linked
    if (r->next) r->next->before = r->before;
    if (r->before)
        r->before->next = r->next;
    else
        r->forward_to->first = r->next;
    r->exchange->relay = NULL;
}

// Whether an attempt without a final answer makes the result UNKNOWN. Not for a receive without
// acks whose id this node chose: no client repeats it. Its locks are released, or they expire.
static bool may_leave_doubt(const struct exchange *x)
{
    return x->route->handle != handle_receive || x->acks || !x->named_here;
}

static bool cancel(struct relays *all, struct relay *r)
{
    if (!http_async_cancel(all->async_http, &r->call)) return false; // `done` is about to be called
    unlink_relay(r);
    r->exchange->begun = false; // neither the relay nor the library has it
    r->exchange->in_doubt = may_leave_doubt(r->exchange); // it may have been sent before
    return true;
}

static bool has_messages(const struct exchange *x, int status)
{
    return x->route->handle == handle_receive && status == 200;
}

// Reserves the memory of an answer before it is received.
static bool fits(struct http_async_call *call, size_t body_len)
{
    struct relay *r = (struct relay *)call;
    struct exchange *x = r->exchange;
    if (!has_messages(x, call->http.status)) return true;
    atomic_store(&r->comes, true);
    return budget_take(&x->server->budget, &x->budget_part, body_len, 0);
}

static void copy_header(const struct http_call *from, const char *name, char *to, size_t len)
{
    struct bytes value = http_header(from, name);
    (void)snprintf(to, len, "%.*s", (int)value.len, (const char *)value.data);
}

static void answer_as_it_came(struct exchange *x, struct http_call *http)
{
    char type[128], took[24], after[24];
    struct httpd_pair headers[3] = {{"Cache-Control", "no-store"}};
    struct httpd_answer a = {.status = http->status, .headers = headers, .headers_len = 1};
    copy_header(http, "content-type", type, sizeof type);
    copy_header(http, "sluice-took", took, sizeof took);
    copy_header(http, "retry-after", after, sizeof after);
    if (*type) a.type = type;
    if (*took) headers[a.headers_len++] = (struct httpd_pair){"Sluice-Took", took};
    if (*after) headers[a.headers_len++] = (struct httpd_pair){"Retry-After", after};
    METRICS_ADD(&x->server->metrics, forwarded, 1);
    answer_with(x, &a, &http->body_in);
}

static bool is_final(const struct http_call *http)
{
    struct sluice_error error;
    if (http->end != HTTP_ANSWERED) return false;
    if (http->status >= 200 && http->status < 300) return true;
    return forward_is_final(ask_read_error(http, &error), &error);
}

// For an attempt without a final answer. Returns true if it may have taken effect, or may later.
static bool is_in_doubt(const struct http_call *http)
{
    struct sluice_error error;
    if (http->end != HTTP_ANSWERED) return http->end != HTTP_NOT_SENT;
    if (http->status >= 200 && http->status < 300) return true;
    enum sluice_code code = ask_read_error(http, &error);
    return code == SLUICE_UNKNOWN || code == SLUICE_CORRUPT;
}

const struct async_answer *relay_concluded(struct exchange *x, const struct async_answer *a)
{
    if (!x->in_doubt) return a;
    struct async_answer *out = kept_new(&x->kept, sizeof *out);
    struct sluice_error *error = kept_new(&x->kept, sizeof *error);
    *out = *a;
    out->code = code_repeated(a->code);
    if (a->error) {
        *error = *a->error;
        error->code = code_repeated(error->code);
        out->error = error;
    }
    if (a->sent) {
        struct sluice_sent *sent = kept_new(&x->kept, a->len * sizeof *sent);
        memcpy(sent, a->sent, a->len * sizeof *sent);
        sent_repeated(sent, a->len);
        out->sent = sent;
    }
    if (a->outcomes) {
        struct sluice_outcome *outcomes = kept_new(&x->kept, a->len * sizeof *outcomes);
        memcpy(outcomes, a->outcomes, a->len * sizeof *outcomes);
        outcomes_repeated(outcomes, a->len);
        out->outcomes = outcomes;
    }
    return out;
}

void relay_do_here(struct exchange *x)
{
    struct server *s = x->server;
    budget_set(&s->budget, &x->budget_part, 0); // reserved for an answer that did not come
    (void)pthread_mutex_lock(&s->lock);
    x->relay = NULL;
    x->begun = false; // until wait_begun, a cancel only sets `unwanted`
    (void)pthread_mutex_unlock(&s->lock);
    httpd_keep(x->http);
    struct httpd_request *http = x->http;
    x->route->handle(x);
    httpd_drop(http);
    call_end(s);
}

// Returns the requests whose owner is known to be away, so that they do not wait for their timeout.
static void bring_back(struct server *s)
{
    struct relays *all = s->relays;
    struct relay *back = NULL;
    (void)pthread_mutex_lock(&all->lock);
    struct forward_target *t = all->all; // targets are never removed
    (void)pthread_mutex_unlock(&all->lock);
    for (; t; t = t->next) {
        if (!owner_is_away(s->store, &t->name)) continue;
        (void)pthread_mutex_lock(&s->lock);
        for (struct relay *r = t->first, *next; r; r = next) {
            next = r->next;
            if (!cancel(all, r)) continue;
            r->next = back;
            back = r;
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
    while (back) {
        struct relay *r = back;
        struct exchange *x = r->exchange;
        back = r->next;
        METRICS_ADD(&s->metrics, forwards_failed, 1);
        relay_free(r);
        relay_do_here(x);
    }
}

static void found_out(void *ctx)
{
    struct server *s = ctx;
    bring_back(s);
    call_end(s);
}

static void came_back(struct http_async_call *call)
{
    struct relay *r = (struct relay *)call;
    struct exchange *x = r->exchange;
    struct server *s = x->server;
    struct http_call *http = &call->http;
    // Without memory for the answer, the request is done here with the same id. That finds memory
    // or refuses the request.
    bool final = is_final(http) && fits(call, http->body_in.len);
    (void)pthread_mutex_lock(&s->lock);
    unlink_relay(r);              // first: a disconnect may cancel it at any time
    if (!final) x->begun = false; // until wait_begun, a cancel only sets `unwanted`
    (void)pthread_mutex_unlock(&s->lock);
    if (final) {
        receive_relayed(x, has_messages(x, http->status) ? buf_bytes(&http->body_in) : BYTES_EMPTY);
        answer_as_it_came(x, http);
        relay_free(r);
        call_end(s);
        return;
    }
    if (http->end != HTTP_ANSWERED && http->end != HTTP_TOO_LONG) {
        call_begin(s);
        owner_doubt(s->store, x->queue, &r->forward_to->name, found_out, s);
    }
    METRICS_ADD(&s->metrics, forwards_failed, 1);
    x->in_doubt = is_in_doubt(http) && may_leave_doubt(x);
    relay_free(r);
    relay_do_here(x);
}

static bool may_go(const struct exchange *x, const struct forward_target *t)
{
    return (t->place || t->tls) && (t->may_have_token || !httpd_header(x->http, "Authorization"));
}

static void do_over_tls(struct pool_job *job)
{
    struct relay *r = (struct relay *)((char *)job - offsetof(struct relay, job));
    struct relays *relays = r->exchange->server->relays;
    http_do(relays->tls_http, &r->call.http);
    atomic_fetch_sub(&relays->tls_calls, 1);
    came_back(&r->call);
}

// Returns false if all threads for such requests are busy, or the process cannot create one.
static bool go_over_tls(struct relays *relays, struct relay *r)
{
    r->job.run = do_over_tls;
    bool may = atomic_fetch_add(&relays->tls_calls, 1) < TLS_CALLS_MAX;
    if (may && pool_share_run(relays->tls_share, 0, &r->job) == ERR_OK) return true;
    atomic_fetch_sub(&relays->tls_calls, 1);
    return false;
}

// Returns false if the request cannot be forwarded now. A request over TLS cannot be cancelled. If
// its client disconnects, the node releases the messages when the answer comes (receive_relayed).
static bool go(struct exchange *x, struct forward_target *t, int64_t wait_ms)
{
    struct server *s = x->server;
    struct relay *r = NEW(struct relay);
    r->exchange = x;
    r->forward_to = t;
    name_request(x);
    write_request(r, t, wait_ms);
    r->call.place = t->place;
    r->call.fits = fits;
    r->call.done = came_back;
    if (!t->tls) {
        (void)pthread_mutex_lock(&s->lock); // another thread may cancel it once it is linked
        link_relay(r);
        http_async_do(s->relays->async_http, &r->call);
        (void)pthread_mutex_unlock(&s->lock);
        return true;
    }
    if (go_over_tls(s->relays, r)) return true;
    relay_free(r);
    return false;
}

static void found(void *ctx)
{
    struct exchange *x = ctx;
    struct server *s = x->server;
    struct owner_name name;
    if (owner_where(s->store, x->queue, &name) == OWNER_REMOTE &&
        !forward_target_find(s->relays, &name))
        forward_target_add(s->relays, &name);
    relay_do_here(x);
}

enum relay_way relay_takes(struct exchange *x, int64_t wait_ms)
{
    struct server *s = x->server;
    struct owner_name name;
    if (x->relayed || httpd_header(x->http, PEER_FORWARDED) || httpd_body(x->http).len > BODY_MAX)
        return RELAY_NOT;
    enum owner_where where = owner_where(s->store, x->queue, &name);
    struct forward_target *t = where == OWNER_REMOTE ? forward_target_find(s->relays, &name) : NULL;
    bool looks = !x->looked && (where == OWNER_UNASKED || (where == OWNER_REMOTE && !t));
    bool goes = !looks && t && may_go(x, t);
    x->looked = true;
    x->relayed = goes;
    // The former owner may be unreachable: do the requests that were forwarded to it here.
    if (where == OWNER_HERE) bring_back(s);
    if (!looks && !goes) return RELAY_NOT;
    call_begin(s);
    if (looks) {
        owner_find_async(s->store, x->queue, found, x);
        return RELAY_LOOKS;
    }
    if (go(x, t, wait_ms)) return RELAY_GOES;
    call_end(s);
    return RELAY_NOT;
}

bool relay_cancel(struct exchange *x)
{
    struct server *s = x->server;
    (void)pthread_mutex_lock(&s->lock);
    struct relay *r = x->relay;
    // Messages that are being received are taken, so that they can be released.
    bool late = r && atomic_load(&r->comes) && !atomic_load(&s->stopping);
    bool cancelled = r && !late && cancel(s->relays, r);
    (void)pthread_mutex_unlock(&s->lock);
    if (cancelled) relay_free(r);
    return cancelled;
}
