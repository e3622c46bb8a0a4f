// SPDX-License-Identifier: Apache-2.0
// Keys from the services beside a container or a machine: asked as they want to be asked, fetched
// again in time, kept while the service is away.
#include "credentials_rig.h"

#include "os/clock.h"
#include "store/s3/auth/metadata.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_PATH "PUT /latest/api/token"
#define ROLES      "GET /latest/meta-data/iam/security-credentials/"
#define ROLE_KEYS  ROLES "my-role"
#define CONTAINER  "GET /v2/credentials"
#define SESSION    "SESSIONEXAMPLETOKEN=="
#define STS        "POST /"

static void answers_with(struct rig *r, const char *what, char *body)
{
    stand_in_answer(r->server, what, 200, body);
    free(body);
}

// A machine with a role and version 2 of the service.
static void be_instance(struct rig *r, const char *access_key, int64_t expires_ms)
{
    (void)unsetenv("AWS_EC2_METADATA_DISABLED");
    (void)setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", stand_in_url(r->server), 1);
    stand_in_answer(r->server, TOKEN_PATH, 200, SESSION);
    stand_in_require(r->server, TOKEN_PATH, "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    stand_in_answer(r->server, ROLES, 200, "my-role");
    stand_in_require(r->server, ROLES, "X-aws-ec2-metadata-token: " SESSION);
    stand_in_require(r->server, ROLE_KEYS, "X-aws-ec2-metadata-token: " SESSION);
    answers_with(r, ROLE_KEYS, instance_answer(access_key, expires_ms));
}

static void be_container(struct rig *r, const char *access_key, int64_t expires_ms)
{
    char url[256];
    (void)snprintf(url, sizeof url, "%s/v2/credentials", stand_in_url(r->server));
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    answers_with(r, CONTAINER, container_answer(access_key, expires_ms));
}

static void instance_is_asked_by_version_2(void **state)
{
    struct rig *r = *state;
    be_instance(r, ACCESS, NOW + 360 * MINUTE);
    rig_opens(r, NULL);
    assert_int_equal(stand_in_count(r->server, TOKEN_PATH), 0); // opening asks no server
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(r->keys.secret_key, SECRET);
    assert_string_equal(r->keys.session_token, TOKEN);
    assert_string_equal(s3_credentials_source(r->credentials), "instance role my-role");
    rig_gets(r, NOW + MINUTE, ACCESS);
    assert_int_equal(stand_in_count(r->server, TOKEN_PATH), 1);
    assert_int_equal(stand_in_count(r->server, ROLE_KEYS), 1);
}

static void instance_without_version_2_is_asked_by_version_1(void **state)
{
    struct rig *r = *state;
    static const int statuses[] = {403, 404, 405};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        be_instance(r, ACCESS, NOW + 360 * MINUTE);
        stand_in_answer(r->server, TOKEN_PATH, statuses[i], "");
        stand_in_require(r->server, ROLES, NULL);
        stand_in_require(r->server, ROLE_KEYS, NULL);
        rig_opens(r, NULL);
        rig_gets(r, NOW, ACCESS);
    }
    (void)setenv("AWS_EC2_METADATA_V1_DISABLED", "true", 1);
    rig_opens(r, NULL);
    int before = stand_in_count(r->server, ROLES);
    assert_int_equal(rig_get(r, NOW), ERR_DENIED);
    assert_int_equal(stand_in_count(r->server, ROLES), before);
    rig_says(r, "AWS_ACCESS_KEY_ID is not set"); // nor is it anywhere else
}

static void instance_whose_token_gets_lost_is_asked_by_version_1(void **state)
{
    struct rig *r = *state;
    be_instance(r, ACCESS, NOW + 360 * MINUTE);
    stand_in_hang(r->server, TOKEN_PATH, true);
    stand_in_require(r->server, ROLES, NULL);
    stand_in_require(r->server, ROLE_KEYS, NULL);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_true(stand_in_await(r->server, TOKEN_PATH, 2)); // what was given up may be read late
    assert_int_equal(stand_in_count(r->server, TOKEN_PATH), 2);
}

static void instance_without_a_role_has_no_keys(void **state)
{
    struct rig *r = *state;
    be_instance(r, ACCESS, NOW + 360 * MINUTE);
    stand_in_answer(r->server, ROLES, 404, "");
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_DENIED);
    rig_says(r, "has no role");
    rig_says(r, "AWS_ACCESS_KEY_ID is not set");
}

static void machine_without_the_service_has_no_keys_and_does_not_wait(void **state)
{
    struct rig *r = *state;
    (void)unsetenv("AWS_EC2_METADATA_DISABLED");
    (void)setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1); // no server
    rig_opens(r, NULL);
    int64_t began = clock_boot_ms();
    assert_int_equal(rig_get(r, NOW), ERR_DENIED);
    assert_true(clock_boot_ms() - began < 20000);
    rig_says(r, "~/.aws/credentials");
    rig_says(r, "instance metadata service");
}

static void service_that_hangs_is_given_up_after_two_seconds(void **state)
{
    struct rig *r = *state;
    be_instance(r, ACCESS, NOW + 360 * MINUTE);
    stand_in_hang(r->server, ROLE_KEYS, true);
    rig_opens(r, NULL);
    int64_t began = clock_boot_ms();
    assert_int_equal(rig_get(r, NOW), ERR_UNAVAILABLE);
    int64_t took = clock_boot_ms() - began;
    assert_true(took >= 1900);
    assert_true(took < 60000);
    assert_true(stand_in_await(r->server, ROLE_KEYS, 2));
    assert_int_equal(stand_in_count(r->server, ROLE_KEYS), 2);
    rig_says(r, "does not answer");
}

static void proxies_are_not_asked(void **state)
{
    struct rig *r = *state;
    be_instance(r, ACCESS, NOW + 360 * MINUTE);
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
    (void)setenv("all_proxy", "http://127.0.0.1:1", 1);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
}

static void keys_are_fetched_again_five_minutes_before_they_expire(void **state)
{
    struct rig *r = *state;
    be_instance(r, ACCESS, NOW + 60 * MINUTE);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    be_instance(r, "NEW", NOW + 120 * MINUTE);
    rig_gets(r, NOW + 55 * MINUTE - 1, ACCESS);
    rig_gets(r, NOW + 55 * MINUTE, "NEW");
    rig_gets(r, NOW + 100 * MINUTE, "NEW");
    assert_int_equal(stand_in_count(r->server, ROLE_KEYS), 2);
}

static void old_keys_are_used_until_they_expire_while_the_service_is_away(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    stand_in_answer(r->server, CONTAINER, 503, SECRET);
    rig_gets(r, NOW + 56 * MINUTE, ACCESS);
    rig_gets(r, NOW + 60 * MINUTE - 1, ACCESS);
    assert_int_equal(rig_get(r, NOW + 60 * MINUTE), ERR_UNAVAILABLE);
    rig_says(r, "503");
    answers_with(r, CONTAINER, container_answer("NEW", NOW + 120 * MINUTE));
    rig_gets(r, NOW + 61 * MINUTE, "NEW");
}

static void failed_fetches_are_spaced_out(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    stand_in_answer(r->server, CONTAINER, 500, "");
    rig_opens(r, NULL);
    static const int64_t asked_at[] = {0, 1000, 3000, 7000, 15000, 30000, 45000};
    int tries = 0;
    for (int64_t at = 0; at <= 45000; at += 500) {
        assert_int_equal(rig_get(r, NOW + at), ERR_UNAVAILABLE);
        if (tries < 7 && at == asked_at[tries]) tries++;
        assert_int_equal(stand_in_count(r->server, CONTAINER), 2 * tries); // each is tried twice
    }
    assert_int_equal(tries, 7);
}

static void step_back_of_the_clock_does_not_stop_the_fetching(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    stand_in_answer(r->server, CONTAINER, 500, "");
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW + 600 * MINUTE), ERR_UNAVAILABLE);
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    rig_gets(r, NOW, ACCESS);
}

// Our clock may be an hour ahead until the store tells its own time, which needs keys.
static void keys_that_seem_expired_when_they_come_are_used(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 30 * MINUTE);
    rig_opens(r, NULL);
    rig_gets(r, NOW + 60 * MINUTE, ACCESS);
    rig_gets(r, NOW + 60 * MINUTE + 5000, ACCESS);
    assert_int_equal(stand_in_count(r->server, CONTAINER), 1);
    rig_gets(r, NOW, ACCESS); // the clock is right now
    assert_int_equal(stand_in_count(r->server, CONTAINER), 1);
    be_container(r, "NEW", NOW + 90 * MINUTE);
    rig_gets(r, NOW + 25 * MINUTE, "NEW");
}

static void refused_keys_are_fetched_anew_before_the_next_use(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    be_container(r, "NEW", NOW + 90 * MINUTE);
    assert_true(s3_credentials_refused(r->credentials, &r->keys));
    rig_gets(r, NOW + 1, "NEW");
    assert_true(s3_credentials_refused(r->credentials, &r->keys));
    stand_in_answer(r->server, CONTAINER, 500, "");
    assert_int_equal(rig_get(r, NOW + 2), ERR_UNAVAILABLE); // those are known to be no good
}

static void container_gets_its_token(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    stand_in_require(r->server, CONTAINER, "Authorization: Basic " TOKEN "\r\n");
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_DENIED);
    rig_says(r, "401");
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic " TOKEN, 1);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(s3_credentials_source(r->credentials), "container");
}

static void token_in_a_file_is_read_before_each_request(void **state)
{
    struct rig *r = *state;
    char path[1024];
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    rig_path(r, "token", path, sizeof path);
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "not this", 1);
    stand_in_require(r->server, CONTAINER, "Authorization: one\r\n");
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_UNAVAILABLE); // it is not there yet
    rig_write(r, "token", "one\n");
    rig_gets(r, NOW + MINUTE, ACCESS);
    rig_write(r, "token", "two");
    stand_in_require(r->server, CONTAINER, "Authorization: two\r\n");
    answers_with(r, CONTAINER, container_answer("NEW", NOW + 120 * MINUTE));
    rig_gets(r, NOW + 56 * MINUTE, "NEW");
    rig_write(r, "token", "three\r\nX-More: " SECRET);
    (void)rig_open(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_UNAVAILABLE);
    rig_says(r, "line break");
}

static void plain_text_goes_only_to_this_machine_and_the_known_addresses(void **state)
{
    struct rig *r = *state;
    static const char *const good[] = {"https://example.com/x", "http://localhost:80/x",
                                       "http://127.0.0.1/x",    "http://127.9.9.9:1/x",
                                       "http://[::1]:80/x",     "http://169.254.170.2/x",
                                       "http://169.254.170.23", "http://[fd00:ec2::23]/x"};
    static const char *const wrong[] = {"http://example.com/x",
                                        "http://169.254.169.254/x",
                                        "http://127.0.0.1@example.com/x",
                                        "http://127.0.0.1.example.com/",
                                        "http://[::2]/",
                                        "http://localhost:x@example.com/",
                                        "ftp://127.0.0.1/",
                                        "127.0.0.1",
                                        "https://",
                                        ""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(s3_container_url_ok(good[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(s3_container_url_ok(wrong[i]));
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/" SECRET, 1);
    assert_int_equal(rig_open(r, NULL), ERR_INVALID);
    rig_says(r, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

static void relative_address_is_the_tasks(void **state)
{
    (void)state;
    struct s3_container c;
    char why[256];
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/", 1);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/id", 1);
    assert_int_equal(s3_container_find(&c, why, sizeof why), ERR_OK);
    assert_string_equal(c.url, "http://169.254.170.2/v2/credentials/id");
    // this would ask another host
    (void)setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@example.com/", 1);
    assert_int_equal(s3_container_find(&c, why, sizeof why), ERR_INVALID);
}

static void answers_that_make_no_sense_are_told_without_their_text(void **state)
{
    struct rig *r = *state;
    static const struct {
        int status;
        const char *body;
        enum err err;
    } rows[] = {
        {200, "", ERR_UNAVAILABLE},
        {200, SECRET, ERR_UNAVAILABLE},
        {200, "{\"" SECRET "\":}", ERR_UNAVAILABLE},
        {200, "{\"Code\":\"" SECRET "\"}", ERR_DENIED},
        {200, "{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"" SECRET "\"}", ERR_DENIED},
        {200, "{\"AccessKeyId\":\"a\"}", ERR_UNAVAILABLE},
        {200,
         "{\"AccessKeyId\":\"" SECRET "\",\"SecretAccessKey\":\"" SECRET
         "\",\"Expiration\":\"" SECRET "\"}",
         ERR_UNAVAILABLE},
        {200, "{\"AccessKeyId\":\"a\\r\\nX: y\",\"SecretAccessKey\":\"" SECRET "\"}",
         ERR_UNAVAILABLE},
        {403, SECRET, ERR_DENIED},
        {429, SECRET, ERR_UNAVAILABLE},
        {500, SECRET, ERR_UNAVAILABLE},
    };
    be_instance(r, ACCESS, NOW + 60 * MINUTE);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stand_in_answer(r->server, ROLE_KEYS, rows[i].status, rows[i].body);
        rig_opens(r, NULL);
        assert_int_equal(rig_get(r, NOW), rows[i].err);
        assert_true(*r->why);
    }
    stand_in_answer(r->server, ROLES, 200, "../" SECRET);
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_UNAVAILABLE);
    stand_in_answer(r->server, TOKEN_PATH, 200, TOKEN "\r\nX: y");
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_UNAVAILABLE);
}

static void web_identity_is_traded_for_keys(void **state)
{
    struct rig *r = *state;
    char path[1024], request[8192];
    rig_path(r, "web token", path, sizeof path);
    rig_write(r, "web token", "eyJhbGciOi+/=.EXAMPLETOKEN\n");
    (void)setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
    assert_int_equal(rig_open(r, NULL), ERR_INVALID);
    rig_says(r, "AWS_ROLE_ARN");
    (void)setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/web", 1);
    (void)setenv("AWS_ENDPOINT_URL_STS", stand_in_url(r->server), 1);
    rig_write(r, ".aws/credentials",
              "[default]\naws_access_key_id=FILE\naws_secret_access_key=x\n");
    answers_with(r, STS, sts_answer(ACCESS, NOW + 60 * MINUTE));
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(r->keys.secret_key, SECRET);
    assert_string_equal(r->keys.session_token, TOKEN);
    stand_in_last(r->server, STS, request, sizeof request);
    assert_non_null(strstr(request, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&"));
    assert_non_null(strstr(request, "&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fweb&"));
    assert_non_null(strstr(request, "&RoleSessionName=sluice-"));
    assert_non_null(strstr(request, "&WebIdentityToken=eyJhbGciOi%2B%2F%3D.EXAMPLETOKEN"));
    answers_with(r, STS, sts_answer("NEW", NOW + 120 * MINUTE));
    rig_gets(r, NOW + 55 * MINUTE, "NEW");
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1); // STS is asked through it, and it is away
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_UNAVAILABLE);
}

static void web_identity_that_is_refused_names_the_code(void **state)
{
    struct rig *r = *state;
    char path[1024];
    rig_path(r, "web", path, sizeof path);
    rig_write(r, "web", TOKEN);
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        "[profile web]\nrole_arn = arn:aws:iam::1:role/r\nweb_identity_token_file = %s\n", path);
    rig_write(r, ".aws/config", text);
    (void)setenv("AWS_ENDPOINT_URL", stand_in_url(r->server), 1);
    stand_in_answer(r->server, STS, 400,
                    "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code>"
                    "<Message>" TOKEN "</Message></Error></ErrorResponse>");
    rig_opens(r, "web");
    assert_int_equal(rig_get(r, NOW), ERR_DENIED);
    rig_says(r, "ExpiredTokenException");
    stand_in_answer(r->server, STS, 400, "<Code>" TOKEN "</Code>"); // no code looks like that
    assert_int_equal(rig_get(r, NOW + MINUTE / 2), ERR_DENIED);
    stand_in_answer(r->server, STS, 200, "<Credentials><AccessKeyId>" SECRET "</AccessKeyId>");
    assert_int_equal(rig_get(r, NOW + MINUTE), ERR_UNAVAILABLE);
    stand_in_answer(r->server, STS, 500, SECRET);
    assert_int_equal(rig_get(r, NOW + 2 * MINUTE), ERR_UNAVAILABLE);
}

struct caller {
    struct rig *rig;
    int64_t now_ms;
    enum err err;
    struct s3_keys keys;
    pthread_t thread;
};

static void *ask_once(void *ctx)
{
    struct caller *a = ctx;
    char why[512];
    a->err = s3_credentials_get(a->rig->credentials, a->now_ms, &a->keys, why, sizeof why);
    return NULL;
}

static void start(struct caller *a, struct rig *r, int64_t now_ms)
{
    *a = (struct caller){.rig = r, .now_ms = now_ms};
    assert_int_equal(pthread_create(&a->thread, NULL, ask_once, a), 0);
}

static void one_fetches_while_others_go_on_with_the_old_keys(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    be_container(r, "NEW", NOW + 120 * MINUTE);
    stand_in_hang(r->server, CONTAINER, true);
    struct caller first;
    start(&first, r, NOW + 56 * MINUTE);
    assert_true(stand_in_await(r->server, CONTAINER, 2));
    for (int i = 0; i < 10; i++)
        rig_gets(r, NOW + 56 * MINUTE, ACCESS); // returns although the service hangs
    assert_int_equal(stand_in_count(r->server, CONTAINER), 2);
    stand_in_hang(r->server, CONTAINER, false);
    (void)pthread_join(first.thread, NULL);
    assert_int_equal(first.err, ERR_OK);
    assert_string_equal(first.keys.access_key, "NEW");
    rig_gets(r, NOW + 56 * MINUTE, "NEW");
}

static void many_that_have_nothing_yet_wait_for_one_fetch(void **state)
{
    struct rig *r = *state;
    be_container(r, ACCESS, NOW + 60 * MINUTE);
    stand_in_hang(r->server, CONTAINER, true);
    rig_opens(r, NULL);
    struct caller callers[8];
    for (size_t i = 0; i < 8; i++)
        start(&callers[i], r, NOW + (int64_t)i - 4); // their times differ a little
    assert_true(stand_in_await(r->server, CONTAINER, 1));
    stand_in_hang(r->server, CONTAINER, false);
    for (size_t i = 0; i < 8; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].err, ERR_OK);
        assert_string_equal(callers[i].keys.access_key, ACCESS);
    }
    assert_int_equal(stand_in_count(r->server, CONTAINER), 1);
}

struct storm {
    struct rig *rig;
    atomic_int wrong;
};

static void *storm_thread(void *ctx)
{
    struct storm *s = ctx;
    char why[512];
    struct s3_keys keys;
    for (int64_t i = 0; i < 300; i++) {
        enum err err =
            s3_credentials_get(s->rig->credentials, NOW + i * MINUTE / 10, &keys, why, sizeof why);
        bool fits = !err && strcmp(keys.secret_key, SECRET) == 0;
        if (!fits) atomic_fetch_add(&s->wrong, 1);
        if (i % 50 == 49) (void)s3_credentials_refused(s->rig->credentials, &keys);
        if (!*s3_credentials_source(s->rig->credentials)) atomic_fetch_add(&s->wrong, 1);
    }
    return NULL;
}

static void threads_may_get_refuse_and_ask_all_at_once(void **state)
{
    struct rig *r = *state;
    be_instance(r, ACCESS, NOW + 20 * MINUTE); // near enough to its end for many fetches
    rig_opens(r, NULL);
    struct storm s = {.rig = r};
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm_thread, &s), 0);
    for (size_t i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_true(stand_in_count(r->server, ROLE_KEYS) > 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(instance_is_asked_by_version_2),
        CASE(instance_without_version_2_is_asked_by_version_1),
        CASE(instance_whose_token_gets_lost_is_asked_by_version_1),
        CASE(instance_without_a_role_has_no_keys),
        CASE(machine_without_the_service_has_no_keys_and_does_not_wait),
        CASE(service_that_hangs_is_given_up_after_two_seconds),
        CASE(proxies_are_not_asked),
        CASE(keys_are_fetched_again_five_minutes_before_they_expire),
        CASE(old_keys_are_used_until_they_expire_while_the_service_is_away),
        CASE(failed_fetches_are_spaced_out),
        CASE(step_back_of_the_clock_does_not_stop_the_fetching),
        CASE(keys_that_seem_expired_when_they_come_are_used),
        CASE(refused_keys_are_fetched_anew_before_the_next_use),
        CASE(container_gets_its_token),
        CASE(token_in_a_file_is_read_before_each_request),
        CASE(plain_text_goes_only_to_this_machine_and_the_known_addresses),
        CASE(relative_address_is_the_tasks),
        CASE(answers_that_make_no_sense_are_told_without_their_text),
        CASE(web_identity_is_traded_for_keys),
        CASE(web_identity_that_is_refused_names_the_code),
        CASE(one_fetches_while_others_go_on_with_the_old_keys),
        CASE(many_that_have_nothing_yet_wait_for_one_fetch),
        CASE(threads_may_get_refuse_and_ask_all_at_once),
    };
    return cmocka_run_group_tests_name("credentials_services", tests, NULL, NULL);
}
