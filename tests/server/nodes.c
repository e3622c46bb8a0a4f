// SPDX-License-Identifier: Apache-2.0
#include "nodes.h"

#include "net/http.h"
#include "store/file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *node_token = NULL;

void node_start(struct node_process *n)
{
    if (!node_process_start(n)) fail_msg("%s", n->problem);
}

void node_pause(const struct node_process *n)
{
    assert_true(node_process_pause(n));
}

int node_number(const struct node_process *n, const char *path, const char *before)
{
    struct http *http = http_new(&(struct http_config){.ca_file = getenv("SLUICE_CA")});
    struct http_call call;
    char url[120], line[160];
    const char *lines[] = {line};
    (void)snprintf(line, sizeof line, "Authorization: Bearer %s", node_token ? node_token : "");
    (void)snprintf(url, sizeof url, "%s%s", n->url, path);
    http_call_init(&call, "GET", url);
    call.headers = lines;
    call.headers_len = node_token ? 1 : 0;
    http_do(http, &call);
    assert_int_equal(call.status, 200);
    buf_put_u8(&call.body_in, 0);
    const char *told = strstr((const char *)call.body_in.data, before);
    int number = told ? atoi(told + strlen(before)) : -1;
    http_call_done(&call);
    http_free(http);
    return number;
}

void open_at(const char *url, const struct sluice_options *options, struct sluice **out)
{
    struct sluice_error error = {.code = SLUICE_OK};
    if (sluice_open(url, options, out, &error)) fail_msg("%s: %s", url, error.message);
}

struct queue_id queue_id_of(struct rig *r, const char *queue)
{
    struct sluice_queue_info *info = NULL;
    struct queue_id id;
    assert_int_equal(sluice_queue_show(r->client, queue, &info, NULL), SLUICE_OK);
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        unsigned byte;
        assert_int_equal(sscanf(info->id + 2 * i, "%2x", &byte), 1);
        id.bytes[i] = (uint8_t)byte;
    }
    sluice_queue_info_free(info);
    return id;
}

struct shard_runner *runner_open_of(struct rig *r, const char *queue, uint32_t shards,
                                    uint32_t shard)
{
    struct shard_runner *runner = NULL;
    struct runner_config config = {.id = {.shard = shard}, .patience_ms = DEADLINE_MS};
    config_defaults(&config.birth);
    config.birth.shards = shards;
    struct queue_id id = queue_id_of(r, queue);
    memcpy(config.id.queue, id.bytes, sizeof config.id.queue);
    (void)snprintf(config.queue, sizeof config.queue, "%s", queue);
    assert_int_equal(runner_open(r->store, &config, &runner), ERR_OK);
    return runner;
}

void runner_open_here(struct rig *r)
{
    r->store = file_open(r->dir, NULL);
    r->runner = runner_open_of(r, "tasks", 1, 0);
}

int rig_set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    scratch_make_quick(r->dir); // an owner whose disk is slow may be taken for one that is away
    r->one = (struct node_process){.program = getenv("SLUICE"), .store = r->dir, .name = "one"};
    r->two = (struct node_process){.program = getenv("SLUICE"), .store = r->dir, .name = "two"};
    assert_non_null(r->one.program);
    open_at(r->dir, NULL, &r->client);
    assert_int_equal(sluice_queue_create(r->client, "tasks", NULL, 0, NULL), SLUICE_OK);
    runner_open_here(r);
    *state = r;
    return 0;
}

int rig_tear_down(void **state)
{
    struct rig *r = *state;
    node_process_kill(&r->one);
    node_process_kill(&r->two);
    sluice_close(r->client);
    runner_close(r->runner);
    store_free(r->store);
    scratch_remove(r->dir);
    free(r);
    return 0;
}

void send_by(struct sluice *s, const char *body)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_send message = {.body = body, .body_len = strlen(body)};
    if (sluice_send(s, "tasks", &message, 1, NULL, NULL, &error))
        fail_msg("%s: %s", sluice_code_name(error.code), error.message);
}

void use_node(const struct node_process *n, const char *body)
{
    struct sluice *s = NULL;
    open_at(n->url, NULL, &s);
    send_by(s, body);
    sluice_close(s);
}

struct runner_owner owner_now(struct rig *r, struct owner_name *name)
{
    struct runner_owner o;
    assert_int_equal(runner_sync(r->runner), ERR_OK);
    runner_owner(r->runner, &o);
    *name = (struct owner_name){.url = ""};
    if (o.epoch != 0) assert_true(owner_parse(o.address, name));
    return o;
}

int sent_through(const struct node_process *n)
{
    return node_number(n, "/metrics", "\nsluice_messages_sent_total ");
}

size_t drain(struct sluice *s)
{
    static char seen[4096][SLUICE_ID_MAX];
    size_t count = 0;
    struct sluice_receive ask = {.max = 10, .wait_ms = 300};
    for (;;) {
        struct sluice_batch *batch = NULL;
        assert_int_equal(sluice_receive(s, "tasks", &ask, &batch, NULL), SLUICE_OK);
        size_t len = batch->len;
        for (size_t i = 0; i < len; i++) {
            const char *token = batch->messages[i].token;
            for (size_t k = 0; k < count; k++)
                if (strcmp(seen[k], batch->messages[i].id) == 0) fail_msg("%s came twice", seen[k]);
            (void)snprintf(seen[count++], SLUICE_ID_MAX, "%s", batch->messages[i].id);
            assert_true(count < sizeof seen / sizeof *seen);
            assert_int_equal(sluice_ack(s, "tasks", &token, 1, NULL, NULL), SLUICE_OK);
        }
        sluice_batch_free(batch);
        if (len == 0) return count;
    }
}

void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}
