// SPDX-License-Identifier: Apache-2.0
// Why messages failed: the newest failures of each, in the state and in its snapshots.
#include "queue_test.h"

static struct queue_config retries(uint32_t max)
{
    struct queue_config c = defaults();
    c.failure_mode = FAILURE_RETRY;
    c.retries_max = max;
    c.backoff.initial_ms = 0;
    c.backoff.jitter_1000 = 0;
    return c;
}

static void report(struct rig *r, const char *worker)
{
    struct grant g;
    assert_int_equal(rig_claim(r, worker, 1, &g), 1);
    assert_int_equal(rig_word(r, OP_FAIL, &g).reason, REASON_NONE);
}

static size_t failures(const struct rig *r, uint64_t seq, struct failure_view *out)
{
    machine_check(r->m);
    return machine_failures(r->m, seq, machine_now(r->m), out);
}

// The fail op is where the view says.
static void reason_is(const struct rig *r, const struct failure_view *v, const char *text)
{
    const struct rig_entry *e = &r->log[v->slot - 1];
    struct op_outcome op;
    assert_int_equal(e->ops[v->op].kind, OP_FAIL);
    assert_int_equal(outcome_decode(e->ops[v->op].payload, &op), ERR_OK);
    assert_true(bytes_equal(op.reason, bytes_str(text)));
}

static void every_failure_has_its_attempt_time_worker_and_reason(void **state)
{
    (void)state;
    struct queue_config c = retries(2);
    struct failure_view v[FAILURES_KEPT + 1];
    struct grant g;
    struct rig r;
    rig_init(&r, &c);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    assert_int_equal(failures(&r, seq, v), 0);
    report(&r, "one");
    int64_t first = machine_now(r.m);
    assert_int_equal(failures(&r, seq, v), 1);
    assert_int_equal(rig_claim_lease(&r, "two", 1, 5000, &g), 1);
    rig_tick(&r, 60000);
    report(&r, "three");
    assert_int_equal(failures(&r, seq, v), 3);
    const char *workers[] = {"one", "two", "three"};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(v[i].attempt, i + 1);
        assert_true(bytes_equal(v[i].worker, bytes_str(workers[i])));
        assert_int_equal(v[i].kind, i == 1 ? FAILURE_EXPIRED : FAILURE_FAILED);
    }
    assert_int_equal(v[0].at, first);
    assert_int_equal(v[1].at, g.deadline);
    assert_int_equal(v[2].at, machine_now(r.m));
    reason_is(&r, &v[0], "boom");
    reason_is(&r, &v[2], "boom");
    assert_int_equal(rig_count(&r, STATE_DEAD), 1);
    rig_done(&r);
}

static void an_expiry_that_no_entry_has_folded_is_a_failure(void **state)
{
    (void)state;
    struct queue_config c = retries(0);
    struct failure_view v[FAILURES_KEPT + 1];
    struct grant g;
    struct rig r;
    rig_init(&r, &c);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    assert_int_equal(rig_claim_lease(&r, "late", 1, 5000, &g), 1);
    assert_int_equal(machine_failures(r.m, seq, g.deadline - 1, v), 0);
    assert_int_equal(machine_failures(r.m, seq, g.deadline, v), 1);
    assert_int_equal(v[0].kind, FAILURE_EXPIRED);
    assert_int_equal(v[0].at, g.deadline);
    assert_int_equal(v[0].attempt, 1);
    assert_true(bytes_equal(v[0].worker, bytes_str("late")));
    struct failure_view before = v[0];
    rig_tick(&r, 60000);
    assert_int_equal(failures(&r, seq, v), 1);
    assert_int_equal(v[0].at, before.at);
    assert_int_equal(v[0].attempt, before.attempt);
    assert_true(bytes_equal(v[0].worker, bytes_str("late")));
    rig_done(&r);
}

static void only_the_newest_failures_are_kept(void **state)
{
    (void)state;
    struct queue_config c = retries(100);
    struct failure_view v[FAILURES_KEPT + 1];
    struct rig r;
    char worker[8] = "w00";
    rig_init(&r, &c);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    for (uint32_t i = 1; i <= 20; i++) {
        (void)snprintf(worker, sizeof worker, "w%02u", i);
        report(&r, worker);
    }
    assert_int_equal(failures(&r, seq, v), FAILURES_KEPT);
    for (uint32_t i = 0; i < FAILURES_KEPT; i++)
        assert_int_equal(v[i].attempt, 20 - FAILURES_KEPT + 1 + i);
    assert_true(bytes_equal(v[FAILURES_KEPT - 1].worker, bytes_str("w20")));
    rig_done(&r);
}

static void the_slot_of_the_newest_reason_is_needed_until_the_message_ends(void **state)
{
    (void)state;
    struct queue_config c = retries(100);
    struct failure_view v[FAILURES_KEPT + 1];
    struct grant g;
    struct rig r;
    rig_init(&r, &c);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    for (int i = 0; i < 3 * PLACE_SPAN; i++)
        rig_tick(&r, 1);
    report(&r, "w");
    assert_int_equal(failures(&r, seq, v), 1);
    uint64_t slot = v[0].slot;
    assert_true(machine_needs(r.m, slot, slot));
    for (int i = 0; i < 3 * PLACE_SPAN; i++)
        rig_tick(&r, 1);
    report(&r, "w");
    assert_false(machine_needs(r.m, slot, slot));
    assert_int_equal(failures(&r, seq, v), 2);
    slot = v[1].slot;
    assert_true(machine_needs(r.m, slot, slot));
    assert_int_equal(rig_claim(&r, "w", 1, &g), 1);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
    assert_false(machine_needs(r.m, slot, slot));
    assert_int_equal(failures(&r, seq, v), 0);
    rig_done(&r);
}

static void a_redriven_message_begins_without_failures(void **state)
{
    (void)state;
    struct queue_config c = retries(0);
    struct failure_view v[FAILURES_KEPT + 1];
    struct rig r;
    rig_init(&r, &c);
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    report(&r, "w");
    assert_int_equal(failures(&r, seq, v), 1);
    rig_put_redrive(&r, 1);
    rig_commit(&r);
    assert_int_equal(failures(&r, seq, v), 0);
    assert_int_equal(failures(&r, seq + 1, v), 0);
    rig_done(&r);
}

static struct buf saved(const struct rig *r)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(r->m, &b);
    assert_false(b.bad);
    return b;
}

// A message that waits for its retry, one that is dead, and one that no call touched.
static void history(struct rig *r, uint64_t *waits, uint64_t *dead)
{
    struct queue_config c = retries(1);
    c.backoff.initial_ms = 1000;
    rig_init(r, &c);
    *dead = rig_send(r, "first", NULL).seq;
    report(r, "one");
    rig_tick(r, 1000);
    report(r, "two");
    *waits = rig_send(r, "second", NULL).seq;
    report(r, "three");
    rig_send(r, "third", NULL);
}

static void a_snapshot_keeps_failures(void **state)
{
    (void)state;
    struct failure_view before[FAILURES_KEPT + 1], after[FAILURES_KEPT + 1];
    uint64_t waits, dead;
    struct rig r;
    history(&r, &waits, &dead);
    CLEANUP(buf_done) struct buf b = saved(&r);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_check(m);
    uint64_t seqs[] = {waits, dead};
    for (int i = 0; i < 2; i++) {
        size_t len = failures(&r, seqs[i], before);
        assert_int_equal(machine_failures(m, seqs[i], machine_now(m), after), len);
        assert_true(len > 0);
        for (size_t j = 0; j < len; j++) {
            assert_int_equal(after[j].at, before[j].at);
            assert_int_equal(after[j].attempt, before[j].attempt);
            assert_int_equal(after[j].slot, before[j].slot);
            assert_int_equal(after[j].op, before[j].op);
            assert_true(bytes_equal(after[j].worker, before[j].worker));
        }
        assert_true(machine_needs(m, before[len - 1].slot, before[len - 1].slot));
    }
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, 1 << 20);
    machine_save(m, &again);
    assert_true(bytes_equal(buf_bytes(&again), buf_bytes(&b)));
    machine_free(m);
    rig_done(&r);
}

static void a_snapshot_whose_failures_are_damaged_is_corrupt(void **state)
{
    (void)state;
    uint64_t waits, dead;
    struct rig r;
    history(&r, &waits, &dead);
    CLEANUP(buf_done) struct buf b = saved(&r);
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] ^= (uint8_t)(1 + i % 255);
        assert_int_equal(machine_load(r.m, buf_bytes(&b)), ERR_CORRUPT);
        b.data[i] ^= (uint8_t)(1 + i % 255);
    }
    assert_int_equal(machine_load(r.m, buf_bytes(&b)), ERR_OK);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(every_failure_has_its_attempt_time_worker_and_reason),
        CASE(an_expiry_that_no_entry_has_folded_is_a_failure),
        CASE(only_the_newest_failures_are_kept),
        CASE(the_slot_of_the_newest_reason_is_needed_until_the_message_ends),
        CASE(a_redriven_message_begins_without_failures),
        CASE(a_snapshot_keeps_failures),
        CASE(a_snapshot_whose_failures_are_damaged_is_corrupt),
    };
    return RUN(cases);
}
