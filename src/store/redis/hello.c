// SPDX-License-Identifier: Apache-2.0
// The first requests of a connection. They are sent together: a new connection costs the round
// trips of the socket and one more.
#include "store/redis/client.h"

#include "store/redis/outcome.h"

#include <stdio.h>
#include <string.h>

#define HELLO_MAX ((size_t)256 << 10)

static void put_command(struct buf *to, const char *a, const char *b, const char *c)
{
    struct bytes words[3] = {bytes_str(a), b ? bytes_str(b) : BYTES_EMPTY,
                             c ? bytes_str(c) : BYTES_EMPTY};
    resp_format(to, words, c ? 3 : b ? 2 : 1);
}

// AUTH, SELECT, CLIENT SETNAME, CLIENT ID.
#define LOGIN_MAX 4

bool redis_put_auth(const struct redis_client *c, struct buf *to)
{
    if (c->user[0])
        put_command(to, "AUTH", c->user, c->password);
    else if (c->password[0])
        put_command(to, "AUTH", c->password, NULL);
    return c->user[0] || c->password[0];
}

static size_t put_login(const struct redis_client *c, struct buf *to)
{
    size_t count = redis_put_auth(c, to) ? 1 : 0;
    char db[24];
    (void)snprintf(db, sizeof db, "%lld", (long long)c->url.db);
    if (c->url.db > 0) put_command(to, "SELECT", db, NULL), count++;
    put_command(to, "CLIENT", "SETNAME", "sluice");
    put_command(to, "CLIENT", "ID", NULL);
    return count + 2;
}

static void free_replies(struct resp **replies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        resp_free(replies[i]);
}

// A refusal for good is ERR_INVALID or ERR_DENIED.
static enum err read_login(const struct redis_client *c, struct resp *const *replies, size_t count,
                           char *why)
{
    for (size_t i = 0; i < count; i++) {
        if (replies[i]->kind != RESP_ERROR) continue;
        const char *text = replies[i]->text;
        enum err e = redis_classify(text, false).err;
        bool select = c->url.db > 0 && i + 3 == count;
        bool login = (c->user[0] || c->password[0]) && i == 0;
        if (e == ERR_UNAVAILABLE && strncmp(text, "LOADING", 7) != 0)
            e = select ? ERR_INVALID : login ? ERR_DENIED : e;
        if (select && e == ERR_INVALID)
            (void)snprintf(why, STORE_WHY_MAX, "database %lld does not exist on the server: %.100s",
                           (long long)c->url.db, text);
        else if (strncmp(text, "NOAUTH", 6) == 0)
            (void)snprintf(
                why, STORE_WHY_MAX,
                "the server wants a password: set SLUICE_REDIS_PASSWORD, or passwordFile "
                "in the URL");
        else if (login && e == ERR_DENIED)
            (void)snprintf(why, STORE_WHY_MAX, "the server refused user \"%.60s\": %.120s",
                           c->user[0] ? c->user : "default", text);
        else
            (void)snprintf(why, STORE_WHY_MAX, "the server answered: %.180s", text);
        return e;
    }
    return ERR_OK;
}

static enum err dial(struct redis_client *c, const struct redis_place *at, int64_t until,
                     struct redis_connection **out, char *why)
{
    const struct stream_place place = {.host = at->host,
                                       .port = at->port,
                                       .path = c->url.path[0] ? c->url.path : NULL,
                                       .tls = c->tls};
    bool refused;
    struct stream *s = stream_open(&place, until, &refused, why, STORE_WHY_MAX);
    if (!s) return refused ? ERR_DENIED : ERR_UNAVAILABLE;
    *out = redis_connection_take(s);
    return ERR_OK;
}

enum err redis_say_lost(const struct redis_client *c, const struct redis_place *at,
                        struct redis_connection *on, char why[static STORE_WHY_MAX])
{
    static const char *const forms[] = {
        [REDIS_ONE] = "", [REDIS_SENTINEL] = "+sentinel", [REDIS_CLUSTER] = "+cluster"};
    char reason[STORE_WHY_MAX], hint[48] = "";
    redis_connection_why(on, reason);
    bool closed = strstr(reason, "closed") != NULL;
    if (closed && !c->tls && !c->url.path[0])
        (void)snprintf(hint, sizeof hint, " (a port with TLS needs rediss%s://)",
                       forms[c->url.form]);
    (void)snprintf(why, STORE_WHY_MAX, "%.120s: %.60s%s", c->url.path[0] ? c->url.path : at->host,
                   reason, hint);
    return strstr(reason, "protocol") ? ERR_INVALID : ERR_UNAVAILABLE;
}

enum err redis_ask_facts(struct redis_client *c, const struct redis_place *at,
                         struct redis_connection *on, int64_t until, struct redis_facts *facts,
                         char why[static STORE_WHY_MAX])
{
    struct resp *replies[REDIS_QUESTIONS];
    LOCAL(buf, commands, HELLO_MAX);
    size_t count = redis_facts_ask(&commands);
    if (redis_connection_ask(on, buf_bytes(&commands), count, until, replies) != REDIS_ANSWERED)
        return redis_say_lost(c, at, on, why);
    enum err e = redis_facts_read(replies, &c->url, facts, why);
    free_replies(replies, count);
    return e;
}

static enum err load_scripts(struct redis_client *c, const struct redis_place *at,
                             struct redis_connection *on, int64_t until, char *why)
{
    struct resp *replies[SCRIPTS];
    LOCAL(buf, commands, HELLO_MAX);
    for (enum redis_script s = 0; s < SCRIPTS; s++)
        put_command(&commands, "SCRIPT", "LOAD", redis_script_text(s));
    if (redis_connection_ask(on, buf_bytes(&commands), SCRIPTS, until, replies) != REDIS_ANSWERED)
        return redis_say_lost(c, at, on, why);
    enum err e = ERR_OK;
    for (enum redis_script s = 0; s < SCRIPTS && !e; s++) {
        if (replies[s]->kind == RESP_TEXT && replies[s]->len == REDIS_SHA_LEN) {
            // The same text has the same name on every server: only the first time writes it.
            if (!c->sha[s][0]) memcpy(c->sha[s], replies[s]->text, REDIS_SHA_LEN);
            continue;
        }
        bool error = replies[s]->kind == RESP_ERROR;
        (void)snprintf(why, STORE_WHY_MAX, "the server does not take scripts: %.150s",
                       error ? replies[s]->text : "no name came back");
        e = error ? redis_classify(replies[s]->text, false).err : ERR_INVALID;
    }
    free_replies(replies, SCRIPTS);
    return e;
}

static enum err login(struct redis_client *c, const struct redis_place *at,
                      struct redis_connection *on, int64_t until, int64_t *id, char *why)
{
    struct resp *replies[LOGIN_MAX];
    LOCAL(buf, commands, HELLO_MAX);
    size_t count = put_login(c, &commands);
    if (redis_connection_ask(on, buf_bytes(&commands), count, until, replies) != REDIS_ANSWERED)
        return redis_say_lost(c, at, on, why);
    enum err e = read_login(c, replies, count, why);
    if (!e) *id = resp_number(replies[count - 1]);
    free_replies(replies, count);
    return e;
}

enum err redis_dial(struct redis_client *c, const struct redis_place *at, int64_t until,
                    struct redis_connection **out, int64_t *id, char why[static STORE_WHY_MAX])
{
    *out = NULL;
    enum err e = dial(c, at, until, out, why);
    if (!e && id) e = login(c, at, *out, until, id, why);
    if (!e) return ERR_OK;
    redis_connection_free(*out, true);
    *out = NULL;
    return e;
}

enum err redis_hello(struct redis_client *c, const struct redis_place *at, int64_t until,
                     struct redis_connection **out, struct redis_facts *facts,
                     char why[static STORE_WHY_MAX])
{
    int64_t id;
    enum err e = redis_dial(c, at, until, out, &id, why);
    if (e) return e;
    e = redis_ask_facts(c, at, *out, until, facts, why);
    if (!e && !c->sha[SCRIPTS - 1][0]) e = load_scripts(c, at, *out, until, why);
    if (!e) return ERR_OK;
    redis_connection_free(*out, true);
    *out = NULL;
    return e;
}

enum err redis_client_dial(struct redis_client *c, struct redis_server *server, int64_t until,
                           struct redis_connection **out, int64_t *id, struct store_answer *a)
{
    (void)pthread_mutex_lock(&c->lock);
    struct redis_place at = server->at;
    (void)pthread_mutex_unlock(&c->lock);
    enum err e = ERR_OK;
    *out = NULL;
    *id = 0;
    if (c->url.form == REDIS_SENTINEL) e = redis_sentinel_find(c, until, &at, a->why);
    if (!e) e = redis_dial(c, &at, until, out, id, a->why);
    if (!e && *id > 0) return ERR_OK;
    redis_connection_free(*out, true);
    *out = NULL;
    return ERR_UNAVAILABLE;
}
