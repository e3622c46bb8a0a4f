// SPDX-License-Identifier: Apache-2.0
// The questions that every new connection asks before its first request, and the settings that an
// acknowledged write needs.
#include "store/redis/facts.h"

#include "store/redis/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum question {
    ASK_SERVER,
    ASK_REPLICATION,
    ASK_MEMORY,
    ASK_CLUSTER,
    ASK_TIME,
    ASK_FIRST_SETTING,
};

// A setting, the value it must have, and the choices of `durability` that need it.
struct setting {
    const char *name;
    const char *right;
    const char *also_right; // for everysec
    bool everysec;          // needed for everysec, too
    const char *reason;
};

static const struct setting settings[] = {
    {"appendonly", "yes", NULL, true, "nothing is kept on disk"},
    {"appendfsync", "always", "everysec", true,
     "an answer does not mean that the write is on disk"},
    {"no-appendfsync-on-rewrite", "no", NULL, false, "writes are not synced during a rewrite"},
    {"maxmemory-policy", "noeviction", NULL, true, "the server deletes keys when it is full"},
};
#define SETTINGS_LEN (sizeof settings / sizeof *settings)

_Static_assert(ASK_FIRST_SETTING + SETTINGS_LEN == REDIS_QUESTIONS, "one reply per question");

static void ask(struct buf *to, const char *a, const char *b, const char *c)
{
    struct bytes words[3] = {bytes_str(a), b ? bytes_str(b) : BYTES_EMPTY,
                             c ? bytes_str(c) : BYTES_EMPTY};
    resp_format(to, words, c ? 3 : b ? 2 : 1);
}

size_t redis_facts_ask(struct buf *to)
{
    ask(to, "INFO", "server", NULL);
    ask(to, "INFO", "replication", NULL);
    ask(to, "INFO", "memory", NULL);
    ask(to, "INFO", "cluster", NULL);
    ask(to, "TIME", NULL, NULL);
    for (size_t i = 0; i < SETTINGS_LEN; i++)
        ask(to, "CONFIG", "GET", settings[i].name);
    return REDIS_QUESTIONS;
}

// Finds "field:value" at the start of a line.
static struct bytes info_field(struct bytes info, const char *field)
{
    size_t field_len = strlen(field);
    if (info.len == 0) return BYTES_EMPTY;
    const char *at = (const char *)info.data, *end = at + info.len;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        size_t len = (size_t)(line_end - at);
        if (len > field_len && memcmp(at, field, field_len) == 0 && at[field_len] == ':') {
            const char *value = at + field_len + 1;
            size_t value_len = len - field_len - 1;
            while (value_len > 0 && value[value_len - 1] == '\r')
                value_len--;
            return bytes_of(value, value_len);
        }
        at = line_end < end ? line_end + 1 : end;
    }
    return BYTES_EMPTY;
}

static void info_text(struct bytes info, const char *field, char *to, size_t to_len)
{
    struct bytes value = info_field(info, field);
    (void)snprintf(to, to_len, "%.*s", (int)(value.len < to_len ? value.len : to_len - 1),
                   value.len > 0 ? (const char *)value.data : "");
}

int64_t redis_info_number(struct bytes info, const char *field)
{
    struct bytes value = info_field(info, field);
    if (value.len == 0 || value.len > 18) return -1;
    int64_t n = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') return -1;
        n = n * 10 + (value.data[i] - '0');
    }
    return n;
}

static enum err wrong(char *why, const char *sentence)
{
    (void)snprintf(why, STORE_WHY_MAX, "%s", sentence);
    return ERR_INVALID;
}

// Redis 6.2 has what the scripts call.
static enum err check_version(const struct redis_facts *f, char *why)
{
    int major = 0, minor = 0;
    char *end = NULL;
    major = (int)strtol(f->version, &end, 10);
    if (end && *end == '.') minor = (int)strtol(end + 1, NULL, 10);
    if (major > 6 || (major == 6 && minor >= 2)) return ERR_OK;
    (void)snprintf(why, STORE_WHY_MAX, "the server is Redis %s; Sluice needs 6.2 or newer",
                   f->version[0] ? f->version : "of an unknown version");
    return ERR_INVALID;
}

static enum err check_role(const struct redis_facts *f, enum redis_form form, char *why)
{
    if (f->cluster && form != REDIS_CLUSTER)
        return wrong(why, "cluster-enabled is \"yes\" on the server: use redis+cluster:// with the "
                          "servers of the cluster");
    if (!f->cluster && form == REDIS_CLUSTER)
        return wrong(why,
                     "cluster-enabled is \"no\" on the server; redis+cluster:// needs \"yes\"");
    if (strcmp(f->role, "master") == 0) return ERR_OK;
    (void)snprintf(why, STORE_WHY_MAX,
                   "the server's role is \"%s\"; it must be \"master\": use the address of the "
                   "primary",
                   f->role);
    // Another server is the primary, and the next attempt finds it.
    return form == REDIS_ONE ? ERR_INVALID : ERR_UNAVAILABLE;
}

static enum err check_setting(const struct setting *s, const struct resp *reply,
                              enum redis_durability durability, char *why)
{
    bool less = durability == REDIS_EVERYSEC || durability == REDIS_REPLICAS;
    if (durability == REDIS_NONE || (less && !s->everysec)) return ERR_OK;
    const struct resp *value = resp_item(reply, 1);
    if (value->kind != RESP_TEXT) {
        (void)snprintf(why, STORE_WHY_MAX,
                       "the server does not tell its setting %s (%.80s): allow CONFIG GET, or set "
                       "durability=none in the URL",
                       s->name, reply->kind == RESP_ERROR ? reply->text : "no value");
        return ERR_INVALID;
    }
    if (strcmp(value->text, s->right) == 0) return ERR_OK;
    if (less && s->also_right && strcmp(value->text, s->also_right) == 0) return ERR_OK;
    bool everysec = s->also_right && strcmp(value->text, s->also_right) == 0;
    (void)snprintf(why, STORE_WHY_MAX,
                   "%s is \"%.40s\" on the server; it must be \"%s\": %s (durability=%s in the URL "
                   "accepts that)",
                   s->name, value->text, less && s->also_right ? s->also_right : s->right,
                   s->reason, everysec ? "everysec" : "none");
    return ERR_INVALID;
}

static enum err check_answered(const struct resp *reply, char *why)
{
    if (reply->kind != RESP_ERROR) return ERR_OK;
    (void)snprintf(why, STORE_WHY_MAX, "the server answered: %.180s", reply->text);
    return redis_classify(reply->text, false).err;
}

enum err redis_facts_read(struct resp *const replies[REDIS_QUESTIONS], const struct redis_url *url,
                          struct redis_facts *out, char why[static STORE_WHY_MAX])
{
    *out = (struct redis_facts){0};
    for (size_t i = 0; i < ASK_FIRST_SETTING; i++) {
        enum err e = check_answered(replies[i], why);
        if (e) return e;
    }
    struct bytes memory = resp_bytes(replies[ASK_MEMORY]);
    info_text(resp_bytes(replies[ASK_SERVER]), "redis_version", out->version, sizeof out->version);
    info_text(resp_bytes(replies[ASK_SERVER]), "run_id", out->run_id, sizeof out->run_id);
    info_text(resp_bytes(replies[ASK_REPLICATION]), "role", out->role, sizeof out->role);
    info_text(resp_bytes(replies[ASK_REPLICATION]), "master_replid", out->history_id,
              sizeof out->history_id);
    out->used_memory = redis_info_number(memory, "used_memory");
    out->startup_memory = redis_info_number(memory, "used_memory_startup");
    out->maxmemory = redis_info_number(memory, "maxmemory");
    out->cluster = redis_info_number(resp_bytes(replies[ASK_CLUSTER]), "cluster_enabled") == 1;
    int64_t seconds = resp_number(resp_item(replies[ASK_TIME], 0));
    if (seconds < 0 || seconds > TIME_REAL_MAX / 1000)
        return wrong(why, "the server's TIME is not a time");
    out->time_ms = seconds * 1000 + resp_number(resp_item(replies[ASK_TIME], 1)) / 1000;
    if (out->run_id[0] == 0)
        return wrong(why, "the server does not tell its run id: INFO must be allowed");
    enum err e = check_version(out, why);
    if (!e) e = check_role(out, url->form, why);
    for (size_t i = 0; !e && i < SETTINGS_LEN; i++)
        e = check_setting(&settings[i], replies[ASK_FIRST_SETTING + i], url->durability, why);
    return e;
}
