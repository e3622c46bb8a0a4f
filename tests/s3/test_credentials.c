// SPDX-License-Identifier: Apache-2.0
// Keys and settings from the environment and the shared files.
#include "credentials_rig.h"

#include "store/s3/auth/ini.h"
#include "store/s3/auth/keys.h"
#include "store/s3/auth/process.h"
#include "store/s3/auth/times.h"
#include "json/raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIR "aws_access_key_id = " ACCESS "\naws_secret_access_key = " SECRET "\n"

static const struct s3_profile *settings_of(const struct rig *r)
{
    return s3_credentials_profile(r->credentials);
}

static void environment_comes_first(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/credentials",
              "[default]\naws_access_key_id=OTHER\naws_secret_access_key=x\n");
    (void)setenv("AWS_ACCESS_KEY_ID", ACCESS, 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    (void)setenv("AWS_SESSION_TOKEN", TOKEN, 1);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(r->keys.secret_key, SECRET);
    assert_string_equal(r->keys.session_token, TOKEN);
    assert_string_equal(s3_credentials_source(r->credentials), "environment");
    assert_false(s3_credentials_refused(r->credentials, &r->keys));
}

static void profile_asked_for_by_name_comes_before_the_environment(void **state)
{
    struct rig *r = *state;
    (void)setenv("AWS_ACCESS_KEY_ID", "OTHER", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    rig_write(r, ".aws/credentials", "[blue]\n" PAIR);
    rig_opens(r, "blue");
    rig_gets(r, NOW, ACCESS);
    rig_opens(r, NULL);
    rig_gets(r, NOW, "OTHER");
    (void)setenv("AWS_PROFILE", "blue", 1); // says which profile, not that it is to be used
    rig_opens(r, NULL);
    rig_gets(r, NOW, "OTHER");
}

static void half_an_environment_names_the_missing_half(void **state)
{
    struct rig *r = *state;
    (void)setenv("AWS_ACCESS_KEY_ID", ACCESS, 1);
    assert_int_equal(rig_open(r, NULL), ERR_INVALID);
    rig_says(r, "AWS_SECRET_ACCESS_KEY is not set");
    (void)unsetenv("AWS_ACCESS_KEY_ID");
    (void)setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    assert_int_equal(rig_open(r, NULL), ERR_INVALID);
    rig_says(r, "AWS_ACCESS_KEY_ID is not set");
    (void)setenv("AWS_ACCESS_KEY_ID", "", 1); // empty is not set
    assert_int_equal(rig_open(r, NULL), ERR_INVALID);
}

static void line_break_in_a_key_is_refused(void **state)
{
    struct rig *r = *state;
    (void)setenv("AWS_ACCESS_KEY_ID", ACCESS, 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", SECRET "\n", 1);
    assert_int_equal(rig_open(r, NULL), ERR_INVALID);
    rig_says(r, "secret key holds a space or line break");
}

static void credentials_file_wins_over_the_config_file(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/config",
              "[default]\nregion = eu-west-1\naws_access_key_id = OTHER\n"
              "aws_secret_access_key = x\n");
    rig_write(r, ".aws/credentials", "[default]\n" PAIR "aws_session_token = " TOKEN "\n");
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(r->keys.session_token, TOKEN);
    assert_string_equal(settings_of(r)->region, "eu-west-1");
    assert_string_equal(s3_credentials_source(r->credentials),
                        "profile default in ~/.aws/credentials");
}

static void profiles_are_named_differently_in_the_two_files(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/config",
              "[blue]\nregion = wrong\n[profile blue]\nregion = eu-north-1\n"
              "[profile \"two words\"]\nregion = two\n");
    rig_write(r, ".aws/credentials",
              "[profile blue]\naws_access_key_id=OTHER\naws_secret_access_key=x\n[blue]\n" PAIR);
    (void)setenv("AWS_PROFILE", "blue", 1);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(settings_of(r)->region, "eu-north-1");
    rig_opens(r, "two words");
    assert_string_equal(settings_of(r)->region, "two");
}

static void profile_default_hides_plain_default(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/config", "[profile default]\nregion = right\n[default]\nregion = wrong\n");
    rig_opens(r, NULL);
    assert_string_equal(settings_of(r)->region, "right");
}

static void comments_spaces_and_windows_line_ends_are_fine(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/credentials",
              "\xef\xbb\xbf# comment\r\n; another\r\n\r\n[ default ] ; why\r\n"
              "  AWS_Access_Key_Id=" ACCESS "\r\n  aws_secret_access_key\t=\t" SECRET
              "  # mine\r\n");
    rig_write(r, ".aws/config", "[default]\nregion = a#b\nca_bundle = /etc/x ; there");
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(r->keys.secret_key, SECRET);
    assert_string_equal(settings_of(r)->region, "a#b"); // no space before: not a comment
    assert_string_equal(settings_of(r)->ca_bundle, "/etc/x");
}

static void endpoint_of_s3_wins_over_the_general_one(void **state)
{
    struct rig *r = *state;
    static const char general[] = "[profile a]\ns3 =\n  addressing_style = path\n"
                                  "endpoint_url = http://general\n";
    static const char nested[] = "[profile a]\ns3 =\n  endpoint_url = http://nested\n"
                                 "endpoint_url = http://general\n";
    static const char service[] =
        "[services mine]\ndynamodb =\n  endpoint_url = http://wrong\ns3 =\n"
        "  signature_version = s3v4\n  endpoint_url = http://service\n"
        "[services other]\ns3 =\n  endpoint_url = http://wrong\n"
        "[profile a]\nservices = mine\nendpoint_url = http://general\n";
    static const char ignored[] = "[profile a]\nignore_configured_endpoint_urls = true\n"
                                  "endpoint_url = http://general\n";
    static const char *const cases[][2] = {{general, "http://general"},
                                           {nested, "http://nested"},
                                           {service, "http://service"},
                                           {ignored, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_write(r, ".aws/config", cases[i][0]);
        rig_opens(r, "a");
        assert_string_equal(settings_of(r)->endpoint, cases[i][1]);
    }
    (void)setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
    rig_write(r, ".aws/config", service);
    rig_opens(r, "a");
    assert_string_equal(settings_of(r)->endpoint, "");
}

static void files_named_by_the_environment_are_read_instead(void **state)
{
    struct rig *r = *state;
    char path[1024];
    rig_path(r, "other", path, sizeof path);
    rig_write(r, "other", "[default]\n" PAIR);
    rig_write(r, "config too", "[default]\nregion = eu-south-2\n");
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    (void)setenv("AWS_CONFIG_FILE", "~/config too", 1);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(settings_of(r)->region, "eu-south-2");
}

static void missing_profile_is_named_with_the_files(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/credentials", "[default]\n" PAIR);
    assert_int_equal(rig_open(r, "nowhere"), ERR_INVALID);
    rig_says(r, "\"nowhere\"");
    rig_says(r, "~/.aws/config");
    rig_says(r, "~/.aws/credentials");
}

static void malformed_file_is_named_with_its_line_and_without_its_text(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *text;
        const char *where;
    } rows[] = {
        {"[default]\naws_secret_access_key " TOKEN "x", NULL},
        {SECRET "\n", ":1: expected a section"},
        {"[default" SECRET "\n", ":1: the section's name has no closing ]"},
        {"[default] " SECRET "\n", ":1: something follows"},
        {"[]\n", ":1: the section has no name"},
        {"[default]\ns3 =\n  EXAMPLESECRET\n", ":3: expected name = value"},
        {"[default]\naws_access_key_id = " ACCESS "\n   EXAMPLESECRET\n", ":3: the value"},
        {"[default]\naws_secret_access_key = " SECRET "\n", "aws_access_key_id is missing"},
        {"[default]\naws_access_key_id = " ACCESS "\n", "aws_secret_access_key is missing"},
        {"[default]\naws_access_key_id = " ACCESS "\naws_secret_access_key = a " SECRET "\n",
         "a space"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rig_write(r, ".aws/credentials", rows[i].text);
        enum err err = rig_open(r, NULL);
        if (!rows[i].where) continue; // whatever comes of it: no secret in it
        assert_int_equal(err, ERR_INVALID);
        rig_says(r, "~/.aws/credentials");
        rig_says(r, rows[i].where);
    }
}

static void value_that_is_too_long_is_refused(void **state)
{
    struct rig *r = *state;
    char text[S3_KEY_MAX + 128];
    (void)snprintf(text, sizeof text, "[default]\naws_secret_access_key = %0*d\n", S3_KEY_MAX, 7);
    rig_write(r, ".aws/credentials", text);
    assert_int_equal(rig_open(r, NULL), ERR_INVALID);
    rig_says(r, "~/.aws/credentials:2: ");
}

static void no_keys_anywhere_says_where_was_looked(void **state)
{
    struct rig *r = *state;
    rig_opens(r, NULL);
    assert_int_equal(rig_get(r, NOW), ERR_DENIED);
    rig_says(r, "AWS_ACCESS_KEY_ID");
    rig_says(r, "~/.aws/credentials");
    rig_says(r, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    rig_says(r, "AWS_EC2_METADATA_DISABLED");
    assert_string_equal(s3_credentials_source(r->credentials), "none");
}

static void source_that_is_not_supported_is_named(void **state)
{
    struct rig *r = *state;
    static const char *const names[] = {"source_profile", "credential_source", "sso_session",
                                        "sso_start_url"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "[profile a]\n%s = x\n", names[i]);
        rig_write(r, ".aws/config", text);
        assert_int_equal(rig_open(r, "a"), ERR_INVALID);
        rig_says(r, names[i]);
        rig_says(r, "credential_process");
    }
}

static void refused_keys_of_a_file_are_read_again_once(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/credentials", "[default]\n" PAIR);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    struct s3_keys first = r->keys;
    rig_write(r, ".aws/credentials", "[default]\naws_access_key_id=NEW\naws_secret_access_key=x\n");
    rig_gets(r, NOW, ACCESS); // no answer was refused
    assert_true(s3_credentials_refused(r->credentials, &first));
    rig_gets(r, NOW, "NEW");
    assert_true(s3_credentials_refused(r->credentials, &first)); // a late complaint changes nothing
    rig_gets(r, NOW, "NEW");
    assert_true(s3_credentials_refused(r->credentials, &r->keys));
    rig_gets(r, NOW, "NEW");
    assert_false(s3_credentials_refused(r->credentials, &r->keys)); // it was read again, in vain
    rig_gets(r, NOW, "NEW");
}

static void file_that_gave_refused_keys_is_looked_at_again_later(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/credentials", "[default]\n" PAIR);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_true(s3_credentials_refused(r->credentials, &r->keys));
    rig_gets(r, NOW, ACCESS);
    rig_write(r, ".aws/credentials", "[default]\naws_access_key_id=NEW\naws_secret_access_key=x\n");
    rig_gets(r, NOW + MINUTE / 2, ACCESS);
    rig_gets(r, NOW + MINUTE, "NEW");
}

static void file_broken_while_read_again_is_an_error_until_it_is_mended(void **state)
{
    struct rig *r = *state;
    rig_write(r, ".aws/credentials", "[default]\n" PAIR);
    rig_opens(r, NULL);
    rig_gets(r, NOW, ACCESS);
    assert_true(s3_credentials_refused(r->credentials, &r->keys));
    rig_write(r, ".aws/credentials", "[default]\n" SECRET "x" TOKEN "\nEXAMPLESECRET\n");
    assert_int_equal(rig_get(r, NOW), ERR_INVALID);
    rig_write(r, ".aws/credentials", "[default]\n" PAIR);
    assert_int_equal(rig_get(r, NOW + 999), ERR_INVALID);
    rig_gets(r, NOW + 1000, ACCESS);
}

static void words_are_split_without_a_shell(void **state)
{
    (void)state;
    struct process_arguments w;
    assert_true(process_split("  /bin/x 'a b' \"c \\\" d\" e\\ f '' $HOME;ls\t-l ", &w));
    static const char *const words[] = {"/bin/x", "a b", "c \" d", "e f", "", "$HOME;ls", "-l"};
    assert_int_equal(w.len, sizeof words / sizeof *words);
    for (size_t i = 0; i < w.len; i++)
        assert_string_equal(w.argv[i], words[i]);
    assert_null(w.argv[w.len]);
    assert_false(process_split("a 'b", &w));
    assert_false(process_split("   ", &w));
}

static void process_of_a_profile_is_run_and_run_again_before_its_keys_expire(void **state)
{
    struct rig *r = *state;
    char path[1024], text[4096];
    char *answer = process_answer(ACCESS, NOW + 60 * MINUTE);
    rig_write(r, "answer", answer);
    rig_path(r, "answer", path, sizeof path);
    (void)snprintf(text, sizeof text, "[profile a]\ncredential_process = cat \"%s\"\n", path);
    rig_write(r, ".aws/config", text);
    rig_opens(r, "a");
    rig_gets(r, NOW, ACCESS);
    assert_string_equal(r->keys.session_token, TOKEN);
    free(answer);
    answer = process_answer("NEW", NOW + 120 * MINUTE);
    rig_write(r, "answer", answer);
    free(answer);
    rig_gets(r, NOW + 55 * MINUTE - 1, ACCESS);
    rig_gets(r, NOW + 55 * MINUTE, "NEW");
}

static void process_that_fails_is_explained_without_its_output(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *command;
        const char *says;
        enum err err;
    } rows[] = {
        {"sh -c 'echo " SECRET "; echo " TOKEN " >&2; exit 3'", "status 3", ERR_UNAVAILABLE},
        {"sh -c 'kill -9 $$'", "signal 9", ERR_UNAVAILABLE},
        {"echo " SECRET, "not the JSON expected", ERR_UNAVAILABLE},
        {"echo '{\"Version\": 2, \"AccessKeyId\": \"" SECRET "\"}'", "Version", ERR_UNAVAILABLE},
        {"echo '{\"Version\": 1, \"SecretAccessKey\": \"" SECRET "\"}'", "access key",
         ERR_UNAVAILABLE},
        {"/no/such/program " SECRET, "cannot be started", ERR_UNAVAILABLE},
        {"echo '" SECRET, "quote", ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "[profile a]\ncredential_process = %s\n",
                       rows[i].command);
        rig_write(r, ".aws/config", text);
        rig_opens(r, "a");
        assert_int_equal(rig_get(r, NOW), rows[i].err);
        rig_says(r, rows[i].says);
    }
}

static void times_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-01-01T00:00:00Z", NOW},
        {"2024-02-29T12:34:56.789Z", INT64_C(1709210096789)},
        {"2026-01-01T02:00:00+02:00", NOW},
        {"2025-12-31T18:30:00-0530", NOW},
    };
    int64_t ms;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(s3_time_iso(rows[i].text, &ms));
        assert_true(ms == rows[i].ms);
    }
    static const char *const wrong[] = {"",
                                        "2026-01-01",
                                        "2026-13-01T00:00:00Z",
                                        "2026-01-01T00:00:00",
                                        "2026-01-01T00:00:00Zx",
                                        "2026-01-01T00:00:00+24:00",
                                        "2026-01-01T00:00:00+0200x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(s3_time_iso(wrong[i], &ms));
}

#define KEYS "\"AccessKeyId\":\"" ACCESS "\",\"SecretAccessKey\":\"" SECRET "\""

static enum err answer(const char *text, struct s3_source_answer *out)
{
    char why[160] = "";
    enum err err = s3_keys_read(bytes_str(text), false, out, why, sizeof why);
    assert_true(!err == !*why);
    assert_null(strstr(why, SECRET));
    return err;
}

static void json_is_read_strictly(void **state)
{
    (void)state;
    struct s3_source_answer a = {0};
    assert_int_equal(
        answer(" { \"b\" : [1, {\"Token\": [null]}, -0.5e+3, \"\\ud83d\\ude00\"], " KEYS
               " , \"Token\" : \"x\\/\\u007e\" } \n",
               &a),
        ERR_OK);
    assert_string_equal(a.keys.session_token, "x/~");
    assert_int_equal(answer("{" KEYS ",\"Token\":12}", &a), ERR_OK);
    assert_string_equal(a.keys.session_token, "12");
    assert_int_equal(answer("{" KEYS ",\"Token\":null,\"longer than any name of a field, which "
                            "the reader skips\":true}",
                            &a),
                     ERR_OK);
    assert_string_equal(a.keys.session_token, "");
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{",
                                        "{" KEYS,
                                        "{" KEYS "} x",
                                        "{" KEYS ",}",
                                        "{" KEYS ",\"Token\" \"x\"}",
                                        "{" KEYS "," KEYS "}",
                                        "{" KEYS ",\"Token\":\"\\x\"}",
                                        "{" KEYS ",\"Token\":\"\\ud83d\"}",
                                        "{" KEYS ",\"Token\":\"\\u0000\"}",
                                        "{" KEYS ",\"Token\":{}}",
                                        "{" KEYS ",\"Token\":true}",
                                        "{" KEYS ",\"Token\":01}",
                                        "{" KEYS ",\"b\":tru}",
                                        "{" KEYS ",\"b\":[1,]}",
                                        "{" KEYS ",\"Token\":\"\n\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(answer(wrong[i], &a), ERR_UNAVAILABLE);
}

static void value_longer_than_its_field_is_refused(void **state)
{
    (void)state;
    static const char letters[] = "x\\u00e9\xc3\xa9\\ud83d\\ude00y"; // 1, 2, 2, 4 and 1 bytes
    char to[11];
    assert_true(json_raw_unescape(bytes_str(letters), to, sizeof to));
    assert_string_equal(to, "x\xc3\xa9\xc3\xa9\xf0\x9f\x98\x80y");
    for (size_t size = 1; size < sizeof to; size++) {
        memset(to, 'z', sizeof to);
        assert_false(json_raw_unescape(bytes_str(letters), to, size));
        assert_true(strlen(to) < size && (size == sizeof to || to[size] == 'z'));
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(environment_comes_first),
        CASE(profile_asked_for_by_name_comes_before_the_environment),
        CASE(half_an_environment_names_the_missing_half),
        CASE(line_break_in_a_key_is_refused),
        CASE(credentials_file_wins_over_the_config_file),
        CASE(profiles_are_named_differently_in_the_two_files),
        CASE(profile_default_hides_plain_default),
        CASE(comments_spaces_and_windows_line_ends_are_fine),
        CASE(endpoint_of_s3_wins_over_the_general_one),
        CASE(files_named_by_the_environment_are_read_instead),
        CASE(missing_profile_is_named_with_the_files),
        CASE(malformed_file_is_named_with_its_line_and_without_its_text),
        CASE(value_that_is_too_long_is_refused),
        CASE(no_keys_anywhere_says_where_was_looked),
        CASE(source_that_is_not_supported_is_named),
        CASE(refused_keys_of_a_file_are_read_again_once),
        CASE(file_that_gave_refused_keys_is_looked_at_again_later),
        CASE(file_broken_while_read_again_is_an_error_until_it_is_mended),
        CASE(words_are_split_without_a_shell),
        CASE(process_of_a_profile_is_run_and_run_again_before_its_keys_expire),
        CASE(process_that_fails_is_explained_without_its_output),
        CASE(times_are_read_exactly),
        CASE(json_is_read_strictly),
        CASE(value_longer_than_its_field_is_refused),
    };
    return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
