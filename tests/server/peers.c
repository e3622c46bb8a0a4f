// SPDX-License-Identifier: Apache-2.0
// Which nodes get a token: those that prove that they are the journal's owner, and no others. And
// what a token must allow for its calls to be forwarded: the calls.
#include "imposter.h"
#include "net/http1.h"
#include "nodes.h"
#include "os/clock.h"
#include "peer/peer.h"
#include "protocol/shard_wire.h"
#include "server/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "sluice_5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f5b0f"

static void a_proof_is_good_for_one_nonce_and_one_life(void **state)
{
    (void)state;
    const struct owner_name name = {"http://127.0.0.1:1", "one",
                                    "00112233445566778899aabbccddeeff"};
    struct owner_name others[] = {name, name};
    struct peer_answer proof, again;
    const char *nonce = "0123456789abcdef0123456789abcdef";
    (void)snprintf(others[0].node, sizeof others[0].node, "two");
    (void)snprintf(others[1].url, sizeof others[1].url, "http://127.0.0.1:2");
    peer_prove(&name, name.incarnation, nonce, &proof);
    peer_prove(&name, name.incarnation, nonce, &again);
    assert_string_equal(proof.proof, again.proof);
    assert_string_not_equal(proof.nonce, again.nonce); // each connection has its own
    assert_string_not_equal(proof.expects, again.expects);
    peer_prove(&name, name.incarnation, "1123456789abcdef0123456789abcdef", &again);
    assert_string_not_equal(proof.proof, again.proof);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        peer_prove(&others[i], name.incarnation, nonce, &again);
        assert_string_not_equal(proof.proof, again.proof);
    }
    peer_prove(&name, "10112233445566778899aabbccddeeff", nonce, &again);
    assert_string_not_equal(proof.proof, again.proof);
    assert_string_not_equal(proof.key, again.key);
    assert_true(peer_nonce_ok(nonce));
    assert_false(peer_nonce_ok("0123456789abcdef")); // too short to be new each time
    assert_false(peer_nonce_ok("0123456789ABCDEF0123456789abcdef"));
    assert_false(peer_nonce_ok("0123456789abcdef0123456789abcdef\n"));
}

static void a_token_goes_to_this_machine_or_where_the_operator_says(void **state)
{
    (void)state;
    static const char *const good[] = {"http://127.0.0.1:7333", "http://127.8.9.1",
                                       "http://[::1]:7333", "http://localhost:1/"};
    static const char *const bad[] = {"http://10.0.0.1:7333",    "http://node-1.lan",
                                      "http://127.evil.org",     "http://localhost.evil.org",
                                      "http://[fe80::1]:1",      "http://a@127.0.0.1",
                                      "https://node-1.lan:7333", "https://10.0.0.1"};
    (void)unsetenv(PEER_HOSTS);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!peer_may_have_token(good[i], NULL)) fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (peer_may_have_token(bad[i], NULL)) fail_msg("%s", bad[i]);
    (void)setenv(PEER_HOSTS, "10.0.0.1, node-1.lan:7333,fe80::1", 1);
    assert_true(peer_may_have_token("http://10.0.0.1:7333", NULL));
    assert_true(peer_may_have_token("https://Node-1.lan:7333", NULL));
    assert_true(peer_may_have_token("http://[fe80::1]:1", NULL));
    assert_false(peer_may_have_token("http://node-1.lan:7334", NULL));
    assert_false(peer_may_have_token("http://10.0.0.10:7333", NULL));
    assert_false(peer_may_have_token("http://127.0.0.1:7333", NULL)); // a list is the whole list
    assert_true(peer_may_have_token("http://127.0.0.1:7333", "127.0.0.1")); // a node's own setting
    assert_false(peer_may_have_token("http://10.0.0.1:7333", "127.0.0.1"));
    (void)unsetenv(PEER_HOSTS);
}

static void name_owner(struct rig *r, const char *url)
{
    struct owner_name name = {.node = "one", .incarnation = "00112233445566778899aabbccddeeff"};
    char address[JOURNAL_ADDRESS_MAX + 1];
    struct runner_owner now;
    (void)snprintf(name.url, sizeof name.url, "%s", url);
    assert_true(owner_print(&name, address));
    runner_owner(r->runner, &now);
    struct journal_owner owner = {.token = now.token + 1, .address = bytes_str(address)};
    assert_int_equal(runner_own(r->runner, now.epoch, &owner), ERR_OK);
}

static void an_imposter_at_the_owners_address_gets_nothing(void **state)
{
    struct rig *r = *state;
    static const enum manner settings[] = {SILENT, ANY_NODE, LIES};
    struct sluice_options options = {.token = SECRET};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct imposter *s = imposter_start("127.0.0.1:0", settings[i]);
        struct sluice *client = NULL;
        name_owner(r, imposter_url(s));
        open_at(r->dir, &options, &client);
        send_by(client, "secret business");
        sluice_close(client);
        assert_true(imposter_heard(s, "nonce=")); // it was asked
        assert_false(imposter_heard(s, SECRET));
        assert_false(imposter_heard(s, "secret business"));
        imposter_stop(s);
    }
    assert_int_equal(drain(r->client), 3);
}

// A node is killed, and something else takes its port before its clients know.
static void a_process_at_a_dead_owners_port_gets_no_token(void **state)
{
    struct rig *r = *state;
    struct sluice_options options = {.token = SECRET};
    struct sluice *direct = NULL, *by_two = NULL;
    node_start(&r->one);
    node_start(&r->two);
    use_node(&r->one, "it owns");
    open_at(r->dir, &options, &direct);
    open_at(r->two.url, &options, &by_two);
    send_by(direct, "through it");
    send_by(by_two, "through it");
    assert_int_equal(sent_through(&r->one), 3);
    node_process_kill(&r->one);
    struct imposter *s = imposter_start(r->one.address, LIES);
    send_by(direct, "not through it");
    send_by(by_two, "not through it");
    assert_true(imposter_heard(s, "nonce="));
    assert_false(imposter_heard(s, SECRET));
    assert_false(imposter_heard(s, "not through it"));
    imposter_stop(s);
    sluice_close(direct);
    sluice_close(by_two);
    assert_int_equal(drain(r->client), 5);
}

static void an_owner_on_another_host_gets_no_token_in_the_clear(void **state)
{
    struct rig *r = *state;
    struct sluice_options options = {.token = SECRET};
    struct sluice *client = NULL;
    node_start(&r->one);
    use_node(&r->one, "it owns");
    (void)setenv(PEER_HOSTS, "other.lan", 1); // as if 127.0.0.1 were another machine
    open_at(r->dir, &options, &client);
    send_by(client, "directly");
    sluice_close(client);
    open_at(r->dir, NULL, &client); // a client without a token may go there
    send_by(client, "through it");
    sluice_close(client);
    (void)unsetenv(PEER_HOSTS);
    assert_int_equal(sent_through(&r->one), 2);
}

enum role { BOSS, SENDER, WORKER, READER, SMALL, GUEST, ALL_CLIENTS };

struct key {
    const char *name;
    const char *scope; // for all queues, or as it says
    char secret[TOKEN_SECRET_MAX];
    char hash[TOKEN_HASH_MAX];
};

struct house {
    struct key keys[ALL_CLIENTS];
    char tokens[2][SCRATCH_MAX + 32]; // the settings of the nodes; the first does not know GUEST
    const char *settings[2][2];
};

static void write_tokens(struct house *h, const char *dir, int node)
{
    (void)snprintf(h->tokens[node], sizeof h->tokens[node], "tokens=%s/tokens-%d", dir, node);
    FILE *to = fopen(h->tokens[node] + strlen("tokens="), "we");
    assert_non_null(to);
    for (int i = 0; i < (node == 0 ? GUEST : ALL_CLIENTS); i++)
        (void)fprintf(to, "%s = %s scope=%s%s\n", h->keys[i].name, h->keys[i].hash,
                      h->keys[i].scope, strchr(h->keys[i].scope, '=') ? "" : " queue=*");
    (void)fclose(to);
    h->settings[node][0] = h->tokens[node];
}

static void start_house(struct rig *r, struct house *h)
{
    *h = (struct house){.keys = {{.name = "boss", .scope = "admin"},
                                 {.name = "sender", .scope = "send"},
                                 {.name = "worker", .scope = "work"},
                                 {.name = "reader", .scope = "read"},
                                 {.name = "small", .scope = "admin queue=tasks"},
                                 {.name = "guest", .scope = "send"}}};
    for (int i = 0; i < ALL_CLIENTS; i++)
        token_make(h->keys[i].secret, h->keys[i].hash);
    write_tokens(h, r->dir, 0);
    write_tokens(h, r->dir, 1);
    r->one.settings = h->settings[0];
    r->two.settings = h->settings[1];
    node_token = h->keys[BOSS].secret;
    node_start(&r->one);
    node_start(&r->two);
}

static struct sluice *as(struct house *h, const char *url, enum role role)
{
    struct sluice *s = NULL;
    struct sluice_options options = {.token = h->keys[role].secret};
    open_at(url, &options, &s);
    return s;
}

static void send_as(struct house *h, const char *url, enum role role)
{
    struct sluice *s = as(h, url, role);
    send_by(s, "x");
    sluice_close(s);
}

static size_t drain_as(struct house *h, const char *url, enum role role)
{
    struct sluice *s = as(h, url, role);
    size_t count = drain(s);
    sluice_close(s);
    return count;
}

static int acked_through(const struct node_process *n)
{
    return node_number(n, "/metrics", "\nsluice_messages_acked_total ");
}

static void each_scope_is_enough_for_its_calls_to_be_forwarded(void **state)
{
    struct rig *r = *state;
    struct house h;
    start_house(r, &h);
    send_as(&h, r->one.url, BOSS); // which owns from here on
    send_as(&h, r->dir, SENDER);
    send_as(&h, r->two.url, SENDER);
    assert_int_equal(sent_through(&r->one), 3);
    assert_int_equal(drain_as(&h, r->dir, WORKER), 3);
    assert_int_equal(acked_through(&r->one), 3);
    send_as(&h, r->two.url, SENDER);
    assert_int_equal(drain_as(&h, r->two.url, WORKER), 1);
    assert_int_equal(acked_through(&r->one), 4);
    assert_int_equal(sent_through(&r->two), 0);
}

static void a_node_gives_no_client_its_own_rights(void **state)
{
    struct rig *r = *state;
    struct house h;
    struct sluice_send message = {.body = "x", .body_len = 1};
    start_house(r, &h);
    send_as(&h, r->one.url, BOSS);
    struct sluice *s = as(&h, r->two.url, READER);
    assert_int_equal(sluice_send(s, "tasks", &message, 1, NULL, NULL, NULL), SLUICE_DENIED);
    sluice_close(s);
    send_as(&h, r->two.url, GUEST); // the owner does not know it: its own node does it
    assert_int_equal(sent_through(&r->one), 1);
    assert_int_equal(sent_through(&r->two), 1);
}

// Sends an op that sets the dead-letter queue, as a process that can read the store.
static int configure_as(struct rig *r, struct house *h, enum role role, const char *letters)
{
    CLEANUP(http_call_done) struct http_call call;
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(buf_done) struct buf body;
    struct owner_name name;
    struct peer_identity to;
    struct op_configure op = {.expected = 0};
    char url[300], authorization[200];
    const char *lines[] = {"Content-Type: " SHARD_TYPE, authorization};
    buf_init(&payload, SIZE_MAX);
    buf_init(&body, SIZE_MAX);
    (void)owner_now(r, &name);
    peer_identity_of(&name, &to);
    struct peer_challenge challenge = peer_challenge_of(&to);
    config_defaults(&op.config);
    op.config.failure_mode = FAILURE_DEAD_LETTER;
    (void)snprintf(op.config.dead_letter_queue, sizeof op.config.dead_letter_queue, "%s", letters);
    configure_encode(&payload, &op);
    struct shard_ask ask = {.kind = SHARD_SUBMIT,
                            .queue = queue_id_of(r, "tasks"),
                            .op = {.kind = OP_CONFIGURE, .payload = buf_bytes(&payload)}};
    shard_ask_put(&body, &ask);
    (void)snprintf(url, sizeof url, "%s/v1/queues/tasks/shards", name.url);
    (void)snprintf(authorization, sizeof authorization, "Authorization: Bearer %s",
                   h->keys[role].secret);
    http_call_init(&call, "POST", url);
    call.headers = lines;
    call.headers_len = 2;
    call.body = buf_bytes(&body);
    struct http1_client *client =
        http1_new(name.url, &(struct http1_config){.challenge = &challenge});
    http1_do(client, &call);
    http1_free(client);
    assert_int_equal(call.end, HTTP_ANSWERED);
    return call.status;
}

static void an_op_may_not_name_a_dead_letter_queue_that_its_token_may_not_change(void **state)
{
    struct rig *r = *state;
    struct house h;
    start_house(r, &h);
    send_as(&h, r->one.url, BOSS);
    assert_int_equal(configure_as(r, &h, SMALL, "others"), 403);
    assert_int_equal(configure_as(r, &h, WORKER, "tasks"), 403);
    assert_int_equal(configure_as(r, &h, BOSS, "others"), 200);
    assert_int_equal(configure_as(r, &h, SMALL, "others"), 200); // it is set already
    assert_int_equal(configure_as(r, &h, SMALL, "another"), 403);
}

static int tear_down(void **state)
{
    node_token = NULL;
    return rig_tear_down(state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_good_for_one_nonce_and_one_life),
        cmocka_unit_test(a_token_goes_to_this_machine_or_where_the_operator_says),
        TEST(an_imposter_at_the_owners_address_gets_nothing),
        TEST(a_process_at_a_dead_owners_port_gets_no_token),
        TEST(an_owner_on_another_host_gets_no_token_in_the_clear),
        TEST(each_scope_is_enough_for_its_calls_to_be_forwarded),
        TEST(a_node_gives_no_client_its_own_rights),
        TEST(an_op_may_not_name_a_dead_letter_queue_that_its_token_may_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
