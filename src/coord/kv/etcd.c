// SPDX-License-Identifier: Apache-2.0
// etcd: a session is a lease, and its id is drawn here. So a grant that is repeated finds its own
// lease. A revision is a key's mod_revision. Every answer carries the cluster's id.
#define _GNU_SOURCE // explicit_bzero
#include "coord/etcd.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "coord/kv/endpoints.h"
#include "coord/kv/etcd_text.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 2379
#define TOKEN_MAX    240

enum { CODE_INVALID = 3, CODE_NOT_FOUND = 5, CODE_DENIED = 7, CODE_FULL = 8 };
enum { CODE_PRECONDITION = 9, CODE_UNAUTHENTICATED = 16 };

struct etcd {
    struct kv kv;
    struct endpoints endpoints;
    char *user, *password; // NULL: no authentication
    pthread_mutex_t lock;  // guards token
    char token[TOKEN_MAX]; // empty: none yet
};

static struct etcd *etcd_of(struct kv *k)
{
    return (struct etcd *)k;
}

static void id_of(uint64_t cluster, uint8_t id[COORD_ID_LEN])
{
    memset(id, 0, COORD_ID_LEN);
    for (size_t i = 0; i < 8; i++)
        id[COORD_ID_LEN - 1 - i] = (uint8_t)(cluster >> (8 * i));
}

// The first answer sets the id.
static enum err check_cluster(struct etcd *x, uint64_t cluster, struct coord_answer *a)
{
    static const uint8_t none[COORD_ID_LEN] = {0};
    uint8_t id[COORD_ID_LEN];
    id_of(cluster, id);
    if (memcmp(x->kv.base.id, none, sizeof none) == 0) memcpy(x->kv.base.id, id, sizeof id);
    if (memcmp(x->kv.base.id, id, sizeof id) == 0) return ERR_OK;
    return coord_refuse_id(a->why, "etcd", id, x->kv.base.id);
}

static enum err unclear(bool writes)
{
    return writes ? ERR_UNKNOWN : ERR_UNAVAILABLE;
}

static enum err classify_error(const struct etcd_error *e, bool writes)
{
    switch (e->code) {
    case CODE_INVALID: // our requests are well-formed: the user is missing or unknown
    case CODE_DENIED:
    case CODE_UNAUTHENTICATED:
        return ERR_DENIED;
    case CODE_NOT_FOUND: // of a lease
        return ERR_NOT_FOUND;
    case CODE_PRECONDITION:
        return ERR_CONFLICT;
    case CODE_FULL:
        return ERR_LIMIT;
    default:
        return unclear(writes);
    }
}

// Sets the reason and returns the error of an exchange that did not end in status 200.
static enum err classify(const struct http_call *c, bool writes, struct etcd_error *error,
                         struct coord_answer *a)
{
    *error = (struct etcd_error){.code = -1};
    enum err e = endpoints_unanswered(c, "etcd", unclear(writes), a);
    if (e) return e;
    etcd_error_parse(buf_bytes(&c->body_in), error);
    e = classify_error(error, writes);
    if (e == ERR_DENIED)
        return coord_refuse(a, e, "etcd refuses the user or its permissions: %s", error->message);
    return coord_refuse(a, e, "etcd answered %d%s%s", c->status, error->message[0] ? ": " : "",
                        error->message);
}

// One POST with this token. A good answer is in c->body_in.
static enum err post_once(struct etcd *x, const char *path, struct bytes body, const char *token,
                          bool writes, struct http_call *c, int64_t until_ms,
                          struct etcd_error *error, struct coord_answer *a)
{
    char line[TOKEN_MAX + 20];
    const char *headers[] = {"Content-Type: application/json", line};
    (void)snprintf(line, sizeof line, "Authorization: %s", token);
    c->headers = headers;
    c->headers_len = token[0] ? 2 : 1;
    c->body = body;
    c->body_max = KV_ANSWER_MAX;
    endpoints_do(&x->endpoints, c, path, 0, until_ms);
    c->headers_len = 0;
    c->body = BYTES_EMPTY;
    explicit_bzero(line, sizeof line);
    if (c->end == HTTP_ANSWERED && c->status == 200) return ERR_OK;
    return classify(c, writes, error, a);
}

static enum err authenticate(struct etcd *x, char token[TOKEN_MAX], int64_t until_ms,
                             struct coord_answer *a)
{
    struct etcd_error error;
    struct etcd_reply r = {0};
    struct json *o = json_new();
    LOCAL(http_call, c, "POST", "");
    LOCAL(buf, body, 4096);
    json_text(o, "name", x->user);
    json_text(o, "password", x->password);
    json_write(o, &body);
    enum err e =
        post_once(x, "/v3/auth/authenticate", buf_bytes(&body), "", false, &c, until_ms, &error, a);
    if (!e && (!etcd_reply_parse(buf_bytes(&c.body_in), &r) || !r.token[0]))
        e = coord_refuse(a, ERR_UNAVAILABLE, "etcd answered the authentication without a token");
    if (e == ERR_DENIED)
        e = coord_refuse(a, e, "etcd refuses user \"%.60s\": check the user name and the password",
                         x->user);
    if (e == ERR_CONFLICT)
        e = coord_refuse(a, ERR_DENIED, "a user is set, but authentication is not enabled in etcd");
    if (!e) (void)snprintf(token, TOKEN_MAX, "%s", r.token);
    if (body.data) explicit_bzero(body.data, body.len);
    return e;
}

static void token_read(struct etcd *x, char token[TOKEN_MAX])
{
    LOCKED(&x->lock);
    memcpy(token, x->token, TOKEN_MAX);
}

static void token_set(struct etcd *x, const char token[TOKEN_MAX])
{
    LOCKED(&x->lock);
    memcpy(x->token, token, TOKEN_MAX);
}

// A token ends after some minutes, and when servers change. It is replaced once per request.
static enum err post(struct etcd *x, const char *path, struct bytes body, bool writes,
                     struct http_call *c, int64_t until_ms, struct coord_answer *a)
{
    char token[TOKEN_MAX] = "";
    struct etcd_error error = {.code = -1};
    enum err e = ERR_OK;
    for (int tries = 0; tries < 2; tries++) {
        if (x->user) token_read(x, token);
        if (x->user && (tries > 0 || !token[0])) {
            e = authenticate(x, token, until_ms, a);
            if (!e) token_set(x, token);
        }
        if (!e) e = post_once(x, path, body, token, writes, c, until_ms, &error, a);
        bool stale = error.code == CODE_UNAUTHENTICATED || error.code == CODE_INVALID;
        if (e != ERR_DENIED || !x->user || !stale) break;
        e = tries == 0 ? ERR_OK : e;
        if (tries == 0) error.code = -1;
    }
    explicit_bzero(token, sizeof token);
    return e;
}

// A POST whose answer has the common fields.
static enum err ask(struct etcd *x, const char *path, struct bytes body, bool writes,
                    struct etcd_reply *r, int64_t until_ms, struct coord_answer *a)
{
    LOCAL(http_call, c, "POST", "");
    enum err e = post(x, path, body, writes, &c, until_ms, a);
    if (!e && !etcd_reply_parse(buf_bytes(&c.body_in), r))
        e = coord_refuse(a, unclear(writes), "the answer does not come from etcd");
    if (!e) e = check_cluster(x, r->cluster_id, a);
    return e;
}

// A session is the decimal id of a lease, which is in the body as text.
static enum err ask_lease(struct etcd *x, const char *path, const char *session, int64_t ttl,
                          struct etcd_reply *r, int64_t until_ms, struct coord_answer *a)
{
    struct json *o = json_new();
    char digits[DIGITS_MAX + 1];
    LOCAL(buf, body, 1024);
    json_text(o, "ID", session);
    *digits_put(digits, (uint64_t)ttl) = 0;
    if (ttl) json_text(o, "TTL", digits);
    json_write(o, &body);
    return ask(x, path, buf_bytes(&body), true, r, until_ms, a);
}

static enum err etcd_session_new(struct kv *k, char session[KV_SESSION_MAX + 1], int64_t *lease_ms,
                                 int64_t until_ms, struct coord_answer *a)
{
    struct etcd_reply r = {0};
    int64_t ttl = (k->base.lease_ms + 999) / 1000;
    if (!session[0])
        (void)snprintf(session, KV_SESSION_MAX + 1, "%llu",
                       (unsigned long long)(entropy_u64() >> 2 | 1));
    enum err e = ask_lease(etcd_of(k), "/v3/lease/grant", session, ttl, &r, until_ms, a);
    if (e == ERR_CONFLICT) { // an earlier try was applied: it asked for the same time
        *lease_ms = ttl * 1000;
        return ERR_OK;
    }
    *lease_ms = r.ttl * 1000;
    if (!e && r.ttl == 0) return coord_refuse(a, ERR_UNKNOWN, "etcd granted a lease without time");
    return e;
}

static enum err etcd_session_renew(struct kv *k, const char *session, int64_t until_ms,
                                   struct coord_answer *a)
{
    struct etcd_reply r = {0};
    enum err e = ask_lease(etcd_of(k), "/v3/lease/keepalive", session, 0, &r, until_ms, a);
    if (!e && r.ttl == 0) return coord_refuse(a, ERR_NOT_FOUND, "the lease has ended");
    return e;
}

static enum err etcd_session_end(struct kv *k, const char *session, int64_t until_ms,
                                 struct coord_answer *a)
{
    struct etcd_reply r = {0};
    enum err e = ask_lease(etcd_of(k), "/v3/lease/revoke", session, 0, &r, until_ms, a);
    if (e == ERR_NOT_FOUND) a->why[0] = 0;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err etcd_read(struct kv *k, const char *under, struct kv_items *to, int64_t until_ms,
                          struct coord_answer *a)
{
    struct etcd *x = etcd_of(k);
    struct etcd_reply r = {0};
    LOCAL(http_call, c, "POST", "");
    LOCAL(buf, body, 8192);
    etcd_print_range(&body, x->endpoints.prefix, under);
    enum err e = post(x, "/v3/kv/range", buf_bytes(&body), false, &c, until_ms, a);
    if (!e && !etcd_range_parse(buf_bytes(&c.body_in), x->endpoints.prefix, &r, to))
        e = coord_refuse(a, ERR_UNAVAILABLE, "the answer does not come from etcd");
    if (!e) e = check_cluster(x, r.cluster_id, a);
    return e;
}

static enum err etcd_write(struct kv *k, const struct kv_write *writes, size_t count,
                           int64_t until_ms, struct coord_answer *a)
{
    struct etcd *x = etcd_of(k);
    struct etcd_reply r = {0};
    LOCAL(buf, body, (size_t)64 << 10);
    etcd_print_txn(&body, x->endpoints.prefix, writes, count);
    CHECK(!body.bad);
    enum err e = ask(x, "/v3/kv/txn", buf_bytes(&body), true, &r, until_ms, a);
    if (e == ERR_NOT_FOUND) return coord_refuse_lapsed(a, k->granted_ms);
    if (!e && !r.succeeded) return coord_refuse(a, ERR_CONFLICT, "the keys have changed");
    return e;
}

// Reads the lines that have arrived, and removes them. Returns what the last one of interest says.
static enum etcd_watch read_lines(struct etcd *x, struct buf *in, enum err *e,
                                  struct coord_answer *a)
{
    enum etcd_watch what = ETCD_WATCH_NONE;
    size_t at = 0;
    while (what == ETCD_WATCH_NONE && !*e) {
        const uint8_t *end = in->len > at ? memchr(in->data + at, '\n', in->len - at) : NULL;
        if (!end) break;
        uint64_t cluster = 0;
        size_t len = (size_t)(end - (in->data + at));
        what = etcd_watch_parse(bytes_of(in->data + at, len), &cluster);
        if (what != ETCD_WATCH_BAD) *e = check_cluster(x, cluster, a);
        at += len + 1;
    }
    if (at > 0) memmove(in->data, in->data + at, in->len - at);
    in->len -= at;
    return what;
}

static enum err watch_stream(struct etcd *x, struct http_call *c, int64_t until_ms,
                             struct coord_answer *a)
{
    struct http_stream *s = http_stream_open(x->endpoints.http, c);
    enum etcd_watch what = ETCD_WATCH_NONE;
    enum err e = ERR_OK;
    bool open = true;
    while (open && !e && what == ETCD_WATCH_NONE) {
        int64_t left = until_ms - clock_boot_ms();
        if (left <= 0) break;
        open = http_stream_read(s, left < 1000 ? left : 1000);
        if (c->status != 0 && c->status != 200) break;
        what = read_lines(x, &c->body_in, &e, a);
    }
    http_stream_close(s);
    if (e) return e;
    if (what == ETCD_WATCH_CHANGED) return ERR_OK;
    if (what == ETCD_WATCH_CANCELED) { // a token that has ended cancels it
        static const char none[TOKEN_MAX] = "";
        token_set(x, none);
        return ERR_OK;
    }
    bool fault = !open || what == ETCD_WATCH_BAD || (c->status != 0 && c->status != 200);
    if (fault) return coord_refuse(a, ERR_UNAVAILABLE, "etcd ended the watch");
    return ERR_NOT_FOUND;
}

static enum err etcd_wait(struct kv *k, uint64_t at, int64_t until_ms, struct coord_answer *a)
{
    struct etcd *x = etcd_of(k);
    char url[ENDPOINT_URL_MAX + 32], line[TOKEN_MAX + 20], token[TOKEN_MAX] = "";
    const char *headers[] = {"Content-Type: application/json", line};
    size_t server = endpoints_now(&x->endpoints);
    token_read(x, token);
    (void)snprintf(line, sizeof line, "Authorization: %s", token);
    (void)snprintf(url, sizeof url, "%s/v3/watch", x->endpoints.base[server]);
    LOCAL(http_call, c, "POST", url);
    LOCAL(buf, body, 8192);
    etcd_print_watch(&body, x->endpoints.prefix, "live/", at + 1);
    c.headers = headers;
    c.headers_len = token[0] ? 2 : 1;
    c.body = buf_bytes(&body);
    c.body_max = KV_ANSWER_MAX;
    c.timeout_ms = until_ms - clock_boot_ms() + 1000;
    enum err e = watch_stream(x, &c, until_ms, a);
    if (e == ERR_UNAVAILABLE) endpoints_next(&x->endpoints, server);
    explicit_bzero(line, sizeof line);
    explicit_bzero(token, sizeof token);
    return e;
}

static void secret_free(char *secret)
{
    if (secret) explicit_bzero(secret, strlen(secret));
    memory_free(secret);
}

static void etcd_free(struct kv *k)
{
    struct etcd *x = etcd_of(k);
    endpoints_close(&x->endpoints);
    secret_free(x->user);
    secret_free(x->password);
    explicit_bzero(x->token, sizeof x->token);
    (void)pthread_mutex_destroy(&x->lock);
    memory_free(x);
}

static const struct kv_ops etcd_ops = {
    .coord = KV_COORD_OPS("etcd"),
    .session_new = etcd_session_new,
    .session_renew = etcd_session_renew,
    .session_end = etcd_session_end,
    .read = etcd_read,
    .write = etcd_write,
    .wait = etcd_wait,
    .free = etcd_free,
};

enum err coord_etcd_open(const char *rest, bool tls, const struct coord_config *config,
                         struct coord **out, char why[static COORD_WHY_MAX])
{
    struct endpoints parsed = {0};
    enum err e = endpoints_parse(&parsed, rest, tls, DEFAULT_PORT, why);
    if (e) return e;
    struct etcd *x = NEW(struct etcd);
    x->endpoints = parsed;
    (void)pthread_mutex_init(&x->lock, NULL);
    if (config->user && config->user[0]) {
        x->user = memory_text(config->user);
        x->password = memory_text(config->password ? config->password : "");
    }
    kv_init(&x->kv, &etcd_ops, config);
    endpoints_open(&x->endpoints, config->ca_file, x->kv.base.timeout_ms);
    LOCAL(coord_answer, a);
    e = coord_list(&x->kv.base, &a); // sets the id
    return kv_opened(&x->kv, e, &a, out, why);
}
