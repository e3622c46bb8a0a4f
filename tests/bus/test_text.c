// SPDX-License-Identifier: Apache-2.0
// What the bus reads without a server: URLs, credentials, acknowledgements, limits of streams.
#include "bus/ack.h"
#include "bus/credentials.h"
#include "bus/stream.h"
#include "bus/url.h"
#include "os/file.h"

#include "../unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void a_url_names_servers_and_limits(void **state)
{
    struct bus_url u;
    char why[BUS_WHY_MAX] = "";
    (void)state;
    assert_int_equal(bus_url_read("nats://a,b:5000,[::1]:7/?replicas=3&maxAge=2d&maxBytes=1000&"
                                  "dedupWindow=5m",
                                  &u, why),
                     ERR_OK);
    assert_true(u.servers_len == 3 && !u.tls);
    assert_string_equal(u.servers[0], "nats://a:4222");
    assert_string_equal(u.servers[1], "nats://b:5000");
    assert_string_equal(u.servers[2], "nats://[::1]:7");
    assert_true(u.limits.replicas == 3 && u.limits.max_age_ms == 172800000 &&
                u.limits.max_bytes == 1000 && u.limits.dedup_ms == 300000);
    assert_int_equal(bus_url_read("tls://bus.example.org", &u, why), ERR_OK);
    assert_true(u.tls && u.limits.replicas == 1 && u.limits.dedup_ms == 120000);
    assert_string_equal(u.servers[0], "tls://bus.example.org:4222");
    assert_int_equal(bus_url_read("nats://h?maxAge=0", &u, why), ERR_OK);
    assert_true(u.limits.max_age_ms == 0 && !u.limits.by_shard);
    assert_int_equal(bus_url_read("nats://h?streams=shard", &u, why), ERR_OK);
    assert_true(u.limits.by_shard && u.prefix[0] == 0);
}

static void a_prefix_is_before_each_subject_and_stream(void **state)
{
    struct bus_url u;
    char why[BUS_WHY_MAX] = "", out[24];
    (void)state;
    assert_int_equal(bus_url_read("nats://h?prefix=staging", &u, why), ERR_OK);
    assert_true(bus_url_subject(&u, "sluice.v1.>", out, sizeof out));
    assert_string_equal(out, "staging.sluice.v1.>");
    assert_string_equal(bus_url_own(&u, out), "sluice.v1.>");
    assert_string_equal(bus_url_own(&u, "stagingx.a"), "stagingx.a");
    assert_true(bus_url_stream(&u, "SLUICE_orders", out, sizeof out));
    assert_string_equal(out, "staging-SLUICE_orders");
    assert_false(bus_url_stream(&u, "SLUICE_orders_and_more", out, sizeof out));
    assert_int_equal(bus_url_read("nats://h", &u, why), ERR_OK);
    assert_true(bus_url_subject(&u, "sluice.v1.>", out, sizeof out));
    assert_string_equal(out, "sluice.v1.>");
    assert_string_equal(bus_url_own(&u, "a.b"), "a.b");
}

static void a_bad_url_is_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *url;
        const char *says;
    } rows[] = {
        {"kafka://h", "bus \"kafka://\": only nats:// and tls:// are supported"},
        {"h:4222", "has a scheme, as in nats://"},
        {"nats://", "is not a host of a bus"},
        {"nats://a,,b", "is not a host of a bus"},
        {"nats://a b", "\"a b\" is not a host of a bus"},
        {"nats://h:0", "port"},
        {"nats://h:70000", "port"},
        {"nats://u:secret@h", "credentials must not be in the URL"},
        {"nats://secret@h", "SLUICE_NATS_TOKEN"},
        {"nats://h?token=secret", "a token must not be in the URL"},
        {"nats://h?replicas=9", "replicas"},
        {"nats://h?maxAge=7", "maxAge \"7\" is not a duration"},
        {"nats://h?dedupWindow=10ms", "shorter than 1s"},
        {"nats://h?maxbytes=7", "\"maxbytes\" is not a setting of a bus"},
        {"nats://h?prefix=", "prefix \"\" is not 1 to 32 of"},
        {"nats://h?prefix=a.b", "prefix \"a.b\" is not 1 to 32 of"},
        {"nats://h?prefix=*", "prefix \"*\" is not 1 to 32 of"},
        {"nats://h?streams=all", "streams \"all\" is not one of queue, shard"},
        {"nats://h#x", "has no #"},
    };
    struct bus_url u;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char why[BUS_WHY_MAX] = "";
        assert_int_equal(bus_url_read(rows[i].url, &u, why), ERR_INVALID);
        if (!strstr(why, rows[i].says)) fail_msg("%s: %s", rows[i].url, why);
        assert_null(strstr(why, "secret"));
    }
}

static void clear_environment(void)
{
    static const char *const names[] = {"USER",       "PASSWORD",  "PASSWORD_FILE", "TOKEN",
                                        "TOKEN_FILE", "NKEY_FILE", "CREDS_FILE",    "CA_FILE",
                                        "CERT_FILE",  "KEY_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "SLUICE_NATS_%s", names[i]);
        assert_int_equal(unsetenv(name), 0);
    }
}

#define PATH_LEN 512

// The name of a file that mkstemp makes, in the folder for temporary files.
static void temporary(char path[PATH_LEN])
{
    const char *folder = getenv("TMPDIR");
    (void)snprintf(path, PATH_LEN, "%s/sluice-bus-XXXXXX", folder ? folder : "/var/tmp");
}

static void credentials_come_from_the_environment_or_files(void **state)
{
    struct bus_credentials c;
    char why[BUS_WHY_MAX] = "", path[PATH_LEN];
    (void)state;
    temporary(path);
    clear_environment();
    assert_int_equal(bus_credentials_read(&c, why), ERR_OK);
    assert_true(c.user[0] == 0 && c.token[0] == 0);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "word\n", 5) == 5 && close(fd) == 0);
    assert_int_equal(setenv("SLUICE_NATS_USER", "bob", 1), 0);
    assert_int_equal(setenv("SLUICE_NATS_PASSWORD_FILE", path, 1), 0);
    assert_int_equal(bus_credentials_read(&c, why), ERR_OK);
    assert_string_equal(c.user, "bob");
    assert_string_equal(c.password, "word");
    bus_credentials_done(&c);
    assert_int_equal(setenv("SLUICE_NATS_PASSWORD", "other", 1), 0);
    assert_int_equal(bus_credentials_read(&c, why), ERR_INVALID);
    assert_non_null(strstr(why, "are both set"));
    clear_environment();
    assert_int_equal(setenv("SLUICE_NATS_PASSWORD", "secret", 1), 0);
    assert_int_equal(bus_credentials_read(&c, why), ERR_INVALID);
    assert_non_null(strstr(why, "is set without SLUICE_NATS_USER"));
    clear_environment();
    assert_int_equal(setenv("SLUICE_NATS_TOKEN", "secret", 1), 0);
    assert_int_equal(setenv("SLUICE_NATS_NKEY_FILE", path, 1), 0);
    assert_int_equal(bus_credentials_read(&c, why), ERR_INVALID);
    assert_non_null(strstr(why, "exclude one another"));
    clear_environment();
    assert_int_equal(setenv("SLUICE_NATS_TOKEN_FILE", "/nowhere/token", 1), 0);
    assert_int_equal(bus_credentials_read(&c, why), ERR_INVALID);
    assert_non_null(strstr(why, "cannot read /nowhere/token"));
    clear_environment();
    assert_int_equal(unlink(path), 0);
}

// The example of the nkeys project's documentation: a seed and its public key.
static void a_seed_gives_its_public_key(void **state)
{
    char path[PATH_LEN], key[BUS_NKEY_LEN + 1], why[BUS_WHY_MAX] = "";
    (void)state;
    temporary(path);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    const char *seed = "# a key\nSUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n";
    assert_int_equal(file_write(path, bytes_str(seed)), 0);
    assert_int_equal(bus_nkey_public(path, key, why), ERR_OK);
    assert_string_equal(key, "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4");
    seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VX\n";
    assert_int_equal(file_write(path, bytes_str(seed)), 0);
    assert_int_equal(bus_nkey_public(path, key, why), ERR_INVALID);
    assert_non_null(strstr(why, "has no seed of a user"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(bus_nkey_public(path, key, why), ERR_INVALID);
    assert_non_null(strstr(why, "cannot read"));
}

static void an_acknowledgement_says_what_became_of_the_message(void **state)
{
    static const struct {
        const char *body;
        enum err err;
        uint64_t sequence;
        bool duplicate;
    } rows[] = {
        {"{\"stream\":\"S\",\"seq\":7}", ERR_OK, 7, false},
        {"{\"stream\":\"S\",\"domain\":\"d\",\"seq\":7,\"duplicate\": true}", ERR_OK, 7, true},
        {"{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: 9\"},"
         "\"stream\":\"S\",\"seq\":0}",
         ERR_CONFLICT, 0, false},
        {"{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"maximum bytes exceeded\"}}",
         ERR_LIMIT, 0, false},
        {"{\"error\":{\"code\":503,\"err_code\":10008,\"description\":\"unavailable\"}}",
         ERR_UNAVAILABLE, 0, false},
        {"{\"stream\":\"S\",\"seq\":0}", ERR_UNKNOWN, 0, false},
        {"[1]", ERR_UNKNOWN, 0, false},
        {"", ERR_UNKNOWN, 0, false},
        {"+OK", ERR_UNKNOWN, 0, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char why[BUS_WHY_MAX];
        struct bus_ack ack = {.tag = 3};
        bus_ack_read(bytes_str(rows[i].body), &ack, why);
        assert_int_equal(ack.err, rows[i].err);
        assert_true(ack.sequence == rows[i].sequence && ack.duplicate == rows[i].duplicate);
        assert_true(ack.tag == 3 && (ack.err == ERR_OK) == (why[0] == 0));
    }
}

static void a_stream_with_another_limit_is_named(void **state)
{
    static const char *const subjects[] = {"a.>", "b.>"};
    struct bus_limits limits = {.replicas = 1, .max_age_ms = 1000, .dedup_ms = 120000};
    struct bus_stream want = {
        .name = "S", .subjects = subjects, .subjects_len = 2, .limits = limits};
    struct bus_stream_settings same = {.subjects = subjects,
                                       .subjects_len = 2,
                                       .limits = limits,
                                       .in_files = true,
                                       .keeps_by_limits = true},
                               other;
    char why[BUS_WHY_MAX] = "";
    (void)state;
    assert_int_equal(bus_stream_compare(&want, &same, why), ERR_OK);
#define DIFFERS(change, says)                                                                      \
    do {                                                                                           \
        other = same;                                                                              \
        change;                                                                                    \
        assert_int_equal(bus_stream_compare(&want, &other, why), ERR_CONFLICT);                    \
        if (!strstr(why, says)) fail_msg("%s", why);                                               \
    } while (0)
    DIFFERS(other.limits.replicas = 3, "stream S of the bus has replicas 3, not 1");
    DIFFERS(other.limits.max_age_ms = 0, "has maxAge 0, not 1s");
    DIFFERS(other.limits.max_bytes = 5, "has maxBytes 5, not 0");
    DIFFERS(other.limits.dedup_ms = 5000, "has dedupWindow 5s, not 2m");
    DIFFERS(other.in_files = false, "has storage memory, not file");
    DIFFERS(other.keeps_by_limits = false, "retention");
    DIFFERS(other.subjects_len = 1, "subjects without b.>");
#undef DIFFERS
}

static void an_acknowledgement_with_another_subject_is_refused(void **state)
{
    static const char *const refused[] = {
        "",       "x",         "_INBOX.a",   "_INBOX.a.",     "_INBOX.a.7",
        "_INBOX", "_INBOX.a.", "_INBOX.a.-", "_INBOX.a.7-",   "_INBOX.a.x-1",
        "_INBO.", "_INBOX.b",  "_INBOX.b.1", "_INBOX.ab.7-9", "_INBOX.a.7-9x"};
    uint64_t sender = 0, tag = 0;
    (void)state;
    assert_true(bus_ack_subject("_INBOX.a.7-9", "_INBOX.a", &sender, &tag));
    assert_true(sender == 7 && tag == 9);
    assert_false(bus_ack_subject(NULL, "_INBOX.a", &sender, &tag));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_false(bus_ack_subject(refused[i], "_INBOX.a", &sender, &tag));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_acknowledgement_with_another_subject_is_refused),
        cmocka_unit_test(a_prefix_is_before_each_subject_and_stream),
        cmocka_unit_test(a_url_names_servers_and_limits),
        cmocka_unit_test(a_bad_url_is_refused_with_a_sentence),
        cmocka_unit_test(credentials_come_from_the_environment_or_files),
        cmocka_unit_test(a_seed_gives_its_public_key),
        cmocka_unit_test(an_acknowledgement_says_what_became_of_the_message),
        cmocka_unit_test(a_stream_with_another_limit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
