// SPDX-License-Identifier: Apache-2.0
// The stored records, and the form of a backend's URL.
#include "world.h"

#include "coord/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_member_record_comes_back(void **state)
{
    (void)state;
    struct coord_member m = member_of("node-1.example", "secret"), back;
    struct buf text;
    m.capacity = UINT32_MAX;
    buf_init(&text, 4096);
    member_print(&m, &text);
    NEED(!text.bad);
    NEED(member_parse(buf_bytes(&text), &back));
    NEED(memcmp(&m, &back, sizeof m) == 0);
    buf_done(&text);
}

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void a_damaged_member_record_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"v\":1}",
        "{\"v\":2,\"name\":\"a\",\"url\":\"u\",\"capacity\":1,\"version\":\"1\",\"rulesMin\":1,"
        "\"rulesMax\":1,\"incarnationSha256\":\"" HASH "\"}",
        "{\"v\":1,\"name\":\"a/b\",\"url\":\"u\",\"capacity\":1,\"version\":\"1\",\"rulesMin\":1,"
        "\"rulesMax\":1,\"incarnationSha256\":\"" HASH "\"}",
        "{\"v\":1,\"name\":\"a\",\"url\":\"u\",\"capacity\":-1,\"version\":\"1\",\"rulesMin\":1,"
        "\"rulesMax\":1,\"incarnationSha256\":\"" HASH "\"}",
        "{\"v\":1,\"name\":\"a\",\"url\":\"u\",\"capacity\":1,\"version\":\"1\",\"rulesMin\":2,"
        "\"rulesMax\":1,\"incarnationSha256\":\"" HASH "\"}",
        "{\"v\":1,\"name\":\"a\",\"url\":\"u\",\"capacity\":1,\"version\":\"1\",\"rulesMin\":1,"
        "\"rulesMax\":1,\"incarnationSha256\":\"00\"}",
        "{\"v\":1,\"name\":\"a\",\"url\":\"u\\u0000\",\"capacity\":1,\"version\":\"1\","
        "\"rulesMin\":1,\"rulesMax\":1,\"incarnationSha256\":\"" HASH "\"}",
    };
    static const char good[] =
        "{\"v\":1,\"name\":\"a\",\"url\":\"u\",\"capacity\":1,\"version\":\"1\",\"rulesMin\":1,"
        "\"rulesMax\":1,\"incarnationSha256\":\"" HASH "\",\"newer\":[1]}";
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_record_comes_back),
        cmocka_unit_test(a_damaged_member_record_is_refused),
        cmocka_unit_test(a_holder_record_comes_back),
        cmocka_unit_test(an_unknown_backend_is_refused_with_the_known_ones),
    };
    return cmocka_run_group_tests_name("coord record", tests, NULL, NULL);
}
