// SPDX-License-Identifier: Apache-2.0
// Queues that are changed, deleted and made again while others use them; batches of which a part is
// refused; dead messages that no call touches.
#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "os/clock.h"
#include "sluice.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct rig {
    struct sluice *mine;
    struct sluice *theirs; // as another process
    char dir[SCRATCH_MAX];
};

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        if (call) fail_msg("%s: %s", sluice_code_name(error.code), error.message);                 \
    } while (0)

static void rig_open(struct rig *r)
{
    scratch_make(r->dir);
    FINE(sluice_open(r->dir, NULL, &r->mine, &error));
    FINE(sluice_open(r->dir, NULL, &r->theirs, &error));
}

static void rig_close(struct rig *r)
{
    sluice_close(r->mine);
    sluice_close(r->theirs);
    scratch_remove(r->dir);
}

static void send_to(struct sluice *s, const char *queue, const char *group)
{
    struct sluice_send m = {.body = "x", .body_len = 1, .group = group};
    FINE(sluice_send(s, queue, &m, 1, NULL, NULL, &error));
}

static struct sluice_batch *receive(struct sluice *s, const char *queue, int64_t visibility_ms)
{
    struct sluice_batch *b;
    struct sluice_receive ask = {.worker = "tester", .max = 10, .visibility_ms = visibility_ms};
    FINE(sluice_receive(s, queue, &ask, &b, &error));
    return b;
}

static struct sluice_stats stats_of(struct sluice *s, const char *queue)
{
    struct sluice_stats stats;
    FINE(sluice_stats(s, queue, &stats, &error));
    return stats;
}

static void queue_that_another_process_made_again_is_found(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.mine, "tasks", NULL, 0, &error));
    send_to(r.mine, "tasks", "");
    FINE(sluice_queue_delete(r.theirs, "tasks", &error));
    FINE(sluice_queue_create(r.theirs, "tasks", NULL, 0, &error));
    send_to(r.theirs, "tasks", "");
    struct sluice_batch *b = receive(r.theirs, "tasks", 0);
    assert_int_equal(b->len, 1);
    const char *token = b->messages[0].token;
    FINE(sluice_ack(r.mine, "tasks", &token, 1, NULL, &error)); // a token of the new life
    assert_int_equal(stats_of(r.mine, "tasks").processed, 1);
    sluice_batch_free(b);
    FINE(sluice_queue_delete(r.mine, "tasks", &error));
    struct sluice_names *names;
    FINE(sluice_queue_list(r.theirs, &names, &error));
    assert_int_equal(names->len, 0);
    sluice_names_free(names);
    rig_close(&r);
}

static void send_to_groups(struct sluice *s, int count)
{
    for (int i = 0; i < count; i++) {
        char group[8];
        (void)snprintf(group, sizeof group, "g%d", i);
        send_to(s, "tasks", group);
    }
}

static const struct sluice_setting sharded[] = {{"shards", "4"},
                                                {"failureStrategy.mode", "hybrid"},
                                                {"failureStrategy.maxRetries", "0"},
                                                {"failureStrategy.deadLetterQueue", "dead"}};

static void deleted_queue_takes_nothing_more_on_any_shard(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.mine, "tasks", sharded, 4, &error));
    send_to_groups(r.theirs, 12);
    FINE(sluice_queue_delete(r.mine, "tasks", &error));
    for (int i = 0; i < 12; i++) {
        char group[8];
        (void)snprintf(group, sizeof group, "g%d", i);
        struct sluice_send m = {.body = "x", .body_len = 1, .group = group};
        struct sluice_error e;
        assert_int_equal(sluice_send(r.theirs, "tasks", &m, 1, NULL, NULL, &e), SLUICE_NOT_FOUND);
    }
    rig_close(&r);
}

// All locks ran out while no process looked, so every message is dead and about to move. A delete
// that comes now is refused and deletes nothing, or comes after the dead letters. None of them is
// lost.
static void delete_loses_no_dead_letter(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.mine, "tasks", sharded, 4, &error));
    send_to_groups(r.mine, 12);
    size_t locked = 0;
    for (int i = 0; i < 40 && locked < 12; i++) {
        struct sluice_batch *b = receive(r.mine, "tasks", 400);
        locked += b->len;
        sluice_batch_free(b);
    }
    assert_int_equal(locked, 12);
    sluice_close(r.mine);
    r.mine = NULL;
    for (int64_t expired = clock_boot_ms() + 450; clock_boot_ms() < expired;)
        continue;
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    struct sluice_error e;
    while (sluice_queue_delete(r.theirs, "tasks", &e) != SLUICE_OK) {
        assert_int_equal(e.code, SLUICE_CONFLICT);
        assert_string_equal(e.reason, "outbox-busy");
        assert_int_equal(stats_of(r.theirs, "tasks").purged, 0);
        assert_true(clock_boot_ms() < give_up);
    }
    assert_int_equal(stats_of(r.theirs, "dead").ready, 12);
    rig_close(&r);
}

static void ordering_of_several_shards_is_fixed(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting shards = {"shards", "4"}, strict = {"orderingGuarantee", "true"};
    struct sluice_error e;
    FINE(sluice_queue_create(r.mine, "tasks", &shards, 1, &error));
    assert_int_equal(sluice_queue_set(r.mine, "tasks", &strict, 1, &e), SLUICE_CONFLICT);
    assert_string_equal(e.field, "orderingGuarantee");
    rig_close(&r);
}

static void bad_token_does_not_refuse_the_good_ones(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.mine, "tasks", NULL, 0, &error));
    send_to(r.mine, "tasks", "");
    struct sluice_batch *b = receive(r.mine, "tasks", 0);
    const char *tokens[] = {"nonsense", b->messages[0].token,
                            "00000000-0-1-00000000000000000000000000000000"};
    struct sluice_outcome outcomes[3];
    struct sluice_error e;
    assert_int_equal(sluice_ack(r.mine, "tasks", tokens, 3, outcomes, &e), SLUICE_INVALID);
    assert_int_equal(outcomes[0].code, SLUICE_INVALID);
    assert_int_equal(outcomes[1].code, SLUICE_OK);
    assert_int_equal(outcomes[2].code, SLUICE_NOT_FOUND);
    assert_string_equal(outcomes[2].reason, "foreign-queue");
    assert_int_equal(stats_of(r.mine, "tasks").processed, 1);
    sluice_batch_free(b);
    rig_close(&r);
}

static void redrive_leaves_the_living_alone(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    FINE(sluice_queue_create(r.mine, "live", NULL, 0, &error));
    FINE(sluice_queue_create(r.mine, "other", NULL, 0, &error));
    send_to(r.mine, "live", "");
    uint64_t redriven = 99;
    FINE(sluice_redrive(r.mine, "live", "other", 0, &redriven, &error));
    assert_int_equal(redriven, 0);
    assert_int_equal(stats_of(r.mine, "live").ready, 1);
    assert_int_equal(stats_of(r.mine, "other").sent, 0);
    rig_close(&r);
}

static void *make_room(void *arg)
{
    struct rig *r = arg;
    while (stats_of(r->theirs, "tasks").ready == 0)
        continue;
    struct sluice_batch *b = receive(r->theirs, "tasks", 0);
    const char *token = b->messages[0].token;
    FINE(sluice_ack(r->theirs, "tasks", &token, 1, NULL, &error));
    sluice_batch_free(b);
    return NULL;
}

static void full_queue_that_blocks_lets_the_sender_wait(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting settings[] = {{"capacity", "1"}, {"backpressure", "block"}};
    FINE(sluice_queue_create(r.mine, "tasks", settings, 2, &error));
    send_to(r.mine, "tasks", "");
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, make_room, &r), 0);
    send_to(r.mine, "tasks", ""); // waits until the first one is done
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(stats_of(r.mine, "tasks").sent, 2);
    struct sluice_setting reject = {"backpressure", "reject"};
    FINE(sluice_queue_set(r.mine, "tasks", &reject, 1, &error));
    struct sluice_send m = {.body = "x", .body_len = 1};
    struct sluice_error e;
    assert_int_equal(sluice_send(r.mine, "tasks", &m, 1, NULL, NULL, &e), SLUICE_LIMIT);
    rig_close(&r);
}

// No call comes after the lock ran out: the dead letter still arrives.
static void message_that_dies_by_expiry_is_carried(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting settings[] = {{"failureStrategy.mode", "hybrid"},
                                        {"failureStrategy.maxRetries", "0"},
                                        {"failureStrategy.deadLetterQueue", "dead"}};
    FINE(sluice_queue_create(r.mine, "tasks", settings, 3, &error));
    send_to(r.mine, "tasks", "");
    sluice_batch_free(receive(r.mine, "tasks", 50));
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (stats_of(r.theirs, "dead").ready == 0)
        assert_true(clock_boot_ms() < give_up);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_that_another_process_made_again_is_found),
        cmocka_unit_test(deleted_queue_takes_nothing_more_on_any_shard),
        cmocka_unit_test(delete_loses_no_dead_letter),
        cmocka_unit_test(ordering_of_several_shards_is_fixed),
        cmocka_unit_test(bad_token_does_not_refuse_the_good_ones),
        cmocka_unit_test(redrive_leaves_the_living_alone),
        cmocka_unit_test(message_that_dies_by_expiry_is_carried),
        cmocka_unit_test(full_queue_that_blocks_lets_the_sender_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
