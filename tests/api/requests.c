// SPDX-License-Identifier: Apache-2.0
// What a request id means that comes again: the same answer, from any shard and to any process, and
// no second effect.
#include "../conformance/store/support.h"
#include "../support/calls.h"
#include "../support/gate_store.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "ops/ops.h"
#include "os/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SHARDS "8"

static const char *backend;

struct rig {
    struct sluice *s;
    char url[200];
    char dir[SCRATCH_MAX];
};

static struct sluice *open_at(const char *url)
{
    struct sluice *s;
    struct sluice_error error;
    struct sluice_options options = {.direct = 1};
    if (sluice_open(url, &options, &s, &error)) fail_msg("%s", error.message);
    return s;
}

static void rig_open(struct rig *r, const char *shards)
{
    struct sluice_setting setting = {"shards", shards};
    *r = (struct rig){.url = "mem:"};
    if (strcmp(backend, "file") == 0) {
        scratch_make(r->dir);
        (void)snprintf(r->url, sizeof r->url, "%s", r->dir);
    }
    r->s = open_at(r->url);
    assert_int_equal(sluice_queue_create(r->s, "tasks", &setting, 1, NULL), SLUICE_OK);
}

static void rig_close(struct rig *r)
{
    sluice_close(r->s);
    if (*r->dir) scratch_remove(r->dir);
}

static struct sluice_request id_of(unsigned number)
{
    struct sluice_request id = {{0x51}};
    memcpy(id.bytes + 4, &number, sizeof number);
    return id;
}

static void send_some(struct sluice *s, int count)
{
    for (int i = 0; i < count; i++) {
        struct sluice_send m = {.body = "x", .body_len = 1};
        assert_int_equal(sluice_send(s, "tasks", &m, 1, NULL, NULL, NULL), SLUICE_OK);
    }
}

static uint64_t locked(struct sluice *s)
{
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(s, "tasks", &stats, NULL), SLUICE_OK);
    return stats.locked;
}

static struct sluice_receive ask_of(const struct sluice_request *id, uint32_t max, int64_t wait_ms)
{
    return (struct sluice_receive){.worker = "w", .max = max, .wait_ms = wait_ms, .request = id};
}

static struct sluice_batch *receive(struct sluice *s, const struct sluice_request *id, uint32_t max)
{
    struct sluice_batch *b;
    struct sluice_error error = {.message = ""};
    struct sluice_receive ask = ask_of(id, max, 0);
    if (sluice_receive(s, "tasks", &ask, &b, &error)) fail_msg("%s", error.message);
    return b;
}

static struct sluice_batch *receive_async(struct sluice *s, const struct sluice_request *id,
                                          uint32_t max)
{
    struct call c;
    struct sluice_receive ask = ask_of(id, max, 0);
    call_init(&c);
    async_receive(s->engine, "tasks", &ask, &c.async);
    call_wait(&c);
    assert_int_equal(c.code, SLUICE_OK);
    struct sluice_batch *b = c.batch;
    c.batch = NULL;
    call_done(&c);
    return b;
}

static void same_locks(const struct sluice_batch *a, const struct sluice_batch *b)
{
    assert_true(a->len > 0);
    assert_int_equal(a->len, b->len);
    for (size_t i = 0; i < a->len; i++) {
        assert_string_equal(a->messages[i].id, b->messages[i].id);
        assert_string_equal(a->messages[i].token, b->messages[i].token);
    }
}

static void a_repeated_receive_finds_its_shard_again(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, SHARDS);
    send_some(r.s, 60);
    uint64_t held = 0;
    for (unsigned i = 0; i < 20; i++) {
        struct sluice_request id = id_of(i);
        struct sluice_batch *first = i % 2 ? receive_async(r.s, &id, 2) : receive(r.s, &id, 2);
        held += first->len;
        for (int again = 0; again < 3; again++) {
            struct sluice_batch *b = again % 2 ? receive(r.s, &id, 2) : receive_async(r.s, &id, 2);
            same_locks(first, b);
            sluice_batch_free(b);
        }
        assert_int_equal(locked(r.s), held);
        sluice_batch_free(first);
    }
    rig_close(&r);
}

// Room for so many bytes in one answer.
static bool has_room(struct answer_budget *budget, uint64_t bytes, bool waits)
{
    (void)waits;
    return bytes <= budget->most;
}

static struct sluice_batch *receive_within(struct sluice *s, const struct sluice_request *id,
                                           uint64_t bytes)
{
    struct call c;
    struct sluice_receive ask = ask_of(id, 20, 0);
    struct answer_budget budget = {.most = bytes, .take = has_room};
    call_init(&c);
    c.async.budget = &budget;
    async_receive(s->engine, "tasks", &ask, &c.async);
    call_wait(&c);
    assert_int_equal(c.code, SLUICE_OK);
    struct sluice_batch *b = c.batch;
    c.batch = NULL;
    call_done(&c);
    return b;
}

static uint64_t entries(struct sluice *s)
{
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(s, "tasks", &stats, NULL), SLUICE_OK);
    return stats.entries;
}

// Another worker has by now what was cut off, or none has.
static void a_repetition_of_a_cut_receive_brings_what_was_handed_out(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, "1");
    send_some(r.s, 10);
    struct sluice_request id = id_of(1);
    uint64_t before = entries(r.s);
    struct sluice_batch *first = receive_within(r.s, &id, 2000);
    assert_in_range(first->len, 1, 8);
    assert_int_equal(entries(r.s), before + 2); // the claim, and what it gives back
    assert_int_equal(locked(r.s), first->len);
    struct sluice_batch *others = receive(r.s, NULL, 1);
    assert_int_equal(others->len, 1);
    assert_int_equal(others->messages[0].attempt, 1);
    before = entries(r.s);
    for (int again = 0; again < 4; again++) {
        struct sluice_batch *b = again % 2   ? receive(r.s, &id, 20)
                                 : again > 0 ? receive_within(r.s, &id, 1000000)
                                             : receive_within(r.s, &id, 2000);
        same_locks(first, b);
        sluice_batch_free(b);
    }
    assert_int_equal(entries(r.s), before);
    const char *token = first->messages[0].token;
    assert_int_equal(sluice_ack(r.s, "tasks", &token, 1, NULL, NULL), SLUICE_OK);
    struct sluice_batch *rest = receive(r.s, &id, 20); // what is finished does not come again
    assert_int_equal(rest->len, first->len - 1);
    for (size_t i = 0; i < rest->len; i++)
        assert_string_equal(rest->messages[i].token, first->messages[i + 1].token);
    sluice_batch_free(rest);
    sluice_batch_free(others);
    sluice_batch_free(first);
    rig_close(&r);
}

// It is answered as it was, and told by its lease that it is late.
static void a_lock_that_has_run_out_still_comes_again(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, "1");
    send_some(r.s, 1);
    struct sluice_request id = id_of(1);
    struct sluice_receive ask = ask_of(&id, 1, 0);
    ask.visibility_ms = 50;
    struct sluice_batch *first, *b;
    assert_int_equal(sluice_receive(r.s, "tasks", &ask, &first, NULL), SLUICE_OK);
    int64_t give_up = clock_boot_ms() + 30000;
    while (locked(r.s) > 0 && clock_boot_ms() < give_up)
        continue;
    b = receive(r.s, &id, 1);
    same_locks(first, b);
    assert_int_equal(b->messages[0].lease_ms, 0);
    sluice_batch_free(b);
    b = receive(r.s, NULL, 1); // until another worker has it
    assert_int_equal(b->len, 1);
    sluice_batch_free(b);
    b = receive(r.s, &id, 1);
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    sluice_batch_free(first);
    rig_close(&r);
}

static void another_process_and_a_later_one_find_it_too(void **state)
{
    (void)state;
    if (strcmp(backend, "file") != 0) return; // no other process can open one in memory
    struct rig r;
    rig_open(&r, SHARDS);
    send_some(r.s, 40);
    struct sluice *other = open_at(r.url);
    struct sluice_batch *first[12];
    for (unsigned i = 0; i < 12; i++) {
        struct sluice_request id = id_of(i);
        first[i] = receive(i % 2 ? other : r.s, &id, 1);
        struct sluice_batch *b = receive_async(i % 2 ? r.s : other, &id, 1);
        same_locks(first[i], b);
        sluice_batch_free(b);
    }
    assert_int_equal(locked(r.s), 12);
    sluice_close(other);
    sluice_close(r.s);
    r.s = open_at(r.url);
    for (unsigned i = 0; i < 12; i++) {
        struct sluice_request id = id_of(i);
        struct sluice_batch *b = receive(r.s, &id, 1);
        same_locks(first[i], b);
        sluice_batch_free(b);
        sluice_batch_free(first[i]);
    }
    assert_int_equal(locked(r.s), 12);
    rig_close(&r);
}

struct same_id {
    pthread_t thread;
    struct sluice *s;
    struct sluice_request id;
    struct sluice_batch *batch;
};

static void *ask_too(void *arg)
{
    struct same_id *t = arg;
    t->batch = receive(t->s, &t->id, 1);
    return NULL;
}

static void many_at_once_with_one_id_share_one_message(void **state)
{
    (void)state;
    enum { SAME_IDS = 6, ROUNDS = 20 };
    struct rig r;
    rig_open(&r, SHARDS);
    send_some(r.s, 2 * ROUNDS);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct same_id same_ids[SAME_IDS];
        for (int i = 0; i < SAME_IDS; i++) {
            same_ids[i] = (struct same_id){.s = r.s, .id = id_of(round)};
            assert_int_equal(pthread_create(&same_ids[i].thread, NULL, ask_too, &same_ids[i]), 0);
        }
        for (int i = 0; i < SAME_IDS; i++)
            (void)pthread_join(same_ids[i].thread, NULL);
        struct sluice_batch *again = receive(r.s, &same_ids[0].id, 1);
        for (int i = 0; i < SAME_IDS; i++) {
            if (same_ids[i].batch->len > 0) same_locks(again, same_ids[i].batch);
            sluice_batch_free(same_ids[i].batch);
        }
        sluice_batch_free(again);
        assert_int_equal(locked(r.s), round + 1);
    }
    rig_close(&r);
}

// It is not known whether the first one got a message, so the second must not try another shard.
static void a_claim_in_doubt_is_not_made_in_another_shard(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct store *gate = store_gate_new();
        struct sluice *s;
        struct sluice_batch *b;
        struct sluice_error error = {.message = ""};
        struct sluice_options options = {.timeout_ms = 300};
        struct sluice_setting setting = {"shards", i == 0 ? "1" : SHARDS};
        struct sluice_request id = id_of(i);
        struct sluice_receive ask = ask_of(&id, 1, 0);
        struct sluice_send m = {.body = "x", .body_len = 1};
        struct sluice_stats stats;
        if (handle_open_take(gate, "test:", &options, &s, &error)) fail_msg("%s", error.message);
        SURELY(sluice_queue_create(s, "tasks", &setting, 1, NULL));
        for (int n = 0; n < 40; n++)
            SURELY(sluice_send(s, "tasks", &m, 1, NULL, NULL, NULL));
        store_gate_doubt(gate, true);
        for (int again = 0; again < 3; again++) {
            assert_int_equal(sluice_receive(s, "tasks", &ask, &b, &error), SLUICE_UNKNOWN);
            assert_null(b);
        }
        store_gate_doubt(gate, false);
        SURELY(sluice_receive(s, "tasks", &ask, &b, &error));
        assert_int_equal(b->len, 1);
        struct sluice_batch *same;
        SURELY(sluice_receive(s, "tasks", &ask, &same, &error));
        same_locks(b, same);
        sluice_batch_free(same);
        sluice_batch_free(b);
        SURELY(sluice_stats(s, "tasks", &stats, NULL));
        assert_int_equal(stats.locked, 1);
        sluice_close(s);
    }
}

static void gives_way(const char *shards)
{
    struct rig r;
    struct call first, second;
    struct sluice_request id = id_of(1);
    struct sluice_receive ask = ask_of(&id, 1, DEADLINE_MS);
    rig_open(&r, shards);
    sluice_batch_free(receive(r.s, NULL, 1)); // opens every runner
    call_init(&first);
    call_init(&second);
    async_receive(r.s->engine, "tasks", &ask, &first.async);
    async_receive(r.s->engine, "tasks", &ask, &second.async);
    call_wait(&first);
    assert_int_equal(first.code, SLUICE_OK);
    assert_int_equal(first.batch->len, 0);
    send_some(r.s, 1);
    call_wait(&second);
    assert_int_equal(second.batch->len, 1);
    struct sluice_batch *again = receive(r.s, &id, 1);
    same_locks(second.batch, again);
    sluice_batch_free(again);
    assert_int_equal(locked(r.s), 1);
    call_done(&first);
    call_done(&second);
    rig_close(&r);
}

static void one_that_waits_gives_way_to_its_repetition(void **state)
{
    (void)state;
    gives_way("1");
    gives_way(SHARDS);
}

static void one_that_was_cancelled_leaves_the_id_to_the_next(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, SHARDS);
    sluice_batch_free(receive(r.s, NULL, 1));
    for (unsigned i = 0; i < 40; i++) {
        struct call calls[3];
        struct sluice_request id = id_of(i);
        struct sluice_receive ask = ask_of(&id, 1, DEADLINE_MS);
        for (int n = 0; n < 3; n++) {
            call_init(&calls[n]);
            async_receive(r.s->engine, "tasks", &ask, &calls[n].async);
            if (n == (int)i % 3) send_some(r.s, 1);
            if (n == 2) continue;
            async_cancel(r.s->engine, &calls[n].async);
            call_wait(&calls[n]);
        }
        call_wait(&calls[2]);
        assert_int_equal(calls[2].batch->len, 1);
        for (int n = 0; n < 2; n++)
            if (calls[n].batch && calls[n].batch->len > 0)
                same_locks(calls[2].batch, calls[n].batch);
        assert_int_equal(locked(r.s), i + 1);
        for (int n = 0; n < 3; n++)
            call_done(&calls[n]);
    }
    rig_close(&r);
}

static void is_reused(enum sluice_code code, const struct sluice_error *error)
{
    assert_int_equal(code, SLUICE_INVALID);
    assert_int_equal(error->code, SLUICE_INVALID);
    assert_string_equal(error->reason, "request-reused");
    assert_string_equal(error->field, "request");
}

// Both ways of a settling call.
static void settle_twice(struct sluice *s, const struct settle *good, const struct settle *bad,
                         size_t len)
{
    struct call c;
    for (int n = 0; n < 2; n++) {
        call_init(&c);
        async_settle(s->engine, "tasks", n == 0 ? good : bad, &c.async);
        call_wait(&c);
        if (n == 0) assert_int_equal(c.code, SLUICE_OK);
        if (n == 1) is_reused(c.code, &c.error);
        for (size_t i = 0; n == 1 && i < len; i++)
            assert_int_equal(c.outcomes[i].code, SLUICE_INVALID);
        call_done(&c);
    }
    struct sluice_outcome outcomes[4];
    struct sluice_error error = {.message = ""};
    is_reused(ops_settle(s->engine, "tasks", bad, outcomes, &error), &error);
}

static void an_id_of_other_locks_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, "1");
    for (int kind = SETTLE_ACK; kind <= SETTLE_RENEW; kind++) {
        send_some(r.s, 3);
        struct sluice_batch *b = receive(r.s, NULL, 3);
        assert_int_equal(b->len, 3);
        const char *tokens[] = {b->messages[0].token, b->messages[1].token, b->messages[2].token};
        struct sluice_request id = id_of(100 + (unsigned)kind);
        struct settle good = {
            .kind = (enum settle_kind)kind, .tokens = tokens, .len = 1, .request = &id};
        struct settle more = good, other = good;
        more.tokens = tokens;
        more.len = 2;
        other.kind = kind == SETTLE_ACK ? SETTLE_FAIL : SETTLE_ACK;
        settle_twice(r.s, &good, &more, 2);
        struct call c;
        call_init(&c);
        async_settle(r.s->engine, "tasks", &other, &c.async);
        call_wait(&c);
        is_reused(c.code, &c.error);
        call_done(&c);
        const char *rest[] = {tokens[1], tokens[2]};
        assert_int_equal(sluice_ack(r.s, "tasks", rest, 2, NULL, NULL), SLUICE_OK);
        if (kind == SETTLE_RENEW) (void)sluice_ack(r.s, "tasks", tokens, 1, NULL, NULL);
        if (kind == SETTLE_RELEASE) {
            struct sluice_batch *back = receive(r.s, NULL, 1);
            const char *token = back->messages[0].token;
            assert_int_equal(sluice_ack(r.s, "tasks", &token, 1, NULL, NULL), SLUICE_OK);
            sluice_batch_free(back);
        }
        sluice_batch_free(b);
    }
    rig_close(&r);
}

static void an_id_of_other_messages_is_refused(void **state)
{
    (void)state;
    struct rig r;
    struct call c;
    struct sluice_error error = {.message = ""};
    struct sluice_request id = id_of(7);
    struct sluice_send two[] = {{.body = "a", .body_len = 1}, {.body = "b", .body_len = 1}};
    struct sluice_sent sent[2];
    rig_open(&r, "1");
    assert_int_equal(sluice_send(r.s, "tasks", two, 1, &id, sent, NULL), SLUICE_OK);
    is_reused(sluice_send(r.s, "tasks", two, 2, &id, sent, &error), &error);
    assert_int_equal(sent[0].code, SLUICE_INVALID);
    call_init(&c);
    async_send(r.s->engine, "tasks", two, 2, &id, &c.async);
    call_wait(&c);
    is_reused(c.code, &c.error);
    call_done(&c);
    struct sluice_batch *b;
    struct sluice_receive ask = ask_of(&id, 1, 0);
    is_reused(sluice_receive(r.s, "tasks", &ask, &b, &error), &error);
    struct sluice_stats stats;
    assert_int_equal(sluice_stats(r.s, "tasks", &stats, NULL), SLUICE_OK);
    assert_int_equal(stats.ready, 1);
    rig_close(&r);
}

static void an_id_of_a_larger_receive_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig r;
        struct sluice_request id = id_of(9);
        struct sluice_batch *b;
        struct sluice_error error = {.message = ""};
        rig_open(&r, i == 0 ? "1" : SHARDS);
        send_some(r.s, 60);
        struct sluice_batch *first = receive(r.s, &id, 3);
        assert_true(first->len > 1);
        struct sluice_receive ask = ask_of(&id, 1, 0);
        is_reused(sluice_receive(r.s, "tasks", &ask, &b, &error), &error);
        struct call c;
        call_init(&c);
        async_receive(r.s->engine, "tasks", &ask, &c.async);
        call_wait(&c);
        is_reused(c.code, &c.error);
        call_done(&c);
        struct sluice_send m = {.body = "x", .body_len = 1};
        error = (struct sluice_error){.message = ""};
        enum sluice_code code = sluice_send(r.s, "tasks", &m, 1, &id, NULL, &error);
        if (i == 0) is_reused(code, &error);
        b = receive(r.s, &id, 3);
        same_locks(first, b); // as good as before
        sluice_batch_free(b);
        sluice_batch_free(first);
        rig_close(&r);
    }
}

int main(int argc, char **argv)
{
    backend = argc > 1 ? argv[1] : "mem";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeated_receive_finds_its_shard_again),
        cmocka_unit_test(a_repetition_of_a_cut_receive_brings_what_was_handed_out),
        cmocka_unit_test(a_lock_that_has_run_out_still_comes_again),
        cmocka_unit_test(another_process_and_a_later_one_find_it_too),
        cmocka_unit_test(many_at_once_with_one_id_share_one_message),
        cmocka_unit_test(a_claim_in_doubt_is_not_made_in_another_shard),
        cmocka_unit_test(one_that_waits_gives_way_to_its_repetition),
        cmocka_unit_test(one_that_was_cancelled_leaves_the_id_to_the_next),
        cmocka_unit_test(an_id_of_other_locks_is_refused),
        cmocka_unit_test(an_id_of_other_messages_is_refused),
        cmocka_unit_test(an_id_of_a_larger_receive_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
