// SPDX-License-Identifier: Apache-2.0
// TLS that does not fit: each mistake has a sentence. Runs under with-redis --tls.
#include "rig.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_with_tls_has_a_sentence),
        cmocka_unit_test(a_user_with_the_documented_rights_can_do_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
