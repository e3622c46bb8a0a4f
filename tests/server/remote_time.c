// SPDX-License-Identifier: Apache-2.0
// How long calls by way of a node last when the node does not do its part: their timeout, and a
// little. Beside that a receive lasts as long as it was to wait.
#include "../unit/unit.h"
#include "imposter.h"
#include "os/clock.h"
#include "sluice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 700
#define LITTLE_MS  6000 // a second so that a node can still say why, and a busy machine
#define WAIT_MS    400
#define PARTS      12 // so many timeouts would be longer

struct served_call {
    struct imposter *node;
    struct sluice *s;
    int64_t began;
};

static void arrive(struct served_call *g, enum manner manner)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_options options = {.timeout_ms = TIMEOUT_MS};
    g->node = imposter_start("127.0.0.1:0", manner);
    if (sluice_open(imposter_url(g->node), &options, &g->s, &error)) fail_msg("%s", error.message);
    g->began = clock_boot_ms();
}

static void leave(struct served_call *g, const char *what, int64_t wait_ms)
{
    int64_t took = clock_boot_ms() - g->began;
    if (took > TIMEOUT_MS + LITTLE_MS + wait_ms) fail_msg("%s took %" PRId64 " ms", what, took);
    sluice_close(g->s);
    imposter_stop(g->node);
}

static const enum manner settings[] = {STALLS, TRICKLES, RESETS};
#define SETTINGS (sizeof settings / sizeof *settings)

static void a_send_ends_in_time_and_says_that_it_does_not_know(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct served_call g;
        struct sluice_sent sent;
        struct sluice_send message = {.body = "x", .body_len = 1};
        arrive(&g, settings[i]);
        assert_int_equal(sluice_send(g.s, "tasks", &message, 1, NULL, &sent, NULL), SLUICE_UNKNOWN);
        assert_int_equal(sent.code, SLUICE_UNKNOWN);
        leave(&g, "a send", 0);
    }
}

static void a_send_of_many_parts_has_one_timeout(void **state)
{
    (void)state;
    static const enum manner still[] = {STALLS, UNHEARING_LATER};
    size_t len = (size_t)7 << 20;
    char *large = calloc(1, len);
    struct sluice_send messages[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        messages[i] = (struct sluice_send){.body = large, .body_len = len};
    for (size_t i = 0; i < sizeof still / sizeof *still; i++) {
        struct served_call g;
        struct sluice_sent sent[PARTS];
        arrive(&g, still[i]);
        assert_int_equal(sluice_send(g.s, "tasks", messages, PARTS, NULL, sent, NULL),
                         SLUICE_UNKNOWN);
        assert_int_equal(sent[PARTS - 1].code, SLUICE_UNAVAILABLE); // it was never asked for
        leave(&g, "a send of many parts", 0);
    }
    free(large);
}

static void a_receive_ends_when_its_wait_and_its_time_are_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct served_call g;
        struct sluice_batch *batch = NULL;
        struct sluice_receive ask = {.max = 1, .wait_ms = WAIT_MS};
        arrive(&g, settings[i]);
        assert_int_equal(sluice_receive(g.s, "tasks", &ask, &batch, NULL), SLUICE_UNKNOWN);
        assert_null(batch);
        leave(&g, "a receive", WAIT_MS);
    }
}

static void an_ack_ends_in_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct served_call g;
        struct sluice_outcome outcome;
        const char *token = "ea4154a8-0-1-f3e70403bf0c3562b82a2854ef12641f";
        arrive(&g, settings[i]);
        assert_int_equal(sluice_ack(g.s, "tasks", &token, 1, &outcome, NULL), SLUICE_UNKNOWN);
        leave(&g, "an ack", 0);
    }
}

static void a_look_ends_in_time_and_had_no_effect(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct served_call g;
        struct sluice_stats stats;
        arrive(&g, settings[i]);
        assert_int_equal(sluice_stats(g.s, "tasks", &stats, NULL), SLUICE_UNAVAILABLE);
        leave(&g, "a look", 0);
    }
}

static void opening_a_node_that_never_answers_ends_in_time(void **state)
{
    (void)state;
    static const enum manner never[] = {SILENT, UNHEARING};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        struct sluice *s = NULL;
        struct sluice_options options = {.timeout_ms = TIMEOUT_MS};
        struct imposter *node = imposter_start("127.0.0.1:0", never[i]);
        int64_t began = clock_boot_ms();
        assert_int_equal(sluice_open(imposter_url(node), &options, &s, NULL), SLUICE_UNAVAILABLE);
        assert_true(clock_boot_ms() - began < TIMEOUT_MS + LITTLE_MS);
        imposter_stop(node);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_ends_in_time_and_says_that_it_does_not_know),
        cmocka_unit_test(a_send_of_many_parts_has_one_timeout),
        cmocka_unit_test(a_receive_ends_when_its_wait_and_its_time_are_over),
        cmocka_unit_test(an_ack_ends_in_time),
        cmocka_unit_test(a_look_ends_in_time_and_had_no_effect),
        cmocka_unit_test(opening_a_node_that_never_answers_ends_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
