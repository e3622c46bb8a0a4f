// SPDX-License-Identifier: Apache-2.0
// Over TLS, with an authority of the test's own (with-radosgw --tls).
#include "bucket_rig.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char ca[512];

static void use(const char *settings, enum err want, const char *says)
{
    char url[1200];
    struct store_answer a;
    store_answer_init(&a);
    (void)snprintf(url, sizeof url, "%s/tls%s", getenv("SLUICE_TEST_S3"), settings);
    struct store *s = rig_open(url, NULL);
    ANSWERS(want, &a, store_put(s, "key", bytes_str("x"), &a));
    if (want == ERR_OK) ANSWERS(ERR_OK, &a, store_get(s, "key", 0, SIZE_MAX, &a));
    if (says) assert_non_null(strstr(a.why, says));
    store_free(s);
    store_answer_done(&a);
}

static void an_authority_named_in_the_environment_is_trusted(void **state)
{
    (void)state;
    assert_non_null(strstr(getenv("AWS_ENDPOINT_URL_S3"), "https://"));
    (void)setenv("AWS_CA_BUNDLE", ca, 1);
    use("", ERR_OK, NULL);
}

static void an_authority_named_in_the_url_is_trusted(void **state)
{
    (void)state;
    char settings[600];
    (void)unsetenv("AWS_CA_BUNDLE");
    (void)snprintf(settings, sizeof settings, "?caBundle=%s", ca);
    use(settings, ERR_OK, NULL);
}

static void an_unknown_authority_is_refused_before_anything_is_sent(void **state)
{
    (void)state;
    (void)unsetenv("AWS_CA_BUNDLE");
    use("?timeoutMs=20000", ERR_UNAVAILABLE, "certificate");
}

static void a_bundle_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct store *s = NULL;
    char why[STORE_WHY_MAX] = "";
    assert_int_equal(store_s3_open("s3://bucket?caBundle=/no/such/file", &s, why, sizeof why),
                     ERR_INVALID);
    assert_non_null(strstr(why, "/no/such/file"));
}

int main(void)
{
    const char *bundle = getenv("AWS_CA_BUNDLE");
    if (!bundle || !getenv("SLUICE_TEST_S3")) {
        (void)printf("1..0 # SKIP run by with-radosgw --tls\n");
        return 77;
    }
    (void)snprintf(ca, sizeof ca, "%s", bundle);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_authority_named_in_the_environment_is_trusted),
        cmocka_unit_test(an_authority_named_in_the_url_is_trusted),
        cmocka_unit_test(an_unknown_authority_is_refused_before_anything_is_sent),
        cmocka_unit_test(a_bundle_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests_name("s3 over tls", tests, NULL, NULL);
}
