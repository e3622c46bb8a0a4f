// SPDX-License-Identifier: Apache-2.0
// Two nodes of one store under load. The one that owns the queue is killed.
#include "nodes.h"

#include "os/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct crowd {
    struct rig *rig;
    int number;
    int sent;
    size_t twice;
    _Atomic bool *over;
    _Atomic unsigned char *seen; // by number and place
};

#define CROWD    4
#define SENT_MAX 20000

// Sends, each message again with its own id until it is answered; at either node.
static void *send_on(void *arg)
{
    struct crowd *c = arg;
    struct sluice *at[2] = {NULL, NULL};
    struct sluice_options short_time = {.timeout_ms = 1000};
    open_at(c->rig->two.url, &short_time, &at[1]);
    while (!*c->over && c->sent < SENT_MAX) {
        char body[32];
        struct sluice_request id = {{0}};
        memcpy(id.bytes, &c->number, sizeof c->number);
        memcpy(id.bytes + 8, &c->sent, sizeof c->sent);
        (void)snprintf(body, sizeof body, "%d %d", c->number, c->sent);
        struct sluice_send message = {.body = body, .body_len = strlen(body)};
        enum sluice_code code;
        do {
            int which = c->sent % 2;
            if (!at[which] && sluice_open(c->rig->one.url, &short_time, &at[which], NULL))
                which = 1; // a balancer sends no client there
            code = sluice_send(at[which], "tasks", &message, 1, &id, NULL, NULL);
            if (code && which == 0) {
                sluice_close(at[0]);
                at[0] = NULL;
            }
        } while (code == SLUICE_UNKNOWN || code == SLUICE_UNAVAILABLE);
        assert_int_equal(code, SLUICE_OK);
        c->sent++;
    }
    sluice_close(at[0]);
    sluice_close(at[1]);
    return NULL;
}

// A message whose answer was lost stays locked until its time is over.
static bool is_empty(struct sluice *s)
{
    struct sluice_stats stats;
    return !sluice_stats(s, "tasks", &stats, NULL) &&
           stats.ready + stats.delayed + stats.locked == 0;
}

static void *work_on(void *arg)
{
    struct crowd *c = arg;
    struct sluice *s = NULL;
    struct sluice_receive ask = {.max = 4, .wait_ms = 300};
    open_at(c->rig->two.url, NULL, &s);
    for (bool empty = false; !empty;) {
        struct sluice_batch *batch = NULL;
        if (sluice_receive(s, "tasks", &ask, &batch, NULL)) continue;
        empty = batch->len == 0 && *c->over && is_empty(s);
        for (size_t i = 0; i < batch->len; i++) {
            int number = 0, place = 0;
            const char *token = batch->messages[i].token;
            char body[32] = "";
            memcpy(body, batch->messages[i].body, batch->messages[i].body_len);
            if (sluice_ack(s, "tasks", &token, 1, NULL, NULL)) continue; // another worker has it
            if (sscanf(body, "%d %d", &number, &place) != 2) continue;
            c->twice += atomic_fetch_add(&c->seen[number * SENT_MAX + place], 1) > 0;
        }
        sluice_batch_free(batch);
    }
    sluice_close(s);
    return NULL;
}

static void nothing_is_lost_or_doubled_when_the_owner_is_killed(void **state)
{
    struct rig *r = *state;
    struct crowd crowd[2 * CROWD];
    pthread_t threads[2 * CROWD];
    _Atomic bool sent_all = false, over = false;
    _Atomic unsigned char *seen = calloc(CROWD * SENT_MAX, 1);
    struct sluice_setting quick = {"visibilityTimeout", "2s"};
    size_t sent = 0, twice = 0;
    struct sluice_stats before;
    assert_int_equal(sluice_queue_set(r->client, "tasks", &quick, 1, NULL), SLUICE_OK);
    node_start(&r->one);
    node_start(&r->two);
    use_node(&r->one, "the first"); // which owns the queue then
    use_node(&r->two, "the second");
    assert_int_equal(sluice_stats(r->client, "tasks", &before, NULL), SLUICE_OK);
    for (int i = 0; i < 2 * CROWD; i++) {
        crowd[i] = (struct crowd){
            .rig = r, .number = i, .over = i < CROWD ? &over : &sent_all, .seen = seen};
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < CROWD ? send_on : work_on, &crowd[i]), 0);
    }
    for (int life = 0; life < 2; life++) {
        for (int i = 0; i < 40; i++)
            nap();
        node_process_kill(&r->one);
        int64_t killed = clock_boot_ms();
        struct owner_name name;
        do {
            nap();
            (void)owner_now(r, &name);
            if (clock_boot_ms() - killed > STATED_MS + SLACK_MS) fail_msg("%s owns", name.node);
        } while (life == 0 && strcmp(name.node, "two") != 0);
        print_message("# taken over %lld ms after it\n", (long long)(clock_boot_ms() - killed));
        node_start(&r->one);
    }
    over = true;
    for (int i = 0; i < 2 * CROWD; i++) {
        (void)pthread_join(threads[i], NULL);
        sent_all = i >= CROWD - 1; // the last sender has ended
        sent += (size_t)crowd[i].sent;
        twice += crowd[i].twice;
    }
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(r->client, "tasks", &stats, NULL), SLUICE_OK);
    assert_int_equal(twice, 0);
    assert_int_equal(stats.sent - before.sent, sent);
    assert_int_equal(stats.ready + stats.delayed + stats.locked, 0);
    assert_int_equal(stats.dead + stats.purged, before.dead + before.purged);
    free((void *)(uintptr_t)seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_lost_or_doubled_when_the_owner_is_killed,
                                        rig_set_up, rig_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
