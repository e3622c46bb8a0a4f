// SPDX-License-Identifier: Apache-2.0
// The order of a queue with several shards, on the store named by the argument, or by way of a node
// ("http"): strict without groups, strict with groups, and best effort.
#include "backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS   "4"
#define MESSAGES 60
#define WORKERS  6
#define GROUPS   12
#define EACH     5

static void create(struct rig *r, const char *strict)
{
    struct sluice_setting settings[] = {{"shards", SHARDS},
                                        {"orderingGuarantee", strict},
                                        {"visibilityTimeout", "5m"},
                                        {"failureStrategy.backoff.initial", "1ms"}};
    rig_open(r);
    FINE(sluice_queue_create(r->s, "tasks", settings, 4, &error));
}

// The messages are numbers. Each is a call of its own, so that no shard sees them as one batch.
static void send_number(struct rig *r, int number, const char *group)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", number);
    struct sluice_send m = {.body = text, .body_len = strlen(text), .group = group};
    FINE(sluice_send(r->s, "tasks", &m, 1, NULL, NULL, &error));
}

static struct sluice_batch *receive(struct rig *r, const char *worker, uint32_t max,
                                    int64_t wait_ms)
{
    struct sluice_batch *batch = NULL;
    struct sluice_receive ask = {.worker = worker, .max = max, .wait_ms = wait_ms};
    FINE(sluice_receive(r->s, "tasks", &ask, &batch, &error));
    return batch;
}

// Receives the one message that may be open, and no other.
static void take_one(struct rig *r, int number, char token[SLUICE_TOKEN_MAX])
{
    struct sluice_batch *b = receive(r, "first", 10, 10000);
    assert_int_equal(b->len, 1);
    assert_int_equal(atoi(b->messages[0].body), number);
    memcpy(token, b->messages[0].token, SLUICE_TOKEN_MAX);
    sluice_batch_free(b);
    b = receive(r, "second", 10, 0);
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
}

static void strict_ungrouped_messages_of_several_shards_come_in_order_across_retries(void **state)
{
    (void)state;
    struct rig r;
    create(&r, "true");
    for (int i = 0; i < 12; i++)
        send_number(&r, i, NULL);
    for (int i = 0; i < 12; i++) {
        char token[SLUICE_TOKEN_MAX];
        const char *one = token;
        take_one(&r, i, token);
        if (i % 3 == 1) FINE(sluice_release(r.s, "tasks", &one, 1, 0, NULL, &error));
        if (i % 3 == 2) FINE(sluice_fail(r.s, "tasks", &one, 1, "again", NULL, &error));
        if (i % 3 != 0) take_one(&r, i, token);
        FINE(sluice_ack(r.s, "tasks", &one, 1, NULL, &error));
    }
    struct sluice_stats stats;
    FINE(sluice_stats(r.s, "tasks", &stats, &error));
    assert_int_equal(stats.processed, 12);
    rig_close(&r);
}

struct crowd {
    struct rig rig;
    pthread_mutex_t lock;
    int seen[MESSAGES]; // in the order of delivery
    int seen_len;
    int most; // messages in one batch
};

static void *work(void *arg)
{
    struct crowd *c = arg;
    for (bool more = true; more;) {
        struct sluice_batch *b = receive(&c->rig, NULL, 10, 100);
        (void)pthread_mutex_lock(&c->lock);
        for (size_t i = 0; i < b->len && c->seen_len < MESSAGES; i++)
            c->seen[c->seen_len++] = atoi(b->messages[i].body);
        if ((int)b->len > c->most) c->most = (int)b->len;
        more = c->seen_len < MESSAGES;
        (void)pthread_mutex_unlock(&c->lock);
        for (size_t i = 0; i < b->len; i++) {
            const char *token = b->messages[i].token;
            FINE(sluice_ack(c->rig.s, "tasks", &token, 1, NULL, &error));
        }
        sluice_batch_free(b);
    }
    return NULL;
}

static void strict_ungrouped_messages_of_several_shards_come_in_order_to_many_workers(void **state)
{
    (void)state;
    struct crowd c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[WORKERS];
    create(&c.rig, "true");
    for (int i = 0; i < MESSAGES / 2; i++)
        send_number(&c.rig, i, NULL);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &c), 0);
    for (int i = MESSAGES / 2; i < MESSAGES; i++) // while workers wait
        send_number(&c.rig, i, NULL);
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_int_equal(c.seen_len, MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(c.seen[i], i);
    assert_int_equal(c.most, 1);
    rig_close(&c.rig);
}

// Sends EACH messages to each group in turn: the message `round` of group g is round * GROUPS + g.
static void send_groups(struct rig *r)
{
    for (int i = 0; i < GROUPS * EACH; i++) {
        char group[16];
        (void)snprintf(group, sizeof group, "g%d", i % GROUPS);
        send_number(r, i, group);
    }
}

static void strict_groups_of_several_shards_run_in_parallel_and_in_order_inside(void **state)
{
    (void)state;
    struct rig r;
    create(&r, "true");
    send_groups(&r);
    for (int round = 0; round < EACH; round++) {
        bool seen[GROUPS] = {false};
        char tokens[GROUPS][SLUICE_TOKEN_MAX];
        int count = 0;
        while (count < GROUPS) { // one open message of each group, whichever shard it is on
            struct sluice_batch *b = receive(&r, "one", GROUPS, 10000);
            assert_true(b->len > 0);
            for (size_t i = 0; i < b->len; i++) {
                int number = atoi(b->messages[i].body);
                assert_int_equal(number / GROUPS, round);
                assert_false(seen[number % GROUPS]);
                seen[number % GROUPS] = true;
                memcpy(tokens[count++], b->messages[i].token, SLUICE_TOKEN_MAX);
            }
            if (count == GROUPS) { // all are open: nothing more comes
                struct sluice_batch *none = receive(&r, "two", GROUPS, 0);
                assert_int_equal(none->len, 0);
                sluice_batch_free(none);
            }
            sluice_batch_free(b);
        }
        const char *all[GROUPS];
        for (int i = 0; i < GROUPS; i++)
            all[i] = tokens[i];
        FINE(sluice_ack(r.s, "tasks", all, GROUPS, NULL, &error));
    }
    rig_close(&r);
}

static void fifo_of_several_shards_holds_in_each_shard_and_group(void **state)
{
    (void)state;
    struct rig r;
    create(&r, "false");
    send_groups(&r);
    int last_of_group[GROUPS], count = 0;
    long last_of_shard[16];
    memset(last_of_group, -1, sizeof last_of_group);
    memset(last_of_shard, -1, sizeof last_of_shard);
    bool several = false;
    while (count < GROUPS * EACH) {
        struct sluice_batch *b = receive(&r, "one", 7, 10000);
        for (size_t i = 0; i < b->len; i++) {
            const char *id = b->messages[i].id;
            unsigned shard;
            long seq;
            assert_int_equal(sscanf(strchr(id, '-') + 1, "%u-%ld", &shard, &seq), 2);
            int number = atoi(b->messages[i].body);
            assert_true(shard < 16 && seq > last_of_shard[shard]);
            assert_true(number > last_of_group[number % GROUPS]);
            last_of_shard[shard] = seq;
            last_of_group[number % GROUPS] = number;
            several = several || shard > 0;
            count++;
        }
        sluice_batch_free(b);
    }
    assert_true(several);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_ungrouped_messages_of_several_shards_come_in_order_across_retries),
        cmocka_unit_test(strict_ungrouped_messages_of_several_shards_come_in_order_to_many_workers),
        cmocka_unit_test(strict_groups_of_several_shards_run_in_parallel_and_in_order_inside),
        cmocka_unit_test(fifo_of_several_shards_holds_in_each_shard_and_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
