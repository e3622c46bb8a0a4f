// SPDX-License-Identifier: Apache-2.0
// Where requests are money: what the books say, and what the store says when it refuses.
#include "../support/calls.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "charging_store.h"
#include "queues/queues.h"
#include "store/mem.h"

#include <string.h>

struct rig {
    struct store *store; // charging; the handle's
    struct sluice *s;
};

static void rig_open(struct rig *r, int64_t timeout_ms)
{
    struct sluice_error error = {.message = ""};
    struct sluice_options options = {.timeout_ms = timeout_ms};
    r->store = store_charging_take(store_mem_new());
    if (handle_open_take(r->store, "test:", &options, &r->s, &error)) fail_msg("%s", error.message);
    SURELY(sluice_queue_create(r->s, "tasks", NULL, 0, &error));
}

static enum sluice_code send_one(struct rig *r, struct sluice_error *error)
{
    struct sluice_send m = {.body = "x", .body_len = 1};
    return sluice_send(r->s, "tasks", &m, 1, NULL, NULL, error);
}

static struct sluice_stats stats(struct rig *r)
{
    struct sluice_stats v;
    SURELY(sluice_stats(r->s, "tasks", &v, NULL));
    return v;
}

// One that is there once, however often it had to be sent.
static void send_surely(struct rig *r)
{
    struct sluice_send m = {.body = "x", .body_len = 1};
    struct sluice_request request = {.bytes = "sent for certain"};
    SURELY(sluice_send(r->s, "tasks", &m, 1, &request, NULL, NULL));
}

static void a_process_that_only_sends_has_its_cost_recorded(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, 0);
    assert_int_equal(stats(&r).spent.writes, 0);
    assert_int_equal(send_one(&r, NULL), SLUICE_OK);
    struct sluice_stats v = stats(&r);
    assert_true(v.spent.writes >= 2); // snapshots were listed, the entry was put
    assert_true(v.spent.reads > 0);
    // Opening the store and finding the queue are the handle's, not the queue's.
    assert_true(v.spent.writes <= store_charging_charged(r.store).writes);
    uint64_t sum = v.spent_this_hour.writes + v.spent_last_hour.writes;
    assert_int_equal(sum, v.spent.writes); // an hour may have ended in between
    assert_in_range(v.hour_ms, 0, 3600 * 1000 - 1);
    sluice_close(r.s);
}

static void every_process_can_ask_what_all_have_spent(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(send_one(&r, NULL), SLUICE_OK);
    struct sluice_stats v = stats(&r);
    // What was not reported yet is missing.
    assert_in_range(v.spent.writes, 200, store_charging_charged(r.store).writes);
    sluice_close(r.s);
}

static void a_handle_knows_what_it_asked_for(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_requests made;
    rig_open(&r, 0);
    assert_int_equal(send_one(&r, NULL), SLUICE_OK);
    (void)stats(&r);
    struct cost charged;
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    do { // one may be on its way
        sluice_requests(r.s, &made);
        charged = store_charging_charged(r.store);
    } while ((made.writes != charged.writes || made.reads != charged.reads) &&
             clock_boot_ms() < give_up);
    assert_int_equal(made.writes, charged.writes);
    assert_int_equal(made.reads, charged.reads);
    assert_int_equal(made.deletes, charged.deletes);
    assert_true(made.writes > 0 && made.reads > 0);
    sluice_close(r.s);
}

static void a_receiver_that_waits_has_its_reads_recorded(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_batch *batch;
    rig_open(&r, 0);
    struct sluice_receive ask = {.worker = "w", .wait_ms = 700};
    assert_int_equal(sluice_receive(r.s, "tasks", &ask, &batch, NULL), SLUICE_OK);
    sluice_batch_free(batch);
    assert_int_equal(send_one(&r, NULL), SLUICE_OK); // the first entry: it reports
    struct sluice_requests spent = stats(&r).spent;
    assert_in_range(spent.reads, 3, store_charging_charged(r.store).reads);
    sluice_close(r.s);
}

static void nothing_is_counted_where_nothing_is_charged(void **state)
{
    (void)state;
    struct sluice *s;
    struct sluice_requests made;
    assert_int_equal(sluice_open("mem:", NULL, &s, NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_create(s, "tasks", NULL, 0, NULL), SLUICE_OK);
    struct rig r = {.s = s};
    assert_int_equal(send_one(&r, NULL), SLUICE_OK);
    sluice_requests(s, &made);
    assert_int_equal(made.writes + made.reads + made.deletes, 0);
    assert_int_equal(stats(&r).spent.writes, 0);
    sluice_close(s);
}

#define DENIED "the key AKIAEXAMPLE may not write to the bucket"
#define FULL   "there is no room left on the disk"
#define AWAY   "connection refused by 127.0.0.1:1"

static void says(const struct sluice_error *error, enum sluice_code code, const char *why)
{
    assert_int_equal(error->code, code);
    if (!strstr(error->message, why)) fail_msg("\"%s\" does not say: %s", error->message, why);
    assert_non_null(strstr(error->message, "tasks"));
    assert_string_equal(error->field, "store");
}

static void a_refused_write_is_told_in_the_stores_words(void **state)
{
    (void)state;
    static const struct {
        enum err err;
        const char *why;
    } rows[] = {{ERR_DENIED, DENIED}, {ERR_LIMIT, FULL}};
    struct rig r;
    rig_open(&r, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sluice_error error = {.message = ""};
        store_charging_refuse(r.store, rows[i].err, rows[i].why);
        assert_int_equal(send_one(&r, &error), (int)rows[i].err);
        says(&error, (enum sluice_code)rows[i].err, rows[i].why);
        store_charging_refuse(r.store, ERR_OK, "");
        assert_int_equal(send_one(&r, &error), SLUICE_OK);
    }
    sluice_close(r.s);
}

static void a_call_that_times_out_names_what_kept_failing(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error error = {.message = ""};
    rig_open(&r, 300);
    send_surely(&r);
    store_charging_refuse(r.store, ERR_UNAVAILABLE, AWAY);
    enum sluice_code code;
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    do // if time runs out while an attempt is under way, the caller cannot know
        code = send_one(&r, &error);
    while (code == SLUICE_UNKNOWN && clock_boot_ms() < give_up);
    assert_int_equal(code, SLUICE_UNAVAILABLE);
    says(&error, SLUICE_UNAVAILABLE, AWAY);
    store_charging_refuse(r.store, ERR_OK, "");
    sluice_close(r.s);
}

// Asked again while the first try is still undecided, "not done" would be a guess.
static void what_is_unknown_stays_unknown_when_it_is_asked_again(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_batch *b;
    struct sluice_send m = {.body = "y", .body_len = 1};
    struct sluice_request request = {.bytes = "asked for twice"}, first = {.bytes = "received"};
    struct sluice_receive ask = {.worker = "w", .request = &first};
    rig_open(&r, 200);
    send_surely(&r);
    SURELY(sluice_receive(r.s, "tasks", &ask, &b, NULL));
    const char *token = b->messages[0].token;
    store_charging_refuse(r.store, ERR_UNKNOWN, "the answer was lost");
    for (int i = 0; i < 3; i++)
        assert_int_equal(sluice_send(r.s, "tasks", &m, 1, &request, NULL, NULL), SLUICE_UNKNOWN);
    store_charging_refuse(r.store, ERR_OK, "");
    SURELY(sluice_send(r.s, "tasks", &m, 1, &request, NULL, NULL)); // sent again after a while
    assert_int_equal(stats(&r).sent, 2);
    store_charging_refuse(r.store, ERR_UNKNOWN, "the answer was lost");
    assert_int_equal(sluice_ack(r.s, "tasks", &token, 1, NULL, NULL), SLUICE_UNKNOWN);
    store_charging_refuse(r.store, ERR_OK, "");
    sluice_batch_free(b);
    sluice_close(r.s);
}

static void a_refused_look_is_told_in_the_stores_words(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_stats v;
    struct sluice_error error = {.message = ""};
    rig_open(&r, 0);
    assert_int_equal(send_one(&r, NULL), SLUICE_OK);
    store_charging_refuse_reads(r.store, ERR_DENIED, DENIED);
    assert_int_equal(sluice_stats(r.s, "tasks", &v, &error), SLUICE_DENIED);
    says(&error, SLUICE_DENIED, DENIED);
    store_charging_refuse_reads(r.store, ERR_OK, "");
    sluice_close(r.s);
}

static void a_refusal_that_is_over_is_not_told_again(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error error = {.message = ""};
    rig_open(&r, 0);
    store_charging_refuse(r.store, ERR_DENIED, DENIED);
    assert_int_equal(send_one(&r, NULL), SLUICE_DENIED);
    store_charging_refuse(r.store, ERR_OK, "");
    assert_int_equal(sluice_queue_pause(r.s, "tasks", &error), SLUICE_OK);
    const char *token = "nonsense";
    assert_int_not_equal(sluice_ack(r.s, "tasks", &token, 1, NULL, &error), SLUICE_OK);
    assert_null(strstr(error.message, DENIED));
    sluice_close(r.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_only_sends_has_its_cost_recorded),
        cmocka_unit_test(every_process_can_ask_what_all_have_spent),
        cmocka_unit_test(a_handle_knows_what_it_asked_for),
        cmocka_unit_test(a_receiver_that_waits_has_its_reads_recorded),
        cmocka_unit_test(nothing_is_counted_where_nothing_is_charged),
        cmocka_unit_test(a_refused_write_is_told_in_the_stores_words),
        cmocka_unit_test(a_call_that_times_out_names_what_kept_failing),
        cmocka_unit_test(what_is_unknown_stays_unknown_when_it_is_asked_again),
        cmocka_unit_test(a_refused_look_is_told_in_the_stores_words),
        cmocka_unit_test(a_refusal_that_is_over_is_not_told_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
