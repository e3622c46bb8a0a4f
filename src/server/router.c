// SPDX-License-Identifier: Apache-2.0
// Finds the route of a request in the table of calls (protocol/list.h).
#include "server/inside.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct route_handler routes[ROUTE_COUNT] = {
#define ROUTE(id, name, ...) {&route_table[ROUTE_##id], handle_##name},
    ROUTE_LIST(ROUTE)
#undef ROUTE
};

// Compares a piece of the path with the next piece of the pattern. Returns the rest of the pattern;
// NULL: they differ.
static const char *same_piece(const char *pattern, const char *piece)
{
    for (; *pattern != '/' && *pattern != '\0'; pattern++, piece++)
        if (*pattern != *piece) return NULL;
    return *piece == '\0' ? pattern : NULL;
}

// Compares piece by piece and sets what the names in braces stand for (target.h). Their first
// letters distinguish them.
static bool matches(const char *pattern, struct target *t)
{
    t->queue = t->id = t->workflow = t->name = t->signal = t->file = NULL;
    if (t->pieces_len == 0) return strcmp(pattern, "/") == 0;
    for (size_t i = 0; i < t->pieces_len; i++) {
        if (*pattern++ != '/') return false;
        if (*pattern != '{') {
            pattern = same_piece(pattern, t->pieces[i]);
            if (!pattern) return false;
            continue;
        }
        const char **named = pattern[1] == 'q'   ? &t->queue
                             : pattern[1] == 'i' ? &t->id
                             : pattern[1] == 'w' ? &t->workflow
                             : pattern[1] == 'n' ? &t->name
                             : pattern[1] == 's' ? &t->signal
                                                 : &t->file;
        *named = t->pieces[i];
        pattern = strchr(pattern, '}') + 1;
    }
    return *pattern == '\0';
}

// Where patterns differ most: the first letter of the method, and of the last piece. A search
// compares these two letters of each route, and few patterns as a whole.
static struct {
    char method;
    char last; // '{': any
} shapes[ROUTE_COUNT];
static pthread_once_t shaped = PTHREAD_ONCE_INIT;

static void find_shapes(void)
{
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        shapes[i].method = *route_table[i].method;
        shapes[i].last = strrchr(route_table[i].pattern, '/')[1];
    }
}

static const struct route_handler *find(const char *method, struct target *t)
{
    char last = t->pieces_len > 0 ? *t->pieces[t->pieces_len - 1] : '\0';
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (shapes[i].method != *method) continue;
        if (shapes[i].last != last && shapes[i].last != '{') continue;
        const struct route *c = routes[i].row;
        if (strcmp(c->method, method) == 0 && matches(c->pattern, t)) return &routes[i];
    }
    return NULL;
}

static void allow_add(char allow[ALLOW_MAX], const char *method)
{
    size_t len = strlen(allow);
    (void)snprintf(allow + len, ALLOW_MAX - len, "%s%s", len > 0 ? ", " : "", method);
}

static_assert(ROUTE_COUNT < METRICS_ROUTES_MAX, "each route has its counters");

const struct route_handler *route_find(const char *method, struct target *t, char allow[ALLOW_MAX])
{
    if (strcmp(method, "HEAD") == 0) method = "GET";
    *allow = '\0';
    (void)pthread_once(&shaped, find_shapes);
    const struct route_handler *found = find(method, t);
    if (found) return found;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        const struct route *c = routes[i].row;
        if (!matches(c->pattern, t)) continue;
        allow_add(allow, c->method);
        if (strcmp(c->method, "GET") == 0) allow_add(allow, "HEAD");
    }
    return NULL;
}
