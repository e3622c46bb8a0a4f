// SPDX-License-Identifier: Apache-2.0
// What doctor says about a Redis server: where it is, what it promises, and what still fits.
#include "rig.h"

#include "sluice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MESSAGES 2000

struct seen {
    char room[300], memory[300], durability[300], server[300];
};

static void note(void *ctx, const char *check, enum sluice_health health, const char *detail)
{
    struct seen *s = ctx;
    char *to = strcmp(check, "room") == 0         ? s->room
               : strcmp(check, "memory") == 0     ? s->memory
               : strcmp(check, "durability") == 0 ? s->durability
               : strcmp(check, "server") == 0     ? s->server
                                                  : NULL;
    (void)health;
    if (to) (void)snprintf(to, 300, "%s", detail);
}

static void examine(const char *url, struct seen *s)
{
    struct sluice_error error = {.message = ""};
    *s = (struct seen){0};
    if (sluice_doctor(url, note, s, &error)) fail_msg("%s", error.message);
}

static void send_many(const char *url)
{
    struct sluice_error error = {.message = ""};
    struct sluice *s;
    static char body[300];
    struct sluice_send all[100];
    memset(body, 'x', sizeof body);
    for (size_t i = 0; i < 100; i++)
        all[i] = (struct sluice_send){.body = body, .body_len = sizeof body};
    if (sluice_open(url, NULL, &s, &error)) fail_msg("%s", error.message);
    if (sluice_queue_create(s, "mail", NULL, 0, &error)) fail_msg("%s", error.message);
    for (int i = 0; i < MESSAGES / 100; i++)
        if (sluice_send(s, "mail", all, 100, NULL, NULL, &error)) fail_msg("%s", error.message);
    sluice_close(s);
}

static void doctor_says_how_many_messages_still_fit(void **state)
{
    (void)state;
    struct place p;
    struct seen seen;
    long long fit = 0, each = 0;
    place_make(&p, "");
    examine(p.url, &seen);
    assert_non_null(strstr(seen.memory, "without a limit"));
    assert_string_equal(seen.room, "");
    assert_non_null(strstr(seen.server, "Redis "));
    assert_non_null(strstr(seen.durability, "always: the server syncs each write"));
    operator_does("CONFIG SET maxmemory 100mb");
    examine(p.url, &seen);
    assert_non_null(strstr(seen.room, "at 500 bytes each (a body of 300 bytes)"));
    send_many(p.url);
    examine(p.url, &seen);
    assert_int_equal(sscanf(seen.room, "about %lld more messages fit, at %lld bytes", &fit, &each),
                     2);
    assert_non_null(strstr(seen.room, "as the messages that are stored now"));
    assert_in_range(each, 300, 3000);
    assert_in_range(fit * each, 50LL << 20, 100LL << 20);
    operator_does("CONFIG SET maxmemory 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(doctor_says_how_many_messages_still_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
