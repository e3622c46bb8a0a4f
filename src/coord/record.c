// SPDX-License-Identifier: Apache-2.0
// A record is one JSON object on one line. Every field that is read is checked: the bytes come from
// a service that others can write to.
#include "coord/record.h"

#include "base/check.h"
#include "base/digits.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define RECORD_VERSION 1
#define TEXT_MAX       4096

static bool name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

bool coord_name_is_good(const char *name)
{
    size_t len = strnlen(name, COORD_NAME_MAX + 1);
    if (len == 0 || len > COORD_NAME_MAX || strchr("_.-", name[0])) return false;
    for (size_t i = 0; i < len; i++)
        if (!name_char(name[i])) return false;
    return true;
}

// Printable, without spaces, quotes or backslashes.
static bool coord_url_is_good(const char *url)
{
    size_t len = strnlen(url, COORD_URL_MAX + 1);
    if (len > COORD_URL_MAX) return false;
    for (size_t i = 0; i < len; i++)
        if (url[i] <= ' ' || url[i] > '~' || strchr("\"\\<>", url[i])) return false;
    return true;
}

bool coord_shard_is_good(const char *shard)
{
    if (strnlen(shard, COORD_SHARD_MAX + 1) > COORD_SHARD_MAX) return false;
    for (;;) {
        size_t len = strcspn(shard, "/");
        if (len == 0 || shard[0] == '.') return false;
        for (size_t i = 0; i < len; i++)
            if (!name_char(shard[i])) return false;
        if (shard[len] == 0) return true;
        shard += len + 1;
    }
}

bool member_is_good(const struct coord_member *m, char why[static COORD_WHY_MAX])
{
    int n = 0;
    if (!coord_name_is_good(m->name))
        n = snprintf(why, COORD_WHY_MAX,
                     "the node's name \"%.60s\" is not 1 to %d of A-Z a-z 0-9 _ . - that begin "
                     "with a letter or digit",
                     m->name, COORD_NAME_MAX);
    else if (!coord_url_is_good(m->url))
        n = snprintf(why, COORD_WHY_MAX,
                     "the node's URL \"%.100s\" is not at most %d printable characters", m->url,
                     COORD_URL_MAX);
    else if (!text_is_plain(m->version))
        n = snprintf(why, COORD_WHY_MAX, "the node's version is not printable text");
    else if (m->rules_lo > m->rules_hi)
        n = snprintf(why, COORD_WHY_MAX, "the rules %u to %u are no range of versions", m->rules_lo,
                     m->rules_hi);
    return n == 0;
}

static void put_hex(struct json *to, const char *key, const uint8_t *bytes, size_t len)
{
    char text[2 * COORD_INCARNATION_LEN + 1];
    CHECK(len <= COORD_INCARNATION_LEN);
    *digits_put_hex(text, bytes, len) = 0;
    json_text(to, key, text);
}

bool coord_is_foreign(const struct coord_member *a, const struct coord_member *b)
{
    return memcmp(a->store, b->store, sizeof a->store) != 0;
}

void member_print(const struct coord_member *m, struct buf *to)
{
    CHECK(coord_name_is_good(m->name));
    struct json *o = json_new();
    json_number(o, "v", RECORD_VERSION);
    json_text(o, "name", m->name);
    json_text(o, "url", m->url);
    json_number(o, "capacity", m->capacity);
    json_text(o, "version", m->version);
    json_number(o, "rulesMin", m->rules_lo);
    json_number(o, "rulesMax", m->rules_hi);
    put_hex(o, "incarnationSha256", m->incarnation, sizeof m->incarnation);
    put_hex(o, "store", m->store, sizeof m->store);
    json_text(o, "settings", m->settings);
    json_bool(o, "leaving", m->leaving);
    json_bool(o, "beats", m->beats);
    json_write(o, to);
}

// Copies a text member of at most max bytes without zeros.
static bool get_text(const struct json *o, const char *key, char *to, size_t max)
{
    const struct json *v = json_member(o, key);
    if (!v || json_kind(v) != JSON_KIND_TEXT) return false;
    struct bytes text = json_as_text(v);
    if (text.len > max || (text.len && memchr(text.data, 0, text.len))) return false;
    if (text.len) memcpy(to, text.data, text.len);
    to[text.len] = 0;
    return true;
}

static bool get_number(const struct json *o, const char *key, int64_t max, int64_t *to)
{
    const struct json *v = json_member(o, key);
    if (!v || json_kind(v) != JSON_KIND_NUMBER) return false;
    *to = json_as_number(v);
    return *to >= 0 && *to <= max;
}

static bool get_u32(const struct json *o, const char *key, uint32_t *to)
{
    int64_t n = 0;
    bool good = get_number(o, key, UINT32_MAX, &n);
    *to = good ? (uint32_t)n : 0;
    return good;
}

static bool get_hex(const struct json *o, const char *key, uint8_t *to, size_t len)
{
    char text[2 * COORD_INCARNATION_LEN + 1];
    CHECK(len <= COORD_INCARNATION_LEN);
    return get_text(o, key, text, sizeof text - 1) && strlen(text) == 2 * len &&
           digits_read_hex(text, to, len);
}

static bool get_flag(const struct json *o, const char *key, bool *to)
{
    const struct json *v = json_member(o, key);
    *to = v && json_kind(v) == JSON_KIND_BOOL && json_as_bool(v);
    return v && json_kind(v) == JSON_KIND_BOOL;
}

// Returns the object; NULL: the text is not an object of this version.
static struct json *record_open(struct bytes text)
{
    char error[160];
    int64_t version = 0;
    if (text.len == 0 || text.len > TEXT_MAX) return NULL;
    struct json *o = json_parse((const char *)text.data, text.len, error, sizeof error);
    if (o && json_kind(o) == JSON_KIND_OBJECT && get_number(o, "v", INT64_MAX, &version) &&
        version == RECORD_VERSION)
        return o;
    json_free(o);
    return NULL;
}

bool member_parse(struct bytes text, struct coord_member *m)
{
    char why[COORD_WHY_MAX];
    *m = (struct coord_member){0};
    struct json *o = record_open(text);
    bool good = o && get_text(o, "name", m->name, COORD_NAME_MAX) &&
                get_text(o, "url", m->url, COORD_URL_MAX) && get_u32(o, "capacity", &m->capacity) &&
                get_text(o, "version", m->version, COORD_VERSION_MAX) &&
                get_u32(o, "rulesMin", &m->rules_lo) && get_u32(o, "rulesMax", &m->rules_hi) &&
                get_hex(o, "incarnationSha256", m->incarnation, sizeof m->incarnation) &&
                get_hex(o, "store", m->store, sizeof m->store) &&
                get_flag(o, "leaving", &m->leaving) && get_flag(o, "beats", &m->beats) &&
                member_is_good(m, why);
    // A text that this release cannot take is no reason to refuse the member.
    bool given = good && get_text(o, "settings", m->settings, COORD_SETTINGS_MAX);
    if (!given || !text_is_plain(m->settings)) memset(m->settings, 0, sizeof m->settings);
    json_free(o);
    if (!good) *m = (struct coord_member){0};
    return good;
}

void holder_print(const struct holder_record *h, struct buf *to)
{
    CHECK(h->holder.token > 0);
    CHECK(h->holder.token <= COORD_TOKEN_MAX);
    struct json *o = json_new();
    json_number(o, "v", RECORD_VERSION);
    json_number(o, "token", (int64_t)h->holder.token);
    json_text(o, "name", h->holder.name);
    put_hex(o, "incarnationSha256", h->holder.incarnation, sizeof h->holder.incarnation);
    json_text(o, "session", h->session);
    json_write(o, to);
}

bool holder_parse(struct bytes text, struct holder_record *h)
{
    int64_t token = 0;
    *h = (struct holder_record){0};
    struct json *o = record_open(text);
    bool good =
        o && get_number(o, "token", (int64_t)COORD_TOKEN_MAX, &token) && token > 0 &&
        get_text(o, "name", h->holder.name, COORD_NAME_MAX) && coord_name_is_good(h->holder.name) &&
        get_hex(o, "incarnationSha256", h->holder.incarnation, sizeof h->holder.incarnation) &&
        get_text(o, "session", h->session, RECORD_SESSION_MAX) && text_is_plain(h->session);
    json_free(o);
    if (!good) *h = (struct holder_record){0};
    if (good) h->holder.token = (uint64_t)token;
    return good;
}
