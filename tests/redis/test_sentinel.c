// SPDX-License-Identifier: Apache-2.0
// A store that finds its primary by three Sentinels: a failover, replicas that must have each
// write, and a promoted replica that lacks what was acknowledged.
#include "rig.h"

#include "os/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct place place;
    struct store *s;        // durability=always
    struct store *replicas; // durability=replicas:1, with the same prefix
    struct store_answer a;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct place with_replicas;
    place_make(&w->place, "");
    w->s = place_store(&w->place);
    with_replicas = w->place;
    (void)strncat(with_replicas.url, "&durability=replicas:1&timeoutMs=1000",
                  sizeof with_replicas.url - strlen(with_replicas.url) - 1);
    w->replicas = place_store(&with_replicas);
    store_answer_init(&w->a);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    store_answer_done(&w->a);
    store_free(w->s);
    store_free(w->replicas);
    free(w);
    return 0;
}

static enum err append(struct world *w, struct store *s, uint64_t slot)
{
    struct bytes body = body_make(slot, 100);
    enum err e = store_append(s, LOG, slot, body, &w->a);
    bytes_free(body);
    return e;
}

// While there is no primary, a call is UNAVAILABLE and may be made again.
static enum err append_patiently(struct world *w, struct store *s, uint64_t slot)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e;
    do {
        e = append(w, s, slot);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    return e;
}

// A write that a slow replica has a moment later is in doubt. It is there when it can be read.
static void append_replicated(struct world *w, uint64_t slot)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e = append(w, w->replicas, slot);
    while ((e == ERR_UNKNOWN || e == ERR_UNAVAILABLE) && clock_boot_ms() < end)
        e = store_read_log(w->replicas, LOG, slot, 1, &w->a);
    ANSWERS(ERR_OK, &w->a, e);
}

static void the_next_primary_is_found_and_has_what_the_replicas_had(void **state)
{
    struct world *w = *state;
    for (uint64_t slot = 1; slot <= 20; slot++)
        append_replicated(w, slot);
    ANSWERS(ERR_OK, &w->a, store_read_log(w->s, LOG, 20, 1, &w->a));
    control("failover");
    ANSWERS(ERR_OK, &w->a, append_patiently(w, w->s, 21));
    for (uint64_t slot = 1; slot <= 21; slot++) {
        ANSWERS(ERR_OK, &w->a, store_read_log(w->s, LOG, slot, 1, &w->a));
        NEED(body_is(store_row_bytes(&w->a, 0), slot, 100));
    }
    control("start");
}

static void a_write_that_too_few_replicas_have_is_in_doubt(void **state)
{
    struct world *w = *state;
    append_replicated(w, 1);
    control("hold");
    ANSWERS(ERR_UNKNOWN, &w->a, append(w, w->replicas, 2));
    NEED(strstr(w->a.why, "only 0 of its replicas have it: durability=replicas:1 asks for more"));
    ANSWERS(ERR_UNKNOWN, &w->a, store_put_new(w->replicas, "key", bytes_str("x"), &w->a));
    // It exists, but a process that acts on it would act on what a failover takes back.
    ANSWERS(ERR_CONFLICT, &w->a, append(w, w->replicas, 2));
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_read_log(w->replicas, LOG, 2, 1, &w->a));
    NEED(strstr(w->a.why, "is not on 1 replicas of the Redis server yet"));
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_get(w->replicas, "key", 0, SIZE_MAX, &w->a));
    ANSWERS(ERR_OK, &w->a, store_read_log(w->replicas, LOG, 1, 1, &w->a)); // known already
    control("release");
    control("start");
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e;
    do {
        e = store_read_log(w->replicas, LOG, 2, 1, &w->a);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    ANSWERS(ERR_OK, &w->a, e);
    ANSWERS(ERR_OK, &w->a, store_get(w->replicas, "key", 0, SIZE_MAX, &w->a));
    char why[STORE_WHY_MAX];
    NEED(store_concern(w->replicas, STORE_NOT_DURABLE, why) && strstr(why, "WAIT is no consensus"));
    NEED(store_concern(w->s, STORE_NOT_DURABLE, why) && strstr(why, "take over"));
}

static void what_a_promoted_replica_lacks_is_named_by_every_handle(void **state)
{
    struct world *w = *state;
    struct store *reader = place_store(&w->place);
    for (uint64_t slot = 1; slot <= 3; slot++)
        append_replicated(w, slot);
    control("hold");
    for (uint64_t slot = 4; slot <= 6; slot++)
        ANSWERS(ERR_OK, &w->a, append(w, w->s, slot));
    ANSWERS(ERR_OK, &w->a, store_read_log(reader, LOG, 5, 1, &w->a)); // it folded slot 5
    control("kill");
    control("release");
    control("start"); // the replica is the primary now
    ANSWERS(ERR_CORRUPT, &w->a, append_patiently(w, w->s, 7));
    NEED(strstr(w->a.why, "in \"" LOG "\", slots 4 to 6 are gone") != NULL);
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(w->s, LOG, 4, 1, &w->a));
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(reader, LOG, 6, 1, &w->a));
    NEED(strstr(w->a.why, "slots 4 to 5 are gone") != NULL);
    // The handle that only had what the replica had goes on; so does one that starts afresh.
    ANSWERS(ERR_OK, &w->a, append_patiently(w, w->replicas, 4));
    struct store *fresh = place_store(&w->place);
    ANSWERS(ERR_OK, &w->a, append(w, fresh, 5));
    store_free(fresh);
    store_free(reader);
}

static void what_is_no_sentinel_or_no_name_gets_a_sentence(void **state)
{
    (void)state;
    char url[URL_MAX], places[URL_MAX / 2];
    const char *port = getenv("SLUICE_TEST_REDIS_PORT");
    (void)snprintf(places, sizeof places, "%s", getenv("SLUICE_TEST_REDIS"));
    *strstr(places, "/main") = 0;
    (void)snprintf(url, sizeof url, "%s/other/0", places);
    refused(url, ERR_INVALID, "knows no primary \"other\"");
    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%s/main", port);
    refused(url, ERR_INVALID, "is no Sentinel of ours");
    refused("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main?timeoutMs=300", ERR_UNAVAILABLE,
            "cannot connect to 127.0.0.1:2");
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%s", port);
    refused(url, ERR_INVALID, "is no server of a Redis Cluster");
    // One Sentinel that answers is enough.
    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:1,%s/main/1",
                   places + strlen("redis+sentinel://"));
    struct place one = {0};
    (void)snprintf(one.url, sizeof one.url, "%s", url);
    store_free(place_store(&one));
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(the_next_primary_is_found_and_has_what_the_replicas_had),
        WORLD_TEST(a_write_that_too_few_replicas_have_is_in_doubt),
        WORLD_TEST(what_a_promoted_replica_lacks_is_named_by_every_handle),
        cmocka_unit_test(what_is_no_sentinel_or_no_name_gets_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
