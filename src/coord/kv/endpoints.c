// SPDX-License-Identifier: Apache-2.0
#include "coord/kv/endpoints.h"

#include "base/authority.h"
#include "base/check.h"
#include "coord/backend.h"
#include "coord/record.h"
#include "os/clock.h"

#include <stdio.h>
#include <string.h>

#define TRY_MS_MIN   300
#define HOST_LEN_MAX 200
#define PATH_LEN_MAX 1200
#define CONNECT_MS   1000
#define IN_PARALLEL  32

// "host", "host:port" or "[address]:port"
static bool host_parse(struct endpoints *e, const char *text, size_t len, bool tls, uint16_t port)
{
    struct authority at;
    bool good = len > 0 && len < HOST_LEN_MAX && e->len < ENDPOINTS_MAX &&
                authority_split(bytes_of(text, len), &at) && authority_has_host(&at);
    if (!good) return false;
    char *to = e->base[e->len++];
    if (at.port.len == 0) at.number = port;
    (void)snprintf(to, ENDPOINT_URL_MAX, at.bracketed ? "http%s://[%.*s]:%u" : "http%s://%.*s:%u",
                   tls ? "s" : "", (int)at.host.len, (const char *)at.host.data, at.number);
    return true;
}

enum err endpoints_parse(struct endpoints *e, const char *rest, bool tls, uint16_t default_port,
                         char why[static COORD_WHY_MAX])
{
    size_t hosts = strcspn(rest, "/");
    const char *prefix = rest[hosts] ? rest + hosts + 1 : ENDPOINTS_PREFIX;
    e->len = 0;
    if (memchr(rest, '@', hosts)) {
        (void)snprintf(why, COORD_WHY_MAX,
                       "the URL has credentials: it must not; give them in the environment or in a "
                       "file");
        return ERR_INVALID;
    }
    for (size_t at = 0; at <= hosts;) {
        size_t len = strcspn(rest + at, ",/");
        if (!host_parse(e, rest + at, len, tls, default_port)) {
            (void)snprintf(why, COORD_WHY_MAX,
                           "\"%.*s\" is not a host or host:port (at most %d of them, joined by ,)",
                           (int)(len > 100 ? 100 : len), rest + at, ENDPOINTS_MAX);
            return ERR_INVALID;
        }
        at += len + 1;
    }
    if (strlen(prefix) > ENDPOINTS_PREFIX_MAX || !coord_shard_is_good(prefix)) {
        (void)snprintf(why, COORD_WHY_MAX,
                       "the prefix \"%.100s\" is not parts of A-Z a-z 0-9 _ . - joined by / (at "
                       "most %d bytes)",
                       prefix, ENDPOINTS_PREFIX_MAX);
        return ERR_INVALID;
    }
    (void)snprintf(e->prefix, sizeof e->prefix, "%s/", prefix);
    return ERR_OK;
}

void endpoints_open(struct endpoints *e, const char *ca_file, int64_t timeout_ms)
{
    CHECK(e->len > 0);
    // A server that hangs must leave time for another one.
    e->try_ms = timeout_ms / 3 < TRY_MS_MIN ? TRY_MS_MIN : timeout_ms / 3;
    struct http_config config = {.ca_file = ca_file,
                                 .connect_ms = e->try_ms < CONNECT_MS ? e->try_ms : CONNECT_MS,
                                 .connections_max = IN_PARALLEL};
    e->http = http_new(&config);
}

void endpoints_close(struct endpoints *e)
{
    http_free(e->http);
    e->http = NULL;
}

size_t endpoints_now(const struct endpoints *e)
{
    return e->at % e->len;
}

void endpoints_next(struct endpoints *e, size_t from)
{
    size_t was = from;
    (void)atomic_compare_exchange_strong(&e->at, &was, (from + 1) % e->len);
}

void endpoints_do(struct endpoints *e, struct http_call *c, const char *path, int64_t timeout_ms,
                  int64_t until_ms)
{
    char url[ENDPOINT_URL_MAX + PATH_LEN_MAX];
    for (size_t tries = 0; tries < e->len; tries++) {
        int64_t left = until_ms - clock_boot_ms();
        int64_t most = timeout_ms ? timeout_ms : e->try_ms;
        size_t at = endpoints_now(e);
        int n = snprintf(url, sizeof url, "%s%s", e->base[at], path);
        CHECK(n > 0 && (size_t)n < sizeof url);
        c->url = url;
        c->timeout_ms = left < 1 ? 1 : left < most ? left : most;
        http_do(e->http, c);
        c->url = "";
        if (c->end == HTTP_ANSWERED && c->status < 500) return;
        endpoints_next(e, at);
        if (c->end != HTTP_NOT_SENT || left <= 1) return;
    }
}

enum err endpoints_unanswered(const struct http_call *c, const char *service, enum err unclear,
                              struct coord_answer *a)
{
    if (c->untrusted)
        return coord_refuse(a, ERR_DENIED, "%s: %.150s (the CA file must have its authority)",
                            service, c->why);
    if (c->end == HTTP_ANSWERED) return ERR_OK;
    return coord_refuse(a, c->end == HTTP_NOT_SENT ? ERR_UNAVAILABLE : unclear, "%s: %.200s",
                        service, c->why);
}
