// SPDX-License-Identifier: Apache-2.0
// The table of outcomes, row by row, and the limits of a reply.
#include "../unit/unit.h"
#include "store/redis/client.h"
#include "store/redis/facts.h"
#include "store/redis/outcome.h"
#include "store/redis/resp.h"

#include <stdio.h>
#include <string.h>

static void each_error_has_one_outcome(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum err write, read;
        enum redis_step step;
    } rows[] = {
        {"LOADING Redis is loading", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_AGAIN},
        {"BUSY Redis is busy", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_AGAIN},
        {"TRYAGAIN x", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_AGAIN},
        {"MASTERDOWN x", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_AGAIN},
        {"CLUSTERDOWN x", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_AGAIN},
        {"MISCONF x", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_FINAL},
        {"NOREPLICAS x", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_FINAL},
        {"READONLY x", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_MOVE},
        {"OOM command not allowed", ERR_LIMIT, ERR_LIMIT, REDIS_FINAL},
        {"-OOM command not allowed", ERR_LIMIT, ERR_LIMIT, REDIS_FINAL},
        {"NOAUTH x", ERR_DENIED, ERR_DENIED, REDIS_FINAL},
        {"WRONGPASS x", ERR_DENIED, ERR_DENIED, REDIS_FINAL},
        {"NOPERM x", ERR_DENIED, ERR_DENIED, REDIS_FINAL},
        {"ERR The user executing the script can't run this", ERR_DENIED, ERR_DENIED, REDIS_FINAL},
        {"NOSCRIPT x", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_RELOAD},
        {"WRONGTYPE x", ERR_CORRUPT, ERR_CORRUPT, REDIS_FINAL},
        {"FOREIGN x", ERR_CORRUPT, ERR_CORRUPT, REDIS_FINAL},
        {"MOVED 1 h:1", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_FOLLOW},
        {"ASK 1 h:1", ERR_UNAVAILABLE, ERR_UNAVAILABLE, REDIS_FOLLOW},
        {"CROSSSLOT x", ERR_DENIED, ERR_DENIED, REDIS_FINAL},
        {"ERR what", ERR_UNKNOWN, ERR_UNAVAILABLE, REDIS_FINAL},
        {"OOMPH", ERR_UNKNOWN, ERR_UNAVAILABLE, REDIS_FINAL},
        {"", ERR_UNKNOWN, ERR_UNAVAILABLE, REDIS_FINAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct redis_class write = redis_classify(rows[i].text, true);
        struct redis_class read = redis_classify(rows[i].text, false);
        if (write.err != rows[i].write || read.err != rows[i].read || write.step != rows[i].step)
            fail_msg("%s: %s %s", rows[i].text, err_name(write.err), err_name(read.err));
    }
    assert_int_equal(redis_unanswered(true, true), ERR_UNKNOWN);
    assert_int_equal(redis_unanswered(true, false), ERR_UNAVAILABLE);
    assert_int_equal(redis_unanswered(false, true), ERR_UNAVAILABLE);
}

static enum resp_step parse(const char *text, size_t len, struct resp **out)
{
    struct resp_reader *r = resp_reader_new();
    enum resp_step step = RESP_MORE;
    for (size_t i = 0; i < len && step == RESP_MORE; i++) { // a byte at a time
        resp_reader_feed(r, bytes_of(text + i, 1));
        step = resp_reader_next(r, out);
    }
    resp_reader_free(r);
    return step;
}

static void replies_of_all_kinds_are_read(void **state)
{
    (void)state;
    static const char text[] = "*5\r\n$2\r\nab\r\n:42\r\n$-1\r\n*1\r\n+OK\r\n-ERR no\r\n";
    struct resp *r;
    assert_int_equal(parse(text, sizeof text - 1, &r), RESP_ONE);
    assert_true(r->kind == RESP_LIST && r->len == 5);
    assert_string_equal(resp_item(r, 0)->text, "ab");
    assert_int_equal(resp_number(resp_item(r, 1)), 42);
    assert_int_equal(resp_item(r, 2)->kind, RESP_NIL);
    assert_string_equal(resp_item(resp_item(r, 3), 0)->text, "OK");
    assert_int_equal(resp_item(r, 4)->kind, RESP_ERROR);
    assert_int_equal(resp_item(r, 9)->kind, RESP_NIL);
    assert_int_equal(resp_number(resp_item(r, 0)), -1);
    resp_free(r);
}

static void replies_over_a_limit_and_other_bytes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"HTTP/1.1 400 Bad Request\r\n",
                                      "*2147483647\r\n",
                                      "*65537\r\n",
                                      "*-7\r\n",
                                      "\x15\x03\x01",
                                      "*1\r\n?\r\n"};
    struct resp *r = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(bad[i], strlen(bad[i]), &r) != RESP_BAD) fail_msg("%s was read", bad[i]);
}

static void fields_of_info_are_found_at_the_start_of_a_line(void **state)
{
    (void)state;
    struct bytes info =
        bytes_str("# Memory\r\nxused_memory:1\r\nused_memory:77\r\nmaxmemory:0\r\n");
    assert_int_equal(redis_info_number(info, "used_memory"), 77);
    assert_int_equal(redis_info_number(info, "maxmemory"), 0);
    assert_int_equal(redis_info_number(info, "memory"), -1);
    assert_int_equal(redis_info_number(bytes_str("a:99999999999999999999"), "a"), -1);
}

// Answers to the questions of a new connection, as a server of the version gives them.
static enum err facts_of(const char *version, const char *role, enum redis_form form, char *why)
{
    char server[200], replication[200], text[1200];
    (void)snprintf(server, sizeof server, "redis_version:%s\r\nrun_id:%040d\r\n", version, 1);
    (void)snprintf(replication, sizeof replication, "role:%s\r\nmaster_replid:%040d\r\n", role, 2);
    (void)snprintf(text, sizeof text,
                   "$%zu\r\n%s\r\n$%zu\r\n%s\r\n$16\r\nused_memory:1024\r\n$17\r\n"
                   "cluster_enabled:0\r\n*2\r\n:1\r\n:2\r\n*2\r\n$1\r\na\r\n$3\r\nyes\r\n"
                   "*2\r\n$1\r\na\r\n$6\r\nalways\r\n*2\r\n$1\r\na\r\n$2\r\nno\r\n"
                   "*2\r\n$1\r\na\r\n$10\r\nnoeviction\r\n",
                   strlen(server), server, strlen(replication), replication);
    struct resp_reader *r = resp_reader_new();
    struct resp *replies[REDIS_QUESTIONS];
    struct redis_facts facts;
    const struct redis_url url = {.form = form};
    resp_reader_feed(r, bytes_str(text));
    for (size_t i = 0; i < REDIS_QUESTIONS; i++)
        assert_int_equal(resp_reader_next(r, &replies[i]), RESP_ONE);
    enum err e = redis_facts_read(replies, &url, &facts, why);
    for (size_t i = 0; i < REDIS_QUESTIONS; i++)
        resp_free(replies[i]);
    resp_reader_free(r);
    return e;
}

static void old_servers_and_replicas_are_refused(void **state)
{
    (void)state;
    char why[STORE_WHY_MAX] = "";
    assert_int_equal(facts_of("6.2.0", "master", REDIS_ONE, why), ERR_OK);
    assert_int_equal(facts_of("10.0.1", "master", REDIS_SENTINEL, why), ERR_OK);
    assert_int_equal(facts_of("6.0.16", "master", REDIS_ONE, why), ERR_INVALID);
    assert_string_equal(why, "the server is Redis 6.0.16; Sluice needs 6.2 or newer");
    assert_int_equal(facts_of("x", "master", REDIS_ONE, why), ERR_INVALID);
    assert_int_equal(facts_of("7.0.0", "slave", REDIS_ONE, why), ERR_INVALID);
    // By Sentinels, the next attempt finds the primary.
    assert_int_equal(facts_of("7.0.0", "slave", REDIS_SENTINEL, why), ERR_UNAVAILABLE);
    assert_int_equal(facts_of("7.0.0", "master", REDIS_CLUSTER, why), ERR_INVALID);
    assert_non_null(strstr(why, "cluster-enabled is \"no\""));
}

static void the_slot_of_a_key_is_that_of_its_hash_tag(void **state)
{
    (void)state;
    assert_int_equal(redis_slot_of("{123456789}l:x"), 12739); // CRC16's check value
    assert_int_equal(redis_slot_of("{123456789}m:y"), 12739);
    assert_int_equal(redis_slot_of("{foo}"), 12182); // as CLUSTER KEYSLOT says
}

static void a_number_that_is_no_time_does_not_move_the_clock(void **state)
{
    (void)state;
    struct redis_client c = {0};
    struct store_answer a = {.time = {TIME_UNKNOWN, TIME_UNKNOWN}};
    assert_true(redis_time(&c, INT64_MAX, &a) <= 0);
    assert_true(a.time.lo == TIME_UNKNOWN);
    assert_true(redis_time(&c, 1700000000000, &a) == 1700000000000);
    assert_true(redis_time(&c, TIME_REAL_MAX + 1, &a) == 1700000000000); // an entry takes no more
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_has_one_outcome),
        cmocka_unit_test(replies_of_all_kinds_are_read),
        cmocka_unit_test(replies_over_a_limit_and_other_bytes_are_refused),
        cmocka_unit_test(old_servers_and_replicas_are_refused),
        cmocka_unit_test(a_number_that_is_no_time_does_not_move_the_clock),
        cmocka_unit_test(the_slot_of_a_key_is_that_of_its_hash_tag),
        cmocka_unit_test(fields_of_info_are_found_at_the_start_of_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
