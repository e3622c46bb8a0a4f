// SPDX-License-Identifier: Apache-2.0
// Consul: a session holds keys by locks, and deletes them when it ends. A revision is a key's
// ModifyIndex. (LockIndex restarts when a key is deleted.)
//
// A session belongs to a node of Consul's catalog, and ends with it. Ours belong to a node that no
// agent stands for, so that they survive the end of any server. Without a check, only the TTL ends
// them; Consul waits up to twice the TTL.
#define _GNU_SOURCE // explicit_bzero
#include "coord/consul.h"

#include "base/check.h"
#include "base/memory.h"
#include "coord/kv/consul_text.h"
#include "coord/kv/endpoints.h"
#include "coord/kv/inside.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT   8500
#define CATALOG_NODE   "sluice"
#define TTL_MIN_MS     10000 // Consul's default of session_ttl_min
#define WAIT_MAX_MS    60000
#define ID_KEY         "live/id"
#define PATH_LEN_MAX   900
#define TOKEN_LINE_MAX 512

struct consul {
    struct kv kv;
    struct endpoints endpoints;
    char *token_line; // "X-Consul-Token: ..."; NULL: none
    bool id_known;
};

static struct consul *consul_of(struct kv *k)
{
    return (struct consul *)k;
}

static enum err unclear(bool writes)
{
    return writes ? ERR_UNKNOWN : ERR_UNAVAILABLE;
}

// The server's text, if it is one short line.
static void said(const struct http_call *c, char to[100])
{
    size_t len = c->body_in.len;
    to[0] = 0;
    while (len && (c->body_in.data[len - 1] == '\n' || c->body_in.data[len - 1] == '\r'))
        len--;
    if (len == 0 || len >= 98 || memchr(c->body_in.data, 0, len)) return;
    memcpy(to, c->body_in.data, len);
    to[len] = 0;
    if (!text_is_plain(to)) to[0] = 0;
}

static enum err classify(const struct http_call *c, bool writes, struct coord_answer *a)
{
    char text[100];
    enum err e = endpoints_unanswered(c, "Consul", unclear(writes), a);
    if (e) return e;
    said(c, text);
    if (c->status == 401 || c->status == 403)
        return coord_refuse(a, ERR_DENIED,
                            "Consul refuses the ACL token or its permissions%s%s: check the token",
                            text[0] ? ": " : "", text);
    if (c->status == 404) return coord_refuse(a, ERR_NOT_FOUND, "Consul answered 404 %s", text);
    if (c->status == 409) return coord_refuse(a, ERR_CONFLICT, "Consul answered 409");
    if (c->status == 413) return coord_refuse(a, ERR_LIMIT, "Consul answered 413 %s", text);
    return coord_refuse(a, unclear(writes), "Consul answered %d%s%s", c->status,
                        text[0] ? ": " : "", text);
}

// Makes one exchange. A good answer is in c->body_in.
static enum err ask(struct consul *x, struct http_call *c, const char *path, struct bytes body,
                    bool writes, int64_t timeout_ms, int64_t until_ms, struct coord_answer *a)
{
    const char *headers[] = {"Content-Type: application/json", x->token_line};
    c->headers = headers;
    c->headers_len = x->token_line ? 2 : 1;
    c->body = body;
    c->body_max = KV_ANSWER_MAX;
    endpoints_do(&x->endpoints, c, path, timeout_ms, until_ms);
    c->headers_len = 0;
    c->body = BYTES_EMPTY;
    if (c->end == HTTP_ANSWERED && c->status == 200) return ERR_OK;
    return classify(c, writes, a);
}

// A write whose answer has no content of interest.
static enum err put(struct consul *x, const char *path, struct bytes body, int64_t until_ms,
                    struct coord_answer *a)
{
    LOCAL(http_call, c, "PUT", "");
    return ask(x, &c, path, body, true, 0, until_ms, a);
}

static enum err register_node(struct consul *x, int64_t until_ms, struct coord_answer *a)
{
    static const char body[] = "{\"Node\":\"" CATALOG_NODE "\",\"Address\":\"127.0.0.1\"}";
    return put(x, "/v1/catalog/register", bytes_str(body), until_ms, a);
}

// *refused: Consul answered and made no session. It says so for a TTL under session_ttl_min, with
// the status of a bad request or of a fault.
static enum err create_session(struct consul *x, int64_t ttl_ms, char session[KV_SESSION_MAX + 1],
                               bool *refused, int64_t until_ms, struct coord_answer *a)
{
    LOCAL(http_call, c, "PUT", "");
    LOCAL(buf, body, 1024);
    consul_print_session(&body, CATALOG_NODE, ttl_ms);
    enum err e = ask(x, &c, "/v1/session/create", buf_bytes(&body), true, 0, until_ms, a);
    if (!e && !consul_session_parse(buf_bytes(&c.body_in), session))
        e = coord_refuse(a, ERR_UNKNOWN, "Consul answered without the id of a session");
    *refused = c.end == HTTP_ANSWERED && (c.status == 400 || c.status == 500);
    return e;
}

// A session whose answer was lost holds nothing and ends by itself, so a repeat is harmless.
static enum err consul_session_new(struct kv *k, char session[KV_SESSION_MAX + 1],
                                   int64_t *lease_ms, int64_t until_ms, struct coord_answer *a)
{
    struct consul *x = consul_of(k);
    enum err e = register_node(x, until_ms, a);
    if (e) return e;
    *lease_ms = k->base.lease_ms;
    bool refused = false;
    e = create_session(x, *lease_ms, session, &refused, until_ms, a);
    if (!refused || *lease_ms >= TTL_MIN_MS) return e;
    *lease_ms = TTL_MIN_MS;
    return create_session(x, *lease_ms, session, &refused, until_ms, a);
}

static enum err consul_session_renew(struct kv *k, const char *session, int64_t until_ms,
                                     struct coord_answer *a)
{
    char path[PATH_LEN_MAX];
    (void)snprintf(path, sizeof path, "/v1/session/renew/%s", session);
    return put(consul_of(k), path, BYTES_EMPTY, until_ms, a);
}

static enum err consul_session_end(struct kv *k, const char *session, int64_t until_ms,
                                   struct coord_answer *a)
{
    char path[PATH_LEN_MAX];
    (void)snprintf(path, sizeof path, "/v1/session/destroy/%s", session);
    return put(consul_of(k), path, BYTES_EMPTY, until_ms, a);
}

static uint64_t index_of(const struct http_call *c)
{
    char text[24] = "";
    struct bytes value = http_header(c, "x-consul-index");
    if (value.len == 0 || value.len >= sizeof text) return 0;
    memcpy(text, value.data, value.len);
    return strtoull(text, NULL, 10);
}

static enum err check_id(struct consul *x, const struct kv_items *items, struct coord_answer *a)
{
    uint8_t id[COORD_ID_LEN] = {0};
    const struct kv_item *item = kv_items_find(items, ID_KEY);
    if (!x->id_known) return ERR_OK;
    if (item && !consul_uuid_parse(kv_value(items, item), id)) memset(id, 0, sizeof id);
    if (memcmp(id, x->kv.base.id, sizeof id) == 0) return ERR_OK;
    return coord_refuse_id(a->why, "Consul", id, x->kv.base.id);
}

static enum err consul_read(struct kv *k, const char *under, struct kv_items *to, int64_t until_ms,
                            struct coord_answer *a)
{
    struct consul *x = consul_of(k);
    char path[PATH_LEN_MAX];
    LOCAL(http_call, c, "GET", "");
    (void)snprintf(path, sizeof path, "/v1/kv/%s%s?recurse=true&consistent=true",
                   x->endpoints.prefix, under);
    enum err e = ask(x, &c, path, BYTES_EMPTY, false, 0, until_ms, a);
    bool empty = e == ERR_NOT_FOUND && index_of(&c) > 0;
    if (e == ERR_NOT_FOUND && !empty) e = ERR_UNAVAILABLE; // another server answered
    if (empty) {
        a->why[0] = 0;
        e = ERR_OK;
    } else if (!e && !consul_pairs_parse(buf_bytes(&c.body_in), x->endpoints.prefix, to)) {
        e = coord_refuse(a, ERR_UNAVAILABLE, "the answer does not come from Consul");
    }
    to->at = index_of(&c);
    if (!e && strcmp(under, "live/") == 0) e = check_id(x, to, a);
    return e;
}

// A transaction that was rolled back may have met a session that has ended.
static bool session_ended(struct consul *x, const char *session, int64_t until_ms)
{
    struct coord_answer ignored = {0};
    char path[PATH_LEN_MAX];
    LOCAL(http_call, c, "GET", "");
    (void)snprintf(path, sizeof path, "/v1/session/info/%s?consistent=true", session);
    enum err e = ask(x, &c, path, BYTES_EMPTY, false, 0, until_ms, &ignored);
    return !e && consul_sessions_count(buf_bytes(&c.body_in)) == 0;
}

static enum err rolled_back(struct consul *x, const struct http_call *c,
                            const struct kv_write *writes, size_t count, int64_t until_ms,
                            struct coord_answer *a)
{
    char what[COORD_WHY_MAX];
    consul_rollback_parse(buf_bytes(&c->body_in), what);
    if (strcmp(what, "Permission denied") == 0)
        return coord_refuse(a, ERR_DENIED,
                            "Consul refuses the ACL token: it may not write under %.80s",
                            x->endpoints.prefix);
    for (size_t i = 0; i < count; i++)
        if (writes[i].session && session_ended(x, writes[i].session, until_ms))
            return coord_refuse_lapsed(a, x->kv.granted_ms);
    return coord_refuse(a, ERR_CONFLICT, "Consul: %.200s", what);
}

static enum err consul_write(struct kv *k, const struct kv_write *writes, size_t count,
                             int64_t until_ms, struct coord_answer *a)
{
    struct consul *x = consul_of(k);
    LOCAL(http_call, c, "PUT", "");
    LOCAL(buf, body, (size_t)64 << 10);
    consul_print_txn(&body, x->endpoints.prefix, writes, count);
    CHECK(!body.bad);
    enum err e = ask(x, &c, "/v1/txn", buf_bytes(&body), true, 0, until_ms, a);
    if (e == ERR_CONFLICT) e = rolled_back(x, &c, writes, count, until_ms, a);
    if (e == ERR_NOT_FOUND && c.status == 404) e = ERR_UNKNOWN; // another server answered
    return e;
}

// A blocking query. Consul adds up to a sixteenth to the wait. An index that goes backwards is a
// change, too.
static enum err consul_wait(struct kv *k, uint64_t at, int64_t until_ms, struct coord_answer *a)
{
    struct consul *x = consul_of(k);
    char path[PATH_LEN_MAX];
    enum err e = ERR_NOT_FOUND;
    LOCAL(http_call, c, "GET", "");
    for (;;) {
        int64_t wait = until_ms - clock_boot_ms();
        if (wait <= 0) break;
        if (wait > WAIT_MAX_MS) wait = WAIT_MAX_MS;
        int64_t timeout = wait + wait / 16 + 1000;
        (void)snprintf(path, sizeof path, "/v1/kv/%slive/?recurse=true&index=%llu&wait=%lldms",
                       x->endpoints.prefix, (unsigned long long)at, (long long)wait);
        e = ask(x, &c, path, BYTES_EMPTY, false, timeout, clock_boot_ms() + timeout, a);
        if (e == ERR_NOT_FOUND && index_of(&c) == 0) e = ERR_UNAVAILABLE;
        if (e && e != ERR_NOT_FOUND) break;
        e = index_of(&c) == at ? ERR_NOT_FOUND : ERR_OK;
        if (e == ERR_OK) break;
    }
    if (e == ERR_NOT_FOUND) a->why[0] = 0;
    return e;
}

static void consul_free(struct kv *k)
{
    struct consul *x = consul_of(k);
    endpoints_close(&x->endpoints);
    if (x->token_line) explicit_bzero(x->token_line, strlen(x->token_line));
    memory_free(x->token_line);
    memory_free(x);
}

static const struct kv_ops consul_ops = {
    .coord = KV_COORD_OPS("consul"),
    .session_new = consul_session_new,
    .session_renew = consul_session_renew,
    .session_end = consul_session_end,
    .read = consul_read,
    .write = consul_write,
    .wait = consul_wait,
    .free = consul_free,
};

// Of several nodes that make an id at once, the first wins.
static enum err make_id(struct consul *x, int64_t until_ms, struct coord_answer *a)
{
    char text[CONSUL_UUID_LEN + 1];
    uint8_t id[COORD_ID_LEN];
    entropy_fill(id, sizeof id);
    consul_uuid_print(id, text);
    struct kv_write w = {.key = ID_KEY, .value = bytes_str(text)};
    return consul_write(&x->kv, &w, 1, until_ms, a);
}

// Reads the id, or makes one and reads it back.
static enum err read_id(struct consul *x, struct coord_answer *a)
{
    struct attempts t;
    bool again = false;
    enum err e = ERR_OK;
    attempts_begin(&t, &x->kv);
    LOCAL(kv_items, items);
    do {
        e = kv_read_under(&x->kv, KV_LIVE, &items, &t, a);
        const struct kv_item *item = e ? NULL : kv_items_find(&items, ID_KEY);
        if (item) {
            x->id_known = consul_uuid_parse(kv_value(&items, item), x->kv.base.id);
            if (!x->id_known)
                e = coord_refuse(a, ERR_CORRUPT, "the key %.100s" ID_KEY " holds no UUID",
                                 x->endpoints.prefix);
        } else if (!e) {
            e = make_id(x, t.until_ms, a);
        }
        again = !item && (!e || e == ERR_CONFLICT || e == ERR_UNKNOWN || e == ERR_UNAVAILABLE);
    } while (again && attempts_pause(&t));
    if (!x->id_known && !e) e = coord_refuse(a, ERR_UNAVAILABLE, "Consul did not keep its id");
    return e;
}

enum err coord_consul_open(const char *rest, bool tls, const struct coord_config *config,
                           struct coord **out, char why[static COORD_WHY_MAX])
{
    struct endpoints parsed = {0};
    enum err e = endpoints_parse(&parsed, rest, tls, DEFAULT_PORT, why);
    if (e) return e;
    struct consul *x = NEW(struct consul);
    x->endpoints = parsed;
    if (config->token && config->token[0]) {
        size_t len = strlen(config->token) + 24;
        x->token_line = memory_new(len);
        (void)snprintf(x->token_line, len, "X-Consul-Token: %s", config->token);
    }
    kv_init(&x->kv, &consul_ops, config);
    endpoints_open(&x->endpoints, config->ca_file, x->kv.base.timeout_ms);
    LOCAL(coord_answer, a);
    return kv_opened(&x->kv, read_id(x, &a), &a, out, why);
}
