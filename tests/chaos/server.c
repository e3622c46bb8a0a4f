// SPDX-License-Identifier: Apache-2.0
// The proxy lives in the process that watches, and so outlives every worker.
#include "server.h"

#include "base/memory.h"
#include "fault_proxy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHANCE 60 // of each kind of fault: one request in fourteen meets one

struct server {
    struct fault_proxy *proxy; // NULL: Redis
    const char *control;
    uint64_t kills;
};

struct server *server_new(uint64_t seed)
{
    const char *url = getenv("AWS_ENDPOINT_URL_S3");
    struct fault_proxy *proxy = url ? proxy_start(url, seed) : NULL;
    if (!proxy || setenv("AWS_ENDPOINT_URL_S3", proxy_url(proxy), 1) != 0) return NULL;
    struct server *s = NEW(struct server);
    s->proxy = proxy;
    s->control = getenv("SLUICE_TEST_RADOSGW_CONTROL");
    return s;
}

struct server *server_of_redis(void)
{
    const char *control = getenv("SLUICE_TEST_REDIS_CONTROL");
    if (!control) return NULL;
    struct server *s = NEW(struct server);
    s->control = control;
    return s;
}

void server_free(struct server *s)
{
    if (!s) return;
    if (s->proxy) proxy_stop(s->proxy);
    memory_free(s);
}

void server_trouble(struct server *s)
{
    struct proxy_faults faults = proxy_all_faults(CHANCE);
    proxy_set(s->proxy, &faults);
}

void server_calm(struct server *s)
{
    if (s->proxy) proxy_calm(s->proxy);
}

static bool control(const struct server *s, const char *word)
{
    char line[600];
    if (!s->control) return false;
    (void)snprintf(line, sizeof line, "%s %s", s->control, word);
    return system(line) == 0;
}

// The kill meets a rewrite of the file, and a server without scripts.
static void disturb_redis(void)
{
    (void)!system("redis-cli -s \"$SLUICE_TEST_REDIS_SOCKET\" BGREWRITEAOF >/dev/null && "
                  "redis-cli -s \"$SLUICE_TEST_REDIS_SOCKET\" SCRIPT FLUSH >/dev/null");
}

bool server_kill(struct server *s)
{
    s->kills++;
    if (!s->proxy) disturb_redis();
    return control(s, "kill");
}

bool server_start(struct server *s)
{
    return control(s, "start");
}

void server_describe(const struct server *s, uint64_t commits)
{
    if (!s->proxy) {
        printf("# the server was killed %" PRIu64 " times\n", s->kills);
        return;
    }
    uint64_t puts = proxy_requests(s->proxy, "PUT");
    printf("# %" PRIu64 " requests, %" PRIu64 " of them PUT, %.2f PUT for each of %" PRIu64
           " commits; the server was killed %" PRIu64 " times\n# faults:",
           proxy_requests(s->proxy, NULL), puts, (double)puts / (double)(commits ? commits : 1),
           commits, s->kills);
    for (int f = PROXY_PASS + 1; f < PROXY_FAULTS; f++)
        printf(" %s %" PRIu64, proxy_fault_name((enum proxy_fault)f),
               proxy_count(s->proxy, (enum proxy_fault)f));
    printf("\n");
}
