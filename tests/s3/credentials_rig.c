// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // asprintf, environ
#include "credentials_rig.h"

#include "os/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void forget_aws(void)
{
    for (char **e = environ; *e;) {
        char name[256];
        size_t len = strcspn(*e, "=");
        bool ours = (strncmp(*e, "AWS_", 4) == 0 || strcasestr(*e, "_proxy=")) && len < sizeof name;
        if (!ours) {
            e++;
            continue;
        }
        memcpy(name, *e, len);
        name[len] = 0;
        (void)unsetenv(name);
        e = environ;
    }
}

int rig_setup(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    char folder[SCRATCH_PATH_MAX + 16];
    if (!scratch_make(&r->home, NULL)) return -1;
    (void)snprintf(folder, sizeof folder, "%s/.aws", r->home.path);
    if (mkdir(folder, 0700) != 0) return -1;
    forget_aws();
    (void)setenv("HOME", r->home.path, 1);
    (void)setenv("AWS_EC2_METADATA_DISABLED", "true", 1); // a test asks for it where it wants it
    r->client = http_new(&(struct http_config){.direct = true, .connect_ms = 1000});
    r->server = stand_in_new();
    *state = r;
    return 0;
}

int rig_teardown(void **state)
{
    struct rig *r = *state;
    s3_credentials_free(r->credentials);
    stand_in_free(r->server);
    http_free(r->client);
    scratch_remove(&r->home);
    forget_aws();
    free(r);
    return 0;
}

void rig_path(const struct rig *r, const char *name, char *to, size_t size)
{
    (void)snprintf(to, size, "%s/%s", r->home.path, name);
}

void rig_write(struct rig *r, const char *name, const char *text)
{
    char path[SCRATCH_PATH_MAX + 64];
    rig_path(r, name, path, sizeof path);
    assert_int_equal(file_write(path, bytes_str(text)), 0);
}

static void no_secret_in(const char *text)
{
    assert_null(strstr(text, SECRET));
    assert_null(strstr(text, TOKEN));
    assert_null(strstr(text, "EXAMPLESECRET"));
    assert_null(strstr(text, "EXAMPLETOKEN"));
}

enum err rig_open(struct rig *r, const char *profile)
{
    s3_credentials_free(r->credentials);
    r->why[0] = 0;
    enum err err = s3_credentials_new(r->client, profile, &r->credentials, r->why, sizeof r->why);
    no_secret_in(r->why);
    assert_true(!err == (r->credentials != NULL));
    if (!err) no_secret_in(s3_credentials_source(r->credentials));
    return err;
}

void rig_opens(struct rig *r, const char *profile)
{
    enum err err = rig_open(r, profile);
    if (err) print_error("%s\n", r->why);
    assert_int_equal(err, ERR_OK);
}

enum err rig_get(struct rig *r, int64_t now_ms)
{
    r->why[0] = 0;
    enum err err = s3_credentials_get(r->credentials, now_ms, &r->keys, r->why, sizeof r->why);
    no_secret_in(r->why);
    no_secret_in(s3_credentials_source(r->credentials));
    return err;
}

void rig_gets(struct rig *r, int64_t now_ms, const char *access_key)
{
    enum err err = rig_get(r, now_ms);
    if (err) print_error("%s\n", r->why);
    assert_int_equal(err, ERR_OK);
    assert_string_equal(r->keys.access_key, access_key);
}

void rig_says(const struct rig *r, const char *text)
{
    if (!strstr(r->why, text)) print_error("\"%s\" is not in: %s\n", text, r->why);
    assert_non_null(strstr(r->why, text));
}

static char *answer(const char *format, const char *access_key, int64_t expires_ms)
{
    char when[64], *text = NULL;
    time_t seconds = (time_t)(expires_ms / 1000);
    struct tm parts;
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    assert_true(asprintf(&text, format, access_key, SECRET, TOKEN, when) > 0);
#pragma GCC diagnostic pop
    return text;
}

char *instance_answer(const char *access_key, int64_t expires_ms)
{
    return answer("{\n  \"Code\" : \"Success\",\n  \"LastUpdated\" : \"2025-12-31T23:00:00Z\",\n"
                  "  \"Type\" : \"AWS-HMAC\",\n  \"AccessKeyId\" : \"%s\",\n"
                  "  \"SecretAccessKey\" : \"%s\",\n  \"Token\" : \"%s\",\n"
                  "  \"Expiration\" : \"%s\"\n}",
                  access_key, expires_ms);
}

char *container_answer(const char *access_key, int64_t expires_ms)
{
    return answer("{\"RoleArn\":\"arn:aws:iam::123456789012:role/task\",\"AccessKeyId\":\"%s\","
                  "\"SecretAccessKey\":\"%s\",\"Token\":\"%s\",\"Expiration\":\"%s\"}",
                  access_key, expires_ms);
}

char *process_answer(const char *access_key, int64_t expires_ms)
{
    return answer("{\"Version\": 1, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"%s\", "
                  "\"SessionToken\": \"%s\", \"Expiration\": \"%s\"}\n",
                  access_key, expires_ms);
}

char *sts_answer(const char *access_key, int64_t expires_ms)
{
    return answer(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n"
        "  <AssumeRoleWithWebIdentityResult>\n    <Audience>sts</Audience>\n    <Credentials>\n"
        "      <AccessKeyId>%s</AccessKeyId>\n      <SecretAccessKey>%s</SecretAccessKey>\n"
        "      <SessionToken>%s</SessionToken>\n      <Expiration>%s</Expiration>\n"
        "    </Credentials>\n  </AssumeRoleWithWebIdentityResult>\n"
        "</AssumeRoleWithWebIdentityResponse>\n",
        access_key, expires_ms);
}
