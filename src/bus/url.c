// SPDX-License-Identifier: Apache-2.0
// Parses the URL of a bus. An unknown setting is an error: a typing error must not weaken a limit.
#include "bus/url.h"

#include "base/duration.h"
#include "store/url_text.h"

#include <stdio.h>
#include <string.h>

#define FORMS        "nats://host:4222,host2:4222"
#define SETTINGS     "replicas, maxAge, maxBytes, dedupWindow, streams, prefix"
#define REPLICAS_MAX 5
#define HOST_MAX     255
#define DAY_MS       (24 * 60 * 60 * 1000LL)
#define DEDUP_MIN_MS 1000LL

static bool read_duration(const char *name, const char *value, int64_t lo, int64_t *out,
                          struct url_complaint c)
{
    int64_t ms;
    if (!duration_read(value, &ms))
        return url_wrong(c, "%s \"%.40s\" is not a duration, as in 2m, 12h, 7d", name, value);
    if (ms < lo) return url_wrong(c, "%s \"%.40s\" is shorter than 1s", name, value);
    *out = ms;
    return true;
}

static bool read_streams(const char *value, struct bus_url *out, struct url_complaint c)
{
    out->limits.by_shard = strcmp(value, "shard") == 0;
    return out->limits.by_shard || strcmp(value, "queue") == 0 ||
           url_wrong(c, "streams \"%.40s\" is not one of queue, shard", value);
}

static bool read_prefix(const char *value, struct bus_url *out, struct url_complaint c)
{
    size_t len = strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (len == 0 || value[len] != 0 || len > BUS_PREFIX_MAX)
        return url_wrong(c, "prefix \"%.40s\" is not 1 to %d of A-Z a-z 0-9 _ -", value,
                         BUS_PREFIX_MAX);
    (void)snprintf(out->prefix, sizeof out->prefix, "%s", value);
    return true;
}

static bool read_setting(const char *name, const char *value, void *into, struct url_complaint c)
{
    struct bus_url *out = into;
    int64_t number;
    if (strcmp(name, "replicas") == 0) {
        if (!url_number(name, value, 1, REPLICAS_MAX, &number, c)) return false;
        out->limits.replicas = (uint32_t)number;
        return true;
    }
    if (strcmp(name, "maxAge") == 0)
        return strcmp(value, "0") == 0
                   ? (out->limits.max_age_ms = 0, true)
                   : read_duration(name, value, DEDUP_MIN_MS, &out->limits.max_age_ms, c);
    if (strcmp(name, "maxBytes") == 0)
        return url_number(name, value, 0, INT64_MAX / 2, &out->limits.max_bytes, c);
    if (strcmp(name, "dedupWindow") == 0)
        return read_duration(name, value, DEDUP_MIN_MS, &out->limits.dedup_ms, c);
    if (strcmp(name, "streams") == 0) return read_streams(value, out, c);
    if (strcmp(name, "prefix") == 0) return read_prefix(value, out, c);
    if (strcmp(name, "password") == 0 || strcmp(name, "token") == 0 || strcmp(name, "user") == 0)
        return url_wrong(c,
                         "a %s must not be in the URL of a bus: URLs are logged and shown. Set "
                         "SLUICE_NATS_USER, SLUICE_NATS_PASSWORD or SLUICE_NATS_TOKEN",
                         name);
    return url_wrong(c, "\"%.60s\" is not a setting of a bus: those are " SETTINGS, name);
}

// One host, with or without a port.
static bool read_server(const char *from, size_t len, struct bus_url *out, struct url_complaint c)
{
    struct authority at;
    if (!url_host(from, len, "a host of a bus, as in " FORMS, 4222, &at, c)) return false;
    if (at.host.len > HOST_MAX) return url_wrong(c, "a host has at most %d bytes", HOST_MAX);
    if (out->servers_len == BUS_SERVERS_MAX)
        return url_wrong(c, "the URL of a bus has at most %d hosts", BUS_SERVERS_MAX);
    (void)snprintf(out->servers[out->servers_len++], BUS_SERVER_MAX,
                   at.bracketed ? "%s://[%.*s]:%u" : "%s://%.*s:%u", out->tls ? "tls" : "nats",
                   (int)at.host.len, (const char *)at.host.data, at.number);
    return true;
}

static bool read_servers(const char *from, size_t len, struct bus_url *out, struct url_complaint c)
{
    if (memchr(from, '@', len))
        return url_wrong(c, "credentials must not be in the URL of a bus: URLs are logged and "
                            "shown. Set SLUICE_NATS_USER and SLUICE_NATS_PASSWORD, "
                            "SLUICE_NATS_TOKEN or SLUICE_NATS_NKEY_FILE");
    for (const char *comma; (comma = memchr(from, ',', len)) != NULL;) {
        size_t one = (size_t)(comma - from);
        if (!read_server(from, one, out, c)) return false;
        from += one + 1;
        len -= one + 1;
    }
    return read_server(from, len, out, c);
}

static bool read_scheme(const char **url, struct bus_url *out, struct url_complaint c)
{
    const char *end = strstr(*url, "://");
    size_t len = end ? (size_t)(end - *url) : 0;
    bool nats = len == 4 && strncmp(*url, "nats", len) == 0;
    out->tls = len == 3 && strncmp(*url, "tls", len) == 0;
    if (!end) return url_wrong(c, "the URL of a bus has a scheme, as in " FORMS);
    if (!nats && !out->tls)
        return url_wrong(c, "bus \"%.*s://\": only nats:// and tls:// are supported",
                         (int)(len < 40 ? len : 40), *url); // the rest may have a password
    *url = end + 3;
    return true;
}

enum err bus_url_read(const char *url, struct bus_url *out, char why[static BUS_WHY_MAX])
{
    struct url_complaint c = {why, BUS_WHY_MAX};
    *out =
        (struct bus_url){.limits = {.replicas = 1, .max_age_ms = 7 * DAY_MS, .dedup_ms = 120000}};
    why[0] = 0;
    if (!read_scheme(&url, out, c)) return ERR_INVALID;
    size_t len = strcspn(url, "?#");
    size_t hosts = len > 0 && url[len - 1] == '/' ? len - 1 : len;
    if (url[len] == '#' || !read_servers(url, hosts, out, c)) {
        if (!why[0]) (void)url_wrong(c, "the URL of a bus has no #, as in " FORMS);
        return ERR_INVALID;
    }
    if (url[len] == '?' && !url_settings(url + len + 1, NULL, read_setting, out, c))
        return ERR_INVALID;
    return ERR_OK;
}

enum err bus_check_url(const char *url, struct bus_limits *limits, char why[static BUS_WHY_MAX])
{
    struct bus_url u;
    enum err e = bus_url_read(url, &u, why);
    if (limits) *limits = u.limits;
    return e;
}

static bool put_behind(const char *prefix, const char *between, const char *text, char *out,
                       size_t out_len)
{
    int len = snprintf(out, out_len, "%s%s%s", prefix, *prefix ? between : "", text);
    return len >= 0 && (size_t)len < out_len;
}

bool bus_url_subject(const struct bus_url *u, const char *subject, char *out, size_t out_len)
{
    return put_behind(u->prefix, ".", subject, out, out_len);
}

bool bus_url_stream(const struct bus_url *u, const char *stream, char *out, size_t out_len)
{
    return put_behind(u->prefix, "-", stream, out, out_len);
}

const char *bus_url_own(const struct bus_url *u, const char *subject)
{
    size_t len = strlen(u->prefix);
    bool ours = len > 0 && strncmp(subject, u->prefix, len) == 0 && subject[len] == '.';
    return ours ? subject + len + 1 : subject;
}
