// SPDX-License-Identifier: Apache-2.0
// Sentinels name the primary. One that was cut off can name a former primary, so the answer with
// the highest configuration epoch counts, and the server itself must say that it is a primary.
#include "store/redis/client.h"

#include "os/clock.h"

#include <stdio.h>
#include <string.h>

#define SENTINEL_MS 500 // how long one Sentinel may take

struct sentinel_answer {
    struct redis_place at;
    int64_t epoch;
    size_t same; // Sentinels that named it
};

static const struct resp *field(const struct resp *list, const char *name)
{
    for (size_t i = 0; list->kind == RESP_LIST && i + 1 < list->len; i += 2) {
        const struct resp *key = resp_item(list, i);
        if (key->kind == RESP_TEXT && strcmp(key->text, name) == 0) return resp_item(list, i + 1);
    }
    return resp_item(list, list->kind == RESP_LIST ? list->len : 0);
}

bool redis_sentinel_read(const struct resp *reply, struct redis_place *at, int64_t *epoch)
{
    const struct resp *ip = field(reply, "ip"), *port = field(reply, "port");
    int64_t number = resp_number(port);
    if (ip->kind != RESP_TEXT || ip->len == 0 || ip->len > REDIS_HOST_MAX) return false;
    if (strlen(ip->text) != ip->len || number < 1 || number > 65535) return false;
    (void)snprintf(at->host, sizeof at->host, "%s", ip->text);
    (void)snprintf(at->port, sizeof at->port, "%u", (unsigned)(number & 0xffff));
    *epoch = resp_number(field(reply, "config-epoch"));
    if (*epoch < 0) *epoch = 0; // one that does not tell it counts least
    return true;
}

// Asks on the connection. A Sentinel that wants a password gets the one of the servers.
static struct resp *ask_master(struct redis_client *c, struct redis_connection *on, int64_t until)
{
    struct resp *replies[2] = {NULL, NULL};
    LOCAL(buf, command, 4096);
    struct bytes words[] = {bytes_str("SENTINEL"), bytes_str("MASTER"), bytes_str(c->url.name)};
    resp_format(&command, words, 3);
    if (redis_connection_ask(on, buf_bytes(&command), 1, until, replies) != REDIS_ANSWERED)
        return NULL;
    bool closed = replies[0]->kind == RESP_ERROR && strncmp(replies[0]->text, "NOAUTH", 6) == 0;
    buf_clear(&command);
    if (!closed || !redis_put_auth(c, &command)) return replies[0];
    resp_free(replies[0]);
    resp_format(&command, words, 3);
    if (redis_connection_ask(on, buf_bytes(&command), 2, until, replies) != REDIS_ANSWERED)
        return NULL;
    resp_free(replies[0]);
    return replies[1];
}

static enum err read_answer(struct redis_client *c, const struct redis_place *sentinel,
                            const struct resp *reply, struct sentinel_answer *out, char *why)
{
    bool error = reply->kind == RESP_ERROR;
    out->same = 1;
    if (!error && redis_sentinel_read(reply, &out->at, &out->epoch)) return ERR_OK;
    if (error && strstr(reply->text, "No such master")) {
        (void)snprintf(why, STORE_WHY_MAX, "the Sentinel at %.100s:%s knows no primary \"%.60s\"",
                       sentinel->host, sentinel->port, c->url.name);
        return ERR_INVALID;
    }
    (void)snprintf(why, STORE_WHY_MAX, "%.80s:%s is no Sentinel of ours: %.100s", sentinel->host,
                   sentinel->port, error ? reply->text : "it names no address");
    return error && strncmp(reply->text, "NO", 2) == 0 ? ERR_DENIED : ERR_INVALID;
}

static enum err ask_one(struct redis_client *c, const struct redis_place *sentinel, int64_t until,
                        struct sentinel_answer *out, char why[static STORE_WHY_MAX])
{
    struct redis_connection *on = NULL;
    enum err e = redis_dial(c, sentinel, until, &on, NULL, why);
    if (e) return e;
    struct resp *reply = ask_master(c, on, until);
    if (reply)
        e = read_answer(c, sentinel, reply, out, why);
    else
        e = redis_say_lost(c, sentinel, on, why);
    resp_free(reply);
    redis_connection_free(on, true);
    return e;
}

enum err redis_sentinel_find(struct redis_client *c, int64_t until, struct redis_place *out,
                             char why[static STORE_WHY_MAX])
{
    struct sentinel_answer best = {.epoch = -1};
    enum err refusal = ERR_UNAVAILABLE;
    char reason[STORE_WHY_MAX] = "";
    for (size_t i = 0; i < c->url.places_len; i++) {
        struct sentinel_answer one;
        int64_t soon = clock_boot_ms() + SENTINEL_MS;
        enum err e = ask_one(c, &c->url.places[i], soon < until ? soon : until, &one, reason);
        if (e) {
            if (e != ERR_UNAVAILABLE || refusal == ERR_UNAVAILABLE)
                memcpy(why, reason, sizeof reason);
            if (e != ERR_UNAVAILABLE) refusal = e;
            continue;
        }
        if (strcmp(one.at.host, best.at.host) == 0 && strcmp(one.at.port, best.at.port) == 0) {
            best.same++;
            if (one.epoch > best.epoch) best.epoch = one.epoch;
        } else if (one.epoch > best.epoch) {
            best = one;
        }
        if (best.same > c->url.places_len / 2) break; // most of them agree
    }
    if (best.epoch < 0) return refusal;
    *out = best.at;
    return ERR_OK;
}
