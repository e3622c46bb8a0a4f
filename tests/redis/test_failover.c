// SPDX-License-Identifier: Apache-2.0
// A Redis Cluster in which the replica of a killed primary takes over. Runs under with-redis
// --cluster --replicas.
#include "rig.h"

#include "os/clock.h"
#include "store/redis/client.h"
#include "store/redis/keys.h"

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

static void control_slot(const struct world *w, const char *word)
{
    char line[60];
    struct redis_key key;
    redis_key_of(&key, w->place.prefix, 'l', LOG);
    (void)snprintf(line, sizeof line, "%s %u", word, redis_slot_of(key.text));
    control(line);
}

static void append(struct world *w, uint64_t slot)
{
    struct bytes body = body_make(slot, 100);
    ANSWERS(ERR_OK, &w->a, store_append(w->s, LOG, slot, body, &w->a));
    bytes_free(body);
}

// Until the replica has taken over, a call is UNAVAILABLE and may be made again.
static enum err append_patiently(struct world *w, struct store *s, uint64_t slot)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e;
    do {
        e = store_append(s, LOG, slot, bytes_str("x"), &w->a);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    return e;
}

static void read_all(struct world *w, struct store *s, uint64_t last)
{
    for (uint64_t slot = 1; slot <= last; slot++) {
        ANSWERS(ERR_OK, &w->a, store_read_log(s, LOG, slot, 1, &w->a));
        NEED(body_is(store_row_bytes(&w->a, 0), slot, 100));
    }
}

// The writer checks each outcome: done, unavailable or in doubt.
static void a_killed_primary_is_replaced_and_loses_nothing_that_its_replica_had(void **state)
{
    struct world *w = *state;
    struct writer writer = {.s = w->replicas};
    NEED(pthread_create(&writer.thread, NULL, write_slots, &writer) == 0);
    wait_for_slot(&writer.done, 50);
    control_slot(w, "failover");
    control("start"); // the killed server is the replica now
    wait_for_slot(&writer.done, atomic_load(&writer.done) + 50);
    atomic_store(&writer.stop, true);
    (void)pthread_join(writer.thread, NULL);
    uint64_t last = atomic_load(&writer.done);
    if (writer.bad) (void)fprintf(stderr, "# %s: %s\n", err_name(writer.bad), writer.why);
    NEED(writer.bad == ERR_OK);
    NEED(writer.doubts > 0); // the kill met it
    printf("# %llu slots, %llu attempts that were not done\n", (unsigned long long)last,
           (unsigned long long)writer.doubts);
    read_all(w, w->s, last);
    append(w, last + 1);
}

static void what_the_replica_of_a_killed_primary_lacks_is_named_by_every_handle(void **state)
{
    struct world *w = *state;
    struct store *reader = place_store(&w->place);
    for (uint64_t slot = 1; slot <= 3; slot++)
        append(w, slot);
    // Once the replicas have slot 3, it can be read.
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e;
    do {
        e = store_read_log(w->replicas, LOG, 3, 1, &w->a);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    ANSWERS(ERR_OK, &w->a, e);
    control_slot(w, "hold");
    for (uint64_t slot = 4; slot <= 6; slot++)
        append(w, slot);
    ANSWERS(ERR_OK, &w->a, store_read_log(reader, LOG, 5, 1, &w->a));
    control_slot(w, "kill");
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_append(w->replicas, LOG, 7, bytes_str("x"), &w->a));
    control_slot(w, "release");
    ANSWERS(ERR_CORRUPT, &w->a, append_patiently(w, w->s, 7));
    NEED(strstr(w->a.why, "in \"" LOG "\", slots 4 to 6 are gone") != NULL);
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(reader, LOG, 6, 1, &w->a));
    NEED(strstr(w->a.why, "slots 4 to 5 are gone") != NULL);
    // A handle that starts afresh goes on with what is stored.
    struct store *fresh = place_store(&w->place);
    ANSWERS(ERR_OK, &w->a, append_patiently(w, fresh, 4));
    store_free(fresh);
    store_free(reader);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_killed_primary_is_replaced_and_loses_nothing_that_its_replica_had),
        WORLD_TEST(what_the_replica_of_a_killed_primary_lacks_is_named_by_every_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
