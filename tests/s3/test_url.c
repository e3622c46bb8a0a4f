// SPDX-License-Identifier: Apache-2.0
// What an s3:// URL means, and what is said about one that is wrong.
#include "store/s3/url.h"
#include "unit.h"

#include <string.h>

static void a_plain_url_names_bucket_and_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *url, *bucket, *prefix;
    } rows[] = {
        {"s3://bucket", "bucket", ""},
        {"s3://bucket/", "bucket", ""},
        {"s3://bucket/a", "bucket", "a"},
        {"s3://bucket/a/b/", "bucket", "a/b"},
        {"s3://my.bucket-1/a%20b/%C3%A4+c", "my.bucket-1", "a b/\xc3\xa4+c"},
        {"s3://bucket?region=eu-west-1", "bucket", ""},
        {"s3://bucket/p?region=eu-west-1", "bucket", "p"},
        {"s3://bucket/a%2Fb%3Fc%23d", "bucket", "a/b?c#d"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct s3_url u;
        char why[200] = "";
        assert_int_equal(s3_url_parse(rows[i].url, &u, why, sizeof why), ERR_OK);
        assert_string_equal(u.bucket, rows[i].bucket);
        assert_string_equal(u.prefix, rows[i].prefix);
        assert_int_equal(u.timeout_ms, S3_TIMEOUT_MS);
        assert_int_equal(u.puts_per_second, 0);
    }
}

static void every_setting_is_read(void **state)
{
    (void)state;
    struct s3_url u;
    char why[200] = "";
    assert_int_equal(
        s3_url_parse("s3://bkt/p?endpoint=http://h:1&region=eu-west-1&pathStyle=0&profile="
                     "a%20b&caBundle=/x/y.pem&maxPutsPerSecond=50&timeoutMs=1500",
                     &u, why, sizeof why),
        ERR_OK);
    assert_string_equal(u.endpoint, "http://h:1");
    assert_string_equal(u.region, "eu-west-1");
    assert_string_equal(u.profile, "a b");
    assert_string_equal(u.ca_bundle, "/x/y.pem");
    assert_int_equal(u.style, S3_STYLE_HOST);
    assert_int_equal(u.puts_per_second, 50);
    assert_int_equal(u.timeout_ms, 1500);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *url, *says;
    } rows[] = {
        {"http://bucket", "s3://"},
        {"s3://", "bucket's name"},
        {"s3:///prefix", "bucket's name"},
        {"s3://ab", "bucket's name"},
        {"s3://bu%63ket", "bucket's name"},
        {"s3://-bucket", "bucket's name"},
        {"s3://bucket:80/x", "bucket's name"},
        {"s3://user:secret@bucket/x", "keys must not be in the URL"},
        {"s3://bucket/a//b", "empty part"},
        {"s3://bucket/a/../b", "\"..\""},
        {"s3://bucket/.", "\".\""},
        {"s3://bucket/%2e%2E/b", "\"..\""},
        {"s3://bucket/%zz", "hexadecimal"},
        {"s3://bucket/%4", "hexadecimal"},
        {"s3://bucket/a%0Ab", "control"},
        {"s3://bucket/a%00b", "control"},
        {"s3://bucket/a#b", "%23"},
        {"s3://bucket?regoin=x", "\"regoin\" is not a setting"},
        {"s3://bucket?regoin=x", "endpoint, region, pathStyle, profile, caBundle"},
        {"s3://bucket?region", "region \"\""},
        {"s3://bucket?region=", "region \"\""},
        {"s3://bucket?region=a/b", "eu-west-1"},
        {"s3://bucket?endpoint=", "endpoint is empty"},
        {"s3://bucket?pathStyle=yes", "one of 0, 1"},
        {"s3://bucket?maxPutsPerSecond=-1", "maxPutsPerSecond \"-1\""},
        {"s3://bucket?maxPutsPerSecond=1.5", "whole number"},
        {"s3://bucket?timeoutMs=0", "from 1 to"},
        {"s3://bucket?timeoutMs=99999999999999999999", "from 1 to"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct s3_url u;
        char why[300] = "";
        assert_int_equal(s3_url_parse(rows[i].url, &u, why, sizeof why), ERR_INVALID);
        if (!strstr(why, rows[i].says)) print_error("%s: %s\n", rows[i].url, why);
        assert_non_null(strstr(why, rows[i].says));
        assert_null(strstr(why, "secret"));
    }
}

static void a_prefix_has_a_limit(void **state)
{
    (void)state;
    char url[700] = "s3://bucket/", why[200];
    struct s3_url u;
    memset(url + 12, 'p', S3_PREFIX_MAX);
    assert_int_equal(s3_url_parse(url, &u, why, sizeof why), ERR_OK);
    memset(url + 12, 'p', S3_PREFIX_MAX + 1);
    assert_int_equal(s3_url_parse(url, &u, why, sizeof why), ERR_INVALID);
    assert_non_null(strstr(why, "the prefix is longer than 480 bytes"));
}

static void the_place_follows_endpoint_region_and_style(void **state)
{
    (void)state;
    static const struct {
        const char *url, *endpoint, *region, *host;
        bool https, path;
    } rows[] = {
        {"s3://bucket", "", "", "bucket.s3.us-east-1.amazonaws.com", true, false},
        {"s3://bucket", "", "eu-west-1", "bucket.s3.eu-west-1.amazonaws.com", true, false},
        {"s3://bucket", "", "cn-north-1", "bucket.s3.cn-north-1.amazonaws.com.cn", true, false},
        {"s3://my.bucket", "", "eu-west-1", "s3.eu-west-1.amazonaws.com", true, true},
        {"s3://bucket?pathStyle=1", "", "eu-west-1", "s3.eu-west-1.amazonaws.com", true, true},
        {"s3://bucket", "http://127.0.0.1:8000", "", "127.0.0.1:8000", false, true},
        {"s3://bucket", "http://127.0.0.1:8000/", "", "127.0.0.1:8000", false, true},
        {"s3://bucket", "http://minio:80", "", "minio", false, true},
        {"s3://bucket", "https://minio:443", "", "minio", true, true},
        {"s3://bucket", "https://minio:80", "", "minio:80", true, true},
        {"s3://bucket", "http://[::1]:9000", "", "[::1]:9000", false, true},
        {"s3://bucket?pathStyle=0", "https://store.example", "", "bucket.store.example", true,
         false},
        {"s3://bucket", "https://s3.eu-west-1.amazonaws.com", "eu-west-1",
         "bucket.s3.eu-west-1.amazonaws.com", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct s3_url u;
        struct s3_place p;
        char why[200];
        assert_int_equal(s3_url_parse(rows[i].url, &u, why, sizeof why), ERR_OK);
        assert_int_equal(s3_place_find(&u, rows[i].endpoint, rows[i].region, &p, why, sizeof why),
                         ERR_OK);
        assert_string_equal(p.host, rows[i].host);
        assert_int_equal(p.https, rows[i].https);
        assert_int_equal(p.path_style, rows[i].path);
        assert_string_equal(p.region, rows[i].region[0] ? rows[i].region : "us-east-1");
    }
}

static void endpoints_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"127.0.0.1:8000", "ftp://h",    "http://",    "http:///x",
                                      "http://h/path",  "http://h?x", "http://h h", "https://h#x"};
    struct s3_url u;
    struct s3_place p;
    char why[200];
    assert_int_equal(s3_url_parse("s3://bucket", &u, why, sizeof why), ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(s3_place_find(&u, bad[i], "", &p, why, sizeof why), ERR_INVALID);
        assert_non_null(strstr(why, bad[i]));
    }
    assert_int_equal(s3_place_find(&u, "http://u:hunter2@h", "", &p, why, sizeof why), ERR_INVALID);
    assert_null(strstr(why, "hunter2"));
    assert_int_equal(s3_place_find(&u, "", "no region", &p, why, sizeof why), ERR_INVALID);
}

static void
a_bucket_in_another_region_moves_the_host_on_aws_and_the_signature_everywhere(void **state)
{
    (void)state;
    struct s3_url u;
    struct s3_place p;
    char why[200];
    assert_int_equal(s3_url_parse("s3://bucket", &u, why, sizeof why), ERR_OK);
    assert_int_equal(s3_place_find(&u, "", "", &p, why, sizeof why), ERR_OK);
    assert_true(s3_place_move(&p, "ap-south-1"));
    assert_string_equal(p.host, "bucket.s3.ap-south-1.amazonaws.com");
    assert_false(s3_place_move(&p, "ap-south-1")); // the one we have: sending again is no use
    assert_false(s3_place_move(&p, ""));
    assert_false(s3_place_move(&p, "evil.example/"));
    assert_int_equal(s3_place_find(&u, "http://h:1", "", &p, why, sizeof why), ERR_OK);
    assert_true(s3_place_move(&p, "ap-south-1"));
    assert_string_equal(p.host, "h:1");
    assert_string_equal(p.region, "ap-south-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_url_names_bucket_and_prefix),
        cmocka_unit_test(every_setting_is_read),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_prefix_has_a_limit),
        cmocka_unit_test(the_place_follows_endpoint_region_and_style),
        cmocka_unit_test(endpoints_that_are_none_are_refused),
        cmocka_unit_test(
            a_bucket_in_another_region_moves_the_host_on_aws_and_the_signature_everywhere),
    };
    return cmocka_run_group_tests_name("s3 urls", tests, NULL, NULL);
}
