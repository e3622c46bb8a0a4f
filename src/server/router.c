// SPDX-License-Identifier: Apache-2.0
// The routes: the table of docs/http.md.
#include "server/inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define QUEUE "/v1/queues/{queue}"

// Limits of the bodies.
#define LARGE SIZE_MAX
#define SMALL ((size_t)16 << 10) // settings, and the fields of a request
#define NONE  ((size_t)1 << 10)  // the body is ignored

static const struct route routes[] = {
    {"GET", "/v1/queues", SCOPE_READ, true, NONE, handle_queue_list},
    {"PUT", QUEUE, SCOPE_ADMIN, true, SMALL, handle_queue_put},
    {"PATCH", QUEUE, SCOPE_ADMIN, true, SMALL, handle_queue_patch},
    {"GET", QUEUE, SCOPE_READ, true, NONE, handle_queue_get},
    {"DELETE", QUEUE, SCOPE_ADMIN, true, NONE, handle_queue_delete},
    {"POST", QUEUE "/pause", SCOPE_ADMIN, true, SMALL, handle_pause},
    {"POST", QUEUE "/resume", SCOPE_ADMIN, true, SMALL, handle_resume},
    {"POST", QUEUE "/purge", SCOPE_ADMIN, true, SMALL, handle_purge},
    {"POST", QUEUE "/redrive", SCOPE_ADMIN, true, SMALL, handle_redrive},
    {"GET", QUEUE "/stats", SCOPE_READ, true, NONE, handle_stats},
    {"GET", QUEUE "/workers", SCOPE_READ, true, NONE, handle_workers},
    {"POST", QUEUE "/messages", SCOPE_SEND, false, LARGE, handle_send},
    {"GET", QUEUE "/messages", SCOPE_READ, true, NONE, handle_peek},
    {"GET", QUEUE "/messages/{id}", SCOPE_READ, true, NONE, handle_show},
    {"POST", QUEUE "/receive", SCOPE_WORK, false, LARGE, handle_receive},
    {"POST", QUEUE "/ack", SCOPE_WORK, false, LARGE, handle_ack},
    {"POST", QUEUE "/fail", SCOPE_WORK, false, LARGE, handle_fail},
    {"POST", QUEUE "/release", SCOPE_WORK, false, LARGE, handle_release},
    {"POST", QUEUE "/renew", SCOPE_WORK, false, LARGE, handle_renew},
    {"GET", QUEUE "/events", SCOPE_READ, true, NONE, handle_events},
    {"GET", "/v1/node", SCOPE_READ, true, NONE, handle_node},
    {"GET", "", SCOPE_NONE, false, NONE, handle_dashboard}, // "/" has no pieces
    {"GET", "/assets/{file}", SCOPE_NONE, false, NONE, handle_asset},
    {"GET", "/openapi.json", SCOPE_NONE, false, NONE, handle_openapi},
    {"GET", "/metrics", SCOPE_READ, true, NONE, handle_metrics},
    {"GET", "/healthz", SCOPE_NONE, false, NONE, handle_healthz},
    {"GET", "/readyz", SCOPE_NONE, false, NONE, handle_readyz},
};

// Compares a piece of the path with the next piece of the pattern. Returns the rest of the pattern;
// NULL: they differ.
static const char *same_piece(const char *pattern, const char *piece)
{
    for (; *pattern != '/' && *pattern != '\0'; pattern++, piece++)
        if (*pattern != *piece) return NULL;
    return *piece == '\0' ? pattern : NULL;
}

// Compares piece by piece and sets what {queue}, {id} and {file} stand for. Their first letters
// distinguish them.
static bool matches(const char *pattern, struct target *t)
{
    t->queue = t->id = t->file = NULL;
    for (size_t i = 0; i < t->pieces_len; i++) {
        if (*pattern++ != '/') return false;
        if (*pattern != '{') {
            pattern = same_piece(pattern, t->pieces[i]);
            if (!pattern) return false;
            continue;
        }
        const char **named = pattern[1] == 'q' ? &t->queue : pattern[1] == 'i' ? &t->id : &t->file;
        *named = t->pieces[i];
        pattern = strchr(pattern, '}') + 1;
    }
    return *pattern == '\0';
}

static void allow_add(char allow[ALLOW_MAX], const char *method)
{
    size_t len = strlen(allow);
    (void)snprintf(allow + len, ALLOW_MAX - len, "%s%s", len > 0 ? ", " : "", method);
}

static_assert(sizeof routes / sizeof *routes < METRICS_ROUTES_MAX, "each route has its counters");

const struct route *route_at(size_t place)
{
    return place < sizeof routes / sizeof *routes ? &routes[place] : NULL;
}

const char *route_label(const struct route *r)
{
    return *r->pattern ? r->pattern : "/";
}

size_t route_place(const struct route *r)
{
    return (size_t)(r - routes);
}

const struct route *route_find(const char *method, struct target *t, char allow[ALLOW_MAX])
{
    if (strcmp(method, "HEAD") == 0) method = "GET";
    *allow = '\0';
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *r = &routes[i];
        if (strcmp(r->method, method) == 0 && matches(r->pattern, t)) return r;
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *r = &routes[i];
        if (!matches(r->pattern, t)) continue;
        allow_add(allow, r->method);
        if (strcmp(r->method, "GET") == 0) allow_add(allow, "HEAD");
    }
    return NULL;
}
