// SPDX-License-Identifier: Apache-2.0
// A server that loses power, a disk that is full, a clock that is stepped. A kill keeps the page
// cache, so the append-only file is cut to what was synced (preload.c).
#include "rig.h"

#include "os/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR_MS 3600000

struct world {
    struct place place;
    struct store *s;
    struct store_answer a;
};

static int rounds = 4;

static void world_open(struct world *w, const char *settings)
{
    place_make(&w->place, settings);
    w->s = place_store(&w->place);
    store_answer_init(&w->a);
}

static void world_close(struct world *w)
{
    store_answer_done(&w->a);
    store_free(w->s);
}

static enum err append(struct world *w, uint64_t slot)
{
    struct bytes body = body_make(slot, 100);
    enum err e = store_append(w->s, LOG, slot, body, &w->a);
    bytes_free(body);
    return e;
}

static void at_always_a_loss_of_power_takes_nothing(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "");
    uint64_t slot = 1;
    for (int i = 0; i < rounds; i++) {
        for (uint64_t last = slot + 200; slot <= last; slot++)
            ANSWERS(ERR_OK, &w.a, append(&w, slot));
        if (i % 2) operator_does("BGREWRITEAOF");
        control("power");
    }
    ANSWERS(ERR_OK, &w.a, append(&w, slot));
    for (uint64_t at = 1; at < slot; at++) {
        ANSWERS(ERR_OK, &w.a, store_read_log(w.s, LOG, at, 1, &w.a));
        NEED(body_is(store_row_bytes(&w.a, 0), at, 100));
    }
    world_close(&w);
}

// The sync of every second may come at the last moment, so not every round loses something. In each
// round, either every slot is there, or the handle names those that are not.
static void at_everysec_a_loss_of_power_is_named(void **state)
{
    (void)state;
    int losses = 0;
    operator_does("CONFIG SET appendfsync everysec");
    for (int i = 0; losses == 0 && i < 20; i++) {
        struct world w;
        char says[100];
        world_open(&w, "&durability=everysec");
        for (uint64_t slot = 1; slot <= 200; slot++)
            ANSWERS(ERR_OK, &w.a, append(&w, slot));
        control("power");
        operator_does("CONFIG SET appendfsync everysec");
        struct store *fresh = place_store(&w.place);
        uint64_t kept = 0;
        while (kept < 200 && store_wait(fresh, LOG, kept + 1, 0, &w.a) == ERR_OK)
            kept++;
        store_free(fresh);
        enum err e = append(&w, 201);
        ANSWERS(kept == 200 ? ERR_OK : ERR_CORRUPT, &w.a, e);
        (void)snprintf(says, sizeof says, "slots %llu to 200 are gone",
                       (unsigned long long)kept + 1);
        if (e) NEED(strstr(w.a.why, says) != NULL);
        losses += e != ERR_OK;
        world_close(&w);
    }
    operator_does("CONFIG SET appendfsync always");
    NEED(losses > 0);
}

// With appendfsync always, a server that cannot write its file ends. With everysec it answers
// MISCONF.
static void a_full_disk_refuses_writes_and_loses_nothing(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, "");
    ANSWERS(ERR_OK, &w.a, append(&w, 1));
    control("full");
    enum err e = append(&w, 2);
    NEED(e == ERR_UNKNOWN || e == ERR_UNAVAILABLE);
    control("space");
    control("power");
    e = append(&w, 2); // it was not acknowledged, so it may be there or not
    NEED(e == ERR_OK || e == ERR_CONFLICT);
    ANSWERS(ERR_OK, &w.a, append(&w, 3));
    for (uint64_t slot = 1; slot <= 3; slot++)
        ANSWERS(ERR_OK, &w.a, store_read_log(w.s, LOG, slot, 1, &w.a));
    world_close(&w);

    operator_does("CONFIG SET appendfsync everysec");
    world_open(&w, "&durability=everysec");
    ANSWERS(ERR_OK, &w.a, append(&w, 1));
    control("full");
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    uint64_t slot = 2;
    do { // the first writes find no error yet
        e = append(&w, slot);
        if (e == ERR_OK) slot++;
    } while (e == ERR_OK && clock_boot_ms() < end);
    ANSWERS(ERR_UNAVAILABLE, &w.a, e);
    NEED(strstr(w.a.why, "MISCONF") != NULL);
    ANSWERS(ERR_OK, &w.a, store_read_log(w.s, LOG, 1, 1, &w.a));
    control("space");
    do {
        e = append(&w, slot);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    ANSWERS(ERR_OK, &w.a, e);
    world_close(&w);
    operator_does("CONFIG SET appendfsync always");
}

static void a_clock_that_is_stepped_never_makes_time_go_back(void **state)
{
    (void)state;
    struct world w;
    char why[STORE_WHY_MAX];
    world_open(&w, "");
    ANSWERS(ERR_OK, &w.a, append(&w, 1));
    int64_t start = w.a.time.lo;
    NEED(!store_concern(w.s, STORE_CLOCK_OFF, why));
    control("clock 3600000");
    operator_does("CLIENT KILL TYPE normal");
    ANSWERS(ERR_OK, &w.a, append(&w, 2));
    int64_t ahead = w.a.time.lo;
    NEED(ahead >= start + HOUR_MS);
    NEED(store_concern(w.s, STORE_CLOCK_OFF, why) && strstr(why, "ms from this machine's"));
    control("clock -3600000");
    operator_does("CLIENT KILL TYPE normal");
    for (uint64_t slot = 3; slot <= 5; slot++) {
        ANSWERS(ERR_OK, &w.a, append(&w, slot));
        NEED(w.a.time.lo >= ahead && w.a.time.lo < ahead + HOUR_MS);
        ahead = w.a.time.lo;
    }
    NEED(store_concern(w.s, STORE_CLOCK_OFF, why) && strstr(why, "time stands still"));
    // Another process meets the time of the log, too.
    struct store *fresh = place_store(&w.place);
    ANSWERS(ERR_OK, &w.a, store_append(fresh, LOG, 6, bytes_str("x"), &w.a));
    NEED(w.a.time.lo >= ahead);
    store_free(fresh);
    control("clock 0");
    world_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_always_a_loss_of_power_takes_nothing),
        cmocka_unit_test(at_everysec_a_loss_of_power_is_named),
        cmocka_unit_test(a_full_disk_refuses_writes_and_loses_nothing),
        cmocka_unit_test(a_clock_that_is_stepped_never_makes_time_go_back),
    };
    if (argc > 1) rounds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
