// SPDX-License-Identifier: Apache-2.0
// The registry of workers: names and instances, time, an operator's acts, counts, snapshots.
#include "fleet.h"

static void start(struct rig *r)
{
    struct queue_config c = defaults();
    fleet_start(r, &c);
}

static void a_worker_joins_and_its_row_shows_it(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    assert_int_equal(fleet_join(&r, "w1", 7, 3, "host=a7,kind=gpu"), REASON_NONE);
    struct worker_view v = fleet_view(&r, "w1");
    assert_int_equal(v.instance, 7);
    assert_int_equal(v.capacity, 3);
    assert_int_equal(v.ttl_ms, FLEET_TTL);
    assert_int_equal(v.flags, WORKER_MAILBOX);
    assert_true(bytes_equal(v.labels, bytes_str("host=a7,kind=gpu")));
    assert_int_equal(v.since, machine_now(r.m));
    assert_int_equal(v.last_seen, machine_now(r.m));
    assert_int_equal(v.expires_at, r.time.hi + FLEET_TTL);
    assert_int_equal(v.mode, WORKER_RUNNING);
    assert_string_equal(worker_mode_name(v.mode), "running");
    assert_int_equal(machine_rows(r.m), 1);
    fleet_reload(&r);
    assert_int_equal(fleet_view(&r, "w1").instance, 7);
    rig_done(&r);
}

static void a_name_belongs_to_one_process_while_its_row_lives(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    assert_int_equal(fleet_join(&r, "w1", 7, 3, ""), REASON_NONE);
    assert_int_equal(fleet_join(&r, "w1", 8, 3, ""), REASON_WORKER_NAME_TAKEN);
    int64_t since = fleet_view(&r, "w1").since;
    rig_tick(&r, 1000);
    assert_int_equal(fleet_join(&r, "w1", 7, 5, "a=b"), REASON_NONE); // replaces
    assert_int_equal(fleet_view(&r, "w1").capacity, 5);
    assert_int_equal(fleet_view(&r, "w1").since, since);
    assert_int_equal(machine_rows(r.m), 1);
    assert_int_equal(fleet_act(&r, WORKER_LEAVE, "w1", 8), REASON_UNKNOWN_WORKER);
    assert_int_equal(fleet_act(&r, WORKER_LEAVE, "w1", 7), REASON_NONE);
    assert_int_equal(machine_rows(r.m), 0);
    assert_int_equal(fleet_join(&r, "w1", 8, 3, ""), REASON_NONE);
    rig_done(&r);
}

static void a_heartbeat_extends_the_row_and_silence_ends_it(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    (void)fleet_join(&r, "w1", 7, 3, "");
    rig_tick(&r, FLEET_TTL - 1);
    assert_int_equal(fleet_act(&r, WORKER_BEAT, "w1", 8), REASON_UNKNOWN_WORKER);
    assert_int_equal(fleet_act(&r, WORKER_BEAT, "w1", 7), REASON_NONE);
    assert_int_equal(fleet_view(&r, "w1").last_seen, machine_now(r.m));
    rig_tick(&r, FLEET_TTL - 1);
    assert_int_equal(machine_rows(r.m), 1);
    rig_tick(&r, 1000);
    assert_int_equal(machine_rows(r.m), 0);
    assert_int_equal(fleet_act(&r, WORKER_BEAT, "w1", 7), REASON_UNKNOWN_WORKER);
    rig_done(&r);
}

// The row's time was up before the entry, but the heartbeat is in it.
static void a_heartbeat_in_the_entry_that_would_end_the_row_is_in_time(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    (void)fleet_join(&r, "w1", 7, 3, "");
    r.time.lo += FLEET_TTL + 5;
    r.time.hi += FLEET_TTL + 5;
    assert_int_equal(fleet_act(&r, WORKER_BEAT, "w1", 7), REASON_NONE);
    assert_int_equal(machine_rows(r.m), 1);
    r.time.lo += FLEET_TTL + 5;
    r.time.hi += FLEET_TTL + 5;
    assert_int_equal(fleet_join(&r, "w1", 8, 3, ""), REASON_NONE); // another process may join now
    assert_int_equal(fleet_view(&r, "w1").instance, 8);
    rig_done(&r);
}

static void the_end_of_a_row_leaves_its_locks_and_returns_its_tickets(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    struct fleet_grant t[4];
    start(&r);
    rig_send(&r, "a", NULL);
    rig_send(&r, "b", NULL);
    (void)fleet_join(&r, "w1", 7, 3, "");
    assert_int_equal(rig_claim(&r, "w1", 1, &g), 1);
    assert_int_equal(fleet_dispatch(&r, 4, t), 1);
    assert_int_equal(fleet_act(&r, WORKER_LEAVE, "w1", 7), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 1);
    assert_int_equal(rig_count(&r, STATE_READY), 1);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
    assert_int_equal(rig_word(&r, OP_ACK, &t[0].grant).reason, REASON_LOCK_RELEASED);
    rig_done(&r);
}

static void a_paused_or_draining_worker_gets_nothing_and_keeps_what_it_has(void **state)
{
    (void)state;
    const struct {
        enum worker_act act;
        enum worker_mode mode;
        enum reason reason;
    } rows[] = {{WORKER_PAUSE, WORKER_IS_PAUSED, REASON_WORKER_PAUSED},
                {WORKER_DRAIN, WORKER_IS_DRAINING, REASON_WORKER_DRAINING}};
    for (size_t i = 0; i < 2; i++) {
        struct rig r;
        struct grant g;
        struct fleet_grant t[4];
        start(&r);
        for (int n = 0; n < 3; n++)
            rig_send(&r, "x", NULL);
        (void)fleet_join(&r, "w1", 7, 3, "");
        assert_int_equal(rig_claim(&r, "w1", 1, &g), 1);
        assert_int_equal(fleet_act(&r, rows[i].act, "w1", 0), REASON_NONE);
        assert_int_equal(fleet_view(&r, "w1").mode, rows[i].mode);
        assert_int_equal(rig_claim(&r, "w1", 1, &(struct grant){0}), 0);
        assert_int_equal(rig_reason(&r, 0), rows[i].reason);
        assert_false(machine_claimable(r.m, machine_now(r.m), bytes_str("w1")));
        assert_int_equal(fleet_dispatch(&r, 4, t), 0);
        assert_int_equal(fleet_join(&r, "w1", 7, 4, ""), REASON_NONE); // the mode stays
        assert_int_equal(fleet_view(&r, "w1").mode, rows[i].mode);
        fleet_reload(&r);
        assert_int_equal(rig_word(&r, OP_RENEW, &g).reason, REASON_NONE);
        assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
        assert_int_equal(fleet_act(&r, WORKER_RESUME, "w1", 0), REASON_NONE);
        assert_int_equal(fleet_dispatch(&r, 4, t), 2);
        rig_done(&r);
    }
}

static void an_eviction_ends_locks_and_tickets_without_an_attempt(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[2], again[4];
    struct fleet_grant t[4];
    start(&r);
    for (int n = 0; n < 4; n++)
        rig_send(&r, "x", NULL);
    (void)fleet_join(&r, "w1", 7, 3, "");
    assert_int_equal(rig_claim(&r, "w1", 2, g), 2);
    assert_int_equal(fleet_dispatch(&r, 4, t), 1);
    assert_int_equal(fleet_act(&r, WORKER_EVICT, "w1", 0), REASON_NONE);
    assert_int_equal(rig_events(&r, EVENT_MESSAGE_RELEASED), 2);
    assert_int_equal(rig_events(&r, EVENT_TICKETS_RECOVERED), 1);
    assert_int_equal(rig_event(&r, EVENT_MESSAGE_RELEASED, 0)->seq, 1);
    assert_int_equal(rig_event(&r, EVENT_MESSAGE_RELEASED, 0)->reason, REASON_WORKER_EVICTED);
    fleet_reload(&r);
    assert_int_equal(rig_count(&r, STATE_READY), 4);
    for (uint16_t kind = OP_RENEW; kind <= OP_RELEASE; kind++)
        assert_int_equal(rig_word(&r, kind, &g[0]).reason, REASON_LOCK_RELEASED);
    assert_int_equal(rig_word(&r, OP_ACK, &t[0].grant).reason, REASON_LOCK_RELEASED);
    assert_int_equal(rig_claim(&r, "w2", 4, again), 4);
    assert_int_equal(again[0].seq, 1);
    assert_int_equal(again[0].deliveries, 1); // the attempt of w1 did not count
    assert_int_equal(rig_word(&r, OP_ACK, &g[0]).reason, REASON_TOKEN_MISMATCH);
    assert_int_equal(fleet_view(&r, "w1").failed, 0);
    rig_done(&r);
}

static void an_evicted_process_stays_out_for_ten_minutes(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    rig_send(&r, "x", NULL);
    (void)fleet_join(&r, "w1", 7, 3, "");
    assert_int_equal(fleet_act(&r, WORKER_EVICT, "w1", 0), REASON_NONE);
    assert_int_equal(fleet_act(&r, WORKER_EVICT, "w1", 0), REASON_NONE); // repeated
    assert_int_equal(machine_rows(r.m), 0);
    assert_int_equal(fleet_join(&r, "w1", 7, 3, ""), REASON_WORKER_EVICTED);
    assert_int_equal(fleet_act(&r, WORKER_BEAT, "w1", 7), REASON_WORKER_EVICTED);
    assert_int_equal(fleet_act(&r, WORKER_LEAVE, "w1", 7), REASON_WORKER_EVICTED);
    assert_int_equal(fleet_act(&r, WORKER_BEAT, "w1", 8), REASON_UNKNOWN_WORKER);
    assert_int_equal(fleet_act(&r, WORKER_RESUME, "w1", 0), REASON_WORKER_EVICTED);
    assert_int_equal(rig_claim(&r, "w1", 1, &(struct grant){0}), 0);
    assert_int_equal(rig_reason(&r, 0), REASON_WORKER_EVICTED);
    rig_tick(&r, WORKER_EVICTED_KEEP_MS - 1);
    assert_int_equal(fleet_join(&r, "w1", 7, 3, ""), REASON_WORKER_EVICTED);
    rig_tick(&r, 1000);
    assert_int_equal(fleet_join(&r, "w1", 7, 3, ""), REASON_NONE);
    assert_int_equal(fleet_act(&r, WORKER_EVICT, "w1", 0), REASON_NONE);
    assert_int_equal(fleet_join(&r, "w1", 8, 3, ""), REASON_NONE); // another process
    assert_int_equal(fleet_view(&r, "w1").mode, WORKER_RUNNING);
    rig_done(&r);
}

static void an_operator_names_only_registered_workers(void **state)
{
    (void)state;
    struct rig r;
    struct grant g;
    start(&r);
    rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "w1", 1, &g), 1); // it holds a lock and has no row
    for (enum worker_act act = WORKER_PAUSE; act < WORKER_ACT_COUNT; act++)
        assert_int_equal(fleet_act(&r, act, "w1", 0), REASON_UNKNOWN_WORKER);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
    rig_done(&r);
}

static void a_row_counts_what_its_worker_did(void **state)
{
    (void)state;
    struct rig r;
    struct grant g[4];
    start(&r);
    for (int n = 0; n < 4; n++)
        rig_send(&r, "x", NULL);
    (void)fleet_join(&r, "w1", 7, 9, "");
    assert_int_equal(rig_claim(&r, "w1", 4, g), 4);
    assert_int_equal(fleet_view(&r, "w1").open, 4);
    (void)rig_word(&r, OP_ACK, &g[0]);
    (void)rig_word(&r, OP_FAIL, &g[1]);
    (void)rig_word(&r, OP_RELEASE, &g[2]); // neither
    rig_tick(&r, 30001);                   // the last lock expires
    struct worker_view v = fleet_view(&r, "w1");
    assert_int_equal(v.done, 1);
    assert_int_equal(v.failed, 2);
    assert_int_equal(v.open, 0);
    fleet_reload(&r);
    assert_int_equal(fleet_view(&r, "w1").failed, 2);
    rig_done(&r);
}

static void one_op_changes_many_rows_and_answers_each(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    (void)fleet_join(&r, "w1", 7, 3, "");
    struct buf b, rows;
    buf_init(&b, 4096);
    buf_init(&rows, 4096);
    const struct worker_change changes[] = {
        {.act = WORKER_BEAT, .name = bytes_str("w1"), .instance = 7},
        {.act = WORKER_BEAT, .name = bytes_str("w2"), .instance = 7},
        {.act = WORKER_BEAT, .name = bytes_str("w3"), .instance = 7},
        fleet_joins("w2", 9, 1, ""),
        {.act = WORKER_EVICT, .name = bytes_str("w1")},
    };
    for (size_t i = 0; i < 5; i++)
        worker_change_put(&rows, &changes[i]);
    workers_encode(&b, &(struct op_workers){.count = 5, .rows = buf_bytes(&rows)});
    buf_done(&rows);
    rig_op(&r, OP_WORKERS, &b);
    rig_commit(&r);
    const enum reason expected[] = {REASON_NONE, REASON_UNKNOWN_WORKER, REASON_UNKNOWN_WORKER,
                                    REASON_NONE, REASON_NONE};
    struct result result;
    assert_int_equal(result_open(rig_body(&r, 0), OP_WORKERS, &result), ERR_OK);
    assert_int_equal(result.count, 5);
    enum reason reason;
    for (size_t i = 0; i < 5; i++) {
        assert_true(worker_reason_next(&result, &reason));
        assert_int_equal(reason, expected[i]);
    }
    assert_false(worker_reason_next(&result, &reason));
    rig_done(&r);
}

static void there_are_at_most_16384_rows(void **state)
{
    (void)state;
    struct rig r;
    char name[16];
    start(&r);
    for (uint32_t i = 0; i <= WORKERS_MAX; i += 8192) {
        struct buf b, rows;
        buf_init(&b, (size_t)4 << 20);
        buf_init(&rows, (size_t)4 << 20);
        uint32_t count = 0;
        for (; count < 8192 && i + count <= WORKERS_MAX; count++) {
            (void)snprintf(name, sizeof name, "w%u", i + count);
            struct worker_change c = fleet_joins(name, 1, 1, "");
            worker_change_put(&rows, &c);
        }
        workers_encode(&b, &(struct op_workers){.count = count, .rows = buf_bytes(&rows)});
        buf_done(&rows);
        rig_op(&r, OP_WORKERS, &b);
        rig_commit(&r);
        assert_int_equal(fleet_reason(&r, 0), i == WORKERS_MAX ? REASON_WORKERS_FULL : REASON_NONE);
    }
    assert_int_equal(machine_rows(r.m), WORKERS_MAX);
    fleet_reload(&r);
    rig_done(&r);
}

static void a_deleted_queue_has_no_rows(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    (void)fleet_join(&r, "w1", 7, 3, "a=b");
    (void)fleet_join(&r, "w2", 7, 3, "");
    (void)fleet_act(&r, WORKER_EVICT, "w2", 0);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    machine_check(r.m);
    assert_int_equal(machine_rows(r.m), 0);
    assert_int_equal(fleet_join(&r, "w1", 7, 3, ""), REASON_DELETED);
    fleet_reload(&r);
    rig_done(&r);
}

static void every_flipped_bit_of_a_registry_is_noticed(void **state)
{
    (void)state;
    struct rig r;
    start(&r);
    size_t before;
    struct buf b;
    buf_init(&b, (size_t)1 << 20);
    machine_save(r.m, &b);
    before = b.len - 16; // the count of rows and the digest
    (void)fleet_join(&r, "w1", 7, 3, "a=b");
    buf_clear(&b);
    machine_save(r.m, &b);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    for (size_t bit = before * 8; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_CORRUPT);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 1; cut < b.len - before; cut++)
        assert_int_equal(machine_load(m, bytes_of(b.data, b.len - cut)), ERR_CORRUPT);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_free(m);
    buf_done(&b);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_worker_joins_and_its_row_shows_it),
        CASE(a_name_belongs_to_one_process_while_its_row_lives),
        CASE(a_heartbeat_extends_the_row_and_silence_ends_it),
        CASE(a_heartbeat_in_the_entry_that_would_end_the_row_is_in_time),
        CASE(the_end_of_a_row_leaves_its_locks_and_returns_its_tickets),
        CASE(a_paused_or_draining_worker_gets_nothing_and_keeps_what_it_has),
        CASE(an_eviction_ends_locks_and_tickets_without_an_attempt),
        CASE(an_evicted_process_stays_out_for_ten_minutes),
        CASE(an_operator_names_only_registered_workers),
        CASE(a_row_counts_what_its_worker_did),
        CASE(one_op_changes_many_rows_and_answers_each),
        CASE(there_are_at_most_16384_rows),
        CASE(a_deleted_queue_has_no_rows),
        CASE(every_flipped_bit_of_a_registry_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
