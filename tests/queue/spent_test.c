// SPDX-License-Identifier: Apache-2.0
// The books: what the store was asked for the shard's sake.
#include "queue_test.h"

#define HOUR_MS INT64_C(3600000)

static void spend(struct rig *r, uint64_t writes, uint64_t reads, uint64_t deletes)
{
    struct buf b;
    buf_init(&b, 256);
    spent_encode(&b, &(struct op_spent){0});
    b.len -= 3 * 8;
    buf_put_u64(&b, writes); // also those that the encoder refuses
    buf_put_u64(&b, reads);
    buf_put_u64(&b, deletes);
    rig_op(r, OP_SPENT, &b);
    rig_commit(r);
}

static struct machine_cost spent_at(const struct rig *r, int64_t now)
{
    struct machine_cost s;
    machine_spent(r->m, now, &s);
    return s;
}

static struct machine_cost spent(const struct rig *r)
{
    return spent_at(r, machine_now(r->m));
}

static void what_was_spent_adds_up_and_makes_no_event(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    spend(&r, 3, 20, 1);
    assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    assert_int_equal(r.events.len, 0);
    spend(&r, 1, 0, 4);
    struct machine_cost s = spent(&r);
    assert_int_equal(s.total.writes, 4);
    assert_int_equal(s.total.reads, 20);
    assert_int_equal(s.total.deletes, 5);
    assert_int_equal(s.this_hour.reads, 20);
    assert_int_equal(s.last_hour.reads, 0);
    rig_done(&r);
}

static void an_hour_that_ends_becomes_the_last_one(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_tick(&r, HOUR_MS - RIG_TIME % HOUR_MS); // an hour begins
    int64_t start = machine_now(r.m);
    assert_int_equal(start % HOUR_MS, 0);
    spend(&r, 5, 0, 0);
    rig_tick(&r, HOUR_MS / 2);
    assert_int_equal(spent(&r).hour_ms, HOUR_MS / 2);
    assert_int_equal(spent(&r).this_hour.writes, 5);
    rig_tick(&r, HOUR_MS / 2);
    assert_int_equal(spent(&r).this_hour.writes, 0); // though nothing was reported yet
    assert_int_equal(spent(&r).last_hour.writes, 5);
    spend(&r, 7, 0, 0);
    assert_int_equal(spent(&r).this_hour.writes, 7);
    assert_int_equal(spent(&r).last_hour.writes, 5);
    // A later look needs no entry; a whole hour without a report was one without requests.
    assert_int_equal(spent_at(&r, start + 2 * HOUR_MS).last_hour.writes, 7);
    assert_int_equal(spent_at(&r, start + 3 * HOUR_MS).last_hour.writes, 0);
    rig_tick(&r, 2 * HOUR_MS);
    spend(&r, 1, 0, 0);
    assert_int_equal(spent(&r).this_hour.writes, 1);
    assert_int_equal(spent(&r).last_hour.writes, 0);
    assert_int_equal(spent(&r).total.writes, 13);
    rig_done(&r);
}

static void a_deleted_queue_keeps_no_costs(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    spend(&r, 3, 0, 0);
    assert_int_equal(rig_reason(&r, 0), REASON_DELETED);
    assert_int_equal(spent(&r).total.writes, 0);
    rig_done(&r);
}

static void an_impossible_cost_is_malformed(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    spend(&r, SPENT_MAX, 0, 0);
    assert_int_equal(rig_reason(&r, 0), REASON_NONE);
    spend(&r, 0, SPENT_MAX + 1, 0);
    assert_int_equal(rig_reason(&r, 0), REASON_MALFORMED);
    rig_done(&r);
}

static struct buf saved(const struct rig *r)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(r->m, &b);
    return b;
}

static void snapshots_hold_the_costs_and_the_digest_covers_them(void **state)
{
    (void)state;
    struct rig r;
    rig_defaults(&r);
    spend(&r, 3, 20, 1);
    rig_tick(&r, HOUR_MS);
    spend(&r, 1, 2, 3);
    uint64_t digest = machine_digest(r.m);
    struct machine_cost before = spent(&r);
    CLEANUP(buf_done) struct buf b = saved(&r);
    spend(&r, 1, 0, 0);
    assert_int_equal(machine_load(r.m, buf_bytes(&b)), ERR_OK);
    struct machine_cost after = spent(&r);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(machine_digest(r.m), digest);
    b.data[b.len - 8 - 80] ^= 1; // a write more in the total
    assert_int_equal(machine_load(r.m, buf_bytes(&b)), ERR_CORRUPT);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(what_was_spent_adds_up_and_makes_no_event),
        CASE(an_hour_that_ends_becomes_the_last_one),
        CASE(a_deleted_queue_keeps_no_costs),
        CASE(an_impossible_cost_is_malformed),
        CASE(snapshots_hold_the_costs_and_the_digest_covers_them),
    };
    return RUN(cases);
}
