// SPDX-License-Identifier: Apache-2.0
#include "bodies_rig.h"
#include "api/handle.h"

#include "../support/fault_store.h"
#include "store/mem.h"

#include <stdio.h>
#include <string.h>

void rig_memory(struct rig *r, int64_t timeout_ms)
{
    *r = (struct rig){.mem = store_mem_new()};
    r->fault = store_fault_take(r->mem, &(struct fault_options){.seed = 1});
    struct sluice_options options = {.timeout_ms = timeout_ms};
    FINE(handle_open_take(r->fault, "mem:", &options, &r->s, &error));
}

void rig_open(struct rig *r, const char *backend)
{
    if (strcmp(backend, "mem") == 0) {
        rig_memory(r, PATIENT_MS);
        return;
    }
    *r = (struct rig){0};
    if (strcmp(backend, "s3") == 0) {
        char prefix[S3_PREFIX_LEN];
        s3_prefix(prefix);
        FINE(handle_open_take(s3_open_at(prefix), prefix, NULL, &r->s, &error));
        return;
    }
    if (strcmp(backend, "redis") == 0) {
        char prefix[S3_PREFIX_LEN];
        s3_prefix(prefix);
        FINE(handle_open_take(redis_open_at(prefix), prefix, NULL, &r->s, &error));
        return;
    }
    scratch_make(r->dir);
    FINE(sluice_open(r->dir, NULL, &r->s, &error));
}

void rig_close(struct rig *r)
{
    sluice_close(r->s);
    if (r->dir[0]) scratch_remove(r->dir);
}

void create(struct rig *r, const char *queue, const char *mode)
{
    const struct sluice_setting settings[] = {{"maxMessageBytes", "64MiB"},
                                              {"failureStrategy.mode", mode},
                                              {"failureStrategy.maxRetries", "0"},
                                              {"failureStrategy.deadLetterQueue", "dlq"}};
    bool letters = strcmp(mode, "retry") != 0;
    FINE(sluice_queue_create(r->s, queue, settings, letters ? 4 : 3, &error));
    const struct sluice_setting large = {"maxMessageBytes", "64MiB"};
    if (letters) FINE(sluice_queue_set(r->s, "dlq", &large, 1, &error));
}

enum sluice_code try_send(struct rig *r, const char *queue, uint64_t seed, size_t len)
{
    struct bytes body = body_make(seed, len);
    struct sluice_send m = {.body = body.data, .body_len = body.len, .content_type = "x/y"};
    enum sluice_code code = sluice_send(r->s, queue, &m, 1, NULL, NULL, NULL);
    bytes_free(body);
    return code;
}

// A test may move the clock while a request is under way. The answer brings the old time back, and
// the next call finds that its time is up. It was not applied, so it is made again.
#define CALLS_MAX 10
#define MADE(call)                                                                                 \
    do {                                                                                           \
        enum sluice_code code = SLUICE_UNAVAILABLE;                                                \
        for (int calls = 0; code == SLUICE_UNAVAILABLE && calls < CALLS_MAX; calls++)              \
            code = (call);                                                                         \
        assert_int_equal(code, SLUICE_OK);                                                         \
    } while (0)

void send_body(struct rig *r, const char *queue, uint64_t seed, size_t len)
{
    MADE(try_send(r, queue, seed, len));
}

struct sluice_batch *receive(struct rig *r, const char *queue, uint32_t max, int64_t wait_ms)
{
    struct sluice_batch *b;
    struct sluice_receive ask = {.worker = "tester", .max = max, .wait_ms = wait_ms};
    MADE(sluice_receive(r->s, queue, &ask, &b, NULL));
    return b;
}

void assert_body(const struct sluice_message *m, uint64_t seed, size_t len)
{
    assert_true(body_is(bytes_of(m->body, m->body_len), seed, len));
    assert_int_equal(((const char *)m->body)[m->body_len], 0);
}

void ack(struct rig *r, const char *queue, const struct sluice_message *m)
{
    const char *token = m->token;
    MADE(sluice_ack(r->s, queue, &token, 1, NULL, NULL));
}

void fail_it(struct rig *r, const char *queue, const struct sluice_message *m)
{
    const char *token = m->token;
    FINE(sluice_fail(r->s, queue, &token, 1, "no", NULL, &error));
}

size_t count_keys(struct rig *r, const char *prefix, const char *text, char *key)
{
    struct store_answer a;
    store_answer_init(&a);
    size_t count = 0;
    char after[RIG_KEY_MAX] = "";
    do {
        ANSWERS(ERR_OK, &a,
                store_list(r->s->engine->store, prefix, after[0] ? after : NULL, 1000, &a));
        for (size_t i = 0; i < a.rows_len; i++) {
            (void)snprintf(after, sizeof after, "%s", store_row_key(&a, i));
            if (!strstr(after, text)) continue;
            if (count++ == 0 && key) (void)snprintf(key, RIG_KEY_MAX, "%s", after);
        }
    } while (a.more && a.rows_len > 0);
    store_answer_done(&a);
    return count;
}

size_t count_bodies(struct rig *r)
{
    return count_keys(r, "q/", "/data/", NULL);
}

struct sluice_batch *receive_letter(struct rig *r)
{
    struct sluice_batch *b = receive(r, "dlq", 1, PATIENT_MS);
    assert_int_equal(b->len, 1);
    return b;
}
