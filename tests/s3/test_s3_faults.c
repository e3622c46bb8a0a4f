// SPDX-License-Identifier: Apache-2.0
// The S3 store on a real server behind a network that cuts, delays, truncates and refuses: what an
// answer says is so. What really happened is seen by a second handle that goes around the proxy.
#include "../unit/unit.h"

#include "fault_proxy.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "store/s3/s3.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX  20
#define DELAY_MS   30
#define PATIENT_MS 30000 // for one request: no busy machine takes that long
#define HASTY_MS   4500  // where it runs out
#define STALL_MS   60000 // longer than any call waits
#define KEY        "a/b"
#define OURS       bytes_str("ours")

static struct fault_proxy *proxy;
static struct store *store;  // through the proxy
static struct store *direct; // around it
static struct store_answer answer, seen;

static struct store *open_at(const char *endpoint, uint64_t corner, int timeout_ms)
{
    char url[400];
    char why[STORE_WHY_MAX] = "";
    struct store *s = NULL;
    (void)snprintf(url, sizeof url, "%s/faults-%016" PRIx64 "?endpoint=%s&pathStyle=1&timeoutMs=%d",
                   getenv("SLUICE_TEST_S3"), corner, endpoint, timeout_ms);
    if (store_s3_open(url, &s, why, sizeof why)) fail_msg("%s: %s", url, why);
    return s;
}

static int begin(int timeout_ms)
{
    const char *server = getenv("AWS_ENDPOINT_URL_S3");
    if (!server) fail_msg("run this under tests/servers/with-radosgw");
    uint64_t corner = entropy_u64();
    proxy = proxy_start(server, 1);
    assert_non_null(proxy);
    proxy_set(proxy, &(struct proxy_faults){.delay_ms = DELAY_MS, .stall_ms = STALL_MS});
    store = open_at(proxy_url(proxy), corner, timeout_ms);
    direct = open_at(server, corner, PATIENT_MS);
    store_answer_init(&answer);
    store_answer_init(&seen);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return begin(PATIENT_MS);
}

static int set_up_hasty(void **state)
{
    (void)state;
    return begin(HASTY_MS);
}

static int tear_down(void **state)
{
    (void)state;
    store_free(store);
    store_free(direct);
    store_answer_done(&answer);
    store_answer_done(&seen);
    proxy_stop(proxy);
    return 0;
}

static void answers(enum err want, enum err got, const char *what)
{
    if (want != got)
        fail_msg("%s: answered %s, not %s (%s)", what, err_name(got), err_name(want), answer.why);
}

// Every fault that is under way has ended, and so what is there now stays.
static void settle(void)
{
    proxy_calm(proxy);
    proxy_set(proxy, &(struct proxy_faults){.delay_ms = DELAY_MS, .stall_ms = STALL_MS});
}

static bool is_there(const char *key)
{
    settle();
    enum err err = store_get(direct, key, 0, SIZE_MAX, &seen);
    if (err == ERR_OK)
        assert_true(bytes_equal(buf_bytes(&seen.body), OURS));
    else
        assert_int_equal(err, ERR_NOT_FOUND);
    return err == ERR_OK;
}

struct row {
    enum proxy_fault fault;
    int status;
    enum err answer;
    bool there; // afterwards
};

static const struct row creates[] = {
    {PROXY_PASS, 0, ERR_OK, true},
    {PROXY_DELAY, 0, ERR_OK, true},
    {PROXY_CUT_BEFORE, 0, ERR_UNKNOWN, false},
    {PROXY_RESET_BEFORE, 0, ERR_UNKNOWN, false},
    {PROXY_CUT_INSIDE, 0, ERR_UNKNOWN, false},
    {PROXY_CUT_AFTER, 0, ERR_UNKNOWN, true},
    {PROXY_RESET_AFTER, 0, ERR_UNKNOWN, true},
    {PROXY_TRUNCATE, 0, ERR_UNKNOWN, true},
    {PROXY_LATE, 0, ERR_UNKNOWN, true},
    {PROXY_STALL, 0, ERR_UNKNOWN, true},
    {PROXY_REFUSE, 429, ERR_UNKNOWN, false},
    {PROXY_REFUSE, 500, ERR_UNKNOWN, false},
    {PROXY_REFUSE, 502, ERR_UNKNOWN, false},
    {PROXY_REFUSE, 503, ERR_UNKNOWN, false},
    {PROXY_REFUSE, 504, ERR_UNKNOWN, false},
    {PROXY_REFUSE_AFTER, 500, ERR_UNKNOWN, true},
    {PROXY_REFUSE_AFTER, 503, ERR_UNKNOWN, true},
};

static void what_may_have_been_done_is_unknown(void **state)
{
    for (size_t i = 0; i < sizeof creates / sizeof creates[0]; i++) {
        const struct row *r = &creates[i];
        (void)tear_down(state);
        (void)begin(r->fault == PROXY_STALL ? HASTY_MS : PATIENT_MS);
        char what[60];
        (void)snprintf(what, sizeof what, "%s %d", proxy_fault_name(r->fault), r->status);
        proxy_script(proxy, "PUT", r->fault, r->status, 1);
        answers(r->answer, store_put_new(store, KEY, OURS, &answer), what);
        assert_int_equal(proxy_requests(proxy, "PUT"), 1); // sending it again is the caller's part
        if (is_there(KEY) != r->there) fail_msg("%s: there or not there", what);
        enum err again = store_put_new(store, KEY, OURS, &answer);
        answers(r->there ? ERR_CONFLICT : ERR_OK, again, what);
    }
}

static void a_conflict_under_way_is_asked_again_until_it_is_decided(void **state)
{
    (void)state;
    proxy_script(proxy, "PUT", PROXY_REFUSE, 409, 2);
    answers(ERR_OK, store_put_new(store, KEY, OURS, &answer), "409 twice");
    assert_int_equal(proxy_requests(proxy, "PUT"), 3);
    assert_int_equal(answer.cost.writes, 3);
    proxy_script(proxy, "PUT", PROXY_REFUSE, 409, 1000);
    answers(ERR_UNAVAILABLE, store_put_new(store, "other", OURS, &answer), "409 for ever");
    assert_false(is_there("other"));
}

// A server that is not there has certainly not done anything.
static void what_was_never_sent_is_unavailable(void **state)
{
    (void)state;
    struct store *nowhere = open_at("http://127.0.0.1:1", 1, HASTY_MS);
    answers(ERR_UNAVAILABLE, store_put_new(nowhere, KEY, OURS, &answer), "put");
    answers(ERR_UNAVAILABLE, store_get(nowhere, KEY, 0, SIZE_MAX, &answer), "get");
    store_free(nowhere);
}

static enum err create_until_decided(const char *key)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        enum err err = store_put_new(store, key, OURS, &answer);
        if (err != ERR_UNKNOWN && err != ERR_UNAVAILABLE) return err;
    }
    return ERR_UNKNOWN;
}

// All pairs, on connections new and kept. Refused after a fault may mean refused by ourselves: the
// bytes tell.
static void any_two_faults_end_in_one_object_that_is_ours(void **state)
{
    (void)state;
    int lost_to_itself = 0;
    for (int first = PROXY_PASS; first < PROXY_FAULTS; first++)
        for (int second = PROXY_PASS; second < PROXY_FAULTS; second++) {
            if (first == PROXY_STALL || second == PROXY_STALL) continue; // seconds each; seen above
            char key[40];
            (void)snprintf(key, sizeof key, "pair/%d-%d", first, second);
            settle();
            proxy_script(proxy, "PUT", (enum proxy_fault)first, 503, 1);
            proxy_script(proxy, "PUT", (enum proxy_fault)second, 500, 1);
            enum err err = create_until_decided(key);
            if (err != ERR_CONFLICT) answers(ERR_OK, err, key);
            lost_to_itself += err == ERR_CONFLICT;
            assert_true(is_there(key));
        }
    assert_true(lost_to_itself > 20);
}

// A writer that is answered "exists" did not lose to its own earlier attempt, unless UNKNOWN came
// before.
static void the_first_answer_is_never_a_conflict_with_oneself(void **state)
{
    (void)state;
    for (int f = PROXY_PASS; f < PROXY_FAULTS; f++) {
        char key[40];
        (void)snprintf(key, sizeof key, "first/%d", f);
        answers(ERR_NOT_FOUND, store_get(store, "no", 0, SIZE_MAX, &answer), "a kept connection");
        proxy_script(proxy, "PUT", (enum proxy_fault)f, 503, 1);
        enum err err = store_put_new(store, key, OURS, &answer);
        if (err != ERR_OK) answers(ERR_UNKNOWN, err, proxy_fault_name((enum proxy_fault)f));
        settle();
    }
}

static void reads_as_if_nothing_was_wrong(enum proxy_fault fault, int status)
{
    const char *what = proxy_fault_name(fault);
    settle();
    proxy_script(proxy, NULL, fault, status, 1);
    answers(ERR_OK, store_get(store, "r/1", 0, SIZE_MAX, &answer), what);
    assert_true(bytes_equal(buf_bytes(&answer.body), OURS));
    proxy_script(proxy, NULL, fault, status, 2);
    answers(ERR_NOT_FOUND, store_get(store, "r/9", 0, SIZE_MAX, &answer), what);
    proxy_script(proxy, NULL, fault, status, 1);
    answers(ERR_OK, store_list(store, "r/", NULL, 10, &answer), what);
    assert_int_equal(answer.rows_len, 3);
    assert_string_equal(store_row_key(&answer, 2), "r/3");
    proxy_script(proxy, NULL, fault, status, 1);
    answers(ERR_OK, store_read_log(store, "log", 1, 1000, &answer), what);
    assert_true(bytes_equal(store_row_bytes(&answer, 0), OURS));
}

static void reads_survive_every_fault(void **state)
{
    (void)state;
    static const char *const keys[] = {"r/1", "r/2", "r/3"};
    static const int statuses[] = {429, 500, 502, 503, 504};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(store_put_new(direct, keys[i], OURS, &seen), ERR_OK);
    assert_int_equal(store_append(direct, "log", 1, OURS, &seen), ERR_OK);
    for (int f = PROXY_PASS; f < PROXY_FAULTS; f++)
        if (f != PROXY_STALL) reads_as_if_nothing_was_wrong((enum proxy_fault)f, 503);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        reads_as_if_nothing_was_wrong(PROXY_REFUSE, statuses[i]);
}

// timeoutMs is all the time there is, the retries included; one connection on which nothing moves
// does not use it up.
static void a_stalled_read_is_made_again_in_time(void **state)
{
    (void)state;
    assert_int_equal(store_put_new(direct, KEY, OURS, &seen), ERR_OK);
    proxy_script(proxy, "GET", PROXY_STALL, 0, 1);
    int64_t start = clock_boot_ms();
    answers(ERR_OK, store_get(store, KEY, 0, SIZE_MAX, &answer), "stalled once");
    assert_true(clock_boot_ms() - start < HASTY_MS);
    proxy_script(proxy, "GET", PROXY_STALL, 0, 3);
    answers(ERR_UNAVAILABLE, store_get(store, KEY, 0, SIZE_MAX, &answer), "stalled");
    assert_true(clock_boot_ms() - start < STALL_MS);
}

static void deletes_survive_every_fault(void **state)
{
    (void)state;
    static const char *const keys[] = {"d/1", "d/2", "d/3"};
    for (int f = PROXY_PASS; f < PROXY_FAULTS; f++) {
        if (f == PROXY_STALL) continue; // as with reads
        enum proxy_fault fault = (enum proxy_fault)f;
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(store_put_new(direct, keys[i], OURS, &seen), ERR_OK);
        proxy_script(proxy, NULL, fault, 503, 1);
        answers(ERR_OK, store_delete(store, keys, 1, &answer), proxy_fault_name(fault));
        proxy_script(proxy, NULL, fault, 503, 1);
        answers(ERR_OK, store_delete(store, keys + 1, 2, &answer), proxy_fault_name(fault));
        for (size_t i = 0; i < 3; i++)
            assert_false(is_there(keys[i]));
    }
}

// A body of which half arrived is never taken for the whole.
static void a_large_body_that_was_cut_is_fetched_again(void **state)
{
    (void)state;
    static uint8_t large[3 << 20];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (uint8_t)(i * 7 + i / 1000);
    struct bytes body = bytes_of(large, sizeof large);
    proxy_script(proxy, "PUT", PROXY_CUT_INSIDE, 0, 1);
    answers(ERR_UNKNOWN, store_put_new(store, "large", body, &answer), "half a body");
    assert_int_equal(store_get(direct, "large", 0, SIZE_MAX, &seen), ERR_NOT_FOUND);
    answers(ERR_OK, store_put_new(store, "large", body, &answer), "large");
    proxy_script(proxy, "GET", PROXY_TRUNCATE, 0, 2);
    answers(ERR_OK, store_get(store, "large", 0, SIZE_MAX, &answer), "half an answer");
    assert_true(bytes_equal(buf_bytes(&answer.body), body));
    proxy_script(proxy, "GET", PROXY_TRUNCATE, 0, 1);
    answers(ERR_OK, store_get(store, "large", 1 << 20, 1000, &answer), "half a range");
    assert_true(bytes_equal(buf_bytes(&answer.body), bytes_of(large + (1 << 20), 1000)));
}

// Whatever goes on for ever ends in an answer.
static void a_read_gives_up_in_time(void **state)
{
    (void)state;
    proxy_script(proxy, "GET", PROXY_CUT_BEFORE, 0, 100000);
    int64_t start = clock_boot_ms();
    answers(ERR_UNAVAILABLE, store_get(store, KEY, 0, SIZE_MAX, &answer), "cut for ever");
    assert_true(answer.why[0] != 0);
    assert_true(clock_boot_ms() - start < 20 * HASTY_MS);
}

#define CASE(test)       cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define HASTY_CASE(test) cmocka_unit_test_setup_teardown(test, set_up_hasty, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_may_have_been_done_is_unknown),
        CASE(a_conflict_under_way_is_asked_again_until_it_is_decided),
        CASE(what_was_never_sent_is_unavailable),
        CASE(any_two_faults_end_in_one_object_that_is_ours),
        HASTY_CASE(the_first_answer_is_never_a_conflict_with_oneself),
        CASE(reads_survive_every_fault),
        HASTY_CASE(a_stalled_read_is_made_again_in_time),
        CASE(deletes_survive_every_fault),
        CASE(a_large_body_that_was_cut_is_fetched_again),
        HASTY_CASE(a_read_gives_up_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
