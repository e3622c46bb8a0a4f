// SPDX-License-Identifier: Apache-2.0
// What doctor says about a queue without entries: a new one is in order, an old one may be lost.
#include "../unit/unit.h"
#include "api/handle.h"
#include "queues/queues.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct seen {
    enum sluice_health fresh, old;
};

static void note(void *ctx, const char *check, enum sluice_health health, const char *detail)
{
    struct seen *seen = ctx;
    (void)detail;
    if (strcmp(check, "queue fresh") == 0) seen->fresh = health;
    if (strcmp(check, "queue old") == 0) seen->old = health;
}

static void only_an_old_queue_without_entries_is_a_warning(void **state)
{
    (void)state;
    char path[] = "/tmp/sluice-doctor-XXXXXX", command[64];
    struct sluice *s;
    struct sluice_error error;
    struct store_answer answer;
    struct catalog_row row = {.id = {"an id of 16 byte"}, .name = "old", .created_ms = 1};
    struct seen seen = {SLUICE_FAILED, SLUICE_FAILED};
    assert_non_null(mkdtemp(path));
    assert_int_equal(sluice_open(path, NULL, &s, &error), SLUICE_OK);
    assert_int_equal(sluice_queue_create(s, "fresh", NULL, 0, &error), SLUICE_OK);
    config_defaults(&row.birth);
    store_answer_init(&answer);
    assert_int_equal(catalog_create(s->engine->store, &row, &answer), ERR_OK);
    store_answer_done(&answer);
    sluice_close(s);
    assert_int_equal(sluice_doctor(path, note, &seen, &error), SLUICE_OK);
    assert_int_equal(seen.fresh, SLUICE_PASSED);
    assert_int_equal(seen.old, SLUICE_WARNING);
    (void)snprintf(command, sizeof command, "rm -rf %s", path);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_an_old_queue_without_entries_is_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
