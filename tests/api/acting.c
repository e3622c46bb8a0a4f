// SPDX-License-Identifier: Apache-2.0
// Ending chosen messages: sluice_cancel.
#include "acting_rig.h"

static void a_waiting_message_is_cancelled_and_counted(void **state)
{
    (void)state;
    struct rig r;
    rig_queue(&r, NULL, 0);
    char ready[SLUICE_ID_MAX], delayed[SLUICE_ID_MAX];
    send_text(r.s, "a", ready);
    send_one(r.s, &(struct sluice_send){.body = "b", .body_len = 1, .delay_ms = 60000}, delayed);
    const char *ids[] = {ready, delayed};
    struct sluice_outcome o[2];
    FINE(sluice_cancel(r.s, "tasks", ids, 2, "no longer wanted", o, &error));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(o[i].code, SLUICE_OK);
        assert_string_equal(o[i].status, "cancelled");
        state_is(r.s, ids[i], "cancelled");
    }
    struct sluice_batch *b = receive(r.s, "w", 10);
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    struct sluice_stats v = stats(r.s);
    assert_int_equal(v.cancelled, 2);
    assert_int_equal(v.sent, 2);
    rig_close(&r);
}

static void each_refusal_has_its_sentence_and_the_others_go_on(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error e;
    rig_queue(&r, NULL, 0);
    char held[SLUICE_ID_MAX], waiting[SLUICE_ID_MAX], never[SLUICE_ID_MAX];
    send_text(r.s, "held", held);
    struct sluice_batch *b = receive(r.s, "w", 1);
    assert_int_equal(b->len, 1);
    send_text(r.s, "waits", waiting);
    (void)snprintf(never, sizeof never, "%.8s-0-999", held);
    const char *ids[] = {held, waiting, never, "00000000-0-1", "nonsense", waiting};
    static const enum sluice_code codes[] = {SLUICE_CONFLICT,  SLUICE_OK,      SLUICE_NOT_FOUND,
                                             SLUICE_NOT_FOUND, SLUICE_INVALID, SLUICE_INVALID};
    static const char *const reasons[] = {"locked", "", "unknown-message", "foreign-queue", "", ""};
    struct sluice_outcome o[6];
    assert_int_not_equal(sluice_cancel(r.s, "tasks", ids, 6, NULL, o, &e), SLUICE_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(o[i].code, codes[i]);
        assert_string_equal(o[i].reason, reasons[i]);
    }
    assert_int_equal(sluice_cancel(r.s, "tasks", ids, 1, NULL, NULL, &e), SLUICE_CONFLICT);
    char text[200];
    (void)snprintf(text, sizeof text, "sluice signal tasks %s interrupt", held);
    assert_non_null(strstr(e.message, text));
    const char *token = b->messages[0].token;
    FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
    assert_int_equal(sluice_cancel(r.s, "tasks", ids, 1, NULL, o, &e), SLUICE_CONFLICT);
    assert_string_equal(o[0].reason, "terminal");
    sluice_batch_free(b);
    rig_close(&r);
}

static void an_id_of_another_queue_is_not_the_same_message(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error e;
    char ours[SLUICE_ID_MAX], theirs[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    send_text(r.s, "a", ours);
    (void)snprintf(theirs, sizeof theirs, "00000000%s", ours + 8); // the same shard and number
    const char *ids[] = {theirs, ours, ours, ours};
    static const enum sluice_code codes[] = {SLUICE_NOT_FOUND, SLUICE_OK, SLUICE_INVALID,
                                             SLUICE_INVALID};
    struct sluice_outcome o[4];
    assert_int_equal(sluice_cancel(r.s, "tasks", ids, 4, NULL, o, &e), SLUICE_NOT_FOUND);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(o[i].code, codes[i]);
    state_is(r.s, ours, "cancelled");
    rig_close(&r);
}

static void a_dead_message_is_purged(void **state)
{
    (void)state;
    static const struct sluice_setting dies[] = {{"failureStrategy.mode", "retry"},
                                                 {"failureStrategy.maxRetries", "0"}};
    struct rig r;
    struct sluice_outcome o;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, dies, 2);
    send_text(r.s, "x", id);
    struct sluice_batch *b = receive(r.s, "w", 1);
    const char *token = b->messages[0].token, *ids[] = {id};
    FINE(sluice_fail(r.s, "tasks", &token, 1, "no", NULL, &error));
    FINE(sluice_cancel(r.s, "tasks", ids, 1, NULL, &o, &error));
    assert_string_equal(o.status, "purged");
    state_is(r.s, id, "purged");
    sluice_batch_free(b);
    rig_close(&r);
}

static void messages_of_several_shards_are_cancelled_by_one_call(void **state)
{
    (void)state;
    static const struct sluice_setting sharded[] = {{"shards", "4"}};
    enum { COUNT = 24 };
    struct rig r;
    rig_queue(&r, sharded, 1);
    char id[COUNT][SLUICE_ID_MAX];
    const char *ids[COUNT];
    unsigned seen = 0;
    for (int i = 0; i < COUNT; i++) {
        char group[8];
        (void)snprintf(group, sizeof group, "g%d", i);
        send_one(r.s, &(struct sluice_send){.body = "x", .body_len = 1, .group = group}, id[i]);
        ids[i] = id[i];
        seen |= 1U << (id[i][9] - '0');
    }
    assert_int_equal(seen, 15); // every shard has some
    struct sluice_outcome o[COUNT];
    FINE(sluice_cancel(r.s, "tasks", ids, COUNT, NULL, o, &error));
    for (int i = 0; i < COUNT; i++)
        assert_string_equal(o[i].status, "cancelled");
    assert_int_equal(stats(r.s).cancelled, COUNT);
    rig_close(&r);
}

static void a_reason_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static char text[5000];
    struct rig r;
    struct sluice_error e;
    char id[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    send_text(r.s, "x", id);
    memset(text, 'r', sizeof text - 1);
    const char *ids[] = {id};
    assert_int_equal(sluice_cancel(r.s, "tasks", ids, 1, text, NULL, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "reason");
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiting_message_is_cancelled_and_counted),
        cmocka_unit_test(each_refusal_has_its_sentence_and_the_others_go_on),
        cmocka_unit_test(an_id_of_another_queue_is_not_the_same_message),
        cmocka_unit_test(a_dead_message_is_purged),
        cmocka_unit_test(messages_of_several_shards_are_cancelled_by_one_call),
        cmocka_unit_test(a_reason_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
