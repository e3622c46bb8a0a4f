// SPDX-License-Identifier: Apache-2.0
// Parses a redis URL. An unknown setting is an error: a typing error must not weaken what an answer
// promises.
#include "store/redis/url.h"

#include "base/text.h"
#include "store/url_text.h"

#include <stdio.h>
#include <string.h>

#define SETTINGS "prefix, db, durability, timeoutMs, passwordFile, ca, cert, key"
#define FORMS    "redis://host:6379/0?prefix=name"

static bool prefix_good(const char *prefix)
{
    if (prefix[0] == 0) return false;
    for (const char *at = prefix; *at; at++) {
        bool word =
            (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!word && !strchr("_.:/-", *at)) return false;
    }
    return true;
}

static bool read_prefix(const char *value, struct redis_url *out, struct url_complaint c)
{
    size_t len = strlen(value);
    if (len > REDIS_PREFIX_MAX)
        return url_wrong(c, "prefix has %zu bytes; it may have %d", len, REDIS_PREFIX_MAX);
    if (!prefix_good(value))
        return url_wrong(
            c,
            "prefix \"%.100s\" is not made of letters, digits and _ . : / - (braces would "
            "change which server of a cluster has the keys)",
            value);
    memcpy(out->prefix, value, len + 1);
    return true;
}

static const char *const durabilities[] = {[REDIS_ALWAYS] = "always",
                                           [REDIS_EVERYSEC] = "everysec",
                                           [REDIS_REPLICAS] = "replicas:",
                                           [REDIS_NONE] = "none"};

void redis_durability_text(const struct redis_url *u, char to[static REDIS_DURABILITY_MAX])
{
    int len = snprintf(to, REDIS_DURABILITY_MAX, "%s", durabilities[u->durability]);
    if (u->durability == REDIS_REPLICAS)
        (void)snprintf(to + len, REDIS_DURABILITY_MAX - (size_t)len, "%lld",
                       (long long)u->replicas);
}

static bool read_durability(const char *value, struct redis_url *out, struct url_complaint c)
{
    size_t len = strlen(durabilities[REDIS_REPLICAS]);
    out->replicas = 0;
    if (strncmp(value, durabilities[REDIS_REPLICAS], len) == 0) {
        out->durability = REDIS_REPLICAS;
        return url_number("replicas", value + len, 1, REDIS_REPLICA_MAX, &out->replicas, c);
    }
    for (enum redis_durability d = REDIS_ALWAYS; d <= REDIS_NONE; d++) {
        if (strcmp(value, durabilities[d]) != 0) continue;
        out->durability = d;
        return true;
    }
    return url_wrong(c, "durability \"%.40s\" is not one of always, everysec, replicas:N, none",
                     value);
}

static bool read_setting(const char *name, const char *value, void *into, struct url_complaint c)
{
    struct redis_url *out = into;
    if (strcmp(name, "prefix") == 0) return read_prefix(value, out, c);
    if (strcmp(name, "durability") == 0) return read_durability(value, out, c);
    if (strcmp(name, "db") == 0) return url_number(name, value, 0, REDIS_DB_MAX, &out->db, c);
    if (strcmp(name, "timeoutMs") == 0)
        return url_number(name, value, 1, REDIS_TIMEOUT_MAX, &out->timeout_ms, c);
    if (strcmp(name, "passwordFile") == 0)
        return url_take(out->password_file, sizeof out->password_file, name, value, c);
    if (strcmp(name, "ca") == 0) return url_take(out->ca, sizeof out->ca, name, value, c);
    if (strcmp(name, "cert") == 0) return url_take(out->cert, sizeof out->cert, name, value, c);
    if (strcmp(name, "key") == 0) return url_take(out->key, sizeof out->key, name, value, c);
    if (strcmp(name, "password") == 0)
        return url_wrong(c, "a password must not be in the URL: URLs are logged and shown. Set "
                            "SLUICE_REDIS_PASSWORD or passwordFile");
    return url_wrong(c, "\"%.60s\" is not a setting of a redis URL: those are " SETTINGS, name);
}

static bool read_host(const char *from, size_t len, struct redis_url *out, struct url_complaint c)
{
    struct authority at;
    if (!url_host(from, len, "a host, as in " FORMS, out->form == REDIS_SENTINEL ? 26379 : 6379,
                  &at, c))
        return false;
    if (at.host.len > REDIS_HOST_MAX)
        return url_wrong(c, "a host has at most %d bytes", REDIS_HOST_MAX);
    if (out->places_len == REDIS_PLACES_MAX)
        return url_wrong(c, "a redis URL has at most %d hosts", REDIS_PLACES_MAX);
    struct redis_place *place = &out->places[out->places_len++];
    (void)text_copy_len(place->host, sizeof place->host, (const char *)at.host.data, at.host.len);
    (void)snprintf(place->port, sizeof place->port, "%u", at.number);
    return true;
}

static bool read_hosts(const char *from, size_t len, struct redis_url *out, struct url_complaint c)
{
    const char *comma = memchr(from, ',', len);
    if (comma && out->form == REDIS_ONE)
        return url_wrong(c,
                         "a redis URL has one host: \"%.*s\"; several are for "
                         "redis+sentinel:// and redis+cluster://",
                         (int)(len < 80 ? len : 80), from);
    while (comma) {
        size_t one = (size_t)(comma - from);
        if (!read_host(from, one, out, c)) return false;
        from += one + 1;
        len -= one + 1;
        comma = memchr(from, ',', len);
    }
    return read_host(from, len, out, c);
}

static const char *last_at(const char *from, size_t len)
{
    const char *at = NULL;
    for (size_t i = 0; i < len; i++)
        if (from[i] == '@') at = from + i;
    return at;
}

// user@host:port
static bool read_authority(const char *from, size_t len, struct redis_url *out,
                           struct url_complaint c)
{
    const char *at = last_at(from, len);
    if (!at) return read_hosts(from, len, out, c);
    size_t user_len = (size_t)(at - from);
    if (memchr(from, ':', user_len))
        return url_wrong(c, "a password must not be in the URL: URLs are logged and shown. Set "
                            "SLUICE_REDIS_PASSWORD or passwordFile");
    if (user_len == 0) return url_wrong(c, "the user before @ is empty");
    return url_decode(from, user_len, out->user, sizeof out->user, "the user", c) &&
           read_hosts(at + 1, len - user_len - 1, out, c);
}

static bool read_db(const char *from, size_t len, struct redis_url *out, struct url_complaint c)
{
    char text[24];
    if (len > 0 && from[0] == '/') from++, len--;
    if (len == 0) return true;
    (void)snprintf(text, sizeof text, "%.*s", (int)(len < 23 ? len : 23), from);
    return url_number("database", text, 0, REDIS_DB_MAX, &out->db, c);
}

// name[/db]
static bool read_name(const char *from, size_t len, struct redis_url *out, struct url_complaint c)
{
    if (len > 0 && from[0] == '/') from++, len--;
    const char *slash = memchr(from, '/', len);
    size_t name_len = slash ? (size_t)(slash - from) : len;
    if (name_len == 0)
        return url_wrong(c, "redis+sentinel needs the name of the primary, as in "
                            "redis+sentinel://host1,host2,host3/name/0");
    if (!url_decode(from, name_len, out->name, sizeof out->name, "the primary's name", c))
        return false;
    return !slash || read_db(slash, len - name_len, out, c);
}

static bool read_path(const char *from, size_t len, struct redis_url *out, struct url_complaint c)
{
    if (len < 2 || from[0] != '/')
        return url_wrong(c,
                         "redis+unix needs an absolute path, as in redis+unix:///run/redis.sock");
    return url_decode(from, len, out->path, sizeof out->path, "the path of the socket", c);
}

static bool read_place(const char *rest, bool path, struct redis_url *out, struct url_complaint c)
{
    size_t len = strcspn(rest, "?#");
    if (rest[len] == '#' || strchr(rest + len, '#'))
        return url_wrong(c, "write a '#' in a redis URL as %%23");
    if (path) {
        if (!read_path(rest, len, out, c)) return false;
    } else {
        size_t host_len = strcspn(rest, "/?#");
        if (!read_authority(rest, host_len, out, c)) return false;
        bool named = out->form == REDIS_SENTINEL;
        if (named && !read_name(rest + host_len, len - host_len, out, c)) return false;
        if (!named && !read_db(rest + host_len, len - host_len, out, c)) return false;
    }
    return url_settings(rest[len] == '?' ? rest + len + 1 : rest + len, "password", read_setting,
                        out, c);
}

static bool check_cluster(const struct redis_url *u, struct url_complaint c)
{
    if (u->form != REDIS_CLUSTER || u->db == 0) return true;
    return url_wrong(c, "database \"%lld\" is not 0: a Redis Cluster has no other",
                     (long long)u->db);
}

static bool check_files(const struct redis_url *u, struct url_complaint c)
{
    if ((u->ca[0] || u->cert[0] || u->key[0]) && !u->tls)
        return url_wrong(c, "ca, cert and key need TLS: use rediss://");
    if ((u->cert[0] != 0) != (u->key[0] != 0))
        return url_wrong(c, "cert and key belong together: set both or none");
    return true;
}

struct scheme {
    const char *text;
    enum redis_form form;
    bool tls, path;
};

static const struct scheme schemes[] = {
    {"redis://", REDIS_ONE, false, false},
    {"rediss://", REDIS_ONE, true, false},
    {"redis+unix://", REDIS_ONE, false, true},
    {"redis+sentinel://", REDIS_SENTINEL, false, false},
    {"rediss+sentinel://", REDIS_SENTINEL, true, false},
    {"redis+cluster://", REDIS_CLUSTER, false, false},
    {"rediss+cluster://", REDIS_CLUSTER, true, false},
};

enum err redis_url_parse(const char *url, struct redis_url *out, char *why, size_t why_len)
{
    struct url_complaint c = {why, why_len};
    *out = (struct redis_url){.timeout_ms = REDIS_TIMEOUT_MS, .prefix = "sluice"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t len = strlen(schemes[i].text);
        if (strncmp(url, schemes[i].text, len) != 0) continue;
        out->form = schemes[i].form;
        out->tls = schemes[i].tls;
        bool good = read_place(url + len, schemes[i].path, out, c) && check_files(out, c) &&
                    check_cluster(out, c);
        return good ? ERR_OK : ERR_INVALID;
    }
    (void)url_wrong(c,
                    "\"%.60s\" does not start with redis://, rediss://, redis+unix://, "
                    "redis+sentinel:// or redis+cluster://",
                    url);
    return ERR_INVALID;
}
