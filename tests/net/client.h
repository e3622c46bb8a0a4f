// SPDX-License-Identifier: Apache-2.0
// A client and the server it speaks to, for the tests of the HTTP client.
#pragma once

#include "../unit/unit.h"
#include "base/memory.h"
#include "net/http.h"
#include "os/clock.h"
#include "scratch.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_MS 20000 // nothing takes so long unless it hangs
#define SHORT_MS    150   // what is meant to run out
#define MANY        32
#define LARGE       ((size_t)60 << 20) // not a power of two: not where doubling ends

static struct server server;

struct client {
    struct http *http;
    struct http_call call;
    char url[256];
};

static inline void client_open(struct client *c, const struct http_config *config,
                               const char *method, const char *path)
{
    (void)snprintf(c->url, sizeof c->url, "%s%s", server.url, path);
    c->http = http_new(config);
    http_call_init(&c->call, method, c->url);
    c->call.timeout_ms = PATIENCE_MS;
}

static inline void client_close(struct client *c)
{
    http_call_done(&c->call);
    http_free(c->http);
    server_stop(&server);
}

static inline void assert_answered(struct client *c)
{
    http_do(c->http, &c->call);
    assert_string_equal(c->call.why, "");
    assert_int_equal(c->call.end, HTTP_ANSWERED);
}

static inline bool await(atomic_int *number, int value)
{
    int64_t end = clock_boot_ms() + PATIENCE_MS;
    while (atomic_load(number) < value && clock_boot_ms() < end)
        (void)usleep(200);
    return atomic_load(number) >= value;
}
