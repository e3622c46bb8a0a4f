// SPDX-License-Identifier: Apache-2.0
// What the store does about answers that the server of the tests never gives: each test is a script
// of answers, and what must come of it.
#include "../net/server.h"
#include "bucket_rig.h"
#include "os/clock.h"
#include "store/s3/pace.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATE       "Date: Sun, 15 Nov 2026 06:05:55 GMT\r\n"
#define SCRIPT_MAX 12
#define SEEN_MAX   4096

// One answer; or the connection is closed, or nothing is ever said.
struct turn {
    const char *headers;
    const char *body;
    int status;
    bool cut, hang;
    bool nameless; // no ETag
};

struct script {
    const struct turn *turns; // the last one for all further requests
    int count;
    _Atomic int at;
    char seen[SCRIPT_MAX][SEEN_MAX]; // heads of the requests
};

struct world {
    struct server server;
    struct script script;
    struct store *store;
    struct store_answer a;
};

static void serve(struct peer *p)
{
    struct script *s = p->server->data;
    while (peer_request(p)) {
        int at = s->at++;
        if (at < SCRIPT_MAX)
            (void)snprintf(s->seen[at], SEEN_MAX, "%s", (const char *)p->head.data);
        const struct turn *t = &s->turns[at < s->count ? at : s->count - 1];
        if (t->cut) return;
        if (t->hang) {
            peer_wait_end(p);
            return;
        }
        char head[1024];
        const char *body = t->body ? t->body : "";
        (void)snprintf(head, sizeof head, "HTTP/1.1 %d X\r\n%s%s%sContent-Length: %zu\r\n\r\n",
                       t->status, t->headers ? t->headers : "",
                       t->headers && strstr(t->headers, "Date:") ? "" : DATE,
                       t->nameless ? "" : "ETag: \"x\"\r\n", strlen(body));
        peer_say(p, head);
        if (strncmp((const char *)p->head.data, "HEAD", 4) != 0) peer_say(p, body);
    }
}

static void world_open(struct world *w, const struct turn *turns, int count, const char *settings)
{
    w->script = (struct script){.turns = turns, .count = count};
    server_start(&w->server, NULL, serve, &w->script);
    char url[300];
    (void)snprintf(url, sizeof url, "s3://bucket/p?endpoint=%s%s", w->server.url, settings);
    w->store = rig_open(url, NULL);
    store_answer_init(&w->a);
}

static void world_close(struct world *w)
{
    store_answer_done(&w->a);
    store_free(w->store);
    server_stop(&w->server);
}

#define SCRIPT(w, ...)                                                                             \
    static const struct turn turns_[] = {__VA_ARGS__};                                             \
    static struct world w;                                                                         \
    world_open(&w, turns_, sizeof turns_ / sizeof *turns_, "")

#define STATUS(n)                                                                                  \
    {                                                                                              \
        .status = (n)                                                                              \
    }
#define BODY(n, text)                                                                              \
    {                                                                                              \
        .status = (n), .body = (text)                                                              \
    }
#define HEAD(n, text)                                                                              \
    {                                                                                              \
        .status = (n), .headers = (text)                                                           \
    }
#define BOTH(n, head_text, text)                                                                   \
    {                                                                                              \
        .status = (n), .headers = (head_text), .body = (text)                                      \
    }
#define CUT                                                                                        \
    {                                                                                              \
        .cut = true                                                                                \
    }
#define ERROR(code) "<Error><Code>" code "</Code><Message>m</Message></Error>"

static enum err create(struct world *w)
{
    return store_put_new(w->store, "key", bytes_str("body"), &w->a);
}

static enum err get(struct world *w)
{
    return store_get(w->store, "key", 0, SIZE_MAX, &w->a);
}

static void an_undecided_create_is_sent_again_until_it_is_decided(void **state)
{
    (void)state;
    SCRIPT(w, BODY(409, ERROR("ConditionalRequestConflict")), STATUS(409), STATUS(200));
    ANSWERS(ERR_OK, &w.a, create(&w));
    COSTS(&w.a, 3, 0, 0);
    assert_non_null(strstr(w.script.seen[2], "If-None-Match: *"));
    world_close(&w);
}

static void a_create_that_stays_undecided_was_not_applied(void **state)
{
    (void)state;
    SCRIPT(w, STATUS(409));
    ANSWERS(ERR_UNAVAILABLE, &w.a, create(&w));
    COSTS(&w.a, 5, 0, 0);
    world_close(&w);
}

static void a_refusal_after_a_resend_is_unknown_and_the_next_call_decides(void **state)
{
    (void)state;
    SCRIPT(w, STATUS(409), BODY(412, ERROR("PreconditionFailed")));
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    ANSWERS(ERR_CONFLICT, &w.a, create(&w));
    COSTS(&w.a, 1, 0, 0);
    world_close(&w);
}

static void a_refusal_after_a_silent_resend_is_unknown(void **state)
{
    (void)state;
    // The kept connection is closed when the second request is on it; the library then sends it
    // again on a new one.
    SCRIPT(w, STATUS(200), CUT, STATUS(412));
    ANSWERS(ERR_OK, &w.a, create(&w));
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    ANSWERS(ERR_CONFLICT, &w.a, create(&w));
    world_close(&w);
}

static void a_write_without_a_clear_answer_is_unknown_and_sent_once(void **state)
{
    (void)state;
    static const int unclear[] = {429, 500, 502, 503, 504};
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
        const struct turn turns[] = {{.status = unclear[i], .body = "<html>"}};
        static struct world w;
        world_open(&w, turns, 1, "");
        ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
        COSTS(&w.a, 1, 0, 0);
        ANSWERS(ERR_UNKNOWN, &w.a, store_put(w.store, "key", bytes_str("b"), &w.a));
        COSTS(&w.a, 1, 0, 0);
        world_close(&w);
    }
}

static void a_write_that_was_cut_off_is_unknown(void **state)
{
    (void)state;
    SCRIPT(w, CUT);
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    world_close(&w);
}

static void a_write_that_never_left_is_unavailable(void **state)
{
    (void)state;
    SCRIPT(w, STATUS(200));
    server_stop(&w.server);
    ANSWERS(ERR_UNAVAILABLE, &w.a, create(&w));
    COSTS(&w.a, 0, 0, 0);
    assert_non_null(strstr(w.a.why, "127.0.0.1:"));
    store_answer_done(&w.a);
    store_free(w.store);
}

static void a_silent_server_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    static const struct turn turns[] = {{.hang = true}};
    static struct world w;
    world_open(&w, turns, 1, "&timeoutMs=200");
    int64_t start = clock_boot_ms();
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    ANSWERS(ERR_UNAVAILABLE, &w.a, get(&w));
    // All of it for a write; a read is tried twice at least, and not begun again near the end.
    assert_in_range(clock_boot_ms() - start, 200 + 2 * 200 / 3, 5000);
    world_close(&w);
}

// Something between us and the store may answer in its place.
static void an_answer_that_is_not_the_stores_decides_nothing(void **state)
{
    (void)state;
    static const struct turn turns[] = {
        {.status = 200, .nameless = true},
        {.status = 400},
        {.status = 503, .headers = "Date: Fri, 01 Jan 2100 00:00:00 GMT\r\n"},
    };
    static struct world w;
    world_open(&w, turns, 3, "");
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    assert_int_equal(w.a.time.lo, TIME_UNKNOWN); // nor does it tell the time
    world_close(&w);
}

static void a_store_without_conditions_is_refused(void **state)
{
    (void)state;
    SCRIPT(w, BODY(501, ERROR("NotImplemented")));
    ANSWERS(ERR_INVALID, &w.a, create(&w));
    assert_non_null(strstr(w.a.why, "If-None-Match"));
    world_close(&w);
}

static void reads_are_repeated(void **state)
{
    (void)state;
    SCRIPT(w, BOTH(503, "Retry-After: 0\r\n", ERROR("SlowDown")), STATUS(500), CUT,
           BODY(200, "it"));
    ANSWERS(ERR_OK, &w.a, get(&w));
    COSTS(&w.a, 0, 4, 0);
    assert_true(bytes_equal(buf_bytes(&w.a.body), bytes_str("it")));
    world_close(&w);
}

static void reads_end_unavailable_when_patience_does(void **state)
{
    (void)state;
    static const struct turn turns[] = {{.status = 503}};
    static struct world w;
    world_open(&w, turns, 1, "&timeoutMs=300");
    ANSWERS(ERR_UNAVAILABLE, &w.a, get(&w));
    assert_true(w.a.cost.reads >= 2);
    ANSWERS(ERR_UNAVAILABLE, &w.a, store_list(w.store, "", NULL, 9, &w.a));
    world_close(&w);
}

static void deletes_are_repeated(void **state)
{
    (void)state;
    static const char *const key = "key";
    SCRIPT(w, STATUS(503), STATUS(500), STATUS(204), BODY(404, ERROR("NoSuchKey")));
    ANSWERS(ERR_OK, &w.a, store_delete(w.store, &key, 1, &w.a));
    COSTS(&w.a, 0, 0, 3);
    ANSWERS(ERR_OK, &w.a, store_delete(w.store, &key, 1, &w.a));
    world_close(&w);
}

static void keys_that_could_not_be_deleted_are_told(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b"};
#define FAILED(code)                                                                               \
    "<DeleteResult><Error><Key>p/a</Key><Code>" code "</Code></Error></DeleteResult>"
    SCRIPT(w, BODY(200, FAILED("InternalError")), BODY(200, "<DeleteResult/>"),
           BODY(200, FAILED("AccessDenied")), BODY(200, "what?"));
    ANSWERS(ERR_OK, &w.a, store_delete(w.store, keys, 2, &w.a));
    COSTS(&w.a, 2, 0, 0);
    assert_non_null(strstr(w.script.seen[0], "Content-MD5: "));
    ANSWERS(ERR_DENIED, &w.a, store_delete(w.store, keys, 2, &w.a));
    ANSWERS(ERR_UNKNOWN, &w.a, store_delete(w.store, keys, 2, &w.a));
    world_close(&w);
}

static void a_server_that_ignores_ranges_is_cut(void **state)
{
    (void)state;
    SCRIPT(w, BODY(200, "0123456789"));
    ANSWERS(ERR_OK, &w.a, store_get(w.store, "key", 3, 4, &w.a));
    assert_true(bytes_equal(buf_bytes(&w.a.body), bytes_str("3456")));
    assert_non_null(strstr(w.script.seen[0], "Range: bytes=3-6"));
    ANSWERS(ERR_OK, &w.a, store_get(w.store, "key", 30, 4, &w.a));
    assert_int_equal(w.a.body.len, 0);
    world_close(&w);
}

static void a_list_goes_on_with_the_token_and_passes_over_what_is_not_ours(void **state)
{
    (void)state;
#define ROW(key) "<Contents><Key>" key "</Key><Size>1</Size></Contents>"
    SCRIPT(w,
           BODY(200,
                "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>to/ken+1"
                "</NextContinuationToken>" ROW("p/a") ROW("p/not ours")
                    ROW("p/b/") "</ListBucketResult>"),
           BODY(200, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x"
                     "</NextContinuationToken>" ROW("p/c") ROW("p/d") "</ListBucketResult>"),
           BODY(200, "not xml"),
           BODY(200, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"));
    ANSWERS(ERR_OK, &w.a, store_list(w.store, "", "0", 2, &w.a));
    COSTS(&w.a, 2, 0, 0);
    assert_int_equal(w.a.rows_len, 2);
    assert_string_equal(store_row_key(&w.a, 0), "a");
    assert_string_equal(store_row_key(&w.a, 1), "c");
    assert_true(w.a.more);
    assert_non_null(strstr(w.script.seen[0], "start-after=p%2F0"));
    assert_non_null(strstr(w.script.seen[1], "continuation-token=to%2Fken%2B1"));
    ANSWERS(ERR_UNAVAILABLE, &w.a, store_list(w.store, "", NULL, 2, &w.a));
    ANSWERS(ERR_UNAVAILABLE, &w.a, store_list(w.store, "", NULL, 2, &w.a));
    world_close(&w);
}

static void a_bucket_in_another_region_is_found_there(void **state)
{
    (void)state;
    SCRIPT(w, BOTH(301, "x-amz-bucket-region: eu-central-1\r\n", ERROR("PermanentRedirect")),
           STATUS(200));
    ANSWERS(ERR_OK, &w.a, create(&w));
    COSTS(&w.a, 2, 0, 0);
    assert_non_null(strstr(w.script.seen[0], "/us-east-1/s3/aws4_request"));
    assert_non_null(strstr(w.script.seen[1], "/eu-central-1/s3/aws4_request"));
    ANSWERS(ERR_OK, &w.a, create(&w));
    COSTS(&w.a, 1, 0, 0);
    world_close(&w);
}

static void the_right_region_may_be_in_the_document(void **state)
{
    (void)state;
    SCRIPT(
        w,
        BODY(400,
             "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>"),
        STATUS(200));
    ANSWERS(ERR_OK, &w.a, create(&w));
    assert_non_null(strstr(w.script.seen[1], "/eu-west-3/s3/aws4_request"));
    world_close(&w);
}

static void a_bucket_that_keeps_moving_is_refused_with_its_region(void **state)
{
    (void)state;
    SCRIPT(w, HEAD(301, "x-amz-bucket-region: eu-central-1\r\n"),
           HEAD(301, "x-amz-bucket-region: eu-north-1\r\n"), STATUS(301));
    ANSWERS(ERR_DENIED, &w.a, create(&w));
    COSTS(&w.a, 2, 0, 0);
    ANSWERS(ERR_DENIED, &w.a, create(&w));
    assert_non_null(strstr(w.a.why, "endpoint"));
    world_close(&w);
}

static void a_skewed_clock_is_set_once(void **state)
{
    (void)state;
    SCRIPT(w, BODY(403, ERROR("RequestTimeTooSkewed")), STATUS(200),
           BODY(403, ERROR("RequestTimeTooSkewed")));
    ANSWERS(ERR_OK, &w.a, create(&w));
    COSTS(&w.a, 2, 0, 0);
    assert_non_null(strstr(w.script.seen[1], "x-amz-date: 20261115T0605"));
    ANSWERS(ERR_DENIED, &w.a, create(&w));
    COSTS(&w.a, 2, 0, 0);
    world_close(&w);
}

static void keys_that_cannot_be_renewed_are_refused_at_once(void **state)
{
    (void)state;
    SCRIPT(w, BODY(400, ERROR("ExpiredToken")), BODY(403, ERROR("InvalidAccessKeyId")));
    ANSWERS(ERR_DENIED, &w.a, create(&w));
    COSTS(&w.a, 1, 0, 0);
    assert_non_null(strstr(w.a.why, "ExpiredToken"));
    ANSWERS(ERR_DENIED, &w.a, get(&w));
    COSTS(&w.a, 0, 1, 0);
    world_close(&w);
}

static void a_denied_read_says_that_the_key_may_be_missing(void **state)
{
    (void)state;
    SCRIPT(w, BODY(403, ERROR("AccessDenied")));
    ANSWERS(ERR_DENIED, &w.a, get(&w));
    assert_non_null(strstr(w.a.why, "may not list"));
    ANSWERS(ERR_DENIED, &w.a, store_wait(w.store, "log", 1, 0, &w.a)); // HEAD, and GET to learn why
    COSTS(&w.a, 0, 2, 0);
    world_close(&w);
}

static void a_session_token_is_sent_and_signed(void **state)
{
    (void)state;
    (void)setenv("AWS_SESSION_TOKEN", RIG_TOKEN, 1);
    SCRIPT(w, STATUS(200), BODY(403, ERROR("SignatureDoesNotMatch")));
    ANSWERS(ERR_OK, &w.a, create(&w));
    assert_non_null(strstr(w.script.seen[0], "x-amz-security-token: " RIG_TOKEN));
    assert_non_null(strstr(w.script.seen[0], ";x-amz-security-token")); // among SignedHeaders
    ANSWERS(ERR_DENIED, &w.a, create(&w));
    (void)unsetenv("AWS_SESSION_TOKEN");
    world_close(&w);
}

static void a_slow_down_holds_the_next_requests_back(void **state)
{
    (void)state;
    SCRIPT(w, BODY(503, ERROR("SlowDown")), STATUS(200));
    ANSWERS(ERR_UNKNOWN, &w.a, create(&w));
    int64_t start = clock_boot_ms();
    ANSWERS(ERR_OK, &w.a, create(&w));
    assert_true(clock_boot_ms() - start >= S3_GAP_FIRST_MS - 2);
    world_close(&w);
}

static void what_the_store_says_of_its_time_is_passed_on(void **state)
{
    (void)state;
    SCRIPT(w, BOTH(200, "Last-Modified: Sun, 15 Nov 2026 06:05:50 GMT\r\n", "x"),
           HEAD(200, "Date: never\r\n"));
    ANSWERS(ERR_OK, &w.a, get(&w));
    assert_int_equal(w.a.time.lo, 1794722755000);
    assert_int_equal(w.a.time.hi, 1794722756009); // its clock may be a tick late
    assert_int_equal(w.a.modified.lo, 1794722750000);
    assert_int_equal(w.a.modified.hi, 1794722750999);
    ANSWERS(ERR_OK, &w.a, get(&w));
    assert_true(w.a.time.lo == TIME_UNKNOWN && w.a.time.hi == TIME_NEVER);
    assert_true(w.a.modified.lo == TIME_UNKNOWN && w.a.modified.hi == TIME_NEVER);
    world_close(&w);
}

// Ceph RGW stamps objects with a fine clock and its answers with a coarse one.
static void an_answer_is_no_older_than_the_object_it_shows(void **state)
{
    (void)state;
    SCRIPT(w, BOTH(200, "Last-Modified: Sun, 15 Nov 2026 06:05:56 GMT\r\n", "x"),
           BOTH(200, "Last-Modified: Sun, 15 Nov 2026 06:05:57 GMT\r\n", "x"),
           BODY(200, "<ListBucketResult><Contents><Key>p/a</Key><Size>1</Size>"
                     "<LastModified>2026-11-15T06:05:57.001Z</LastModified></Contents>"
                     "</ListBucketResult>"));
    for (int i = 0; i < 3; i++) {
        bool lists = i == 2;
        enum err e = lists ? store_list(w.store, "", NULL, 10, &w.a) : get(&w);
        ANSWERS(ERR_OK, &w.a, e);
        struct interval shown = lists ? w.a.rows[0].modified : w.a.modified;
        assert_int_equal(w.a.time.lo, 1794722755000);
        assert_true(shown.lo <= w.a.time.hi);
    }
    world_close(&w);
}

int main(void)
{
    rig_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_undecided_create_is_sent_again_until_it_is_decided),
        cmocka_unit_test(a_create_that_stays_undecided_was_not_applied),
        cmocka_unit_test(a_refusal_after_a_resend_is_unknown_and_the_next_call_decides),
        cmocka_unit_test(a_refusal_after_a_silent_resend_is_unknown),
        cmocka_unit_test(a_write_without_a_clear_answer_is_unknown_and_sent_once),
        cmocka_unit_test(a_write_that_was_cut_off_is_unknown),
        cmocka_unit_test(a_write_that_never_left_is_unavailable),
        cmocka_unit_test(a_silent_server_costs_no_more_than_the_deadline),
        cmocka_unit_test(an_answer_that_is_not_the_stores_decides_nothing),
        cmocka_unit_test(a_store_without_conditions_is_refused),
        cmocka_unit_test(reads_are_repeated),
        cmocka_unit_test(reads_end_unavailable_when_patience_does),
        cmocka_unit_test(deletes_are_repeated),
        cmocka_unit_test(keys_that_could_not_be_deleted_are_told),
        cmocka_unit_test(a_server_that_ignores_ranges_is_cut),
        cmocka_unit_test(a_list_goes_on_with_the_token_and_passes_over_what_is_not_ours),
        cmocka_unit_test(a_bucket_in_another_region_is_found_there),
        cmocka_unit_test(the_right_region_may_be_in_the_document),
        cmocka_unit_test(a_bucket_that_keeps_moving_is_refused_with_its_region),
        cmocka_unit_test(a_skewed_clock_is_set_once),
        cmocka_unit_test(keys_that_cannot_be_renewed_are_refused_at_once),
        cmocka_unit_test(a_denied_read_says_that_the_key_may_be_missing),
        cmocka_unit_test(a_session_token_is_sent_and_signed),
        cmocka_unit_test(a_slow_down_holds_the_next_requests_back),
        cmocka_unit_test(what_the_store_says_of_its_time_is_passed_on),
        cmocka_unit_test(an_answer_is_no_older_than_the_object_it_shows),
    };
    return cmocka_run_group_tests_name("s3 flows", tests, NULL, NULL);
}
