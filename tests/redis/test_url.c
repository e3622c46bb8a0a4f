// SPDX-License-Identifier: Apache-2.0
// The forms of a redis URL, and a sentence for each that is refused.
#include "store/redis/url.h"

#include "../unit/unit.h"
#include "base/memory.h"
#include "store/redis/client.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// A sanitizer has heaps of its own, and forbids to read what is freed.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#define PASSWORD_LEN 40

// The password is made byte by byte, so that this test has no copy of it.
static char password_byte(size_t i)
{
    return (char)('!' + i * 37 % 90);
}

static bool is_password(const char *at)
{
    for (size_t i = 0; i < PASSWORD_LEN; i++)
        if (at[i] != password_byte(i)) return false;
    return true;
}

static size_t copies_in_memory(void)
{
    size_t found = 0;
    char line[256];
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        char *from = NULL, *to = NULL;
        bool mine = strstr(line, "[heap]") || strstr(line, "[stack]");
        if (!mine || sscanf(line, "%p-%p", (void **)&from, (void **)&to) != 2) continue;
        for (const char *at = from; at + PASSWORD_LEN <= to; at++)
            found += is_password(at);
    }
    (void)fclose(maps);
    return found;
}

static void a_password_from_a_file_leaves_no_copy(void **state)
{
    (void)state;
#ifdef SANITIZED
    skip();
#endif
    char path[] = "/tmp/sluice-password-XXXXXX", url[200], why[240] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < PASSWORD_LEN; i++) {
        char one = password_byte(i);
        assert_int_equal(write(fd, &one, 1), 1);
    }
    (void)close(fd);
    struct redis_url u;
    (void)snprintf(url, sizeof url, "redis://h?passwordFile=%s", path);
    assert_int_equal(redis_url_parse(url, &u, why, sizeof why), ERR_OK);
    (void)mallopt(M_PERTURB, 0); // a freed block keeps its bytes
    struct redis_client *c = NEW(struct redis_client);
    assert_int_equal(redis_client_init(c, &u, why, sizeof why), ERR_OK);
    assert_true(is_password(c->password));
    assert_int_equal(copies_in_memory(), 1); // the client's own
    redis_client_done(c, true);
    memory_free(c);
    assert_int_equal(copies_in_memory(), 0);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_names_host_port_database_user_and_prefix),
        cmocka_unit_test(other_forms_are_tls_and_a_unix_socket),
        cmocka_unit_test(several_hosts_are_sentinels_or_a_cluster),
        cmocka_unit_test(a_bad_url_is_refused_with_a_sentence),
        cmocka_unit_test(a_password_from_a_file_leaves_no_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
