// SPDX-License-Identifier: Apache-2.0
// A Redis Cluster: each key belongs to one of 16384 slots by its hash tag, and each slot to one
// server. The client keeps the table of slots. A server that has lost a slot says where it is.
#include "store/redis/client.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_SERVER    UINT16_MAX
#define ASK_EVERY_MS 50
#define SEED_MS      1000 // how long one server may take to tell the slots

// CRC16-CCITT (XMODEM), four bits at a time.
static unsigned crc16(const char *from, size_t len)
{
    static const uint16_t nibble[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                        0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                        0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)from[i];
        crc = (crc << 4 & 0xffff) ^ nibble[(crc >> 12 ^ byte >> 4) & 15];
        crc = (crc << 4 & 0xffff) ^ nibble[(crc >> 12 ^ byte) & 15];
    }
    return crc;
}

unsigned redis_slot_of(const char *key)
{
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open + 1, '}') : NULL;
    CHECK(close && close > open + 1); // every key of ours has a tag
    return crc16(open + 1, (size_t)(close - open - 1)) % REDIS_SLOTS;
}

// Finds or adds the server. The caller holds the lock.
static uint16_t server_at(struct redis_client *c, const char *host, const char *port)
{
    for (size_t i = 0; i < c->servers_len; i++)
        if (strcmp(c->servers[i]->at.host, host) == 0 && strcmp(c->servers[i]->at.port, port) == 0)
            return (uint16_t)i;
    if (c->servers_len == REDIS_SERVERS_MAX) return NO_SERVER;
    struct redis_server *s = NEW(struct redis_server);
    (void)snprintf(s->at.host, sizeof s->at.host, "%s", host);
    (void)snprintf(s->at.port, sizeof s->at.port, "%s", port);
    c->servers[c->servers_len] = s;
    return (uint16_t)c->servers_len++;
}

// A row of CLUSTER SLOTS: [first, last, [host, port, ...], ...]. An empty host means the host that
// was asked.
static void take_row(struct redis_client *c, const struct resp *row, const char *asked,
                     uint16_t *slots)
{
    const struct resp *primary = resp_item(row, 2), *host = resp_item(primary, 0);
    int64_t first = resp_number(resp_item(row, 0)), last = resp_number(resp_item(row, 1));
    int64_t number = resp_number(resp_item(primary, 1));
    char port[6];
    if (first < 0 || last >= REDIS_SLOTS || first > last || number < 1 || number > 65535) return;
    if (host->kind == RESP_TEXT && host->len > REDIS_HOST_MAX) return;
    if (host->kind == RESP_TEXT && strlen(host->text) != host->len) return;
    (void)snprintf(port, sizeof port, "%u", (unsigned)(number & 0xffff));
    bool named = host->kind == RESP_TEXT && host->len > 0;
    uint16_t at = server_at(c, named ? host->text : asked, port);
    for (int64_t i = first; i <= last; i++)
        slots[i] = at;
}

void redis_cluster_take(struct redis_client *c, const struct resp *reply, const char *asked)
{
    CHECK(c->slots);
    CLEANUP(memory_let_go) uint16_t *slots = memory_new(REDIS_SLOTS * sizeof *slots);
    for (size_t i = 0; i < REDIS_SLOTS; i++)
        slots[i] = NO_SERVER;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; reply->kind == RESP_LIST && i < reply->len; i++)
        take_row(c, resp_item(reply, i), asked, slots);
    memcpy(c->slots, slots, REDIS_SLOTS * sizeof *slots);
    (void)pthread_mutex_unlock(&c->lock);
}

static enum err ask_slots(struct redis_client *c, const struct redis_place *at, int64_t until,
                          char why[static STORE_WHY_MAX])
{
    struct redis_connection *on = NULL;
    int64_t id;
    enum err e = redis_dial(c, at, until, &on, &id, why);
    if (e) return e;
    LOCAL(buf, command, 256);
    struct bytes words[] = {bytes_str("CLUSTER"), bytes_str("SLOTS")};
    resp_format(&command, words, 2);
    struct resp *reply;
    if (redis_connection_ask(on, buf_bytes(&command), 1, until, &reply) != REDIS_ANSWERED) {
        redis_connection_why(on, why);
        redis_connection_free(on, true);
        return ERR_UNAVAILABLE;
    }
    redis_connection_free(on, true);
    if (reply->kind != RESP_LIST) {
        bool error = reply->kind == RESP_ERROR;
        (void)snprintf(why, STORE_WHY_MAX, "%.80s:%s is no server of a Redis Cluster: %.100s",
                       at->host, at->port, error ? reply->text : "it tells no slots");
        bool denied = error && strncmp(reply->text, "NO", 2) == 0;
        resp_free(reply);
        return denied ? ERR_DENIED : ERR_INVALID;
    }
    redis_cluster_take(c, reply, at->host);
    resp_free(reply);
    return ERR_OK;
}

enum err redis_cluster_ask(struct redis_client *c, int64_t until, char why[static STORE_WHY_MAX])
{
    struct redis_place places[REDIS_PLACES_MAX * 2];
    size_t count = 0;
    (void)pthread_mutex_lock(&c->lock);
    bool fresh = c->slots_ms > 0 && clock_boot_ms() - c->slots_ms < ASK_EVERY_MS;
    if (!fresh) c->slots_ms = clock_boot_ms();
    for (size_t i = 0; i < c->servers_len && count < REDIS_PLACES_MAX; i++)
        if (c->servers[i]->line) places[count++] = c->servers[i]->at; // the most likely to answer
    (void)pthread_mutex_unlock(&c->lock);
    if (fresh) return ERR_OK;
    for (size_t i = 0; i < c->url.places_len; i++)
        places[count++] = c->url.places[i];
    enum err e = ERR_UNAVAILABLE;
    for (size_t i = 0; e && i < count; i++) {
        int64_t soon = clock_boot_ms() + SEED_MS;
        e = ask_slots(c, &places[i], soon < until ? soon : until, why);
    }
    return e;
}

static struct redis_server *known_server(struct redis_client *c, unsigned slot)
{
    LOCKED(&c->lock);
    uint16_t at = c->slots[slot];
    return at == NO_SERVER ? NULL : c->servers[at];
}

struct redis_server *redis_server_of(struct redis_client *c, const char *key, int64_t until,
                                     char why[static STORE_WHY_MAX])
{
    if (!c->slots) return c->servers[0];
    unsigned slot = redis_slot_of(key);
    struct redis_server *server = known_server(c, slot);
    if (server) return server;
    if (redis_cluster_ask(c, until, why)) return NULL;
    server = known_server(c, slot);
    if (!server)
        (void)snprintf(why, STORE_WHY_MAX,
                       "slot %u of the Redis Cluster has no server: every slot must be covered",
                       slot);
    return server;
}

struct redis_server *redis_cluster_follow(struct redis_client *c, const struct redis_server *from,
                                          const char *text, bool *asking)
{
    char host[REDIS_HOST_MAX + 1], port[6];
    bool moved = strncmp(text, "MOVED ", 6) == 0;
    if (!c->slots || (!moved && strncmp(text, "ASK ", 4) != 0)) return NULL;
    char *end = NULL;
    unsigned long slot = strtoul(text + (moved ? 6 : 4), &end, 10);
    const char *colon = end ? strrchr(end, ':') : NULL;
    if (slot >= REDIS_SLOTS || !colon || *end != ' ') return NULL;
    size_t host_len = (size_t)(colon - end - 1), port_len = strcspn(colon + 1, " \r\n");
    if (host_len > REDIS_HOST_MAX || port_len == 0 || port_len >= sizeof port) return NULL;
    (void)snprintf(host, sizeof host, "%.*s", (int)host_len, end + 1);
    (void)snprintf(port, sizeof port, "%.*s", (int)port_len, colon + 1);
    (void)pthread_mutex_lock(&c->lock);
    uint16_t at = server_at(c, host_len > 0 ? host : from->at.host, port);
    if (moved && at != NO_SERVER) c->slots[slot] = at;
    struct redis_server *server = at == NO_SERVER ? NULL : c->servers[at];
    (void)pthread_mutex_unlock(&c->lock);
    *asking = !moved;
    return server;
}
