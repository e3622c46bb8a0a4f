// SPDX-License-Identifier: Apache-2.0
// What a job leaves: its result, its progress while it runs, and what is kept when it has ended.
#include "acting_rig.h"

static struct sluice_batch *hold(struct sluice *s, const char *text, char id[SLUICE_ID_MAX])
{
    send_text(s, text, id);
    struct sluice_batch *b = receive(s, "w", 1);
    assert_int_equal(b->len, 1);
    return b;
}

static void finish(struct sluice *s, const char *text, const void *result, size_t len,
                   char id[SLUICE_ID_MAX])
{
    struct sluice_batch *b = hold(s, text, id);
    struct sluice_ack ack = {.token = b->messages[0].token,
                             .result = result,
                             .result_len = len,
                             .content_type = result ? "text/plain" : NULL};
    struct sluice_outcome o;
    FINE(sluice_ack_with(s, "tasks", &ack, 1, &o, &error));
    assert_string_equal(o.status, "processed");
    assert_string_equal(o.reason, "");
    sluice_batch_free(b);
}

static void a_result_is_what_its_ack_said(void **state)
{
    (void)state;
    struct rig r;
    char plain[SLUICE_ID_MAX], with[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    finish(r.s, "a", NULL, 0, plain);
    finish(r.s, "b", "42\0\xff", 4, with);
    struct sluice_batch *b = show(r.s, with);
    const struct sluice_message *m = &b->messages[0];
    assert_string_equal(m->state, "processed");
    assert_int_equal(m->result_len, 4);
    assert_memory_equal(m->result, "42\0\xff", 4);
    assert_string_equal(m->result_type, "text/plain");
    assert_string_equal(m->worker, "w");
    assert_null(m->body); // it is not kept
    sluice_batch_free(b);
    b = show(r.s, plain);
    assert_null(b->messages[0].result);
    assert_string_equal(b->messages[0].result_type, "");
    sluice_batch_free(b);
    struct sluice_stats v = stats(r.s);
    assert_int_equal(v.results, 1);
    assert_int_equal(v.result_bytes, 4);
    rig_close(&r);
}

static void many_large_results_go_to_their_own_messages(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    static char result[COUNT][200 << 10];
    struct rig r;
    struct sluice_ack acks[COUNT];
    struct sluice_outcome o[COUNT];
    char id[SLUICE_ID_MAX];
    rig_queue(&r, NULL, 0);
    for (int i = 0; i < COUNT; i++)
        send_text(r.s, "x", id);
    struct sluice_batch *b = receive(r.s, "w", COUNT);
    assert_int_equal(b->len, COUNT);
    for (int i = 0; i < COUNT; i++) {
        memset(result[i], 'a' + i, sizeof result[i]);
        acks[i] = (struct sluice_ack){
            .token = b->messages[i].token, .result = result[i], .result_len = sizeof result[i]};
    }
    FINE(sluice_ack_with(r.s, "tasks", acks, COUNT, o, &error));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(o[i].code, SLUICE_OK);
        struct sluice_batch *shown = show(r.s, b->messages[i].id);
        assert_int_equal(shown->messages[0].result_len, sizeof result[i]);
        assert_memory_equal(shown->messages[0].result, result[i], sizeof result[i]);
        sluice_batch_free(shown);
    }
    sluice_batch_free(b);
    rig_close(&r);
}

// 12 results of 200 KiB do not fit one op, so their acks come before the claim. One goes with it.
static void a_receive_carries_the_results_of_its_acks(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    static char result[COUNT][200 << 10];
    static const char *const counts[] = {"1", "3"};
    for (size_t round = 0; round < 4; round++) {
        struct sluice_setting shards = {"shards", counts[round % 2]};
        size_t len = round < 2 ? COUNT : 1;
        struct rig r;
        struct sluice_ack results[COUNT];
        struct sluice_outcome o[COUNT];
        const char *tokens[COUNT];
        char id[SLUICE_ID_MAX];
        rig_queue(&r, &shards, 1);
        for (size_t i = 0; i < len; i++)
            send_text(r.s, "x", id);
        struct sluice_batch *held[COUNT], *next = NULL;
        for (size_t i = 0; i < len; i++) {
            held[i] = receive(r.s, "w", 1);
            assert_int_equal(held[i]->len, 1);
            tokens[i] = held[i]->messages[0].token;
            memset(result[i], 'a' + (int)i, sizeof result[i]);
            results[i] = (struct sluice_ack){
                .result = result[i], .result_len = sizeof result[i], .content_type = "text/plain"};
        }
        if (len > 1) results[0] = (struct sluice_ack){0}; // one of them has none
        send_text(r.s, "next", id);
        struct sluice_receive ask = {.worker = "w",
                                     .wait_ms = 20000,
                                     .acks = tokens,
                                     .acks_len = len,
                                     .acked = o,
                                     .results = results};
        FINE(sluice_receive(r.s, "tasks", &ask, &next, &error));
        assert_string_equal(next->messages[0].id, id);
        for (size_t i = 0; i < len; i++) {
            struct sluice_batch *b = show(r.s, held[i]->messages[0].id);
            assert_string_equal(o[i].status, "processed");
            size_t bytes = results[i].result_len;
            assert_int_equal(b->messages[0].result_len, bytes);
            if (bytes > 0) assert_memory_equal(b->messages[0].result, result[i], bytes);
            sluice_batch_free(b);
            sluice_batch_free(held[i]);
        }
        sluice_batch_free(next);
        rig_close(&r);
    }
}

static void progress_is_shown_while_the_message_is_locked(void **state)
{
    (void)state;
    struct rig r;
    char id[SLUICE_ID_MAX];
    struct sluice_outcome o;
    rig_queue(&r, NULL, 0);
    struct sluice_batch *b = hold(r.s, "x", id);
    const char *token = b->messages[0].token;
    struct sluice_renewal renewal = {
        .token = token, .has_progress = 1, .percent = 40, .text = "page 4 of 10"};
    FINE(sluice_renew_with(r.s, "tasks", &renewal, 1, 0, &o, &error));
    assert_string_equal(o.status, "renewed");
    for (int peeks = 0; peeks < 2; peeks++) {
        struct sluice_batch *seen;
        struct sluice_peek locked = {.state = "locked"};
        if (peeks)
            FINE(sluice_peek(r.s, "tasks", &locked, &seen, &error));
        else
            seen = show(r.s, id);
        assert_int_equal(seen->messages[0].percent, 40);
        assert_string_equal(seen->messages[0].progress, "page 4 of 10");
        assert_true(seen->messages[0].progress_at > 0);
        sluice_batch_free(seen);
    }
    FINE(sluice_release(r.s, "tasks", &token, 1, 0, NULL, &error));
    struct sluice_batch *seen = show(r.s, id);
    assert_int_equal(seen->messages[0].percent, -1);
    assert_string_equal(seen->messages[0].progress, "");
    sluice_batch_free(seen);
    sluice_batch_free(b);
    rig_close(&r);
}

static void a_queue_without_retention_takes_a_result_and_says_so(void **state)
{
    (void)state;
    static const struct sluice_setting none[] = {{"retention", "0"}};
    struct rig r;
    char id[SLUICE_ID_MAX];
    struct sluice_outcome o;
    rig_queue(&r, none, 1);
    struct sluice_batch *b = hold(r.s, "x", id);
    struct sluice_ack ack = {.token = b->messages[0].token, .result = "1", .result_len = 1};
    FINE(sluice_ack_with(r.s, "tasks", &ack, 1, &o, &error));
    assert_string_equal(o.status, "processed");
    assert_string_equal(o.reason, "result-not-kept");
    sluice_batch_free(b);
    rig_close(&r);
}

static void bad_results_and_progress_are_refused(void **state)
{
    (void)state;
    static char large[(256 << 10) + 1], text[258];
    struct rig r;
    struct sluice_error e;
    struct sluice_outcome o;
    rig_queue(&r, NULL, 0);
    memset(text, 'x', sizeof text - 1);
    struct sluice_ack big = {.token = "t", .result = large, .result_len = sizeof large};
    assert_int_equal(sluice_ack_with(r.s, "tasks", &big, 1, &o, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "result");
    assert_int_equal(o.code, SLUICE_INVALID);
    struct sluice_ack type = {.token = "t", .content_type = "text/plain"};
    assert_int_equal(sluice_ack_with(r.s, "tasks", &type, 1, NULL, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "resultType");
    struct sluice_renewal far = {.token = "t", .has_progress = 1, .percent = 101};
    assert_int_equal(sluice_renew_with(r.s, "tasks", &far, 1, 0, NULL, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "progress");
    struct sluice_renewal said = {.token = "t", .has_progress = 1, .text = text};
    assert_int_equal(sluice_renew_with(r.s, "tasks", &said, 1, 0, NULL, &e), SLUICE_INVALID);
    assert_string_equal(e.field, "progressText");
    rig_close(&r);
}

static size_t list(struct sluice *s, const char *state, const char *after,
                   struct sluice_batch **out)
{
    struct sluice_peek what = {.state = state, .after_id = after, .max = 2};
    FINE(sluice_peek(s, "tasks", &what, out, &error));
    return (*out)->len;
}

static void finished_messages_are_listed_newest_first_by_page(void **state)
{
    (void)state;
    struct rig r;
    char id[3][SLUICE_ID_MAX], gone[SLUICE_ID_MAX];
    struct sluice_batch *b;
    struct sluice_error e;
    rig_queue(&r, NULL, 0);
    for (int i = 0; i < 3; i++)
        finish(r.s, "x", "r", 1, id[i]);
    send_text(r.s, "y", gone);
    const char *ids[] = {gone};
    FINE(sluice_cancel(r.s, "tasks", ids, 1, "not wanted", NULL, &error));
    assert_int_equal(list(r.s, "finished", NULL, &b), 2);
    assert_string_equal(b->messages[0].id, gone);
    assert_string_equal(b->messages[0].state, "cancelled");
    assert_string_equal(b->messages[0].reason, "not wanted");
    assert_string_equal(b->messages[1].id, id[2]);
    assert_memory_equal(b->messages[1].result, "r", 1);
    char after[SLUICE_ID_MAX];
    memcpy(after, b->messages[1].id, sizeof after);
    sluice_batch_free(b);
    assert_int_equal(list(r.s, "finished", after, &b), 2);
    assert_string_equal(b->messages[0].id, id[1]);
    assert_string_equal(b->messages[1].id, id[0]);
    sluice_batch_free(b);
    assert_int_equal(list(r.s, "cancelled", NULL, &b), 1);
    sluice_batch_free(b);
    assert_int_equal(list(r.s, "purged", NULL, &b), 0);
    sluice_batch_free(b);
    struct sluice_peek wrong = {.state = "gone"};
    assert_int_equal(sluice_peek(r.s, "tasks", &wrong, &b, &e), SLUICE_INVALID);
    assert_non_null(strstr(e.message, "finished"));
    rig_close(&r);
}

static void kept_bodies_of_finished_messages_are_shown_and_found(void **state)
{
    (void)state;
    static const struct sluice_setting keeps[] = {{"retainBody", "true"}};
    struct rig r;
    char apple[SLUICE_ID_MAX], pear[SLUICE_ID_MAX];
    struct sluice_batch *b;
    struct sluice_found found;
    rig_queue(&r, keeps, 1);
    finish(r.s, "an apple", NULL, 0, apple);
    finish(r.s, "a pear", NULL, 0, pear);
    b = show(r.s, apple);
    assert_int_equal(b->messages[0].body_len, 8);
    assert_memory_equal(b->messages[0].body, "an apple", 8);
    sluice_batch_free(b);
    assert_int_equal(stats(r.s).bodies, 2);
    struct sluice_find what = {.state = "processed", .contains = "apple"};
    FINE(sluice_find(r.s, "tasks", &what, &b, &found, &error));
    assert_int_equal(b->len, 1);
    assert_string_equal(b->messages[0].id, apple);
    assert_string_equal(b->messages[0].state, "processed");
    assert_int_equal(found.messages, 2);
    assert_string_equal(found.next, "");
    sluice_batch_free(b);
    what.contains = "plum";
    FINE(sluice_find(r.s, "tasks", &what, &b, NULL, &error));
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_what_its_ack_said),
        cmocka_unit_test(many_large_results_go_to_their_own_messages),
        cmocka_unit_test(a_receive_carries_the_results_of_its_acks),
        cmocka_unit_test(progress_is_shown_while_the_message_is_locked),
        cmocka_unit_test(a_queue_without_retention_takes_a_result_and_says_so),
        cmocka_unit_test(bad_results_and_progress_are_refused),
        cmocka_unit_test(finished_messages_are_listed_newest_first_by_page),
        cmocka_unit_test(kept_bodies_of_finished_messages_are_shown_and_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
