// SPDX-License-Identifier: Apache-2.0
// TLS that does not fit: each mistake has a sentence. Runs under with-redis --tls, and with the
// word "sentinel" under with-redis --sentinel --tls.
#include "rig.h"

#include "os/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void each_mistake_with_tls_has_a_sentence(void **state)
{
    (void)state;
    char url[URL_MAX];
    const char *port = getenv("SLUICE_TEST_REDIS_PORT"), *dir = getenv("SLUICE_TEST_REDIS_DIR");
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%s/?timeoutMs=2000", port);
    refused(url, ERR_UNAVAILABLE, "a port with TLS needs rediss://");
    (void)snprintf(url, sizeof url, "rediss://sluice@127.0.0.1:%s/?timeoutMs=2000", port);
    refused(url, ERR_DENIED, "certificate"); // the system does not know the authority
    (void)snprintf(url, sizeof url, "rediss://sluice@127.0.0.2:%s/?ca=%s/ca.pem", port, dir);
    refused(url, ERR_DENIED, "certificate"); // it is for 127.0.0.1
    (void)snprintf(url, sizeof url, "rediss://sluice@127.0.0.1:%s/?ca=%s/server.key", port, dir);
    refused(url, ERR_INVALID, "has no certificate of an authority");
    (void)snprintf(url, sizeof url, "rediss://sluice@127.0.0.1:%s/?ca=%s/ca.pem&cert=%s/ca.pem",
                   port, dir, dir);
    refused(url, ERR_INVALID, "cert and key belong together");
    (void)snprintf(url, sizeof url, "rediss://other@127.0.0.1:%s/?ca=%s/ca.pem", port, dir);
    refused(url, ERR_DENIED, "the server refused user \"other\"");
}

static void a_user_with_the_documented_rights_can_do_everything(void **state)
{
    (void)state;
    struct place p;
    struct store_answer a;
    place_make(&p, "");
    struct store *s = place_store(&p);
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 1, bytes_str("x"), &a));
    ANSWERS(ERR_OK, &a, store_wait(s, LOG, 1, 1000, &a));
    ANSWERS(ERR_OK, &a, store_check_space(s, 1, &a));
    store_answer_done(&a);
    store_free(s);
}

// The Sentinels' part of the URL, behind "://".
static void sentinels(char *to, size_t to_len)
{
    (void)snprintf(to, to_len, "%s", strstr(getenv("SLUICE_TEST_REDIS"), "://") + 3);
    *strchr(to, '/') = 0;
}

static void sentinels_and_servers_with_tls_name_the_next_primary(void **state)
{
    (void)state;
    struct place p;
    struct store_answer a;
    place_make(&p, "");
    struct store *s = place_store(&p);
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 1, bytes_str("x"), &a));
    ANSWERS(ERR_OK, &a, store_wait(s, LOG, 1, 1000, &a));
    // Another handle reads slot 1 only when the replica has it.
    (void)strncat(p.url, "&durability=replicas:1", sizeof p.url - strlen(p.url) - 1);
    struct store *replicas = place_store(&p);
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e;
    do {
        e = store_read_log(replicas, LOG, 1, 1, &a);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    ANSWERS(ERR_OK, &a, e);
    control("failover");
    do {
        e = store_append(s, LOG, 2, bytes_str("x"), &a);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    ANSWERS(ERR_OK, &a, e);
    store_answer_done(&a);
    store_free(replicas);
    store_free(s);
}

static void each_mistake_with_tls_and_sentinels_has_a_sentence(void **state)
{
    (void)state;
    char url[URL_MAX], places[URL_MAX / 2];
    const char *dir = getenv("SLUICE_TEST_REDIS_DIR");
    sentinels(places, sizeof places);
    (void)snprintf(url, sizeof url, "redis+sentinel://%s/main/1?timeoutMs=2000", places);
    refused(url, ERR_UNAVAILABLE, "a port with TLS needs rediss+sentinel://");
    (void)snprintf(url, sizeof url, "rediss+sentinel://%s/main/1?timeoutMs=2000", places);
    refused(url, ERR_DENIED, "certificate");
    (void)snprintf(url, sizeof url, "rediss+sentinel://%s/other/1?ca=%s/ca.pem", places, dir);
    refused(url, ERR_INVALID, "knows no primary \"other\"");
}

static int run_with_sentinels(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_with_tls_and_sentinels_has_a_sentence),
        cmocka_unit_test(sentinels_and_servers_with_tls_name_the_next_primary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "sentinel") == 0) return run_with_sentinels();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_with_tls_has_a_sentence),
        cmocka_unit_test(a_user_with_the_documented_rights_can_do_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
