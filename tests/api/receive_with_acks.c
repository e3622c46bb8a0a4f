// SPDX-License-Identifier: Apache-2.0
// A receive that carries acks: they are done at once and first, each is told what became of it
// whatever comes of the receive, and the whole may be asked for again. On the store named by the
// argument, or by way of a node ("http").
#include "../support/calls.h"
#include "../support/gate_store.h"
#include "api/handle.h"
#include "backend.h"
#include "charging_store.h"
#include "os/clock.h"
#include "store/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG      (300 * 1024) // too large for an entry
#define LEASE_MS 60

static const char *const shards[] = {"1", "4"};

static bool is_direct(void)
{
    return strcmp(backend, "http") != 0;
}

static void open_with(struct rig *r, const char *setting, const char *value)
{
    struct sluice_setting all = {setting, value};
    rig_open(r);
    FINE(sluice_queue_create(r->s, "tasks", &all, setting ? 1 : 0, &error));
}

static void send_text(struct sluice *s, const char *text)
{
    struct sluice_send m = {.body = text, .body_len = strlen(text)};
    FINE(sluice_send(s, "tasks", &m, 1, NULL, NULL, &error));
}

static struct sluice_batch *receive(struct sluice *s, uint32_t max, int64_t lease_ms)
{
    struct sluice_batch *b = NULL;
    struct sluice_receive ask = {.worker = "tester", .max = max, .visibility_ms = lease_ms};
    FINE(sluice_receive(s, "tasks", &ask, &b, &error));
    return b;
}

static struct sluice_batch *sent_and_received(struct sluice *s, const char *text)
{
    send_text(s, text);
    struct sluice_batch *b = receive(s, 1, 0);
    assert_int_equal(b->len, 1);
    return b;
}

static struct sluice_stats stats_of(struct sluice *s)
{
    struct sluice_stats stats;
    SURELY(sluice_stats(s, "tasks", &stats, NULL));
    return stats;
}

static struct sluice_receive asking(const char *const *tokens, size_t len, int64_t wait_ms,
                                    struct sluice_outcome *acked)
{
    return (struct sluice_receive){
        .worker = "tester", .wait_ms = wait_ms, .acks = tokens, .acks_len = len, .acked = acked};
}

// As a program calls it, or as a server does.
static enum sluice_code ask_by(struct sluice *s, const struct sluice_receive *ask, bool async,
                               struct sluice_batch **out, struct sluice_error *error)
{
    struct call c;
    if (!async) return sluice_receive(s, "tasks", ask, out, error);
    call_init(&c);
    async_receive(s->engine, "tasks", ask, &c.async);
    call_wait(&c);
    enum sluice_code code = c.code;
    *out = c.batch;
    *error = c.error;
    c.batch = NULL;
    if (c.len > 0) assert_int_equal(c.len, ask->acks_len);
    for (size_t i = 0; i < ask->acks_len; i++)
        ask->acked[i] = c.len > 0 ? c.outcomes[i] : (struct sluice_outcome){.code = code};
    call_done(&c);
    return code;
}

// In a strict queue there is nothing to claim until the first is done. With nonsense among them the
// acks cannot go along.
static void acks_are_done_before_the_claim_even_if_it_does_not_wait(void **state)
{
    (void)state;
    struct rig r;
    open_with(&r, "orderingGuarantee", "true");
    for (int n = 0; n < 8; n++) {
        bool async = n % 2 && is_direct();
        send_text(r.s, "one");
        send_text(r.s, "two");
        struct sluice_batch *b = receive(r.s, 1, 0), *next = NULL;
        assert_int_equal(b->len, 1);
        const char *tokens[] = {b->messages[0].token, "nonsense"};
        struct sluice_outcome acked[2];
        struct sluice_receive ask = asking(tokens, 1 + (size_t)n / 4, n & 2 ? 5000 : 0, acked);
        FINE(ask_by(r.s, &ask, async, &next, &error));
        assert_int_equal(acked[0].code, SLUICE_OK);
        assert_string_equal(acked[0].status, "processed");
        assert_int_equal(next->len, 1);
        assert_memory_equal(next->messages[0].body, "two", 3);
        const char *token = next->messages[0].token;
        FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
        sluice_batch_free(b);
        sluice_batch_free(next);
    }
    rig_close(&r);
}

static void ack_and_claim_are_one_commit(void **state)
{
    (void)state;
    if (strcmp(backend, "mem") != 0) return; // it counts on a store of its own
    struct sluice *s;
    struct store *store = store_charging_take(store_mem_new());
    FINE(handle_open_take(store, "test:", NULL, &s, &error));
    FINE(sluice_queue_create(s, "tasks", NULL, 0, &error));
    struct sluice_batch *b = sent_and_received(s, "first");
    for (int async = 0; async <= is_direct(); async++) {
        struct sluice_batch *next = NULL;
        struct sluice_outcome acked;
        const char *token = b->messages[0].token;
        struct sluice_receive ask = asking(&token, 1, 5000, &acked);
        struct sluice_ack result = {.result = "42", .result_len = 2};
        if (async) ask.results = &result; // a result costs no commit
        send_text(s, "next");
        uint64_t before = store_charging_charged(store).writes;
        FINE(ask_by(s, &ask, async, &next, &error));
        assert_int_equal(store_charging_charged(store).writes - before, 1);
        assert_int_equal(next->len, 1);
        sluice_batch_free(b);
        b = next;
    }
    sluice_batch_free(b);
    sluice_close(s);
}

struct sleeper {
    pthread_t thread;
    struct sluice *s;
    struct sluice_receive ask;
    struct sluice_outcome acked;
    struct sluice_batch *batch;
    enum sluice_code code;
    _Atomic bool over;
};

static void *wait_for_it(void *ctx)
{
    struct sleeper *w = ctx;
    w->code = sluice_receive(w->s, "tasks", &w->ask, &w->batch, NULL);
    w->over = true;
    return NULL;
}

static void await_processed(struct sluice *s, uint64_t count)
{
    int64_t give_up = clock_boot_ms() + DEADLINE_MS;
    while (stats_of(s).processed != count)
        if (clock_boot_ms() > give_up) fail_msg("%u are not processed", (unsigned)count);
}

static void acks_do_not_wait_for_messages(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig r;
        open_with(&r, "shards", shards[i]);
        struct sluice_batch *b = sent_and_received(r.s, "done");
        const char *token = b->messages[0].token;
        struct sleeper w = {.s = r.s};
        w.ask = asking(&token, 1, DEADLINE_MS, &w.acked);
        assert_int_equal(pthread_create(&w.thread, NULL, wait_for_it, &w), 0);
        await_processed(r.s, 1);
        assert_false(w.over);
        send_text(r.s, "next");
        (void)pthread_join(w.thread, NULL);
        assert_int_equal(w.code, SLUICE_OK);
        assert_string_equal(w.acked.status, "processed");
        assert_int_equal(w.batch->len, 1);
        sluice_batch_free(w.batch);
        sluice_batch_free(b);
        rig_close(&r);
    }
}

static void outcomes_are_told_when_nothing_came(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig r;
        open_with(&r, "shards", shards[i]);
        for (int64_t wait_ms = 0; wait_ms <= 50; wait_ms += 50)
            for (int async = 0; async <= is_direct(); async++) {
                struct sluice_batch *b = sent_and_received(r.s, "done"), *none = NULL;
                const char *token = b->messages[0].token;
                struct sluice_outcome acked;
                struct sluice_receive ask = asking(&token, 1, wait_ms, &acked);
                FINE(ask_by(r.s, &ask, async, &none, &error));
                assert_int_equal(none->len, 0);
                assert_string_equal(acked.status, "processed");
                sluice_batch_free(none);
                sluice_batch_free(b);
            }
        rig_close(&r);
    }
}

static void a_caller_that_does_not_ask_for_outcomes_gets_none(void **state)
{
    (void)state;
    struct rig r;
    open_with(&r, NULL, NULL);
    struct sluice_batch *b = sent_and_received(r.s, "done"), *none = NULL;
    const char *token = b->messages[0].token;
    struct sluice_receive ask = asking(&token, 1, 0, NULL);
    FINE(sluice_receive(r.s, "tasks", &ask, &none, &error));
    assert_int_equal(stats_of(r.s).processed, 1);
    sluice_batch_free(none);
    sluice_batch_free(b);
    rig_close(&r);
}

static void a_refused_ack_does_not_stop_the_others_nor_the_receive(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig r;
        open_with(&r, "shards", shards[i]);
        for (int async = 0; async <= is_direct(); async++) {
            struct sluice_batch *old = sent_and_received(r.s, "old"), *next = NULL;
            const char *stale = old->messages[0].token;
            FINE(sluice_ack(r.s, "tasks", &stale, 1, NULL, &error));
            struct sluice_batch *b = sent_and_received(r.s, "done");
            send_text(r.s, "next");
            const char *tokens[] = {stale, b->messages[0].token, "nonsense"};
            struct sluice_outcome acked[3];
            for (size_t len = 2; len <= 3; len++) { // with nonsense they go first, else along
                struct sluice_receive ask = asking(tokens, len, 0, acked);
                FINE(ask_by(r.s, &ask, async, &next, &error));
                assert_int_equal(acked[0].code, SLUICE_CONFLICT);
                assert_string_equal(acked[0].reason, "terminal");
                if (len == 2) assert_string_equal(acked[1].status, "processed");
                if (len == 3) assert_int_equal(acked[2].code, SLUICE_INVALID);
                assert_int_equal(next->len, 1);
                if (len == 3) break;
                sluice_batch_free(b);
                b = next;
                tokens[1] = b->messages[0].token;
                send_text(r.s, "another");
            }
            assert_string_equal(acked[1].status, "processed");
            const char *last = next->messages[0].token;
            FINE(sluice_ack(r.s, "tasks", &last, 1, NULL, &error));
            sluice_batch_free(next);
            sluice_batch_free(b);
            sluice_batch_free(old);
        }
        rig_close(&r);
    }
}

static void remove_body(struct sluice *s)
{
    struct store_answer a;
    char key[512] = "";
    const char *keys[] = {key};
    store_answer_init(&a);
    assert_int_equal(store_list(s->engine->store, "q/", NULL, 1000, &a), ERR_OK);
    for (size_t i = 0; i < a.rows_len; i++)
        if (strstr(store_row_key(&a, i), "/data/"))
            (void)snprintf(key, sizeof key, "%s", store_row_key(&a, i));
    assert_true(*key);
    assert_int_equal(store_delete(s->engine->store, keys, 1, &a), ERR_OK);
    store_answer_done(&a);
}

static void outcomes_are_told_when_the_receive_fails(void **state)
{
    (void)state;
    struct rig r;
    char *big = calloc(1, BIG);
    open_with(&r, "failureStrategy.maxRetries", "0");
    for (int async = 0; async <= is_direct(); async++) {
        struct sluice_batch *b = sent_and_received(r.s, "done"), *none = NULL;
        struct sluice_send m = {.body = big, .body_len = BIG};
        FINE(sluice_send(r.s, "tasks", &m, 1, NULL, NULL, &error));
        remove_body(r.behind ? r.behind : r.s);
        const char *token = b->messages[0].token;
        struct sluice_outcome acked;
        struct sluice_error why = {.message = ""};
        struct sluice_receive ask = asking(&token, 1, 0, &acked);
        assert_int_equal(ask_by(r.s, &ask, async, &none, &why), SLUICE_CORRUPT);
        assert_null(none);
        assert_non_null(strstr(why.message, "missing"));
        assert_int_equal(acked.code, SLUICE_OK);
        assert_string_equal(acked.status, "processed");
        sluice_batch_free(b);
    }
    free(big);
    rig_close(&r);
}

static void a_call_that_is_refused_acknowledges_nothing(void **state)
{
    (void)state;
    struct rig r;
    open_with(&r, NULL, NULL);
    for (int async = 0; async <= is_direct(); async++) {
        struct sluice_batch *b = sent_and_received(r.s, "not done"), *none = NULL;
        const char *token = b->messages[0].token;
        struct sluice_outcome acked;
        struct sluice_error why = {.message = ""};
        struct sluice_receive ask = asking(&token, 1, 0, &acked);
        ask.max = 1000000;
        assert_int_equal(ask_by(r.s, &ask, async, &none, &why), SLUICE_INVALID);
        assert_null(none);
        assert_int_equal(acked.code, SLUICE_INVALID);
        assert_int_equal(stats_of(r.s).locked, 1);
        FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
        ask.max = 1;
        assert_int_equal(sluice_receive(r.s, "missing", &ask, &none, &why), SLUICE_NOT_FOUND);
        assert_int_equal(acked.code, SLUICE_NOT_FOUND);
        sluice_batch_free(b);
    }
    rig_close(&r);
}

static void acks_in_doubt_are_said_to_be(void **state)
{
    (void)state;
    if (!is_direct()) return; // it needs a store of its own
    for (int i = 0; i < 4; i++) {
        struct store *gate = store_gate_new();
        struct sluice *s;
        struct sluice_batch *b, *none = NULL;
        struct sluice_error why = {.message = ""};
        struct sluice_request before = {{6}}, id = {{7, (uint8_t)i}};
        struct sluice_send m = {.body = "done", .body_len = 4};
        struct sluice_receive first = {.worker = "tester", .request = &before};
        struct sluice_options options = {.timeout_ms = 300};
        struct sluice_setting setting = {"shards", shards[i / 2]};
        FINE(handle_open_take(gate, "test:", &options, &s, &error));
        SURELY(sluice_queue_create(s, "tasks", &setting, 1, NULL));
        SURELY(sluice_send(s, "tasks", &m, 1, NULL, NULL, NULL));
        SURELY(sluice_receive(s, "tasks", &first, &b, NULL));
        assert_int_equal(b->len, 1);
        const char *token = b->messages[0].token;
        struct sluice_outcome acked;
        struct sluice_receive ask = asking(&token, 1, 0, &acked);
        ask.request = &id;
        store_gate_doubt(gate, true);
        (void)ask_by(s, &ask, i % 2, &none, &why);
        assert_int_equal(acked.code, SLUICE_UNKNOWN);
        sluice_batch_free(none);
        store_gate_doubt(gate, false);
        SURELY(((void)ask_by(s, &ask, i % 2, &none, &why), sluice_batch_free(none), acked.code));
        assert_string_equal(acked.status, "processed"); // once, whichever try it was
        assert_int_equal(stats_of(s).processed, 1);
        sluice_batch_free(b);
        sluice_close(s);
    }
}

static void a_repeated_call_brings_the_same_of_both(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct rig r;
        open_with(&r, "shards", shards[i]);
        for (int async = 0; async <= is_direct(); async++) {
            struct sluice_batch *b = sent_and_received(r.s, "done"), *first = NULL, *again = NULL;
            send_text(r.s, "next");
            send_text(r.s, "after that");
            const char *tokens[] = {b->messages[0].token, b->messages[0].token};
            struct sluice_outcome acked[2][2];
            struct sluice_request id = {{3, (uint8_t)async}};
            struct sluice_receive ask = asking(tokens, 2, 0, acked[0]);
            ask.request = &id;
            FINE(ask_by(r.s, &ask, async, &first, &error));
            uint64_t processed = stats_of(r.s).processed;
            ask.acked = acked[1];
            FINE(ask_by(r.s, &ask, !async && is_direct(), &again, &error));
            assert_int_equal(first->len, 1);
            assert_int_equal(again->len, 1);
            assert_string_equal(first->messages[0].token, again->messages[0].token);
            assert_string_equal(acked[0][0].status, "processed");
            assert_int_not_equal(acked[0][1].code, SLUICE_OK); // the same twice
            for (int n = 0; n < 2; n++) {
                assert_int_equal(acked[0][n].code, acked[1][n].code);
                assert_string_equal(acked[0][n].status, acked[1][n].status);
                assert_string_equal(acked[0][n].reason, acked[1][n].reason);
            }
            assert_int_equal(stats_of(r.s).processed, processed);
            struct sluice_batch *rest = receive(r.s, 10, 0);
            assert_int_equal(rest->len, 1);
            const char *all[] = {first->messages[0].token, rest->messages[0].token};
            FINE(sluice_ack(r.s, "tasks", all, 2, NULL, &error));
            sluice_batch_free(rest);
            sluice_batch_free(again);
            sluice_batch_free(first);
            sluice_batch_free(b);
        }
        rig_close(&r);
    }
}

// The entry that refuses the ack may give the message out again, to the same one.
static void an_ack_that_came_too_late_gets_the_message_again(void **state)
{
    (void)state;
    struct rig r;
    open_with(&r, NULL, NULL);
    for (int async = 0; async <= is_direct(); async++) {
        send_text(r.s, "slow");
        struct sluice_batch *b = receive(r.s, 1, LEASE_MS), *again = NULL;
        const char *token = b->messages[0].token;
        int64_t give_up = clock_boot_ms() + DEADLINE_MS;
        while (stats_of(r.s).locked > 0 && clock_boot_ms() < give_up)
            continue;
        struct sluice_outcome acked;
        struct sluice_receive ask = asking(&token, 1, 5000, &acked);
        FINE(ask_by(r.s, &ask, async, &again, &error));
        assert_int_not_equal(acked.code, SLUICE_OK);
        assert_string_not_equal(acked.reason, "");
        assert_int_equal(again->len, 1);
        assert_string_equal(again->messages[0].id, b->messages[0].id);
        assert_int_equal(again->messages[0].attempt, 2);
        token = again->messages[0].token;
        FINE(sluice_ack(r.s, "tasks", &token, 1, NULL, &error));
        sluice_batch_free(again);
        sluice_batch_free(b);
    }
    rig_close(&r);
}

static void acks_of_several_shards_are_all_done(void **state)
{
    (void)state;
    struct rig r;
    open_with(&r, "shards", "4");
    for (int i = 0; i < 40; i++)
        send_text(r.s, "x");
    const char *tokens[41];
    struct sluice_batch *all[41];
    size_t len = 0;
    for (; len < 40 && (all[len] = receive(r.s, 1, 0))->len == 1; len++)
        tokens[len] = all[len]->messages[0].token;
    assert_int_equal(len, 40);
    send_text(r.s, "next");
    struct sluice_outcome acked[40];
    struct sluice_receive ask = asking(tokens, len, 5000, acked);
    struct sluice_batch *next = NULL;
    FINE(sluice_receive(r.s, "tasks", &ask, &next, &error));
    assert_int_equal(next->len, 1);
    for (size_t i = 0; i < len; i++)
        assert_string_equal(acked[i].status, "processed");
    assert_int_equal(stats_of(r.s).processed, 40);
    sluice_batch_free(next);
    for (size_t i = 0; i < len; i++)
        sluice_batch_free(all[i]);
    rig_close(&r);
}

// More than a request to a node carries.
static void any_number_of_acks_is_told(void **state)
{
    (void)state;
    struct rig r;
    enum { COUNT = 10002 };
    open_with(&r, NULL, NULL);
    struct sluice_batch *b = sent_and_received(r.s, "done"), *none = NULL;
    const char **tokens = calloc(COUNT, sizeof *tokens);
    struct sluice_outcome *acked = calloc(COUNT, sizeof *acked);
    for (size_t i = 0; i < COUNT; i++)
        tokens[i] = i == COUNT - 1 ? b->messages[0].token : "nonsense";
    struct sluice_receive ask = asking(tokens, COUNT, 0, acked);
    FINE(sluice_receive(r.s, "tasks", &ask, &none, &error));
    for (size_t i = 0; i < COUNT - 1; i++)
        assert_int_equal(acked[i].code, SLUICE_INVALID);
    assert_string_equal(acked[COUNT - 1].status, "processed");
    sluice_batch_free(none);
    sluice_batch_free(b);
    free(tokens);
    free(acked);
    rig_close(&r);
}

static void one_that_is_cancelled_tells_its_acks(void **state)
{
    (void)state;
    if (!is_direct()) return; // it needs a store of its own
    for (int i = 0; i < 20; i++) {
        struct rig r;
        struct call c;
        open_with(&r, "shards", shards[i % 2]);
        struct sluice_batch *b = sent_and_received(r.s, "done");
        const char *token = b->messages[0].token;
        struct sluice_receive ask = asking(&token, 1, DEADLINE_MS, NULL);
        call_init(&c);
        async_receive(r.s->engine, "tasks", &ask, &c.async);
        if (i % 4 > 1) await_processed(r.s, 1); // else at any moment
        async_cancel(r.s->engine, &c.async);
        call_wait(&c);
        assert_int_equal(c.code, SLUICE_OK);
        assert_int_equal(c.batch->len, 0);
        assert_int_equal(c.len, 1);
        assert_string_equal(c.outcomes[0].status, "processed");
        call_done(&c);
        sluice_batch_free(b);
        rig_close(&r);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    backend = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acks_are_done_before_the_claim_even_if_it_does_not_wait),
        cmocka_unit_test(ack_and_claim_are_one_commit),
        cmocka_unit_test(acks_do_not_wait_for_messages),
        cmocka_unit_test(outcomes_are_told_when_nothing_came),
        cmocka_unit_test(a_caller_that_does_not_ask_for_outcomes_gets_none),
        cmocka_unit_test(a_refused_ack_does_not_stop_the_others_nor_the_receive),
        cmocka_unit_test(outcomes_are_told_when_the_receive_fails),
        cmocka_unit_test(a_call_that_is_refused_acknowledges_nothing),
        cmocka_unit_test(acks_in_doubt_are_said_to_be),
        cmocka_unit_test(a_repeated_call_brings_the_same_of_both),
        cmocka_unit_test(an_ack_that_came_too_late_gets_the_message_again),
        cmocka_unit_test(acks_of_several_shards_are_all_done),
        cmocka_unit_test(any_number_of_acks_is_told),
        cmocka_unit_test(one_that_is_cancelled_tells_its_acks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
