// SPDX-License-Identifier: Apache-2.0
// Every route of the table, with a token of every scope, for the token's own queue, for another
// one, and without a queue. What a path without a queue asks for is written here a second time, so
// that a wrong row of the table is found.
#include "rig.h"
#include "server/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN      "a-own"
#define OTHER    "b-other"
#define PATH_LEN 256

enum reach { SOME, ALL, REACHES }; // queue=a-*, queue=*

struct key {
    enum token_scope scope;
    enum reach reach;
    char secret[TOKEN_SECRET_MAX];
};

// Paths without a queue: whether a token for some queues suffices.
static const struct bare {
    const char *path;
    enum reach wants;
} bare[] = {
    {"/v1/queues", SOME},       {"/v1/node", SOME},           {"/v1/node/workers", SOME},
    {"/v1/cluster", SOME},      {"/v1/cluster/plan", SOME},   {"/v1/cluster/events", SOME},
    {"/metrics", ALL},          {"/v1/stream", ALL}, // ... of all queues
    {"/v1/cluster/drain", ALL}, {"/v1/cluster/undrain", ALL}, {"/v1/cluster/leave", ALL},
};

static const enum token_scope scopes[] = {SCOPE_READ, SCOPE_SEND, SCOPE_WORK, SCOPE_SIGNAL,
                                          SCOPE_ADMIN};
#define SCOPES (sizeof scopes / sizeof *scopes)
#define KEYS   (SCOPES * REACHES)

static struct tokens *make_keys(struct key keys[KEYS])
{
    struct tokens *t = tokens_new();
    for (size_t i = 0; i < KEYS; i++) {
        char hash[TOKEN_HASH_MAX], value[200], name[16], why[256];
        keys[i] = (struct key){.scope = scopes[i / REACHES], .reach = (enum reach)(i % REACHES)};
        token_make(keys[i].secret, hash);
        (void)snprintf(value, sizeof value, "%s scope=%s queue=%s", hash, scope_name(keys[i].scope),
                       keys[i].reach == ALL ? "*" : "a-*");
        (void)snprintf(name, sizeof name, "key-%zu", i);
        if (!tokens_add(t, name, value, why, sizeof why)) fail_msg("%s", why);
    }
    return t;
}

static void start(struct rig *r, struct key keys[KEYS])
{
    struct sluice_error error;
    struct server_config config = {.listen = "127.0.0.1:0", .tokens = make_keys(keys)};
    *r = (struct rig){.line = -1};
    assert_int_equal(sluice_open("mem:", NULL, &r->store, &error), SLUICE_OK);
    if (server_start(&config, r->store, &r->server, &error)) fail_msg("%s", error.message);
    r->port = (uint16_t)atoi(strrchr(server_address(r->server), ':') + 1);
}

// The path with a value for each name in braces.
static void fill(const char *pattern, const char *queue, char out[PATH_LEN])
{
    size_t len = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '{') {
            out[len++] = *pattern;
            continue;
        }
        const char *value = pattern[1] == 'q' ? queue : "8be93756-0-1";
        len += (size_t)snprintf(out + len, PATH_LEN - len, "%s", value);
        pattern = strchr(pattern, '}');
    }
    out[len] = '\0';
}

// HEAD instead of GET, so that a stream of events ends.
static int status_of(struct rig *r, const struct route *c, const struct key *k, const char *queue)
{
    char path[PATH_LEN], header[200];
    bool reads = strcmp(c->method, "GET") == 0;
    fill(c->pattern, queue, path);
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", k->secret);
    struct ask a = {.method = reads ? "HEAD" : c->method, .path = path, .headers = header};
    int fd = dial(r);
    struct reply reply;
    say_request(fd, &a);
    hear(fd, reads, &reply);
    int status = reply.status;
    reply_done(&reply);
    (void)close(fd);
    return status;
}

static bool has_scope(const struct key *k, enum token_scope scope)
{
    return k->scope == scope || k->scope == SCOPE_ADMIN;
}

static void try_route(struct rig *r, const struct route *c, const struct key *k, const char *queue,
                      bool allowed)
{
    int status = status_of(r, c, k, queue);
    if ((status == 403) != allowed && status != 401) return;
    fail_msg("%s %s for %s with scope=%s queue=%s: %d", c->method, c->pattern, queue,
             scope_name(k->scope), k->reach == ALL ? "*" : "a-*", status);
}

static void a_path_with_a_queue_needs_its_scope_for_that_queue(void **state)
{
    (void)state;
    struct rig r;
    struct key keys[KEYS];
    size_t tried = 0;
    start(&r, keys);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        const struct route *c = &route_table[i];
        if (c->peer || c->scope == SCOPE_NONE || !strstr(c->pattern, "{queue}")) continue;
        for (size_t k = 0; k < KEYS; k++, tried++) {
            bool has = has_scope(&keys[k], c->scope);
            try_route(&r, c, &keys[k], OWN, has);
            try_route(&r, c, &keys[k], OTHER, has && keys[k].reach == ALL);
        }
    }
    assert_true(tried > 300);
    rig_stop(&r);
}

static const struct bare *bare_of(const char *path)
{
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(bare[i].path, path) == 0) return &bare[i];
    fail_msg("%s has no queue in its path: add to this test what token it needs", path);
    return NULL;
}

static void a_path_without_a_queue_needs_its_scope_for_all_queues_or_for_some(void **state)
{
    (void)state;
    struct rig r;
    struct key keys[KEYS];
    size_t tried = 0;
    start(&r, keys);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        const struct route *c = &route_table[i];
        if (c->peer || c->scope == SCOPE_NONE || strstr(c->pattern, "{queue}")) continue;
        const struct bare *b = bare_of(c->pattern);
        for (size_t k = 0; k < KEYS; k++, tried++)
            try_route(&r, c, &keys[k], "",
                      has_scope(&keys[k], c->scope) && keys[k].reach >= b->wants);
    }
    assert_int_equal(tried, KEYS * (sizeof bare / sizeof *bare));
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_with_a_queue_needs_its_scope_for_that_queue),
        cmocka_unit_test(a_path_without_a_queue_needs_its_scope_for_all_queues_or_for_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
