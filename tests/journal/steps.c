// SPDX-License-Identifier: Apache-2.0
// The step function by hand: commits, races, unknown outcomes, patience, damage.
#include "rig.h"

#include <stdio.h>
#include <string.h>

static void op_on_an_empty_store_commits_in_slot_one(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    uint64_t ticket = rig_add(&a, 'x', 5);
    rig_settle(&a);
    int64_t value;
    assert_int_equal(rig_answer_to(&a, ticket, &value), ERR_OK);
    assert_int_equal(value, 5);
    assert_int_equal(journal_slot(a.journal), 1);
    rig_done(&a);
    store_free(s);
}

static void ops_that_arrive_during_a_put_share_the_next_entry(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    uint64_t first = rig_add(&a, 'x', 1);
    struct request put = rig_until_append(&a);
    uint64_t second = rig_add(&a, 'x', 1);
    uint64_t third = rig_add(&a, 'x', 1);
    rig_serve(&a, &put, FATE_OK);
    rig_settle(&a);
    assert_int_equal(rig_answer_to(&a, first, NULL), ERR_OK);
    assert_int_equal(rig_answer_to(&a, second, NULL), ERR_OK);
    assert_int_equal(rig_answer_to(&a, third, NULL), ERR_OK);
    assert_int_equal(journal_slot(a.journal), 2);
    rig_done(&a);
    store_free(s);
}

static void loser_of_a_race_commits_in_the_next_slot(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    uint64_t ticket = rig_add(&a, 'x', 1);
    struct request put = rig_until_append(&a);
    rig_commit(&b, 'x');
    rig_serve(&a, &put, FATE_OK);
    rig_settle(&a);
    int64_t value;
    assert_int_equal(rig_answer_to(&a, ticket, &value), ERR_OK);
    assert_int_equal(value, 2);
    assert_int_equal(journal_slot(a.journal), 2);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// Every sequence of four outcomes of the append, then good ones: the op takes effect once, and is
// answered done.
static void whatever_happens_to_the_append_it_takes_effect_once(void **state)
{
    (void)state;
    for (int choice = 0; choice < FATES * FATES * FATES * FATES; choice++) {
        struct store *s = store_mem_new();
        struct rig a = rig_on(s);
        uint64_t ticket = rig_add(&a, 'x', 1);
        int left = choice;
        for (int i = 0; i < RIG_LIMIT && journal_slot(a.journal) == 0; i++) {
            struct request r;
            if (!rig_take(&a, &r)) {
                assert_true(rig_wait_for_retry(&a));
                continue;
            }
            bool append = r.kind == REQUEST_APPEND;
            rig_serve(&a, &r, append ? (enum fate)(left % FATES) : FATE_OK);
            if (append) left /= FATES;
        }
        int64_t value;
        assert_int_equal(rig_answer_to(&a, ticket, &value), ERR_OK);
        assert_int_equal(value, 1);
        assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 1);
        rig_done(&a);
        store_free(s);
    }
}

static void patience_that_ends_in_flight_answers_unknown_and_resolving_goes_on(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_settle(&a);
    uint64_t ticket = rig_add_until(&a, 'x', 1, rig_store_time(&a).hi + 1000);
    struct request put = rig_until_append(&a);
    rig_serve(&a, &put, FATE_UNKNOWN);
    store_mem_step(s, 2000);
    journal_tick(a.journal, rig_store_time(&a));
    assert_int_equal(rig_answer_to(&a, ticket, NULL), ERR_UNKNOWN);
    rig_settle(&a);
    rig_no_answer_yet(&a);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 1);
    rig_done(&a);
    store_free(s);
}

static void store_that_refuses_for_good_is_not_waited_for(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_settle(&a);
    uint64_t first = rig_add(&a, 'x', 1);
    struct request put = rig_until_append(&a);
    uint64_t second = rig_add(&a, 'x', 1);
    rig_serve(&a, &put, FATE_UNKNOWN);
    put = rig_until_append(&a);
    rig_refuse(&a, &put, ERR_DENIED);
    assert_int_equal(rig_answer_to(&a, first, NULL), ERR_UNKNOWN); // perhaps it landed
    assert_int_equal(rig_answer_to(&a, second, NULL), ERR_DENIED); // it was never sent
    rig_done(&a);
    store_free(s);
}

static bool next_op_grows; // asked when an op is handed in

static bool does_grow(void *ctx, const struct op *op)
{
    (void)ctx, (void)op;
    return next_op_grows;
}

static uint64_t add_that_grows(struct rig *r, uint8_t name)
{
    next_op_grows = true;
    uint64_t ticket = rig_add(r, name, 1);
    next_op_grows = false;
    return ticket;
}

static void without_room_ops_that_grow_are_refused_and_all_others_go_on(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    rig_grows = does_grow;
    struct rig a = rig_on(s);
    rig_grows = NULL;
    rig_settle(&a);
    journal_hold(a.journal); // all in one entry
    uint64_t first = rig_add(&a, 'x', 1);
    uint64_t grows = add_that_grows(&a, 'y');
    uint64_t last = rig_add(&a, 'x', 1);
    journal_release(a.journal, a.now);
    struct request put = rig_until_append(&a);
    assert_true(put.grows);
    rig_refuse(&a, &put, ERR_LIMIT);
    assert_int_equal(rig_answer_to(&a, grows, NULL), ERR_LIMIT);
    put = rig_until_append(&a);
    assert_false(put.grows);
    rig_serve(&a, &put, FATE_OK);
    int64_t value = 0;
    assert_int_equal(rig_answer_to(&a, first, &value), ERR_OK);
    assert_int_equal(value, 1);
    assert_int_equal(rig_answer_to(&a, last, &value), ERR_OK);
    assert_int_equal(value, 2);
    rig_done(&a);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 2);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'y'), 0);
    store_free(s);
}

// It may be there already: refusing it for want of room would say that it is not.
static void an_entry_that_may_have_landed_is_not_refused_for_want_of_room(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    rig_grows = does_grow;
    struct rig a = rig_on(s);
    rig_grows = NULL;
    rig_settle(&a);
    uint64_t grows = add_that_grows(&a, 'y');
    struct request put = rig_until_append(&a);
    assert_true(put.grows);
    rig_serve(&a, &put, FATE_UNKNOWN_APPLIED);
    put = rig_until_append(&a);
    assert_false(put.grows);
    rig_refuse(&a, &put, ERR_LIMIT); // the disk itself is full: that says nothing of the first
    rig_no_answer_yet(&a);
    assert_true(rig_wait_for_retry(&a));
    rig_settle(&a);
    assert_int_equal(rig_answer_to(&a, grows, NULL), ERR_OK);
    rig_done(&a);
    store_free(s);
}

static void patience_that_ends_before_anything_was_sent_answers_unavailable(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_settle(&a);
    uint64_t ticket = rig_add_until(&a, 'x', 1, rig_store_time(&a).hi + 1000);
    struct request put = rig_until_append(&a);
    rig_serve(&a, &put, FATE_UNAVAILABLE);
    store_mem_step(s, 2000);
    journal_tick(a.journal, rig_store_time(&a));
    assert_int_equal(rig_answer_to(&a, ticket, NULL), ERR_UNAVAILABLE);
    rig_settle(&a);
    assert_int_equal(journal_slot(a.journal), 0);
    rig_done(&a);
    store_free(s);
}

// The process was paused while a request of its was under way: the answer comes before a tick.
static void op_is_not_proposed_after_its_deadline(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_settle(&a);
    uint64_t first = rig_add(&a, 'x', 1);
    struct request put = rig_until_append(&a);
    uint64_t second = rig_add_until(&a, 'x', 1, rig_store_time(&a).hi + 1000);
    store_mem_step(s, 2000);
    rig_serve(&a, &put, FATE_OK);
    assert_int_equal(rig_answer_to(&a, first, NULL), ERR_OK);
    assert_int_equal(rig_answer_to(&a, second, NULL), ERR_UNAVAILABLE);
    rig_settle(&a);
    assert_int_equal(journal_slot(a.journal), 1);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 1);
    rig_done(&a);
    store_free(s);
}

// One op is in flight, another waits for the next entry, and a sync waits for a read.
static void hastened_caller_is_answered_at_its_new_deadline(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_settle(&a);
    struct interval now = rig_store_time(&a);
    int64_t late = now.hi + 600000, early = now.lo + 1000;
    uint64_t sent = rig_add_until(&a, 'x', 1, late);
    struct request put = rig_until_append(&a);
    uint64_t queued = rig_add_until(&a, 'x', 1, late), sync = ++rig_tickets;
    journal_sync(a.journal, sync, late, now);
    uint64_t patient = rig_add_until(&a, 'x', 1, late);
    journal_hasten(a.journal, sent, early);
    journal_hasten(a.journal, queued, early);
    journal_hasten(a.journal, sync, early);
    assert_int_equal(journal_wake_at(a.journal), early);
    store_mem_step(s, 1000);
    journal_tick(a.journal, rig_store_time(&a));
    assert_int_equal(rig_answer_to(&a, queued, NULL), ERR_UNAVAILABLE);
    assert_int_equal(rig_answer_to(&a, sync, NULL), ERR_UNAVAILABLE);
    assert_int_equal(rig_answer_to(&a, sent, NULL), ERR_UNKNOWN);
    rig_no_answer_yet(&a);
    journal_hasten(a.journal, sent, early); // its answer stays the only one
    assert_int_equal(journal_wake_at(a.journal), late);
    rig_serve(&a, &put, FATE_OK);
    rig_settle(&a);
    assert_int_equal(rig_answer_to(&a, patient, NULL), ERR_OK);
    assert_int_equal(rig_value_seen_by_a_newcomer(s, 'x'), 2);
    rig_done(&a);
    store_free(s);
}

// The time of the handle stands still then. Deadlines count by the clock as it is.
static void clock_that_is_set_back_refuses_no_op(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_settle(&a);
    store_mem_step(s, 600000);
    rig_commit(&a, 'x');
    store_mem_step(s, -600000);
    for (int i = 0; i < 3; i++) {
        uint64_t ticket = rig_add_until(&a, 'x', 1, rig_store_time(&a).hi + 1000);
        journal_tick(a.journal, rig_store_time(&a));
        rig_settle(&a);
        assert_int_equal(rig_answer_to(&a, ticket, NULL), ERR_OK);
    }
    rig_done(&a);
    store_free(s);
}

static void op_too_large_for_any_entry_is_refused(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_settle(&a);
    struct bytes body = bytes_of(memory_zeroed(1, JOURNAL_OP_MAX + 1), JOURNAL_OP_MAX + 1);
    struct op op = {.kind = OP_KIND_MACHINE, .payload = body};
    journal_submit(a.journal, 7, op, TIME_NEVER, a.now);
    assert_int_equal(rig_answer_to(&a, 7, NULL), ERR_LIMIT);
    bytes_free(body);
    rig_done(&a);
    store_free(s);
}

static void sync_sees_what_others_committed_before_it(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    rig_settle(&a);
    for (int i = 0; i < 7; i++)
        rig_commit(&b, 'x');
    journal_sync(a.journal, 99, TIME_NEVER, rig_store_time(&a));
    rig_settle(&a);
    assert_int_equal(rig_answer_to(&a, 99, NULL), ERR_OK);
    assert_int_equal(journal_slot(a.journal), 7);
    assert_true(journal_digest(a.journal) == journal_digest(b.journal));
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

#define LOG "q/test/0/log/0000000000000000000"

// Performs requests until the handle has halted.
static void until_halted(struct rig *r, const char **why)
{
    for (int i = 0; i < RIG_LIMIT && !journal_halted(r->journal, why); i++) {
        rig_settle(r);
        if (!journal_halted(r->journal, why)) assert_true(rig_wait_for_retry(r));
    }
    assert_true(journal_halted(r->journal, why));
    assert_non_null(*why);
}

// Lets a halted handle look again, this many times.
static void look_again(struct rig *r, int times)
{
    for (int i = 0; i < times; i++) {
        assert_true(rig_wait_for_retry(r));
        rig_settle(r);
    }
}

static void halts(struct store *s, const char *read)
{
    struct rig b = rig_on(s);
    uint64_t ticket = rig_add(&b, 'x', 1);
    const char *why = NULL;
    until_halted(&b, &why);
    assert_ptr_equal(strstr(why, read), why);
    assert_int_equal(rig_answer_to(&b, ticket, NULL), ERR_CORRUPT);
    for (int i = 0; i < 12; i++) { // and stays so, however often it looks again
        look_again(&b, 1);
        ticket = rig_add(&b, 'x', 1);
        assert_int_equal(rig_answer_to(&b, ticket, NULL), ERR_CORRUPT);
    }
    rig_done(&b);
}

// Changes a byte of what the request reads, as a bad connection does.
static void serve_wrongly(struct rig *r, const struct request *request)
{
    struct response right = perform(r->store, request, &r->performance);
    assert_true(right.rows_len > 0);
    struct response_row row = right.rows[0];
    row.body = bytes_copy(row.body);
    ((uint8_t *)(uintptr_t)row.body.data)[row.body.len / 2] ^= 1;
    right.rows = &row;
    right.rows_len = 1;
    journal_respond(r->journal, &right, r->now);
    bytes_free(row.body);
}

static struct request next_read(struct rig *r, uint64_t slot)
{
    struct request request;
    for (int i = 0; i < RIG_LIMIT; i++) {
        if (!rig_take(r, &request)) {
            assert_true(rig_wait_for_retry(r));
            continue;
        }
        if (request.kind == REQUEST_READ_LOG && request.first == slot) return request;
        rig_serve(r, &request, FATE_OK);
    }
    fail_msg("the slot was not read");
    return request;
}

static void wrong_answer_is_asked_again_on_a_fresh_connection(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s), b = rig_on(s);
    rig_commit(&a, 'x');
    rig_settle(&b);
    rig_commit(&b, 'x');
    rig_commit(&a, 'x');
    uint64_t ticket = rig_add(&b, 'x', 1);
    for (int i = 0; i < 2; i++) {
        struct request read = next_read(&b, 3);
        serve_wrongly(&b, &read);
        assert_false(journal_halted(b.journal, NULL));
        read = next_read(&b, 2); // the last slot that it folded
        assert_true(read.fresh);
        rig_serve(&b, &read, FATE_OK);
    }
    struct request append = rig_until_append(&b);
    rig_serve(&b, &append, FATE_OK);
    assert_int_equal(rig_answer_to(&b, ticket, NULL), ERR_OK);
    assert_int_equal(journal_slot(b.journal), 4);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void halted_handle_goes_on_when_the_store_is_sound(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s), b = rig_on(s);
    struct journal_owner owner = {.token = 1};
    rig_settle(&b);
    journal_own(b.journal, 900, 0, &owner, TIME_NEVER, b.now);
    rig_settle(&b);
    assert_int_equal(rig_answer_to(&b, 900, NULL), ERR_OK);
    rig_commit(&a, 'x');
    uint64_t ticket = rig_add(&b, 'x', 1);
    for (int i = 0; i < 3; i++) {
        struct request read = next_read(&b, 2);
        serve_wrongly(&b, &read);
    }
    const char *why = NULL;
    assert_true(journal_halted(b.journal, &why));
    assert_string_equal(why, "slot 2 of q/test/0: the entry fails its checksum");
    assert_false(journal_is_owner(b.journal));
    assert_int_equal(rig_answer_to(&b, ticket, NULL), ERR_UNKNOWN); // its append was refused
    look_again(&b, 1);
    assert_false(journal_halted(b.journal, NULL));
    assert_true(journal_is_owner(b.journal)); // no other writer became the owner
    rig_commit(&b, 'x');
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// The store loses the last slots. The reader finds no contradiction, but a slot that it folded.
static void handle_does_not_go_on_without_a_slot_that_it_folded(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s), b = rig_on(s);
    rig_commit(&a, 'x');
    rig_commit(&a, 'x');
    rig_settle(&b);
    journal_sync(b.journal, 901, TIME_NEVER, rig_store_time(&b));
    struct request read = next_read(&b, 3);
    const char *const last[] = {LOG "2"};
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_delete(s, last, 1, &answer), ERR_OK);
    store_answer_done(&answer);
    rig_refuse(&b, &read, ERR_CORRUPT);
    const char *why = NULL;
    until_halted(&b, &why);
    assert_string_equal(
        why, "slot 2 of q/test/0: the slot is gone, and what the store has does not continue it");
    assert_int_equal(rig_answer_to(&b, 901, NULL), ERR_CORRUPT);
    look_again(&b, 8);
    assert_true(journal_halted(b.journal, NULL));
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void damaged_slot_halts_and_commits_nothing(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    rig_commit(&a, 'x');
    rig_overwrite(s, LOG "1", bytes_str("not an entry"));
    halts(s, "slot 1 of q/test/0: ");
    rig_done(&a);
    store_free(s);
}

static void replaced_slot_breaks_the_chain_and_halts(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct store *other = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(other);
    rig_commit(&a, 'x');
    rig_commit(&a, 'x');
    rig_commit(&b, 'y');
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_get(other, LOG "1", 0, SIZE_MAX, &answer), ERR_OK);
    rig_overwrite(s, LOG "1", buf_bytes(&answer.body));
    store_answer_done(&answer);
    halts(s, "slot 2 of q/test/0: ");
    rig_done(&a);
    rig_done(&b);
    store_free(s);
    store_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(op_on_an_empty_store_commits_in_slot_one),
        cmocka_unit_test(ops_that_arrive_during_a_put_share_the_next_entry),
        cmocka_unit_test(loser_of_a_race_commits_in_the_next_slot),
        cmocka_unit_test(whatever_happens_to_the_append_it_takes_effect_once),
        cmocka_unit_test(patience_that_ends_in_flight_answers_unknown_and_resolving_goes_on),
        cmocka_unit_test(store_that_refuses_for_good_is_not_waited_for),
        cmocka_unit_test(without_room_ops_that_grow_are_refused_and_all_others_go_on),
        cmocka_unit_test(an_entry_that_may_have_landed_is_not_refused_for_want_of_room),
        cmocka_unit_test(patience_that_ends_before_anything_was_sent_answers_unavailable),
        cmocka_unit_test(op_is_not_proposed_after_its_deadline),
        cmocka_unit_test(hastened_caller_is_answered_at_its_new_deadline),
        cmocka_unit_test(clock_that_is_set_back_refuses_no_op),
        cmocka_unit_test(op_too_large_for_any_entry_is_refused),
        cmocka_unit_test(sync_sees_what_others_committed_before_it),
        cmocka_unit_test(damaged_slot_halts_and_commits_nothing),
        cmocka_unit_test(replaced_slot_breaks_the_chain_and_halts),
        cmocka_unit_test(wrong_answer_is_asked_again_on_a_fresh_connection),
        cmocka_unit_test(halted_handle_goes_on_when_the_store_is_sound),
        cmocka_unit_test(handle_does_not_go_on_without_a_slot_that_it_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
