// SPDX-License-Identifier: Apache-2.0
// Calls that reach several shards, of which one takes no entries: what was done in part is never
// called "not applied".
#include "../conformance/store/support.h"
#include "../support/gate_store.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "os/clock.h"
#include "queues/queues.h"

#include <string.h>

#define MESSAGES   32
#define TIMEOUT_MS 500

// A shard that was refused pauses before it tries again, perhaps for longer than one call.
#define AGAIN(call)                                                                                \
    do {                                                                                           \
        int64_t give_up = clock_boot_ms() + DEADLINE_MS;                                           \
        while (call)                                                                               \
            assert_true(clock_boot_ms() < give_up);                                                \
    } while (0)

struct rig {
    struct store *gate;
    struct sluice *s;
};

static void rig_open(struct rig *r)
{
    struct sluice_options options = {.timeout_ms = TIMEOUT_MS};
    struct sluice_setting shards = {"shards", "4"};
    struct sluice_error error;
    r->gate = store_gate_new();
    assert_int_equal(handle_open_take(r->gate, "mem:", &options, &r->s, &error), SLUICE_OK);
    assert_int_equal(sluice_queue_create(r->s, "q", &shards, 1, &error), SLUICE_OK);
}

static enum sluice_code send_some(struct rig *r, const struct sluice_request *request,
                                  struct sluice_sent *sent, struct sluice_error *error)
{
    struct sluice_send messages[MESSAGES] = {0};
    for (size_t i = 0; i < MESSAGES; i++) {
        messages[i].body = "x";
        messages[i].body_len = 1;
    }
    return sluice_send(r->s, "q", messages, MESSAGES, request, sent, error);
}

static size_t count_taken(const struct sluice_sent *sent)
{
    size_t taken = 0;
    for (size_t i = 0; i < MESSAGES; i++)
        taken += sent[i].code == SLUICE_OK;
    return taken;
}

static void a_batch_of_which_some_shards_took_messages_is_in_doubt(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_sent sent[MESSAGES];
    struct sluice_error error;
    struct sluice_request request = {.bytes = {1, 2, 3}};
    rig_open(&r);
    store_gate_narrow(r.gate, true);
    assert_int_equal(send_some(&r, &request, sent, &error), SLUICE_UNKNOWN);
    assert_int_equal(error.code, SLUICE_UNKNOWN);
    size_t taken = count_taken(sent);
    assert_true(taken > 0 && taken < MESSAGES);
    assert_non_null(strstr(error.message, " of 32 messages"));
    store_gate_narrow(r.gate, false);
    AGAIN(send_some(&r, &request, sent, &error));
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(r.s, "q", &stats, &error), SLUICE_OK);
    assert_int_equal(stats.ready, MESSAGES); // none twice
    sluice_close(r.s);
}

static void a_pause_of_some_shards_is_in_doubt(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error error;
    rig_open(&r);
    store_gate_narrow(r.gate, true);
    assert_int_equal(sluice_queue_pause(r.s, "q", &error), SLUICE_UNKNOWN);
    assert_non_null(strstr(error.message, "1 of 4 shards"));
    store_gate_narrow(r.gate, false);
    AGAIN(sluice_queue_pause(r.s, "q", &error));
    sluice_close(r.s);
}

static void a_change_of_some_shards_is_in_doubt(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error error;
    struct sluice_setting capacity = {"capacity", "5"};
    rig_open(&r);
    store_gate_narrow(r.gate, true);
    assert_int_equal(sluice_queue_set(r.s, "q", &capacity, 1, &error), SLUICE_UNKNOWN);
    store_gate_narrow(r.gate, false);
    AGAIN(sluice_queue_set(r.s, "q", &capacity, 1, &error));
    sluice_close(r.s);
}

static void upgrade(struct rig *r)
{
    struct sluice_upgrade up;
    struct sluice_error error;
    assert_int_equal(sluice_queue_upgrade(r->s, "q", SLUICE_UPGRADE_FORCE, &up, &error), SLUICE_OK);
}

// The messages of the shard that takes entries got the signal. The same id settles the others.
static void a_signal_reaches_the_shards_that_take_entries(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_sent sent[MESSAGES];
    const char *ids[MESSAGES];
    struct sluice_error error;
    struct sluice_signals *list = NULL;
    struct sluice_request request = {.bytes = {4, 5, 6}};
    rig_open(&r);
    upgrade(&r);
    assert_int_equal(send_some(&r, NULL, sent, &error), SLUICE_OK);
    for (size_t i = 0; i < MESSAGES; i++)
        ids[i] = sent[i].id;
    struct sluice_signal what = {.kind = "ask", .ids = ids, .ids_len = MESSAGES};
    store_gate_narrow(r.gate, true);
    enum sluice_code code = sluice_signal(r.s, "q", &what, &request, &list, &error);
    assert_true(code == SLUICE_UNAVAILABLE || code == SLUICE_UNKNOWN);
    assert_int_equal(list->len, MESSAGES);
    size_t done = 0;
    for (size_t i = 0; i < MESSAGES; i++) {
        assert_string_equal(list->rows[i].message, ids[i]);
        done += list->rows[i].code == SLUICE_OK;
        if (list->rows[i].code) assert_string_equal(list->rows[i].state, "");
    }
    assert_true(done > 0 && done < MESSAGES);
    sluice_signals_free(list);
    store_gate_narrow(r.gate, false);
    AGAIN(sluice_signal(r.s, "q", &what, &request, NULL, &error));
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(r.s, "q", &stats, &error), SLUICE_OK);
    assert_int_equal(stats.signals, MESSAGES); // none twice
    sluice_close(r.s);
}

// A shard that could not be asked has a row without a message.
static void a_signal_to_a_worker_names_the_shards_that_it_did_not_reach(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_sent sent[MESSAGES];
    struct sluice_error error;
    struct sluice_signals *list = NULL;
    rig_open(&r);
    upgrade(&r);
    assert_int_equal(send_some(&r, NULL, sent, &error), SLUICE_OK);
    for (size_t held = 0; held < MESSAGES;) {
        struct sluice_receive ask = {.worker = "w", .max = MESSAGES, .visibility_ms = 60000};
        struct sluice_batch *b = NULL;
        assert_int_equal(sluice_receive(r.s, "q", &ask, &b, &error), SLUICE_OK);
        held += b->len;
        sluice_batch_free(b);
    }
    struct sluice_signal what = {.kind = "ask", .worker = "w"};
    store_gate_narrow(r.gate, true);
    assert_int_not_equal(sluice_signal(r.s, "q", &what, NULL, &list, &error), SLUICE_OK);
    size_t done = 0, shards = 0;
    for (size_t i = 0; i < list->len; i++) {
        done += list->rows[i].code == SLUICE_OK;
        shards += list->rows[i].code != SLUICE_OK && !*list->rows[i].message;
    }
    assert_true(done > 0 && done < MESSAGES);
    assert_int_equal(shards, 3);
    assert_int_equal(list->len, done + shards);
    sluice_signals_free(list);
    sluice_close(r.s);
}

static void a_cancel_reaches_the_shards_that_take_entries(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_sent sent[MESSAGES];
    struct sluice_outcome o[MESSAGES];
    const char *ids[MESSAGES];
    struct sluice_error error;
    rig_open(&r);
    upgrade(&r);
    assert_int_equal(send_some(&r, NULL, sent, &error), SLUICE_OK);
    for (size_t i = 0; i < MESSAGES; i++)
        ids[i] = sent[i].id;
    store_gate_narrow(r.gate, true);
    enum sluice_code code = sluice_cancel(r.s, "q", ids, MESSAGES, NULL, o, &error);
    assert_true(code == SLUICE_UNAVAILABLE || code == SLUICE_UNKNOWN);
    size_t done = 0;
    for (size_t i = 0; i < MESSAGES; i++) {
        done += o[i].code == SLUICE_OK;
        if (o[i].code) assert_true(o[i].code == SLUICE_UNAVAILABLE || o[i].code == SLUICE_UNKNOWN);
    }
    assert_true(done > 0 && done < MESSAGES);
    sluice_close(r.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_of_which_some_shards_took_messages_is_in_doubt),
        cmocka_unit_test(a_pause_of_some_shards_is_in_doubt),
        cmocka_unit_test(a_change_of_some_shards_is_in_doubt),
        cmocka_unit_test(a_signal_reaches_the_shards_that_take_entries),
        cmocka_unit_test(a_signal_to_a_worker_names_the_shards_that_it_did_not_reach),
        cmocka_unit_test(a_cancel_reaches_the_shards_that_take_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
