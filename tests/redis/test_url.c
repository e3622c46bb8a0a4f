// SPDX-License-Identifier: Apache-2.0
// The forms of a redis URL, and a sentence for each that is refused.
#include "store/redis/url.h"

#include "../unit/unit.h"

#include <string.h>

static void a_url_names_host_port_database_user_and_prefix(void **state)
{
    (void)state;
    struct redis_url u;
    char why[240] = "";
    assert_int_equal(redis_url_parse("redis://bob@example.org:7000/3?prefix=team:a&timeoutMs=250",
                                     &u, why, sizeof why),
                     ERR_OK);
    assert_string_equal(u.places[0].host, "example.org");
    assert_string_equal(u.places[0].port, "7000");
    assert_string_equal(u.user, "bob");
    assert_string_equal(u.prefix, "team:a");
    assert_true(u.db == 3 && u.timeout_ms == 250 && !u.tls && u.durability == REDIS_ALWAYS);
    assert_int_equal(redis_url_parse("redis://[::1]", &u, why, sizeof why), ERR_OK);
    assert_string_equal(u.places[0].host, "::1");
    assert_string_equal(u.places[0].port, "6379");
    assert_string_equal(u.prefix, "sluice");
}

static void other_forms_are_tls_and_a_unix_socket(void **state)
{
    (void)state;
    struct redis_url u;
    char why[240] = "";
    assert_int_equal(
        redis_url_parse("rediss://h/?ca=/a.pem&cert=/b.pem&key=/c.pem", &u, why, sizeof why),
        ERR_OK);
    assert_true(u.tls);
    assert_string_equal(u.key, "/c.pem");
    assert_int_equal(redis_url_parse("redis+unix:///run/redis.sock?db=2&durability=everysec", &u,
                                     why, sizeof why),
                     ERR_OK);
    assert_string_equal(u.path, "/run/redis.sock");
    assert_true(u.db == 2 && u.durability == REDIS_EVERYSEC && u.places_len == 0);
}

static void several_hosts_are_sentinels_or_a_cluster(void **state)
{
    (void)state;
    struct redis_url u;
    char why[240] = "", text[REDIS_DURABILITY_MAX];
    assert_int_equal(
        redis_url_parse("redis+sentinel://bob@a,[::1]:7,c/main/2?durability=replicas:2", &u, why,
                        sizeof why),
        ERR_OK);
    assert_true(u.form == REDIS_SENTINEL && u.places_len == 3 && u.db == 2 && u.replicas == 2);
    assert_string_equal(u.name, "main");
    assert_string_equal(u.user, "bob");
    assert_string_equal(u.places[0].port, "26379");
    assert_string_equal(u.places[1].host, "::1");
    assert_string_equal(u.places[1].port, "7");
    redis_durability_text(&u, text);
    assert_string_equal(text, "replicas:2");
    assert_int_equal(redis_url_parse("rediss+cluster://a:1,b", &u, why, sizeof why), ERR_OK);
    assert_true(u.form == REDIS_CLUSTER && u.tls && u.places_len == 2);
    assert_string_equal(u.places[1].port, "6379");
}

static void a_bad_url_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *url, *says;
    } rows[] = {
        {"redis://user:secret@host/0", "a password must not be in the URL"},
        {"redis://:secret@host/0", "a password must not be in the URL"},
        {"redis://host/0?password=secret", "a password must not be in the URL"},
        {"redis://", "is not a host"},
        {"redis://a b", "is not a host"},
        {"redis://h:0", "port \"0\" is not a whole number from 1 to 65535"},
        {"redis://h:99999", "port"},
        {"redis://h/x", "database \"x\" is not a whole number"},
        {"redis://h/-1", "database"},
        {"redis://h?prefix={a}", "prefix \"{a}\" is not made of"},
        {"redis://h?prefix=", "prefix \"\""},
        {"redis://h?durability=sometimes", "is not one of always, everysec, replicas:N, none"},
        {"redis://h?durability=replicas:0", "replicas \"0\" is not a whole number from 1 to 100"},
        {"redis://h?durability=replicas:", "replicas \"\""},
        {"redis://h?durability=replicas", "is not one of"},
        {"redis://h?timeoutMs=0", "timeoutMs \"0\""},
        {"redis://h?timeout=5", "\"timeout\" is not a setting of a redis URL"},
        {"redis://h?ca=/x", "need TLS: use rediss://"},
        {"rediss://h?cert=/x", "belong together"},
        {"redis://h#x", "%23"},
        {"redis+unix://relative", "absolute path"},
        {"redis+sentinel://a,b", "needs the name of the primary"},
        {"redis+sentinel://a,b//0", "needs the name of the primary"},
        {"redis+sentinel://a,,b/name", "is not a host"},
        {"redis+sentinel://a:secret@b,c/name", "a password must not be in the URL"},
        {"redis+sentinel://a/name/x", "database \"x\""},
        {"redis+cluster://a,b/1", "database \"1\" is not 0"},
        {"redis+cluster://", "is not a host"},
        {"redis+cluster://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "at most 16 hosts"},
        {"redis://a,b/0", "one host"},
        {"http://h", "does not start with redis://"},
    };
    struct redis_url u;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char why[240] = "";
        assert_int_equal(redis_url_parse(rows[i].url, &u, why, sizeof why), ERR_INVALID);
        if (!strstr(why, rows[i].says)) fail_msg("%s: %s", rows[i].url, why);
        assert_null(strstr(why, "secret"));
    }
    char url[300] = "redis://h?prefix=", why[240] = "";
    memset(url + strlen(url), 'p', REDIS_PREFIX_MAX + 1);
    assert_int_equal(redis_url_parse(url, &u, why, sizeof why), ERR_INVALID);
    assert_non_null(strstr(why, "prefix has 101 bytes; it may have 100"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_names_host_port_database_user_and_prefix),
        cmocka_unit_test(other_forms_are_tls_and_a_unix_socket),
        cmocka_unit_test(several_hosts_are_sentinels_or_a_cluster),
        cmocka_unit_test(a_bad_url_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
