// SPDX-License-Identifier: Apache-2.0
// The publisher's cursor: its moves, how far the floor may rise, and what is not published.
#include "queue_test.h"

static enum reason publish_flags(struct rig *r, uint64_t slot, uint64_t sequence, uint8_t flags)
{
    struct buf b;
    buf_init(&b, 64);
    published_encode(&b,
                     &(struct op_published){.slot = slot, .sequence = sequence, .flags = flags});
    rig_op(r, OP_PUBLISHED, &b);
    rig_commit(r);
    machine_check(r->m);
    return rig_reason(r, 0);
}

static enum reason publish(struct rig *r, uint64_t slot, uint64_t sequence)
{
    return publish_flags(r, slot, sequence, 0);
}

static void begin(struct rig *r, const struct queue_config *config)
{
    rig_init(r, config);
    r->epoch = 1;
}

static struct queue_config with(enum publish policy, int64_t keep_ms)
{
    struct queue_config c = defaults();
    c.publish = policy;
    c.publish_keep_ms = keep_ms;
    return c;
}

static void expect_cursor(const struct rig *r, uint64_t slot, uint64_t sequence)
{
    uint64_t at, number;
    assert_true(machine_published(r->m, &at, &number));
    assert_int_equal(at, slot);
    assert_int_equal(number, sequence);
}

static uint64_t limit(const struct rig *r)
{
    return machine_floor_limit(r->m, r->time.lo);
}

static struct machine_publish_lag unpublished(const struct rig *r)
{
    struct machine_publish_lag u;
    assert_true(machine_unpublished(r->m, r->time.lo, &u));
    return u;
}

static void only_the_owner_moves_the_cursor_and_only_forward(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    rig_send(&r, "x", NULL);
    rig_send(&r, "x", NULL);
    uint64_t events = machine_event_count(r.m), slot = machine_slot(r.m), s, n;
    r.epoch = 0;
    assert_int_equal(publish(&r, slot, events), REASON_NOT_OWNER);
    assert_false(machine_published(r.m, &s, &n));
    r.epoch = 1;
    assert_int_equal(publish(&r, slot, events + 1), REASON_OUT_OF_RANGE); // not emitted yet
    assert_int_equal(publish(&r, machine_slot(r.m) + 1, events), REASON_OUT_OF_RANGE); // itself
    assert_int_equal(publish(&r, slot, events), REASON_NONE);
    expect_cursor(&r, slot, events);
    assert_int_equal(publish(&r, slot - 1, events - 1), REASON_NONE); // repeated: it stays
    expect_cursor(&r, slot, events);
    assert_int_equal(publish(&r, slot + 1, events - 1), REASON_OUT_OF_RANGE);
    rig_send(&r, "x", NULL);
    assert_int_equal(publish(&r, slot - 1, events + 1), REASON_OUT_OF_RANGE);
    assert_int_equal(publish(&r, machine_slot(r.m), events + 1), REASON_NONE);
    struct result result;
    assert_int_equal(result_open(rig_body(&r, 0), OP_PUBLISHED, &result), ERR_OK);
    assert_int_equal(result.value, events + 1);
    rig_done(&r);
}

static void the_floor_waits_for_the_cursor(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    rig_send(&r, "x", NULL);
    assert_true(limit(&r) == UINT64_MAX); // never published
    uint64_t slot = machine_slot(r.m), events = machine_event_count(r.m);
    assert_int_equal(publish(&r, slot - 1, events - 1), REASON_NONE);
    assert_int_equal(limit(&r), slot - 1);
    rig_tick(&r, INT64_C(30) * 86400000);
    assert_int_equal(limit(&r), slot - 1); // publish=hold waits for ever
    assert_true(unpublished(&r).overdue);
    assert_int_equal(publish(&r, slot, events), REASON_NONE);
    assert_int_equal(limit(&r), machine_slot(r.m)); // all events are published
    assert_int_equal(unpublished(&r).events, 0);
    assert_false(unpublished(&r).overdue);
    rig_send(&r, "y", NULL);
    assert_int_equal(limit(&r), slot);
    assert_int_equal(unpublished(&r).events, 1);
    assert_int_equal(publish_flags(&r, slot, events, PUBLISHED_STOP), REASON_NONE);
    assert_true(limit(&r) == UINT64_MAX);
    uint64_t s, n;
    assert_false(machine_published(r.m, &s, &n));
    assert_int_equal(publish(&r, slot, events), REASON_NONE); // published again
    assert_int_equal(limit(&r), slot);
    rig_done(&r);
}

static void publish_off_lets_the_floor_rise(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = with(PUBLISH_OFF, 86400000);
    begin(&r, &c);
    struct machine_publish_lag u;
    rig_send(&r, "x", NULL);
    rig_send(&r, "x", NULL);
    assert_int_equal(publish(&r, 1, 1), REASON_NONE);
    assert_true(limit(&r) == UINT64_MAX);
    assert_false(machine_unpublished(r.m, r.time.lo, &u));
    c = with(PUBLISH_HOLD, 86400000);
    rig_put_configure(&r, &c);
    rig_commit(&r);
    assert_int_equal(limit(&r), 1);
    rig_done(&r);
}

static void publish_skip_gives_up_what_is_too_old(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = with(PUBLISH_SKIP, 600000);
    begin(&r, &c);
    uint64_t start = machine_slot(r.m);
    assert_int_equal(publish(&r, start, machine_event_count(r.m)), REASON_NONE);
    uint64_t slots[30];
    for (int i = 0; i < 30; i++) { // one message a minute
        r.time.lo += 60000;
        r.time.hi += 60000;
        rig_send(&r, "x", NULL);
        slots[i] = machine_slot(r.m);
        machine_check(r.m);
        assert_int_equal(limit(&r), i < 10 ? start : slots[i - 10]); // 10 minutes old
        assert_int_equal(unpublished(&r).age_ms, (int64_t)i * 60000);
        assert_true(unpublished(&r).overdue == (i >= 10));
    }
    // The caller's clock counts, if it is ahead of the fold's.
    assert_int_equal(machine_floor_limit(r.m, r.time.lo + 60000), slots[20]);
    rig_done(&r);
}

static void publish_skip_gives_up_what_is_too_large(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = with(PUBLISH_SKIP, 86400000);
    c.publish_keep_bytes = UINT64_C(64) << 20;
    begin(&r, &c);
    r.entry_bytes = (size_t)8 << 20;
    uint64_t start = machine_slot(r.m);
    assert_int_equal(publish(&r, start, machine_event_count(r.m)), REASON_NONE);
    uint64_t first = machine_slot(r.m) + 1;
    for (int i = 0; i < 8; i++)
        rig_send(&r, "x", NULL);
    assert_int_equal(unpublished(&r).bytes, UINT64_C(64) << 20);
    assert_true(unpublished(&r).overdue);
    assert_int_equal(limit(&r), first - 1); // these eight stay
    for (int i = 0; i < 8; i++)
        rig_send(&r, "x", NULL);
    assert_int_equal(limit(&r), first + 7);
    assert_int_equal(unpublished(&r).bytes, UINT64_C(128) << 20);
    rig_done(&r);
}

static void a_deleted_queue_waits_up_to_publish_keep(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = with(PUBLISH_HOLD, 600000);
    begin(&r, &c);
    uint64_t start = machine_slot(r.m), events = machine_event_count(r.m);
    assert_int_equal(publish(&r, start, events), REASON_NONE);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    uint64_t deleted = machine_slot(r.m);
    assert_int_equal(limit(&r), start);
    assert_int_equal(machine_floor_limit(r.m, r.time.lo + 600000), deleted);
    assert_int_equal(publish(&r, deleted, events + 1), REASON_NONE); // the last report comes in
    assert_int_equal(limit(&r), machine_slot(r.m));
    rig_done(&r);
}

// Marks are for many entries each, and the last entries may have none.
static void the_last_entries_of_a_deleted_queue_wait_no_longer(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = with(PUBLISH_HOLD, 600000);
    begin(&r, &c);
    assert_int_equal(publish(&r, machine_slot(r.m), machine_event_count(r.m)), REASON_NONE);
    for (int i = 0; i < 300; i++) {
        r.time.lo += 10;
        r.time.hi += 10;
        rig_send(&r, "x", NULL);
    }
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    assert_true(machine_floor_limit(r.m, r.time.lo + 599999) < machine_slot(r.m));
    assert_int_equal(machine_floor_limit(r.m, r.time.lo + 600000), machine_slot(r.m));
    rig_done(&r);
}

static void the_marks_are_bounded_and_the_age_stays_right(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = with(PUBLISH_SKIP, INT64_C(86400000) * 30);
    begin(&r, &c);
    assert_int_equal(publish(&r, machine_slot(r.m), machine_event_count(r.m)), REASON_NONE);
    uint64_t events = machine_event_count(r.m);
    for (int i = 0; i < 5000; i++) {
        r.time.lo += 70000;
        r.time.hi += 70000;
        rig_send(&r, "x", NULL);
        if (i % 100 == 0) machine_check(r.m);
        assert_int_equal(unpublished(&r).age_ms, INT64_C(70000) * i);
        assert_int_equal(unpublished(&r).events, machine_event_count(r.m) - events);
    }
    uint64_t slot = machine_slot(r.m) - 100;
    assert_int_equal(publish(&r, slot, machine_event_count(r.m) - 100), REASON_NONE);
    // Marks of the last hours may be thinned out: the age is an upper bound.
    assert_true(unpublished(&r).age_ms >= INT64_C(70000) * 99);
    assert_true(unpublished(&r).age_ms <= INT64_C(70000) * 99 * 4);
    assert_int_equal(unpublished(&r).events, 100);
    rig_done(&r);
}

static void every_flipped_bit_of_a_cursor_is_noticed(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    begin(&r, &c);
    r.entry_bytes = 1000;
    rig_send(&r, "x", NULL);
    rig_send(&r, "x", NULL);
    assert_int_equal(publish(&r, 2, 2), REASON_NONE);
    for (int i = 0; i < 3; i++) {
        rig_tick(&r, 60000);
        rig_send(&r, "x", NULL);
    }
    struct buf b;
    buf_init(&b, 1 << 20);
    machine_save(r.m, &b);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    assert_true(machine_digest(m) == machine_digest(r.m));
    machine_check(m);
    assert_int_equal(machine_floor_limit(m, r.time.lo), 2);
    for (size_t bit = (b.len - 160) * 8; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_CORRUPT);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    machine_free(m);
    buf_done(&b);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(only_the_owner_moves_the_cursor_and_only_forward),
        CASE(the_floor_waits_for_the_cursor),
        CASE(publish_off_lets_the_floor_rise),
        CASE(publish_skip_gives_up_what_is_too_old),
        CASE(publish_skip_gives_up_what_is_too_large),
        CASE(a_deleted_queue_waits_up_to_publish_keep),
        CASE(the_last_entries_of_a_deleted_queue_wait_no_longer),
        CASE(the_marks_are_bounded_and_the_age_stays_right),
        CASE(every_flipped_bit_of_a_cursor_is_noticed),
    };
    return RUN(tests);
}
