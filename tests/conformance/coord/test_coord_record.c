// SPDX-License-Identifier: Apache-2.0
// The stored records, and the form of a backend's URL.
#include "world.h"

#include "coord/credentials.h"
#include "coord/kv/endpoints.h"
#include "coord/record.h"
#include "os/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_member_record_comes_back(void **state)
{
    (void)state;
    struct coord_member m = member_of("node-1.example", "secret"), back;
    struct buf text;
    m.capacity = UINT32_MAX;
    (void)snprintf(m.settings, sizeof m.settings, "lease=5s moves=auto");
    buf_init(&text, 4096);
    member_print(&m, &text);
    NEED(!text.bad);
    NEED(member_parse(buf_bytes(&text), &back));
    NEED(memcmp(&m, &back, sizeof m) == 0);
    buf_done(&text);
}

#define HASH  "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define STORE "00112233445566778899aabbccddeeff"
#define RECORD(v, name, url, capacity, rules_lo, hash, rest)                                       \
    "{\"v\":" v ",\"name\":\"" name "\",\"url\":\"" url "\",\"capacity\":" capacity                \
    ",\"version\":\"1\",\"rulesMin\":" rules_lo ",\"rulesMax\":1,\"incarnationSha256\":\"" hash    \
    "\"" rest "}"
#define STORED ",\"store\":\"" STORE "\",\"settings\":\"\""
#define REST   STORED ",\"leaving\":false,\"beats\":true"

static void a_damaged_member_record_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"v\":1}",
        RECORD("2", "a", "u", "1", "1", HASH, REST),
        RECORD("1", "a/b", "u", "1", "1", HASH, REST),
        RECORD("1", "a", "u", "-1", "1", HASH, REST),
        RECORD("1", "a", "u", "1", "2", HASH, REST),
        RECORD("1", "a", "u", "1", "1", "00", REST),
        RECORD("1", "a", "u\\u0000", "1", "1", HASH, REST),
        RECORD("1", "a", "u", "1", "1", HASH, ",\"leaving\":false,\"beats\":true"), // no store
        RECORD("1", "a", "u", "1", "1", HASH, ",\"store\":\"00\",\"leaving\":false,\"beats\":true"),
        RECORD("1", "a", "u", "1", "1", HASH, STORED ",\"beats\":true"),
        RECORD("1", "a", "u", "1", "1", HASH, STORED ",\"leaving\":0,\"beats\":true"),
    };
    static const char good[] = RECORD("1", "a", "u", "1", "1", HASH, REST ",\"newer\":[1]");
    struct coord_member m;
    NEED(member_parse(bytes_str(good), &m));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        NEED(!member_parse(bytes_str(bad[i]), &m));
        NEED(m.name[0] == 0);
    }
}

static void a_holder_record_comes_back(void **state)
{
    (void)state;
    struct holder_record h = {.session = "00000000000000000007"}, back;
    struct buf text;
    struct coord_member m = member_of("n", "n");
    memcpy(h.holder.name, m.name, sizeof m.name);
    memcpy(h.holder.incarnation, m.incarnation, sizeof m.incarnation);
    h.holder.token = COORD_TOKEN_MAX;
    buf_init(&text, 4096);
    holder_print(&h, &text);
    NEED(holder_parse(buf_bytes(&text), &back));
    NEED(memcmp(&h, &back, sizeof h) == 0);
    for (size_t cut = 0; cut < text.len; cut++)
        NEED(!holder_parse(bytes_of(text.data, cut), &back));
    buf_done(&text);
}

static void an_unknown_backend_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    char why[COORD_WHY_MAX];
    static const char *const bad[] = {"", "zookeeper://h", "etcd:", "store", "redis://h:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct coord *c = NULL;
        why[0] = 0;
        NEED(coord_open(bad[i], NULL, &c, why) == ERR_INVALID);
        NEED(c == NULL && strstr(why, "is no coordination backend: use one of store:"));
    }
    NEED(coord_check_url("store:x", why) == ERR_INVALID && strstr(why, "takes none"));
    NEED(coord_check_url("store:", why) == ERR_OK);
}

static void hosts_are_parsed_and_credentials_in_a_url_refused(void **state)
{
    (void)state;
    char why[COORD_WHY_MAX];
    static const char *const good[] = {"h", "h:1", "h1,h2:2,[::1]:3", "h/prefix", "h,i/a/b.c"};
    static const char *const bad[] = {"",    ",",  "h,",    "h:",   "h:x",  "h:123456", ":1",
                                      "h i", "h/", "h/a//", "[::1", "h/..", "h/a?b",    "h#"};
    struct endpoints e = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        NEED(endpoints_parse(&e, good[i], false, 2379, why) == ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why[0] = 0;
        NEED(endpoints_parse(&e, bad[i], false, 2379, why) == ERR_INVALID && why[0]);
    }
    NEED(endpoints_parse(&e, "h1,h2:2,[::1]:3/p", true, 2379, why) == ERR_OK);
    NEED(e.len == 3 && strcmp(e.base[0], "https://h1:2379") == 0);
    NEED(strcmp(e.base[2], "https://[::1]:3") == 0 && strcmp(e.prefix, "p/") == 0);
    NEED(coord_check_url("etcd://root:secret@h", why) == ERR_INVALID);
    NEED(strstr(why, "credentials") && !strstr(why, "secret"));
}

static const char *const variables[] = {"SLUICE_COORD_USER",       "SLUICE_COORD_PASSWORD",
                                        "SLUICE_COORD_TOKEN",      "SLUICE_COORD_PASSWORD_FILE",
                                        "SLUICE_COORD_TOKEN_FILE", "SLUICE_COORD_CA_FILE"};

static void clear_variables(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        (void)unsetenv(variables[i]);
}

static void credentials_come_from_variables_or_files(void **state)
{
    (void)state;
    char dir[SCRATCH_MAX], path[SCRATCH_MAX + 16], why[COORD_WHY_MAX] = "";
    struct coord_credentials c;
    struct coord_config config = {0};
    clear_variables();
    scratch_make(dir);
    scratch_path(path, sizeof path, dir, "secret");
    NEED(coord_credentials_read(&c, why) == ERR_OK);
    coord_credentials_use(&c, &config);
    NEED(!config.user && !config.password && !config.token && !config.ca_file);
    NEED(file_write(path, bytes_str("from-a-file\n")) == 0);
    (void)setenv("SLUICE_COORD_USER", "root", 1);
    (void)setenv("SLUICE_COORD_PASSWORD_FILE", path, 1);
    (void)setenv("SLUICE_COORD_TOKEN", "a-token", 1);
    NEED(coord_credentials_read(&c, why) == ERR_OK);
    coord_credentials_use(&c, &config);
    NEED(strcmp(config.user, "root") == 0 && strcmp(config.password, "from-a-file") == 0);
    NEED(strcmp(config.token, "a-token") == 0);
    coord_credentials_done(&c);
    (void)setenv("SLUICE_COORD_TOKEN_FILE", path, 1);
    NEED(coord_credentials_read(&c, why) == ERR_INVALID && strstr(why, "are both set"));
    clear_variables();
    (void)setenv("SLUICE_COORD_TOKEN_FILE", "/no/such/file", 1);
    NEED(coord_credentials_read(&c, why) == ERR_INVALID && strstr(why, "cannot read"));
    clear_variables();
    (void)setenv("SLUICE_COORD_TOKEN", "a\nb", 1);
    NEED(coord_credentials_read(&c, why) == ERR_INVALID && strstr(why, "not printable"));
    clear_variables();
    (void)setenv("SLUICE_COORD_PASSWORD", "p", 1);
    NEED(coord_credentials_read(&c, why) == ERR_INVALID &&
         strstr(why, "without SLUICE_COORD_USER"));
    clear_variables();
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_record_comes_back),
        cmocka_unit_test(a_damaged_member_record_is_refused),
        cmocka_unit_test(a_holder_record_comes_back),
        cmocka_unit_test(hosts_are_parsed_and_credentials_in_a_url_refused),
        cmocka_unit_test(credentials_come_from_variables_or_files),
        cmocka_unit_test(an_unknown_backend_is_refused_with_the_known_ones),
    };
    return cmocka_run_group_tests_name("coord record", tests, NULL, NULL);
}
