// SPDX-License-Identifier: Apache-2.0
// Decides what a client may do, and how often. Without tokens, every client that reaches the node
// may do everything. So a node without tokens listens on loopback only, unless it is configured
// otherwise.
#include "base/hash.h"
#include "net/digest.h"
#include "os/clock.h"
#include "peer/peer.h"
#include "server/inside.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BEARER     "Bearer "
#define SECRET_MAX 512

const char *auth_secret(const struct exchange *x)
{
    const char *header = httpd_header(x->http, "Authorization");
    if (!header || strncasecmp(header, BEARER, strlen(BEARER)) != 0) return NULL;
    header += strlen(BEARER);
    return strlen(header) > SECRET_MAX ? NULL : header + strspn(header, " ");
}

enum token_check { ALLOWED, UNKNOWN, EXPIRED, DENIED };

// Sets `name` to the token's name if there is a token. `name` may be NULL.
static enum token_check authorize(const struct exchange *x, enum token_scope scope,
                                  const char *queue, char *name)
{
    struct server *s = x->server;
    enum token_check v = ALLOWED;
    (void)pthread_rwlock_rdlock(&s->tokens_lock);
    if (s->tokens) {
        const char *secret = auth_secret(x);
        const struct token *t = secret ? tokens_find(s->tokens, secret) : NULL;
        if (!t)
            v = UNKNOWN;
        else if (token_expired(t, clock_realtime_ms()))
            v = EXPIRED;
        else if (!token_allows(t, scope, queue))
            v = DENIED;
        if (t && name) (void)snprintf(name, TOKEN_NAME_MAX + 1, "%s", token_name(t));
    }
    (void)pthread_rwlock_unlock(&s->tokens_lock);
    return v;
}

static void refuse_unknown(struct exchange *x, bool expired)
{
    bool came = httpd_header(x->http, "Authorization") != NULL;
    const char *why = expired ? "this token has expired"
                      : came  ? "this node does not know that token"
                              : "this node wants a token: Authorization: Bearer TOKEN";
    struct httpd_pair how = {"WWW-Authenticate",
                             came ? "Bearer error=\"invalid_token\"" : "Bearer"};
    struct sluice_error e = error_of(SLUICE_DENIED, "unauthenticated", "Authorization", "%s", why);
    METRICS_ADD(&x->server->metrics, unauthenticated, 1);
    answer_problem(x, 401, &e, &how);
}

static void refuse_scope(struct exchange *x, enum token_scope scope, const char *queue)
{
    struct sluice_error e =
        error_of(SLUICE_DENIED, "forbidden", "Authorization",
                 "token %s does not have the scope %s for %s%s", x->token, scope_name(scope),
                 !queue   ? "all queues (*)"
                 : *queue ? "queue "
                          : "any queue",
                 queue ? queue : "");
    METRICS_ADD(&x->server->metrics, forbidden, 1);
    answer_problem(x, 403, &e, NULL);
}

static bool within_rate(struct exchange *x)
{
    int64_t wait_ms;
    char client[TOKEN_NAME_MAX + 8];
    if (!limiter_limits(x->server->limiter)) return true;
    (void)snprintf(client, sizeof client, *x->token ? "token %s" : "%s",
                   *x->token ? x->token : httpd_client(x->http));
    if (limiter_take(x->server->limiter, client, x->began_ns, &wait_ms)) return true;
    char seconds[16];
    (void)snprintf(seconds, sizeof seconds, "%d", (int)((wait_ms + 999) / 1000));
    struct httpd_pair async = {"Retry-After", seconds};
    struct sluice_error e =
        error_of(SLUICE_LIMIT, "too-many-requests", "",
                 "%s sends more requests than limits.requestsPerSecond allows", client);
    METRICS_ADD(&x->server->metrics, throttled, 1);
    answer_problem(x, 429, &e, &async);
    return false;
}

bool auth_allow(struct exchange *x, enum token_scope scope, const char *queue)
{
    enum token_check v = authorize(x, scope, queue, NULL);
    if (v == UNKNOWN || v == EXPIRED)
        refuse_unknown(x, v == EXPIRED);
    else if (v == DENIED)
        refuse_scope(x, scope, queue);
    return v == ALLOWED;
}

bool auth_may(const struct exchange *x, enum token_scope scope, const char *queue)
{
    return authorize(x, scope, queue, NULL) == ALLOWED;
}

unsigned auth_scopes(const struct exchange *x, const char *queue)
{
    struct server *s = x->server;
    unsigned scopes = 0;
    (void)pthread_rwlock_rdlock(&s->tokens_lock);
    const char *secret = s->tokens ? auth_secret(x) : NULL;
    const struct token *t = secret ? tokens_find(s->tokens, secret) : NULL;
    bool valid = t && !token_expired(t, clock_realtime_ms());
    for (enum token_scope scope = SCOPE_READ; scope <= SCOPE_ADMIN; scope++)
        if (!s->tokens || (valid && token_allows(t, scope, queue))) scopes |= 1U << scope;
    (void)pthread_rwlock_unlock(&s->tokens_lock);
    return scopes;
}

// Checks that the caller can read the store, before its body is read. The connection has the proof
// since the challenge on it (handle_healthz). It is compared for each request, because a proxy may
// mix requests of several clients on one connection.
static bool knows_peer(struct exchange *x)
{
    const char *proof = httpd_header(x->http, PEER_FORWARDED), *expected = httpd_note(x->http);
    if (proof && *expected && strlen(proof) == strlen(expected) &&
        digest_equal(proof, expected, strlen(expected)))
        return true;
    struct sluice_error e = error_of(SLUICE_DENIED, "forbidden", PEER_FORWARDED,
                                     "only processes that can read the store may ask for this");
    METRICS_ADD(&x->server->metrics, forbidden, 1);
    answer_problem(x, 403, &e, NULL);
    return false;
}

// What the token must be for: the queue in the path, any queue (""), or all of them (NULL).
static const char *queue_of_route(const struct exchange *x)
{
    if (*x->queue) return x->queue;
    return x->route->row->any_queue ? "" : NULL;
}

bool auth_admit(struct exchange *x)
{
    const struct route *c = x->route->row;
    if (c->peer) return knows_peer(x); // the handler checks the scope
    if (c->scope == SCOPE_NONE) return true;
    const char *queue = queue_of_route(x);
    enum token_check v = authorize(x, c->scope, queue, x->token);
    // The rate limit comes first, so that it also slows down a client that guesses tokens.
    if (!within_rate(x)) return false;
    if (v == UNKNOWN || v == EXPIRED)
        refuse_unknown(x, v == EXPIRED);
    else if (v == DENIED)
        refuse_scope(x, c->scope, queue);
    return v == ALLOWED;
}

bool auth_still(const struct exchange *x)
{
    const struct route *c = x->route->row;
    return c->scope == SCOPE_NONE || auth_may(x, c->scope, queue_of_route(x));
}

uint64_t auth_client(const struct exchange *x)
{
    bool named = *x->token;
    const char *name = named ? x->token : httpd_client(x->http);
    return hash64_of(bytes_str(name), x->server->seed + named);
}

bool auth_asks_tokens(struct server *s)
{
    (void)pthread_rwlock_rdlock(&s->tokens_lock);
    bool asks = s->tokens;
    (void)pthread_rwlock_unlock(&s->tokens_lock);
    return asks;
}
