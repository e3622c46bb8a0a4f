// SPDX-License-Identifier: Apache-2.0
// A store on a Redis Cluster of three primaries: slots that move under load, and clusters that are
// refused.
#include "rig.h"

#include "os/clock.h"
#include "store/redis/client.h"
#include "store/redis/keys.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct place place;
    struct store *s;
    struct store_answer a;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    place_make(&w->place, "");
    w->s = place_store(&w->place);
    store_answer_init(&w->a);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    store_answer_done(&w->a);
    store_free(w->s);
    free(w);
    return 0;
}

static unsigned slot_of_log(const struct world *w, const char *log)
{
    struct redis_key key;
    redis_key_of(&key, w->place.prefix, 'l', log);
    return redis_slot_of(key.text);
}

// Follows the log by waits and reads.
static void *read_slots(void *arg)
{
    struct writer *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    while (!atomic_load(&me->stop) && !me->bad) {
        uint64_t slot = atomic_load(&me->done) + 1;
        enum err e = store_wait(me->s, LOG, slot, 200, &a);
        if (e == ERR_OK) e = store_read_log(me->s, LOG, slot, 1, &a);
        if (e == ERR_OK && !body_is(store_row_bytes(&a, 0), slot, 100)) e = ERR_CORRUPT;
        if (e == ERR_OK)
            atomic_store(&me->done, slot);
        else if (e == ERR_UNAVAILABLE)
            me->doubts++;
        else if (e != ERR_NOT_FOUND)
            me->bad = e;
        (void)snprintf(me->why, sizeof me->why, "%s", a.why);
    }
    store_answer_done(&a);
    return NULL;
}

static void a_log_goes_on_while_its_slot_moves(void **state)
{
    struct world *w = *state;
    struct writer writer = {.s = w->s}, reader = {.s = place_store(&w->place)};
    char word[40];
    (void)snprintf(word, sizeof word, "move %u", slot_of_log(w, LOG));
    // Objects of the shard move, too. The list must not lose one on the way.
    for (int i = 0; i < 8; i++) {
        char key[40];
        (void)snprintf(key, sizeof key, "q/id/0/o%d", i);
        ANSWERS(ERR_OK, &w->a, store_put_new(w->s, key, bytes_str("x"), &w->a));
    }
    NEED(pthread_create(&writer.thread, NULL, write_slots, &writer) == 0);
    NEED(pthread_create(&reader.thread, NULL, read_slots, &reader) == 0);
    for (int i = 0; i < 3; i++) {
        uint64_t before = atomic_load(&writer.done);
        control(word);
        wait_for_slot(&writer.done, before + 50);
        ANSWERS(ERR_OK, &w->a, store_list(w->s, "q/id/0/", NULL, 100, &w->a));
        NEED(w->a.rows_len == 8);
    }
    atomic_store(&writer.stop, true);
    (void)pthread_join(writer.thread, NULL);
    uint64_t last = atomic_load(&writer.done);
    wait_for_slot(&reader.done, last);
    atomic_store(&reader.stop, true);
    (void)pthread_join(reader.thread, NULL);
    if (writer.bad || reader.bad)
        (void)fprintf(stderr, "# %s: %s\n# %s: %s\n", err_name(writer.bad), writer.why,
                      err_name(reader.bad), reader.why);
    NEED(writer.bad == ERR_OK && reader.bad == ERR_OK);
    printf("# %llu slots, %llu attempts that were not done, %llu of the reader\n",
           (unsigned long long)last, (unsigned long long)writer.doubts,
           (unsigned long long)reader.doubts);
    store_free(reader.s);
}

static void a_list_sees_every_object_while_the_slot_moves(void **state)
{
    struct world *w = *state;
    char word[80];
    enum { OBJECTS = 30 };
    for (int i = 0; i < OBJECTS; i++) {
        (void)snprintf(word, sizeof word, "q/id/0/o%d", i);
        ANSWERS(ERR_OK, &w->a, store_put_new(w->s, word, bytes_str("x"), &w->a));
    }
    (void)snprintf(word, sizeof word, "%s move %u &", getenv("SLUICE_TEST_REDIS_CONTROL"),
                   slot_of_log(w, LOG));
    NEED(system(word) == 0);
    int64_t end = clock_boot_ms() + 1000;
    size_t lists = 0, refusals = 0;
    while (clock_boot_ms() < end) {
        enum err e = store_list(w->s, "q/id/0/", NULL, 100, &w->a);
        NEED(e == ERR_OK || e == ERR_UNAVAILABLE);
        if (e == ERR_OK) NEED(w->a.rows_len == OBJECTS);
        lists += e == ERR_OK;
        refusals += e != ERR_OK;
    }
    printf("# %zu lists, %zu refused\n", lists, refusals);
    NEED(lists > 0);
}

// Far more logs than groups of waits: some share a group with a log of another hash slot.
static void more_logs_than_connections_can_be_waited_for(void **state)
{
    struct world *w = *state;
    enum { SLEEPERS = 100 };
    struct sleeper all[SLEEPERS];
    for (int i = 0; i < SLEEPERS; i++) {
        all[i] = (struct sleeper){.s = w->s};
        (void)snprintf(all[i].log, sizeof all[i].log, "q/id/%d/log", i);
        NEED(pthread_create(&all[i].thread, NULL, sleep_in_store, &all[i]) == 0);
    }
    for (int i = 0; i < SLEEPERS; i++)
        ANSWERS(ERR_OK, &w->a, store_append(w->s, all[i].log, 1, bytes_str("x"), &w->a));
    for (int i = 0; i < SLEEPERS; i++) {
        (void)pthread_join(all[i].thread, NULL);
        NEED(all[i].e == ERR_OK);
    }
}

static void clusters_that_cannot_hold_every_key_get_a_sentence(void **state)
{
    struct world *w = *state;
    char url[URL_MAX], word[40], says[80];
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%s", getenv("SLUICE_TEST_REDIS_PORT"));
    refused(url, ERR_INVALID, "use redis+cluster://");
    unsigned slot = slot_of_log(w, LOG);
    struct place soon = w->place;
    (void)strncat(soon.url, "&timeoutMs=500", sizeof soon.url - strlen(soon.url) - 1);
    struct store *hasty = place_store(&soon);
    ANSWERS(ERR_OK, &w->a, store_append(w->s, LOG, 1, bytes_str("x"), &w->a));
    (void)snprintf(word, sizeof word, "uncover %u", slot);
    (void)snprintf(says, sizeof says, "slots %u to %u of the Redis Cluster have no server", slot,
                   slot);
    control(word);
    refused(w->place.url, ERR_UNAVAILABLE, says);
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_append(hasty, LOG, 2, bytes_str("x"), &w->a));
    NEED(strstr(w->a.why, "CLUSTERDOWN") != NULL);
    store_free(hasty);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_log_goes_on_while_its_slot_moves),
        WORLD_TEST(a_list_sees_every_object_while_the_slot_moves),
        WORLD_TEST(more_logs_than_connections_can_be_waited_for),
        WORLD_TEST(clusters_that_cannot_hold_every_key_get_a_sentence), // the last: it breaks it
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
