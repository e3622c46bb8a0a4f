// SPDX-License-Identifier: Apache-2.0
// Tokens, scopes and rates over real HTTP.
#include "rig.h"
#include "server/limiter.h"
#include "server/tokens.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct keys {
    char admin[TOKEN_SECRET_MAX]; // admin of all
    char ci[TOKEN_SECRET_MAX];    // sends to and works on mail-*
    char past[TOKEN_SECRET_MAX];  // expired
};

static void add(struct tokens *t, const char *name, const char *what, char secret[TOKEN_SECRET_MAX])
{
    char hash[TOKEN_HASH_MAX], value[300], why[256];
    token_make(secret, hash);
    (void)snprintf(value, sizeof value, "%s %s", hash, what);
    if (!tokens_add(t, name, value, why, sizeof why)) fail_msg("%s", why);
}

static struct tokens *make_keys(struct keys *k)
{
    struct tokens *t = tokens_new();
    add(t, "boss", "scope=admin queue=*", k->admin);
    add(t, "ci", "scope=send,work queue=mail-*", k->ci);
    add(t, "past", "scope=admin queue=* expires=2020-01-01T00:00:00Z", k->past);
    return t;
}

static void start(struct rig *r, struct server_config *config)
{
    struct sluice_error error;
    *r = (struct rig){.line = -1};
    if (strcmp(rig_store, "file") == 0) scratch_make(r->dir);
    config->listen = "127.0.0.1:0";
    assert_int_equal(sluice_open(*r->dir ? r->dir : "mem:", NULL, &r->store, &error), SLUICE_OK);
    assert_int_equal(sluice_queue_create(r->store, "mail-out", NULL, 0, &error), SLUICE_OK);
    assert_int_equal(sluice_queue_create(r->store, "orders", NULL, 0, &error), SLUICE_OK);
    if (server_start(config, r->store, &r->server, &error)) fail_msg("%s", error.message);
    r->port = (uint16_t)atoi(strrchr(server_address(r->server), ':') + 1);
}

// The status; the answer's parts that matter here are kept.
static char detail[1024], challenge[128], retry_after[32];

static int with(struct rig *r, const char *secret, const char *method, const char *path,
                const char *body)
{
    struct reply reply;
    char header[256] = "";
    if (secret) (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", secret);
    ask(r,
        &(struct ask){.method = method,
                      .path = path,
                      .type = body ? "application/json" : NULL,
                      .headers = header,
                      .body = body},
        &reply);
    (void)snprintf(detail, sizeof detail, "%s", reply.body);
    (void)snprintf(challenge, sizeof challenge, "%s", reply_header(&reply, "WWW-Authenticate"));
    (void)snprintf(retry_after, sizeof retry_after, "%s", reply_header(&reply, "Retry-After"));
    int status = reply.status;
    reply_done(&reply);
    return status;
}

#define SEND_MAIL "/v1/queues/mail-out/messages"

static void a_client_without_a_token_is_asked_for_one(void **state)
{
    (void)state;
    struct rig r;
    struct keys k;
    struct server_config config = {.tokens = make_keys(&k)};
    start(&r, &config);
    assert_int_equal(with(&r, NULL, "GET", "/v1/queues", NULL), 401);
    assert_string_equal(challenge, "Bearer");
    assert_int_equal(with(&r, "sluice_wrong", "GET", "/v1/queues", NULL), 401);
    assert_non_null(strstr(challenge, "invalid_token"));
    assert_int_equal(with(&r, k.past, "GET", "/v1/queues", NULL), 401);
    assert_non_null(strstr(detail, "expired"));
    assert_int_equal(with(&r, k.admin, "GET", "/v1/queues", NULL), 200);
    // A token for the node's operation need not allow its use.
    assert_int_equal(with(&r, NULL, "GET", "/healthz", NULL), 200);
    assert_int_equal(with(&r, NULL, "GET", "/readyz", NULL), 200);
    rig_stop(&r);
}

static void a_scope_that_is_missing_is_named(void **state)
{
    (void)state;
    struct rig r;
    struct keys k;
    struct server_config config = {.tokens = make_keys(&k)};
    start(&r, &config);
    assert_int_equal(with(&r, k.ci, "POST", SEND_MAIL, "{\"body\":\"x\"}"), 201);
    assert_int_equal(with(&r, k.ci, "POST", "/v1/queues/mail-out/receive", "{}"), 200);
    assert_int_equal(with(&r, k.ci, "POST", "/v1/queues/orders/messages", "{\"body\":\"x\"}"), 403);
    assert_non_null(strstr(detail, "token ci does not have the scope send for queue orders"));
    assert_int_equal(with(&r, k.ci, "DELETE", "/v1/queues/mail-out", NULL), 403);
    assert_non_null(strstr(detail, "scope admin"));
    assert_int_equal(with(&r, k.ci, "GET", "/v1/queues/mail-out/stats", NULL), 403);
    assert_non_null(strstr(detail, "scope read"));
    assert_int_equal(with(&r, k.ci, "GET", "/metrics", NULL), 403); // it tells of every queue
    assert_int_equal(with(&r, k.admin, "GET", "/metrics", NULL), 200);
    rig_stop(&r);
}

static void a_queue_named_in_a_body_is_checked_too(void **state)
{
    (void)state;
    struct rig r;
    struct tokens *t = tokens_new();
    char some[TOKEN_SECRET_MAX], reader[TOKEN_SECRET_MAX];
    add(t, "some", "scope=admin queue=mail-*", some);
    add(t, "reader", "scope=read queue=mail-*", reader);
    struct server_config config = {.tokens = t};
    start(&r, &config);
    assert_int_equal(with(&r, some, "POST", "/v1/queues/mail-out/redrive", "{\"to\":\"orders\"}"),
                     403);
    assert_non_null(strstr(detail, "scope send for queue orders"));
    assert_int_equal(with(&r, some, "POST", "/v1/queues/mail-out/redrive", "{}"), 200);
    const char *letters =
        "{\"failureStrategy\":{\"mode\":\"deadLetter\",\"deadLetterQueue\":\"orders\"}}";
    assert_int_equal(with(&r, some, "PATCH", "/v1/queues/mail-out", letters), 403);
    assert_int_equal(with(&r, some, "PUT", "/v1/queues/mail-new", letters), 403);
    // The list has the queues that the token may read.
    assert_int_equal(with(&r, reader, "GET", "/v1/queues", NULL), 200);
    assert_non_null(strstr(detail, "mail-out"));
    assert_null(strstr(detail, "orders"));
    rig_stop(&r);
}

static void tokens_are_exchanged_while_it_runs(void **state)
{
    (void)state;
    struct rig r;
    struct keys old, fresh;
    struct server_config config = {.tokens = make_keys(&old)};
    start(&r, &config);
    assert_int_equal(with(&r, old.ci, "POST", SEND_MAIL, "{\"body\":\"x\"}"), 201);
    struct server_config next = {.tokens = make_keys(&fresh)};
    assert_int_equal(server_reload(r.server, &next, NULL), SLUICE_OK);
    assert_int_equal(with(&r, old.ci, "POST", SEND_MAIL, "{\"body\":\"x\"}"), 401);
    assert_int_equal(with(&r, fresh.ci, "POST", SEND_MAIL, "{\"body\":\"x\"}"), 201);
    rig_stop(&r);
}

static void a_client_over_its_rate_is_told_when_to_come_back(void **state)
{
    (void)state;
    struct rig r;
    struct keys k;
    struct server_config config = {.tokens = make_keys(&k), .requests_per_second = 5};
    start(&r, &config);
    int refused = 0;
    for (int i = 0; i < 50 && !refused; i++)
        if (with(&r, k.ci, "POST", SEND_MAIL, "{\"body\":\"x\"}") == 429) refused = i;
    assert_true(refused >= 5);
    assert_true(atoi(retry_after) >= 1);
    assert_non_null(strstr(detail, "too-many-requests"));
    assert_int_equal(with(&r, k.admin, "GET", "/v1/queues", NULL), 200); // another client
    for (int i = 0; i < 50; i++)
        assert_int_equal(with(&r, NULL, "GET", "/healthz", NULL), 200); // never refused
    rig_stop(&r);
}

#define SECOND INT64_C(1000000000)

static int take(struct limiter *l, const char *client, int64_t now, int times)
{
    int taken = 0;
    int64_t wait_ms;
    for (int i = 0; i < times; i++)
        taken += limiter_take(l, client, now, &wait_ms);
    return taken;
}

static void a_second_s_worth_may_be_used_at_once_and_comes_back(void **state)
{
    (void)state;
    int64_t now = 1000 * SECOND, wait_ms;
    struct limiter *l = limiter_new();
    assert_int_equal(take(l, "a", now, 1000), 1000); // no limit was set
    limiter_set(l, 10);
    assert_int_equal(take(l, "a", now, 1000), 10);
    assert_false(limiter_take(l, "a", now, &wait_ms));
    assert_int_equal(wait_ms, 100);
    assert_int_equal(take(l, "b", now, 1000), 10);
    assert_int_equal(take(l, "a", now + SECOND / 2, 1000), 5);
    assert_int_equal(take(l, "a", now + 60 * SECOND, 1000), 10); // nothing is saved up beyond
    limiter_free(l);
}

static void many_clients_cost_no_memory_and_refuse_no_other(void **state)
{
    (void)state;
    struct limiter *l = limiter_new();
    limiter_set(l, 1);
    for (int i = 0; i < 200000; i++) {
        char client[32];
        (void)snprintf(client, sizeof client, "client %d", i);
        assert_int_equal(take(l, client, 1000 * SECOND, 1), 1);
    }
    limiter_free(l);
}

static int begin_receive(struct rig *r, const char *secret)
{
    char header[256];
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", secret);
    int fd = dial(r);
    say_request(fd, &(struct ask){.method = "POST",
                                  .path = "/v1/queues/mail-out/receive",
                                  .headers = header,
                                  .body = "{\"wait\": \"20s\"}"});
    return fd;
}

static bool two_wait(void *ctx)
{
    struct node {
        struct rig *rig;
        const char *secret;
    } *n = ctx;
    return with(n->rig, n->secret, "GET", "/v1/node", NULL) == 200 &&
           strstr(detail, "\"waiting\":2");
}

static void a_token_that_waits_less_takes_the_place_of_one_that_waits_more(void **state)
{
    (void)state;
    struct rig r;
    struct keys k;
    struct server_config config = {.tokens = make_keys(&k), .waiting_max = 2};
    start(&r, &config);
    struct {
        struct rig *rig;
        const char *secret;
    } node = {&r, k.admin};
    int first = begin_receive(&r, k.ci);
    int second = begin_receive(&r, k.ci);
    await(two_wait, &node, "both wait");
    int third = begin_receive(&r, k.admin);
    struct reply reply;
    struct pollfd ends[] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    assert_true(poll(ends, 2, DEADLINE_MS) == 1); // one of them, as if its time were over
    hear(ends[0].revents ? first : second, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"messages\":[]"));
    reply_done(&reply);
    await(two_wait, &node, "one of each waits");
    assert_int_equal(with(&r, k.ci, "POST", "/v1/queues/mail-out/receive", "{\"wait\": 5000}"),
                     429);
    (void)close(first);
    (void)close(second);
    (void)close(third);
    rig_stop(&r);
}

#define MIB ((size_t)1 << 20)

// Announces three megabytes and sends one.
static int begin_send(struct rig *r, const char *secret, const char *megabyte)
{
    char head[400];
    int fd = dial(r);
    (void)snprintf(head, sizeof head,
                   "POST " SEND_MAIL " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
                   "Authorization: Bearer %s\r\nContent-Length: 3145728\r\n\r\n",
                   secret);
    say(fd, head);
    for (size_t sent = 0; sent < MIB;) {
        ssize_t n = send(fd, megabyte + sent, MIB - sent, MSG_NOSIGNAL);
        if (n <= 0) break; // it was refused already
        sent += (size_t)n;
    }
    return fd;
}

struct taken {
    struct rig *rig;
    const char *secret;
    size_t least, most;
};

static bool so_much_is_taken(void *ctx)
{
    static const char name[] = "\nsluice_http_body_memory_bytes ";
    struct taken *t = ctx;
    struct reply reply;
    char header[256];
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", t->secret);
    ask(t->rig, &(struct ask){.method = "GET", .path = "/metrics", .headers = header}, &reply);
    const char *at = strstr(reply.body, name);
    assert_non_null(at);
    size_t taken = strtoul(at + sizeof name - 1, NULL, 10);
    reply_done(&reply);
    return taken >= t->least && taken <= t->most;
}

#define SENDS 12

static void half_sent_bodies_of_one_token_leave_memory_to_another(void **state)
{
    (void)state;
    struct rig r;
    struct keys k;
    int fds[SENDS];
    // libmicrohttpd may not see the end of a connection that follows its last bytes at once: the
    // time for a body ends such a request.
    struct server_config config = {
        .tokens = make_keys(&k), .body_max = 4 * MIB, .body_memory_max = 16 * MIB, .body_ms = 9000};
    char *megabyte = memset(malloc(4 * MIB), 'x', 4 * MIB);
    char header[256];
    start(&r, &config);
    for (int i = 0; i < SENDS; i++)
        fds[i] = begin_send(&r, k.ci, megabyte);
    // Half of twelve: each of them takes one or two.
    struct taken taken = {&r, k.admin, 4 * MIB, 6 * MIB};
    await(so_much_is_taken, &taken, "the first ones have their memory, and others were refused");
    struct reply reply;
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", k.admin);
    ask(&r,
        &(struct ask){.method = "POST",
                      .path = "/v1/queues/orders/messages",
                      .type = "text/plain",
                      .headers = header,
                      .body = megabyte,
                      .body_len = MIB / 2},
        &reply);
    assert_int_equal(reply.status, 201);
    reply_done(&reply);
    for (int i = 0; i < SENDS; i++)
        (void)close(fds[i]);
    taken = (struct taken){&r, k.admin, 0, 0};
    await(so_much_is_taken, &taken, "all is given back");
    free(megabyte);
    rig_stop(&r);
}

#define IDS 5000

static int begin_collect(struct rig *r, const char *secret)
{
    char *body = malloc(IDS * 50 + 100), header[256];
    struct sluice_error error;
    struct sluice_sent *sent = malloc(IDS * sizeof *sent);
    struct sluice_send *messages = calloc(IDS, sizeof *messages);
    assert_int_equal(sluice_send(r->store, "mail-out", messages, IDS, NULL, sent, &error),
                     SLUICE_OK);
    char *at = stpcpy(body, "{\"wait\": \"20s\", \"ids\": [");
    for (int i = 0; i < IDS; i++)
        at += sprintf(at, "%s\"%s\"", i > 0 ? "," : "", sent[i].id);
    (void)stpcpy(at, "]}");
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", secret);
    int fd = dial(r);
    say_request(fd, &(struct ask){.method = "POST",
                                  .path = "/v1/queues/mail-out/collect",
                                  .type = "application/json",
                                  .headers = header,
                                  .body = body});
    free(body);
    free(sent);
    free(messages);
    return fd;
}

static void a_collect_that_waits_has_no_body(void **state)
{
    (void)state;
    struct rig r;
    struct keys k;
    struct server_config config = {.tokens = make_keys(&k)};
    start(&r, &config);
    struct {
        struct rig *rig;
        const char *secret;
    } node = {&r, k.admin};
    int first = begin_collect(&r, k.admin), second = begin_collect(&r, k.admin);
    await(two_wait, &node, "both wait");
    struct taken taken = {&r, k.admin, 0, 0};
    await(so_much_is_taken, &taken, "their bodies are gone");
    assert_true(two_wait(&node));
    (void)close(first);
    (void)close(second);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_without_a_token_is_asked_for_one),
        cmocka_unit_test(a_scope_that_is_missing_is_named),
        cmocka_unit_test(a_queue_named_in_a_body_is_checked_too),
        cmocka_unit_test(tokens_are_exchanged_while_it_runs),
        cmocka_unit_test(a_client_over_its_rate_is_told_when_to_come_back),
        cmocka_unit_test(a_second_s_worth_may_be_used_at_once_and_comes_back),
        cmocka_unit_test(many_clients_cost_no_memory_and_refuse_no_other),
        cmocka_unit_test(a_token_that_waits_less_takes_the_place_of_one_that_waits_more),
        cmocka_unit_test(half_sent_bodies_of_one_token_leave_memory_to_another),
        cmocka_unit_test(a_collect_that_waits_has_no_body),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
