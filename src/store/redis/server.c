// SPDX-License-Identifier: Apache-2.0
// One connection to a server serves all calls. One caller connects while the others wait. A server
// that was started again, or another that took over, is another life, with another epoch.
#include "store/redis/client.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>

#define FACTS_EVERY_MS    60000
#define SENTINEL_EVERY_MS 5000 // the Sentinels are asked more often: the primary changes
#define RECONNECT_MS      1000 // a call waits this long for a server that does not accept
#define PAUSE_MS          20

static void line_free(struct redis_line *line, bool ours)
{
    redis_connection_free(line->connection, ours);
    memory_free(line);
}

void redis_server_free(struct redis_server *s, bool ours)
{
    if (s->line) {
        CHECK(!ours || s->line->users == 0);
        line_free(s->line, ours);
    }
    memory_free(s);
}

// Another life of the server: it was started again, or another server took over.
static void take_facts(struct redis_client *c, struct redis_server *s,
                       const struct redis_facts *facts)
{
    bool same = strcmp(s->facts.run_id, facts->run_id) == 0 &&
                strcmp(s->facts.history_id, facts->history_id) == 0;
    if (!same) s->epoch = ++c->epochs;
    CHECK(s->epoch > 0);
    s->facts = *facts;
    s->facts_ms = s->memory_ms = clock_boot_ms();
    s->sent_bytes = 0;
    redis_note_tight(c);
    s->clock_off_ms = facts->time_ms - clock_realtime_ms();
}

void redis_line_leave(struct redis_client *c, struct redis_server *server, struct redis_line *line)
{
    (void)pthread_mutex_lock(&c->lock);
    CHECK(line->users > 0);
    bool last = --line->users == 0 && server->line != line;
    (void)pthread_mutex_unlock(&c->lock);
    if (last) line_free(line, true);
}

// Takes the connection away. The caller holds the lock.
static void line_drop(struct redis_server *s)
{
    struct redis_line *line = s->line;
    s->line = NULL;
    if (line->users == 0) line_free(line, true); // else the last user frees it
}

void redis_lines_retire(struct redis_client *c)
{
    LOCKED(&c->lock);
    for (size_t i = 0; i < c->servers_len; i++)
        if (c->servers[i]->line) line_drop(c->servers[i]);
}

// Connects. The caller holds the lock, which is released meanwhile.
static enum err connect_line(struct redis_client *c, struct redis_server *s, int64_t until,
                             char why[static STORE_WHY_MAX])
{
    struct redis_connection *connection = NULL;
    struct redis_facts facts;
    struct redis_place at = s->at;
    s->connecting = true;
    (void)pthread_mutex_unlock(&c->lock);
    enum err e = ERR_OK;
    if (c->url.form == REDIS_SENTINEL) e = redis_sentinel_find(c, until, &at, why);
    if (!e) e = redis_hello(c, &at, until, &connection, &facts, why);
    (void)pthread_mutex_lock(&c->lock);
    s->connecting = false;
    if (!e) {
        s->at = at;
        take_facts(c, s, &facts);
        CHECK(!s->line);
        s->line = NEW(struct redis_line);
        s->line->connection = connection;
        s->line->epoch = s->epoch;
    }
    (void)pthread_cond_broadcast(&c->changed);
    return e;
}

static enum err check_place(struct redis_client *c, const struct redis_place *at, int64_t until,
                            char why[static STORE_WHY_MAX])
{
    struct redis_place now;
    if (c->url.form != REDIS_SENTINEL) return ERR_OK;
    // Sentinels that do not answer are no reason to leave a server that does.
    if (redis_sentinel_find(c, until, &now, why)) return ERR_OK;
    if (strcmp(now.host, at->host) == 0 && strcmp(now.port, at->port) == 0) return ERR_OK;
    (void)snprintf(why, STORE_WHY_MAX, "the Sentinels name another primary: %.100s:%s", now.host,
                   now.port);
    return ERR_UNAVAILABLE;
}

// Asks the facts again. If the server is not as it must be any more, the connection ends, so that
// nothing more is written to it.
static void check_facts(struct redis_client *c, struct redis_server *s, struct redis_line *line,
                        int64_t until)
{
    struct redis_facts facts;
    struct redis_place at = s->at;
    char why[STORE_WHY_MAX] = "";
    (void)pthread_mutex_unlock(&c->lock);
    enum err e = check_place(c, &at, until, why);
    if (!e) e = redis_ask_facts(c, &at, line->connection, until, &facts, why);
    (void)pthread_mutex_lock(&c->lock);
    s->checking = false;
    if (e)
        redis_connection_break(line->connection, why);
    else if (s->line == line) // no other connection has newer facts
        take_facts(c, s, &facts);
    if (s->line == line) line->epoch = s->epoch;
}

static bool facts_are_due(const struct redis_client *c, const struct redis_server *s)
{
    int64_t every = c->url.form == REDIS_SENTINEL ? SENTINEL_EVERY_MS : FACTS_EVERY_MS;
    return clock_boot_ms() - s->facts_ms >= every && !s->checking;
}

enum err redis_line_enter(struct redis_client *c, struct redis_server *server, int64_t until,
                          struct redis_line **out, uint64_t *epoch, char why[static STORE_WHY_MAX])
{
    // While the store opens, a single server gets one attempt.
    bool patient = c->store || c->url.form != REDIS_ONE;
    // Half of the time is left to find the server that took over.
    int64_t now = clock_boot_ms(), half = (until - now) / 2;
    int64_t connect_until = now + (patient ? half < RECONNECT_MS ? half : RECONNECT_MS : 0);
    enum err e = ERR_UNAVAILABLE;
    (void)snprintf(why, STORE_WHY_MAX, "there is no connection to the server");
    (void)pthread_mutex_lock(&c->lock);
    for (;;) {
        if (server->line && !redis_connection_is_good(server->line->connection)) line_drop(server);
        if (server->line) break;
        if (clock_boot_ms() >= until) break;
        if (server->connecting) {
            clock_wait(&c->changed, &c->lock, until);
            continue;
        }
        e = connect_line(c, server, until, why);
        if (!e) break;
        if (e != ERR_UNAVAILABLE || clock_boot_ms() >= connect_until) break;
        clock_wait(&c->changed, &c->lock, clock_boot_ms() + PAUSE_MS);
    }
    struct redis_line *line = server->line;
    if (line) {
        line->users++;
        if (facts_are_due(c, server)) {
            server->checking = true;
            check_facts(c, server, line, until);
        }
        *epoch = line->epoch;
    }
    (void)pthread_mutex_unlock(&c->lock);
    *out = line;
    return line ? ERR_OK : e;
}
