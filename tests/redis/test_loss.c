// SPDX-License-Identifier: Apache-2.0
// A promoted replica that lacks acknowledged messages, as a caller of the library sees it: every
// handle that knew them stops and names them, and one that starts afresh goes on.
#include "rig.h"

#include "os/clock.h"
#include "sluice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FINE(call)                                                                                 \
    do {                                                                                           \
        if (call) fail_msg("%s: %s", sluice_code_name(error.code), error.message);                 \
    } while (0)

static enum sluice_code send_one(struct sluice *s, struct sluice_error *error)
{
    struct sluice_send m = {.body = "x", .body_len = 1};
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum sluice_code code;
    do {
        code = sluice_send(s, "mail", &m, 1, NULL, NULL, error);
    } while (code == SLUICE_UNAVAILABLE && clock_boot_ms() < end);
    return code;
}

static void callers_hear_which_slots_are_gone(void **state)
{
    (void)state;
    struct place place;
    struct sluice *s, *fresh;
    struct sluice_error error = {.message = ""};
    struct sluice_setting setting = {"shards", "1"};
    place_make(&place, "");
    FINE(sluice_open(place.url, NULL, &s, &error));
    FINE(sluice_queue_create(s, "mail", &setting, 1, &error));
    FINE(send_one(s, &error));
    // The replica has what was sent so far.
    char with_replicas[URL_MAX + 40];
    (void)snprintf(with_replicas, sizeof with_replicas, "%s&durability=replicas:1", place.url);
    FINE(sluice_open(with_replicas, NULL, &fresh, &error));
    FINE(send_one(fresh, &error));
    sluice_close(fresh);
    control("hold");
    FINE(send_one(s, &error));
    FINE(send_one(s, &error));
    control("kill");
    control("release");
    control("start");
    for (int i = 0; i < 2; i++) { // the sentence stays
        assert_int_equal(send_one(s, &error), SLUICE_CORRUPT);
        if (!strstr(error.message, "are gone") || !strstr(error.message, "/log\", slots "))
            fail_msg("%s", error.message);
    }
    FINE(sluice_open(place.url, NULL, &fresh, &error));
    FINE(send_one(fresh, &error));
    sluice_close(fresh);
    sluice_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(callers_hear_which_slots_are_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
