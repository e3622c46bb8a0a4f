// SPDX-License-Identifier: Apache-2.0
// A node's settings: file, environment, options; each error says where it was made.
#include "../unit/unit.h"
#include "server/config.h"
#include "server/log.h"
#include "server/tokens.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HASH "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static bool read_text(struct conf *c, const char *text, struct sluice_error *error)
{
    return conf_read_text(c, text, strlen(text), "a.conf", error);
}

// The file is refused with a message that has these words in it.
static void refused(const char *text, const char *words)
{
    struct sluice_error error = {0};
    struct conf *c = conf_new();
    bool read = read_text(c, text, &error) && conf_check(c, &error);
    if (read) fail_msg("it was taken: %s", text);
    if (!strstr(error.message, words)) fail_msg("\"%s\" is not in: %s", words, error.message);
    conf_free(c);
}

static void taken(const char *text)
{
    struct sluice_error error = {0};
    struct conf *c = conf_new();
    if (!read_text(c, text, &error) || !conf_check(c, &error))
        fail_msg("%s: %s", text, error.message);
    conf_free(c);
}

static const char *some_environment(const char *name)
{
    if (strcmp(name, "SLUICE_LIMITS_PER_CLIENT") == 0) return "7";
    return strcmp(name, "SLUICE_LISTEN") == 0 ? "127.0.0.1:2" : NULL;
}

static void options_go_before_the_environment_before_the_file(void **state)
{
    (void)state;
    struct sluice_error error;
    struct conf *c = conf_new();
    assert_string_equal(conf_source(c, CONF_NODE), "default");
    assert_true(read_text(
        c, "\n# ours\nlisten = 127.0.0.1:1\nnode = n1 # me\n[limits]\nperClient=3\n", &error));
    assert_string_equal(conf_source(c, CONF_LISTEN), "a.conf:3");
    assert_true(conf_read_environment(c, some_environment, &error));
    assert_string_equal(conf_text(c, CONF_LISTEN), "127.0.0.1:2");
    assert_string_equal(conf_source(c, CONF_LIMITS_PER_CLIENT),
                        "environment SLUICE_LIMITS_PER_CLIENT");
    assert_int_equal(conf_number(c, CONF_LIMITS_PER_CLIENT), 7);
    assert_true(conf_set(c, CONF_LISTEN, "127.0.0.1:3", "--listen", &error));
    assert_true(conf_set_pair(c, "log.format=json", "--set", &error));
    assert_true(conf_check(c, &error));
    assert_string_equal(conf_text(c, CONF_LISTEN), "127.0.0.1:3");
    assert_string_equal(conf_source(c, CONF_LISTEN), "--listen");
    assert_string_equal(conf_text(c, CONF_NODE), "n1");
    assert_string_equal(conf_source(c, CONF_NODE), "a.conf:4");
    assert_int_equal(conf_number(c, CONF_LOG_FORMAT), LOG_JSON);
    conf_free(c);
}

static void units_are_understood(void **state)
{
    (void)state;
    struct sluice_error error;
    struct conf *c = conf_new();
    assert_true(read_text(c, "[limits]\nbody = 512KiB\nidle = 2m\n[log]\nrequests = on\n", &error));
    assert_int_equal(conf_number(c, CONF_LIMITS_BODY), 512 << 10);
    assert_int_equal(conf_number(c, CONF_LIMITS_IDLE), 120000);
    assert_int_equal(conf_number(c, CONF_LOG_REQUESTS), 1);
    conf_free(c);
}

static void an_error_names_file_and_line(void **state)
{
    (void)state;
    refused("listen = 127.0.0.1:1\n\nlisten = 127.0.0.1:2\n", "a.conf:3: listen was set before");
    refused("bogus = 1\n", "a.conf:1: there is no setting bogus");
    refused("lissten = 1\n", "a.conf:1: there is no setting lissten; did you mean listen?");
    refused("[limits]\n# x\nbogus = 1\n", "a.conf:3: there is no setting limits.bogus");
    refused("[nonsense]\n", "a.conf:1: [nonsense] is not one of cluster, limits");
    refused("[limits\n", "a.conf:1: a section looks like");
    refused("\n\nlisten\n", "a.conf:3: \"listen\" is not a line");
    refused("limits.body = 5x\n", "a.conf:1: limits.body \"5x\" is not a number of bytes");
    refused("limits.idle = 5\n", "a.conf:1: limits.idle \"5\" is not a number and its unit");
    refused("limits.idle = 100h\n", "is not between 1000 and 3600000 ms");
    refused("limits.headTimeout = 10ms\n", "is not between 1000 and 3600000 ms");
    refused("limits.calls = 0\n", "limits.calls 0 is not between 1 and 1024");
    refused("limits.callsWaiting = many\n", "limits.callsWaiting \"many\" is not a whole number");
    refused("threads = 0\n", "threads 0 is not between 1 and 64");
    refused("log.level = loud\n", "one of debug, info, warning, error");
    refused("insecure = maybe\n", "yes or no");
    refused("node = a b\n", "a.conf:1: node \"a b\" is not a name");
    refused("listen = somewhere\n", "a.conf:1: listen \"somewhere\"");
    refused("tokens = /does/not/exist\n", "/does/not/exist: cannot be read");
}

static void the_times_of_the_cluster_have_bounds(void **state)
{
    (void)state;
    refused("cluster.lease = 100ms\n",
            "a.conf:1: cluster.lease 100ms is shorter than 1s: write 0s for the default, or more");
    refused("cluster.lease = 6m\n", "is not between 0 and 300000 ms");
    refused("[cluster]\nlease = 10s\nobserve = 9s\n",
            "a.conf:3: cluster.observe 9s is shorter than the lease");
    refused("cluster.coolDown = 2s\n", "cluster.coolDown 2s is shorter than the lease");
    refused("cluster.moves = 5000\n", "is not between 0 and 4096");
    refused("cluster.movePause = 1ms\n", "is not between 100 and 600000 ms");
    refused("cluster.moveCoolDown = 0s\n", "is not between 1000 and 86400000 ms");
    struct conf *c = conf_new();
    static const char text[] = "[cluster]\nlease = 2s\nobserve = 3s\ncoolDown = 4s\nmoves = 5\n"
                               "movePause = 6s\nmoveCoolDown = 7s\n";
    struct sluice_error error;
    struct server_config out;
    assert_true(conf_read_text(c, text, strlen(text), "a.conf", &error));
    assert_true(conf_check(c, &error));
    conf_peek(c, &out);
    assert_int_equal(out.tuning.lease_ms, 2000);
    assert_int_equal(out.tuning.observe_ms, 3000);
    assert_int_equal(out.tuning.cool_down_ms, 4000);
    assert_int_equal(out.tuning.moves, 5);
    assert_int_equal(out.tuning.move_pause_ms, 6000);
    assert_int_equal(out.tuning.move_cool_down_ms, 7000);
    conf_free(c);
}

static void a_store_that_cannot_be_one_is_refused(void **state)
{
    (void)state;
    refused("\nstore = s3:/foo\n", "a.conf:2: \"s3:/foo\" is not a store: did you mean s3://foo?");
    refused("store = s3://\n", "a.conf:1: ");
    refused("store = file://var/lib/sluice\n", "needs an absolute path: file:///path");
    refused("store = ftp://host/x\n", "a.conf:1: ftp://host/x is not a store");
    refused("store = http://host:7333\n", "is a node already");
    taken("store = s3://bucket/prefix\n");
    taken("store = file:///not/there/yet\n"); // a question of the machine, not of the form
    taken("store = ./s3:/foo\n");
    taken("store = mem:\n");
}

static void the_folder_above_the_store_is_looked_for(void **state)
{
    (void)state;
    struct sluice_error error = {0};
    struct conf *c = conf_new();
    assert_true(conf_check_folder(c, &error));
    assert_true(read_text(c, "store = file:///nonexistent/dir/x\n", &error));
    assert_false(conf_check_folder(c, &error));
    assert_string_equal(error.message, "a.conf:1: store file:///nonexistent/dir/x: there is no "
                                       "folder /nonexistent/dir to make it in");
    assert_string_equal(error.field, "store");
    static const char *const good[] = {"/tmp/new", "file:///tmp/new/", "/new", "new", "s3://b/p"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(conf_set(c, CONF_STORE, good[i], "--store", &error));
        if (!conf_check_folder(c, &error)) fail_msg("%s", error.message);
    }
    conf_free(c);
}

static void where_others_reach_it_is_a_url(void **state)
{
    (void)state;
    refused("advertise = localhost\n",
            "a.conf:1: advertise \"localhost\" is not the URL of a node");
    refused("advertise = localhost:7333\n", "http://host:port");
    refused("advertise = http://\n", "http://host:port");
    refused("advertise = http://:7333\n", "http://host:port");
    refused("advertise = http://host:0\n", "http://host:port");
    refused("advertise = http://host:65536\n", "http://host:port");
    refused("advertise = http://host:7333x\n", "http://host:port");
    refused("advertise = http://me@host:7333\n", "http://host:port");
    refused("advertise = http://host:7333/?a\n", "http://host:port");
    refused("advertise = http://[::1:7333\n", "http://host:port");
    taken("advertise = http://host:7333\n");
    taken("advertise = https://[::1]:7333\n");
    refused("advertise = https://queue.example.org/sluice\n", "without a path");
    refused("peers = node-2/x\n", "a.conf:1: peers \"node-2/x\" is not a list of hosts");
    refused("peers = http://node-2\n", "is not a list of hosts");
    refused("peers = node-2:0\n", "is not a list of hosts");
    refused("peers = ,\n", "is not a list of hosts");
    taken("peers = node-2, 10.0.0.5:7333 fe80::1,[fe80::2]:7333\n");
}

static void what_is_not_set_says_what_it_will_be(void **state)
{
    (void)state;
    struct sluice_error error = {0};
    char host[65] = "", words[200], wanted[200];
    struct conf *c = conf_new();
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(wanted, sizeof wanted, "%s-7333", host);
    assert_string_equal(conf_default(c, CONF_NODE, words, sizeof words), wanted);
    assert_string_equal(conf_default(c, CONF_ADVERTISE, words, sizeof words),
                        "http://127.0.0.1:7333");
    assert_string_equal(conf_default(c, CONF_TOKENS, words, sizeof words), "");
    assert_true(read_text(c, "listen = :0\ntls.certificate = c\n", &error));
    (void)snprintf(wanted, sizeof wanted, "https://%s and its port", host);
    assert_string_equal(conf_default(c, CONF_ADVERTISE, words, sizeof words), wanted);
    assert_string_equal(conf_default(c, CONF_NODE, words, sizeof words),
                        "the host's name and the process id");
    assert_true(read_text(c, "node = n1\n", &error));
    assert_string_equal(conf_default(c, CONF_NODE, words, sizeof words), "");
    conf_free(c);
}

static void what_belongs_together_is_wanted_together(void **state)
{
    (void)state;
    refused("tls.certificate = c.pem\n", "a.conf:1: tls.certificate and tls.key go together");
    refused("tls.key = k.pem\n", "go together");
    refused("tls.clientCa = ca.pem\n", "tls.clientCa needs");
    refused("limits.bodyMemory = 100MiB\n", "a.conf:1: limits.body 88MiB is more than three");
    refused("limits.body = 200MiB\n", "a.conf:1: limits.body 200MiB is more than three");
}

static void beyond_loopback_it_wants_tokens_or_to_be_told(void **state)
{
    (void)state;
    struct sluice_error error = {0};
    refused("listen = 0.0.0.0:1\n", "can be reached from outside");
    refused("listen = :1\n", "--insecure");
    struct conf *c = conf_new();
    assert_true(read_text(c, "listen = 0.0.0.0:1\n", &error));
    assert_false(conf_check(c, &error));
    assert_int_equal(error.code, SLUICE_DENIED);
    assert_true(conf_set(c, CONF_INSECURE, "yes", "--insecure", &error));
    assert_true(conf_check(c, &error));
    conf_free(c);
    c = conf_new();
    assert_true(read_text(c, "listen = :1\n[tokens]\nci = " HASH " scope=send queue=*\n", &error));
    assert_true(conf_check(c, &error));
    assert_int_equal(conf_tokens_len(c), 1);
    conf_free(c);
}

static void a_password_in_the_stores_url_is_not_shown(void **state)
{
    (void)state;
    struct sluice_error error;
    char shown[200];
    struct conf *c = conf_new();
    assert_true(conf_set(c, CONF_STORE, "s3://key:secret@bucket/a@b", "--store", &error));
    assert_string_equal(conf_shown(c, CONF_STORE, shown, sizeof shown), "s3://***@bucket/a@b");
    assert_true(conf_set(c, CONF_STORE, "file:///a/b@c", "--store", &error));
    assert_string_equal(conf_shown(c, CONF_STORE, shown, sizeof shown), "file:///a/b@c");
    conf_free(c);
}

static void only_some_settings_may_change_while_it_runs(void **state)
{
    (void)state;
    struct sluice_error error;
    struct conf *a = conf_new(), *b = conf_new();
    assert_true(read_text(b, "log.level = error\nlimits.requestsPerSecond = 9\n", &error));
    assert_int_equal(conf_differs(a, b), CONF_KEYS);
    assert_true(conf_set(b, CONF_LIMITS_BODY, "1MiB", "--set", &error));
    assert_int_equal(conf_differs(a, b), CONF_LIMITS_BODY);
    conf_free(a);
    conf_free(b);
}

static void tokens_lines_are_checked(void **state)
{
    (void)state;
    struct tokens *t = tokens_new();
    char why[256];
    assert_true(tokens_add(t, "a",
                           HASH " scope=read,send queue=orders,mail-* expires=2027-01-31T12:00:00Z",
                           why, sizeof why));
    assert_false(tokens_add(t, "a", HASH " scope=read queue=*", why, sizeof why));
    static const struct {
        const char *value;
        const char *why;
    } wrong[] = {
        {"secret scope=read queue=*", "begins with sha256:"},
        {"sha256:12 scope=read queue=*", "64 lower case hex digits"},
        {HASH, "no scope="},
        {HASH " scope=read", "no queue="},
        {HASH " queue=*", "after the scope="},
        {HASH " scope=fly queue=*", "scope \"fly\""},
        {HASH " scope= queue=*", "scope= is empty"},
        {HASH " scope=read queue=a*b", "queue \"a*b\""},
        {HASH " scope=read queue=../x", "queue \"../x\""},
        {HASH " scope=read queue=* expires=soon", "expires=soon"},
        {HASH " scope=read queue=* expires=2027-02-30T00:00:00Z", "is not a time"},
        {HASH " scope=read queue=* colour=red", "is not one of scope="},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(tokens_add(t, "b", wrong[i].value, why, sizeof why));
        if (!strstr(why, wrong[i].why)) fail_msg("%s: %s", wrong[i].value, why);
        assert_null(strstr(why, "secret")); // what may be the token itself is not repeated
    }
    const char *lines = "# x\nc = " HASH " scope=work queue=*\n";
    assert_false(tokens_add_lines(t, bytes_str(lines), "tokens", why, sizeof why));
    assert_non_null(strstr(why, "tokens:2: the hash of token c is given twice"));
    tokens_free(t);
}

static void scopes_and_patterns_decide(void **state)
{
    (void)state;
    char secret[TOKEN_SECRET_MAX], hash[TOKEN_HASH_MAX], value[300], why[256];
    struct tokens *t = tokens_new();
    token_make(secret, hash);
    (void)snprintf(value, sizeof value,
                   "%s scope=send queue=mail-*,orders scope=admin queue=tests-* "
                   "expires=2027-01-31T12:00:00Z",
                   hash);
    assert_true(tokens_add(t, "ci", value, why, sizeof why));
    assert_null(tokens_find(t, "sluice_00"));
    assert_null(tokens_find(t, hash)); // knowing the file is not knowing the token
    const struct token *ci = tokens_find(t, secret);
    assert_non_null(ci);
    assert_true(token_allows(ci, SCOPE_SEND, "mail-out"));
    assert_true(token_allows(ci, SCOPE_SEND, "orders"));
    assert_false(token_allows(ci, SCOPE_SEND, "orders2"));
    assert_false(token_allows(ci, SCOPE_WORK, "orders"));
    assert_false(token_allows(ci, SCOPE_ADMIN, "mail-out"));
    assert_true(token_allows(ci, SCOPE_READ, "tests-1")); // admin includes it
    assert_true(token_allows(ci, SCOPE_SEND, ""));        // about no queue
    assert_false(token_allows(ci, SCOPE_WORK, "") && !token_allows(ci, SCOPE_ADMIN, ""));
    assert_false(token_allows(ci, SCOPE_READ, NULL)); // about all queues
    assert_false(token_expired(ci, INT64_C(1801396799999)));
    assert_true(token_expired(ci, INT64_C(1801396800000)));
    tokens_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_go_before_the_environment_before_the_file),
        cmocka_unit_test(units_are_understood),
        cmocka_unit_test(an_error_names_file_and_line),
        cmocka_unit_test(the_times_of_the_cluster_have_bounds),
        cmocka_unit_test(a_store_that_cannot_be_one_is_refused),
        cmocka_unit_test(the_folder_above_the_store_is_looked_for),
        cmocka_unit_test(where_others_reach_it_is_a_url),
        cmocka_unit_test(what_is_not_set_says_what_it_will_be),
        cmocka_unit_test(what_belongs_together_is_wanted_together),
        cmocka_unit_test(beyond_loopback_it_wants_tokens_or_to_be_told),
        cmocka_unit_test(a_password_in_the_stores_url_is_not_shown),
        cmocka_unit_test(only_some_settings_may_change_while_it_runs),
        cmocka_unit_test(tokens_lines_are_checked),
        cmocka_unit_test(scopes_and_patterns_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
