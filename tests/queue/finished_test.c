// SPDX-License-Identifier: Apache-2.0
// How messages ended: kept for `retention`, in the state, its digest and its snapshots.
#include "queue_test.h"

#define HOUR INT64_C(3600000)

static struct rig rig_with(const struct queue_config *c)
{
    struct rig r;
    rig_init(&r, c);
    return r;
}

static struct rig rig_of_hours(void)
{
    struct queue_config c = defaults();
    return rig_with(&c);
}

static struct queue_config dead_letters(enum failure_mode mode, uint32_t retries)
{
    struct queue_config c = defaults();
    c.failure_mode = mode;
    c.retries_max = retries;
    c.backoff.initial_ms = 0;
    c.backoff.jitter_1000 = 0;
    if (mode != FAILURE_RETRY) (void)strcpy(c.dead_letter_queue, "dead");
    return c;
}

static uint64_t rows(const struct rig *r)
{
    struct machine_stats stats;
    machine_check(r->m);
    machine_stats(r->m, machine_now(r->m), &stats);
    return stats.finished;
}

static bool look(const struct rig *r, uint64_t seq, struct finished_view *v)
{
    machine_check(r->m);
    return machine_finished(r->m, seq, machine_now(r->m), v);
}

static void ended(const struct rig *r, uint64_t seq, enum finished_outcome outcome, int64_t at,
                  const char *worker, uint32_t attempts)
{
    struct finished_view v;
    struct message_view record;
    assert_true(look(r, seq, &v));
    assert_int_equal(v.outcome, outcome);
    assert_int_equal(v.at, at);
    assert_int_equal(v.attempts, attempts);
    assert_true(bytes_equal(v.worker, bytes_str(worker)));
    if (outcome != FINISHED_DEAD_LETTERED)
        assert_int_equal(machine_find(r->m, seq, machine_now(r->m), &record), ERR_CONFLICT);
}

static void unknown(const struct rig *r, uint64_t seq)
{
    struct finished_view v;
    assert_false(look(r, seq, &v));
}

static uint64_t finish(struct rig *r, const char *worker)
{
    struct grant g;
    uint64_t seq = rig_send(r, "x", NULL).seq;
    assert_int_equal(rig_claim(r, worker, 1, &g), 1);
    assert_int_equal(rig_word(r, OP_ACK, &g).reason, REASON_NONE);
    return seq;
}

static struct buf saved(const struct machine *m)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    machine_save(m, &b);
    return b;
}

// The state survives its snapshot, byte by byte.
static void survives(const struct rig *r)
{
    struct buf before = saved(r->m);
    struct machine *m = machine_new(&r->queue, RIG_SHARD, &r->config);
    assert_int_equal(machine_load(m, buf_bytes(&before)), ERR_OK);
    machine_check(m);
    struct buf after = saved(m);
    assert_true(bytes_equal(buf_bytes(&before), buf_bytes(&after)));
    assert_true(machine_digest(m) == machine_digest(r->m));
    machine_free(m);
    buf_done(&before);
    buf_done(&after);
}

static void an_ack_leaves_time_worker_and_attempts(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    struct grant g;
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    unknown(&r, seq);
    assert_int_equal(rig_claim_lease(&r, "one", 1, 5000, &g), 1);
    unknown(&r, seq);
    rig_tick(&r, 6000); // it expires: the first attempt
    assert_int_equal(rig_claim(&r, "two", 1, &g), 1);
    rig_tick(&r, 1000);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
    ended(&r, seq, FINISHED_PROCESSED, machine_now(r.m), "two", 2);
    survives(&r);
    rig_done(&r);
}

static void a_release_is_no_attempt(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    struct grant g;
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    assert_int_equal(rig_claim(&r, "one", 1, &g), 1);
    assert_int_equal(rig_word(&r, OP_RELEASE, &g).reason, REASON_NONE);
    assert_int_equal(rig_claim(&r, "two", 1, &g), 1);
    assert_int_equal(rig_word(&r, OP_ACK, &g).reason, REASON_NONE);
    ended(&r, seq, FINISHED_PROCESSED, machine_now(r.m), "two", 1);
    rig_done(&r);
}

static void a_dead_letter_has_the_worker_that_failed_it(void **state)
{
    (void)state;
    struct queue_config c = dead_letters(FAILURE_DEAD_LETTER, 0);
    struct rig r = rig_with(&c);
    struct grant g;
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    assert_int_equal(rig_claim(&r, "one", 1, &g), 1);
    assert_int_equal(rig_word(&r, OP_FAIL, &g).status, OUTCOME_DEAD_LETTERED);
    int64_t died = machine_now(r.m);
    struct message_view v;
    assert_int_equal(machine_find(r.m, seq, died, &v), ERR_OK);
    assert_int_equal(v.state, STATE_OUTBOUND); // the record goes first
    rig_tick(&r, 1000);
    rig_put_outbox(&r, 1);
    rig_commit(&r);
    assert_int_equal(machine_find(r.m, seq, died, &v), ERR_CONFLICT);
    ended(&r, seq, FINISHED_DEAD_LETTERED, died, "one", 1);
    survives(&r);
    rig_done(&r);
}

static void a_dead_letter_by_expiry_has_the_last_holder(void **state)
{
    (void)state;
    struct queue_config c = dead_letters(FAILURE_HYBRID, 1);
    struct rig r = rig_with(&c);
    struct grant g;
    uint64_t seq = rig_send(&r, "x", NULL).seq;
    assert_int_equal(rig_claim_lease(&r, "one", 1, 5000, &g), 1);
    rig_tick(&r, 6000);
    assert_int_equal(rig_claim_lease(&r, "two", 1, 5000, &g), 1);
    rig_tick(&r, 6000);
    ended(&r, seq, FINISHED_DEAD_LETTERED, machine_now(r.m), "two", 2);
    rig_done(&r);
}

static void a_dead_message_is_not_finished_until_it_is_redriven_or_purged(void **state)
{
    (void)state;
    struct queue_config c = dead_letters(FAILURE_RETRY, 0);
    struct rig r = rig_with(&c);
    struct grant g[2];
    uint64_t first = rig_send(&r, "x", NULL).seq, second = rig_send(&r, "y", NULL).seq;
    assert_int_equal(rig_claim(&r, "one", 2, g), 2);
    assert_int_equal(rig_word(&r, OP_FAIL, &g[0]).status, OUTCOME_DEAD_LETTERED);
    assert_int_equal(rig_word(&r, OP_FAIL, &g[1]).status, OUTCOME_DEAD_LETTERED);
    unknown(&r, first);
    rig_put_redrive(&r, 1);
    rig_commit(&r);
    ended(&r, first, FINISHED_REDRIVEN, machine_now(r.m), "", 1);
    unknown(&r, second);
    struct buf b;
    buf_init(&b, 64);
    purge_encode(&b, &(struct op_purge){.dead = true});
    rig_op(&r, OP_PURGE, &b);
    rig_commit(&r);
    ended(&r, second, FINISHED_PURGED, machine_now(r.m), "", 1);
    unknown(&r, 3); // the message that replaces the first
    rig_done(&r);
}

static void purge(struct rig *r)
{
    struct buf b;
    buf_init(&b, 64);
    purge_encode(&b, &(struct op_purge){.dead = false});
    rig_op(r, OP_PURGE, &b);
    rig_commit(r);
}

static void a_purge_of_a_long_backlog_is_one_row(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    for (int i = 0; i < 40; i++)
        (void)rig_send(&r, "x", NULL);
    purge(&r);
    assert_int_equal(rows(&r), 1);
    for (uint64_t seq = 1; seq <= 40; seq++)
        ended(&r, seq, FINISHED_PURGED, machine_now(r.m), "", 0);
    survives(&r);
    rig_done(&r);
}

// Records are purged in an order that a snapshot changes. The rows must not have it.
static void a_purge_notes_records_by_their_number(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    struct grant g[4];
    for (int i = 0; i < 4; i++)
        (void)rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "one", 4, g), 4);
    for (int i = 3; i >= 0; i -= 2)
        assert_int_equal(rig_word(&r, OP_ACK, &g[i]).reason, REASON_NONE);
    for (int i = 2; i >= 0; i -= 2)
        assert_int_equal(rig_word(&r, OP_RELEASE, &g[i]).reason, REASON_NONE);
    struct message m = {.body = bytes_str("later"), .when = WHEN_DELAY, .when_ms = HOUR};
    (void)rig_send_message(&r, &m); // takes a row of the acked ones
    (void)rig_send_message(&r, &m);
    struct buf before = saved(r.m);
    struct machine *other = machine_new(&r.queue, RIG_SHARD, &r.config);
    assert_int_equal(machine_load(other, buf_bytes(&before)), ERR_OK);
    purge(&r);
    const struct rig_entry *last = &r.log[r.log_len - 1];
    struct machine_entry e = {.slot = last->slot,
                              .time = r.time,
                              .now = r.time.lo,
                              .epoch = r.epoch,
                              .ops = last->ops,
                              .ops_len = last->ops_len};
    machine_apply(other, &e, NULL, NULL, NULL);
    struct buf a = saved(r.m), b = saved(other);
    assert_true(bytes_equal(buf_bytes(&a), buf_bytes(&b)));
    ended(&r, 1, FINISHED_PURGED, machine_now(r.m), "", 0);
    ended(&r, 5, FINISHED_PURGED, machine_now(r.m), "", 0);
    machine_free(other);
    buf_done(&before);
    buf_done(&a);
    buf_done(&b);
    rig_done(&r);
}

static void equal_ends_with_consecutive_numbers_share_a_row(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    struct grant g[8];
    for (int i = 0; i < 8; i++)
        (void)rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "one", 4, g), 4);
    assert_int_equal(rig_claim(&r, "two", 4, g + 4), 4);
    for (int i = 0; i < 8; i++)
        rig_put_word(&r, OP_ACK, &g[i], machine_now(r.m));
    rig_commit(&r);
    assert_int_equal(rows(&r), 2); // one a worker
    for (uint64_t seq = 1; seq <= 8; seq++)
        ended(&r, seq, FINISHED_PROCESSED, machine_now(r.m), seq <= 4 ? "one" : "two", 1);
    survives(&r);
    rig_done(&r);
}

static void a_gap_in_the_numbers_or_in_time_begins_a_row(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    struct grant g[4];
    for (int i = 0; i < 4; i++)
        (void)rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "one", 4, g), 4);
    rig_put_word(&r, OP_ACK, &g[0], machine_now(r.m));
    rig_put_word(&r, OP_ACK, &g[2], machine_now(r.m));
    rig_commit(&r);
    assert_int_equal(rows(&r), 2);
    rig_tick(&r, 1);
    rig_put_word(&r, OP_ACK, &g[3], machine_now(r.m));
    rig_put_word(&r, OP_ACK, &g[1], machine_now(r.m));
    rig_commit(&r);
    assert_int_equal(rows(&r), 4);
    ended(&r, 1, FINISHED_PROCESSED, machine_now(r.m) - 1, "one", 1);
    ended(&r, 2, FINISHED_PROCESSED, machine_now(r.m), "one", 1);
    ended(&r, 4, FINISHED_PROCESSED, machine_now(r.m), "one", 1);
    rig_done(&r);
}

static void rows_end_with_the_retention(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    uint64_t first = finish(&r, "one");
    int64_t at = machine_now(r.m);
    rig_tick(&r, HOUR / 2);
    uint64_t second = finish(&r, "two");
    rig_tick(&r, at + HOUR - 1 - machine_now(r.m));
    ended(&r, first, FINISHED_PROCESSED, at, "one", 1);
    struct finished_view v; // for a later moment, without an entry
    assert_true(machine_finished(r.m, first, at + HOUR - 1, &v));
    assert_false(machine_finished(r.m, first, at + HOUR, &v));
    assert_true(machine_finished(r.m, second, at + HOUR, &v));
    rig_tick(&r, 1);
    unknown(&r, first);
    assert_int_equal(rows(&r), 1);
    rig_tick(&r, HOUR);
    unknown(&r, second);
    assert_int_equal(rows(&r), 0);
    survives(&r);
    rig_done(&r);
}

static enum reason set_retention(struct rig *r, int64_t ms)
{
    struct queue_config c = *machine_config(r->m);
    c.retention_ms = ms;
    rig_put_configure(r, &c);
    rig_commit(r);
    return rig_reason(r, 0);
}

static void a_shorter_retention_holds_for_old_rows_and_a_longer_one_too(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    uint64_t first = finish(&r, "one");
    int64_t at = machine_now(r.m);
    rig_tick(&r, HOUR / 2);
    assert_int_equal(set_retention(&r, 2 * HOUR), REASON_NONE);
    rig_tick(&r, HOUR);
    ended(&r, first, FINISHED_PROCESSED, at, "one", 1);
    uint64_t second = finish(&r, "two");
    assert_int_equal(set_retention(&r, HOUR), REASON_NONE);
    unknown(&r, first);
    ended(&r, second, FINISHED_PROCESSED, machine_now(r.m), "two", 1);
    assert_int_equal(set_retention(&r, 0), REASON_NONE);
    unknown(&r, second);
    unknown(&r, finish(&r, "three"));
    assert_int_equal(rows(&r), 0);
    survives(&r);
    rig_done(&r);
}

static void a_queue_can_be_born_with_the_setting(void **state)
{
    (void)state;
    struct rig r;
    struct queue_config c = defaults();
    c.retention_ms = 30 * 24 * HOUR;
    rig_init(&r, &c);
    uint64_t seq = finish(&r, "one");
    rig_tick(&r, 30 * 24 * HOUR - 1);
    struct finished_view v;
    assert_true(look(&r, seq, &v));
    rig_tick(&r, 1);
    unknown(&r, seq);
    rig_done(&r);
}

static void a_deleted_queue_keeps_nothing(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    (void)finish(&r, "one");
    (void)rig_send(&r, "x", NULL);
    rig_put_plain(&r, OP_DELETE);
    rig_commit(&r);
    assert_int_equal(rows(&r), 0);
    survives(&r);
    rig_done(&r);
}

// Each message has a row of its own: the worker changes.
static void fill(struct rig *r, uint32_t count)
{
    static const char *const workers[] = {"a", "b", "c"};
    struct grant g[8];
    for (uint32_t done = 0; done < count;) {
        uint32_t some = count - done < 8 ? count - done : 8;
        for (uint32_t i = 0; i < some; i++)
            (void)rig_send(r, "x", NULL);
        for (uint32_t i = 0; i < some; i++)
            assert_int_equal(rig_claim(r, workers[(done + i) % 3], 1, &g[i]), 1);
        for (uint32_t i = 0; i < some; i++)
            rig_put_word(r, OP_ACK, &g[i], machine_now(r->m));
        rig_commit(r);
        done += some;
    }
}

static void past_the_limit_the_oldest_row_goes(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    fill(&r, FINISHED_MAX);
    struct finished_view v;
    assert_int_equal(rows(&r), FINISHED_MAX);
    assert_true(look(&r, 1, &v));
    survives(&r);
    struct buf full = saved(r.m);
    printf("# %zu bytes of snapshot with a full ring\n", full.len);
    assert_true(full.len < (size_t)FINISHED_MAX * 12);
    buf_done(&full);
    rig_tick(&r, 1);
    fill(&r, 3);
    assert_int_equal(rows(&r), FINISHED_MAX);
    unknown(&r, 1);
    unknown(&r, 3);
    assert_true(look(&r, 4, &v));
    assert_true(look(&r, FINISHED_MAX + 3, &v));
    survives(&r);
    rig_done(&r);
}

// A damaged snapshot never loads as another state.
static void a_changed_byte_is_found(void **state)
{
    (void)state;
    struct rig r = rig_of_hours();
    fill(&r, 5);
    rig_tick(&r, 1000);
    fill(&r, 3);
    struct buf b = saved(r.m);
    struct machine *m = machine_new(&r.queue, RIG_SHARD, &r.config);
    for (size_t i = 0; i < b.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            b.data[i] ^= (uint8_t)(1u << bit);
            assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_CORRUPT);
            b.data[i] ^= (uint8_t)(1u << bit);
        }
    }
    assert_int_equal(machine_load(m, buf_bytes(&b)), ERR_OK);
    machine_free(m);
    buf_done(&b);
    rig_done(&r);
}

static bool has_bytes(const struct buf *b, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i + len <= b->len; i++)
        if (memcmp(b->data + i, bytes, len) == 0) return true;
    return false;
}

// The bytes of docs/format.md.
static void the_stored_form_is_the_documented_one(void **state)
{
    (void)state;
    static const uint8_t golden[] = {
        2,   0,    0,    0,                       // names
        3,   0,    0,    0,   'o', 'n', 'e',      // 1
        3,   0,    0,    0,   't', 'w', 'o',      // 2
        3,   0,    0,    0,                       // rows
        0,   0xe1, 0xf5, 5,   0,   0,   0,   0,   // the first time: RIG_TIME
        2,   1,    0,    1,   1,   0,             // message 1, by "one"
        2,   2,    0xe8, 7,   2,   1,   0,        // messages 3 and 4, a second later, by "two"
        5,   1,    0,    0,   0,   2,             // message 2, purged
        110, 132,  15,   236, 253, 77,  111, 208, // the chain
        125, 140,  68,   187, 200, 5,   213, 135, // the hash
    };
    struct rig r = rig_of_hours();
    struct grant g[4];
    for (int i = 0; i < 4; i++)
        (void)rig_send(&r, "x", NULL);
    assert_int_equal(rig_claim(&r, "one", 2, g), 2);
    assert_int_equal(rig_claim(&r, "two", 2, g + 2), 2);
    assert_int_equal(rig_word(&r, OP_ACK, &g[0]).reason, REASON_NONE);
    assert_int_equal(rig_word(&r, OP_RELEASE, &g[1]).reason, REASON_NONE);
    rig_tick(&r, 1000);
    rig_put_word(&r, OP_ACK, &g[2], machine_now(r.m));
    rig_put_word(&r, OP_ACK, &g[3], machine_now(r.m));
    rig_commit(&r);
    purge(&r);
    struct buf b = saved(r.m);
    assert_true(has_bytes(&b, golden, sizeof golden));
    buf_done(&b);
    rig_done(&r);
}

// An expiry that counts as a retry emits its message-outcome.
static void an_expiry_that_counts_as_a_retry_emits_its_message_outcome(void **state)
{
    (void)state;
    struct queue_config c = dead_letters(FAILURE_RETRY, 1);
    struct rig r = rig_with(&c);
    struct grant g;
    (void)rig_send(&r, "x", NULL);
    const enum outcome_status expected[] = {OUTCOME_RETRYING, OUTCOME_DEAD_LETTERED};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(rig_claim_lease(&r, "one", 1, 5000, &g), 1);
        rig_tick(&r, 6000);
        const struct event *e = rig_event(&r, EVENT_MESSAGE_OUTCOME, 0);
        assert_non_null(e);
        assert_int_equal(e->status, expected[i]);
        assert_int_equal(e->reason, REASON_LOCK_EXPIRED);
        assert_true(bytes_equal(event_worker(&r.events, e), bytes_str("one")));
        assert_int_equal(rig_events(&r, EVENT_MESSAGE_OUTCOME), 1);
    }
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(an_ack_leaves_time_worker_and_attempts),
        CASE(a_release_is_no_attempt),
        CASE(a_dead_letter_has_the_worker_that_failed_it),
        CASE(a_dead_letter_by_expiry_has_the_last_holder),
        CASE(a_dead_message_is_not_finished_until_it_is_redriven_or_purged),
        CASE(a_purge_of_a_long_backlog_is_one_row),
        CASE(a_purge_notes_records_by_their_number),
        CASE(equal_ends_with_consecutive_numbers_share_a_row),
        CASE(a_gap_in_the_numbers_or_in_time_begins_a_row),
        CASE(rows_end_with_the_retention),
        CASE(a_shorter_retention_holds_for_old_rows_and_a_longer_one_too),
        CASE(a_queue_can_be_born_with_the_setting),
        CASE(a_deleted_queue_keeps_nothing),
        CASE(past_the_limit_the_oldest_row_goes),
        CASE(a_changed_byte_is_found),
        CASE(the_stored_form_is_the_documented_one),
        CASE(an_expiry_that_counts_as_a_retry_emits_its_message_outcome),
    };
    return RUN(cases);
}
