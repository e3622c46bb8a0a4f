// SPDX-License-Identifier: Apache-2.0
// The step function by hand: what is left of a journal that has ended, and which readers notice it.
#include "rig.h"

#include <string.h>

#define ENTRIES 23 // before the end; snapshots after every 4th

struct world {
    struct store *store;
    struct rig rig; // of the process that ended it
};

static int set_up(void **state)
{
    struct world *w = test_calloc(1, sizeof *w);
    w->store = store_mem_new();
    rig_holds = NULL;
    w->rig = rig_on(w->store);
    for (int i = 0; i < ENTRIES; i++)
        rig_commit(&w->rig, 'x');
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    rig_done(&w->rig);
    store_free(w->store);
    test_free(w);
    return 0;
}

static size_t count(struct world *w, const char *prefix)
{
    struct store_answer a;
    store_answer_init(&a);
    assert_int_equal(store_list(w->store, prefix, NULL, 1000, &a), ERR_OK);
    size_t rows = a.rows_len;
    store_answer_done(&a);
    return rows;
}

static size_t slots_left(struct world *w)
{
    return count(w, "q/test/0/log/");
}

static void grow_old(struct world *w)
{
    store_mem_step(w->store, rig_rules.retain_ms + 1000);
}

// Retries included.
static void settle(struct rig *r)
{
    do
        rig_settle(r);
    while (!journal_is_settled(r->journal) && rig_wait_for_retry(r));
}

// A round, and the entry it asks for.
static void finish_once(struct rig *r)
{
    collector_finish(r->collector, rig_store_time(r));
    rig_settle(r);
    if (!collector_wants_time(r->collector)) return;
    uint64_t ticket = ++rig_tickets;
    journal_touch(r->journal, ticket, TIME_NEVER, rig_store_time(r));
    rig_settle(r);
    assert_int_equal(rig_answer_to(r, ticket, NULL), ERR_OK);
    collector_finish(r->collector, rig_store_time(r));
    rig_settle(r);
}

// A process that does what can be done and leaves. True: nothing is left to do.
static bool visit(struct world *w)
{
    struct rig r = rig_on(w->store);
    rig_settle(&r);
    finish_once(&r);
    bool finished = collector_finished(r.collector);
    rig_done(&r);
    return finished;
}

static void assert_ended(struct rig *r)
{
    uint64_t ticket = rig_add(r, 'y', 1);
    settle(r);
    assert_int_equal(rig_answer_to(r, ticket, NULL), ERR_NOT_FOUND);
}

static void assert_a_newcomer_knows(struct world *w)
{
    struct rig r = rig_on(w->store);
    rig_settle(&r);
    assert_ended(&r);
    rig_done(&r);
}

static void of_a_journal_that_has_ended_hardly_anything_stays(void **state)
{
    struct world *w = *state;
    rig_end(&w->rig);
    grow_old(w);
    assert_true(visit(w));
    assert_true(slots_left(w) <= 2);
    assert_int_equal(count(w, "q/test/0/snap/"), 1);
    assert_int_equal(count(w, "q/test/0/floor/"), 1);
    assert_a_newcomer_knows(w);
}

static void all_names(struct world *w, struct buf *out)
{
    struct store_answer a;
    store_answer_init(&a);
    assert_int_equal(store_list(w->store, "q/test/0/", NULL, 1000, &a), ERR_OK);
    for (size_t i = 0; i < a.rows_len; i++)
        buf_put(out, bytes_str(store_row_key(&a, i)));
    store_answer_done(&a);
}

// It loads the last snapshot, and does not know that the deletion was before it.
static void a_second_round_adds_nothing(void **state)
{
    struct world *w = *state;
    CLEANUP(buf_done) struct buf before, after;
    buf_init(&before, 65536);
    buf_init(&after, 65536);
    rig_end(&w->rig);
    grow_old(w);
    assert_true(visit(w));
    all_names(w, &before);
    for (int i = 0; i < 3; i++) {
        grow_old(w);
        assert_true(visit(w));
    }
    all_names(w, &after);
    assert_true(bytes_equal(buf_bytes(&before), buf_bytes(&after)));
    assert_a_newcomer_knows(w);
}

// The floor came up to it while it was alive: its snapshot there is full of what has ended.
static void an_end_right_over_the_floor_takes_its_snapshot_along(void **state)
{
    struct world *w = *state;
    rig_commit(&w->rig, 'x'); // the 24th, with a snapshot
    rig_end(&w->rig);
    grow_old(w);
    collector_start(w->rig.collector, rig_store_time(&w->rig));
    rig_settle(&w->rig);
    assert_int_equal(count(w, "q/test/0/floor/"), 1);
    assert_int_equal(count(w, "q/test/0/snap/"), 2);
    assert_true(visit(w));
    assert_int_equal(slots_left(w), 1); // the end itself
    assert_int_equal(count(w, "q/test/0/snap/"), 1);
    assert_int_equal(count(w, "q/test/0/floor/"), 1);
    assert_a_newcomer_knows(w);
}

static void the_last_snapshot_stays_until_there_is_one_of_the_end(void **state)
{
    struct world *w = *state;
    rig_commit(&w->rig, 'x');
    rig_end(&w->rig);
    grow_old(w);
    collector_start(w->rig.collector, rig_store_time(&w->rig));
    rig_settle(&w->rig);
    struct store_answer a;
    const char *keys[] = {"q/test/0/snap/00000000000000000025"};
    store_answer_init(&a);
    assert_int_equal(store_delete(w->store, keys, 1, &a), ERR_OK);
    store_answer_done(&a);
    assert_false(visit(w));
    assert_int_equal(count(w, "q/test/0/snap/"), 2);
    assert_true(visit(w));
    assert_int_equal(count(w, "q/test/0/snap/"), 1);
    assert_a_newcomer_knows(w);
}

static void nothing_goes_before_the_retention_has_passed(void **state)
{
    struct world *w = *state;
    rig_end(&w->rig);
    store_mem_step(w->store, rig_rules.retain_ms - 10000);
    assert_false(visit(w));
    assert_int_equal(slots_left(w), ENTRIES + 2); // its own is one
    store_mem_step(w->store, 20000);
    assert_true(visit(w));
    assert_true(slots_left(w) <= 2);
}

static void a_journal_that_goes_on_is_left_alone(void **state)
{
    struct world *w = *state;
    grow_old(w);
    struct request r;
    collector_finish(w->rig.collector, rig_store_time(&w->rig));
    assert_false(rig_take(&w->rig, &r));
    assert_false(visit(w));
    assert_int_equal(slots_left(w), ENTRIES);
    assert_int_equal(count(w, "q/test/0/floor/"), 0);
}

static void an_end_without_a_snapshot_gets_one_and_goes_later(void **state)
{
    struct world *w = *state;
    rig_end(&w->rig);
    struct store_answer a;
    const char *keys[] = {"q/test/0/snap/00000000000000000024"};
    store_answer_init(&a);
    assert_int_equal(store_delete(w->store, keys, 1, &a), ERR_OK);
    store_answer_done(&a);
    grow_old(w);
    bool finished = visit(w);
    for (int i = 0; i < 3 && !finished; i++) {
        grow_old(w);
        finished = visit(w);
    }
    assert_true(finished);
    assert_true(slots_left(w) <= 2);
    assert_a_newcomer_knows(w);
}

// The trap: the sleeper's put creates a slot that was dropped, and the store says "done".
static void a_writer_that_slept_since_before_the_end_writes_nothing(void **state)
{
    struct world *w = *state;
    struct rig sleeper = rig_on(w->store);
    rig_settle(&sleeper);
    uint64_t ticket = rig_add(&sleeper, 'y', 1);
    struct request put = rig_until_append(&sleeper);
    rig_end(&w->rig);
    grow_old(w);
    assert_true(visit(w));
    rig_serve(&sleeper, &put, FATE_OK);
    rig_no_answer_yet(&sleeper);
    rig_settle(&sleeper);
    assert_int_equal(rig_answer_to(&sleeper, ticket, NULL), ERR_NOT_FOUND);
    assert_a_newcomer_knows(w);
    rig_done(&sleeper);
}

static void a_reader_in_mid_replay_starts_over(void **state)
{
    struct world *w = *state;
    for (int stop = 0; stop < 12; stop++) {
        struct store *s = store_mem_new();
        struct world one = {.store = s, .rig = rig_on(s)};
        for (int i = 0; i < ENTRIES; i++)
            rig_commit(&one.rig, 'x');
        struct rig reader = rig_on(s);
        struct request r;
        for (int i = 0; i < stop && rig_take(&reader, &r); i++)
            rig_serve(&reader, &r, FATE_OK);
        rig_end(&one.rig);
        grow_old(&one);
        assert_true(visit(&one));
        settle(&reader);
        assert_ended(&reader);
        assert_false(journal_halted(reader.journal, NULL));
        rig_done(&reader);
        rig_done(&one.rig);
        store_free(s);
    }
    assert_int_equal(slots_left(w), ENTRIES);
}

// The finishing process dies at its n-th request, performed or not; the next ones finish it.
static void the_finishing_process_may_die_at_any_request(void **state)
{
    (void)state;
    bool dies = true;
    for (int at = 0; dies; at++) {
        struct store *s = store_mem_new();
        struct world w = {.store = s, .rig = rig_on(s)};
        for (int i = 0; i < ENTRIES; i++)
            rig_commit(&w.rig, 'x');
        rig_end(&w.rig);
        grow_old(&w);
        struct rig mortal = rig_on(s);
        struct request r;
        dies = false;
        for (int i = 0; !dies; i++) {
            if (!rig_take(&mortal, &r)) {
                if (collector_finished(mortal.collector)) break;
                if (collector_wants_time(mortal.collector)) {
                    journal_touch(mortal.journal, 1, TIME_NEVER, rig_store_time(&mortal));
                } else {
                    collector_finish(mortal.collector, rig_store_time(&mortal));
                }
                continue;
            }
            dies = i >= at;
            rig_serve(&mortal, &r, dies && at % 2 == 0 ? FATE_UNKNOWN : FATE_OK);
        }
        rig_done(&mortal);
        bool finished = visit(&w);
        for (int i = 0; i < 3 && !finished; i++) {
            grow_old(&w);
            finished = visit(&w);
        }
        assert_true(finished);
        assert_true(slots_left(&w) <= 4);
        assert_a_newcomer_knows(&w);
        rig_done(&w.rig);
        store_free(s);
    }
}

// False: it has finished.
static bool step(struct rig *r)
{
    struct request q;
    if (rig_take(r, &q)) {
        rig_serve(r, &q, FATE_OK);
    } else if (!journal_is_settled(r->journal)) {
        return rig_wait_for_retry(r);
    } else if (collector_finished(r->collector)) {
        return false;
    } else if (collector_wants_time(r->collector)) {
        journal_touch(r->journal, 1, TIME_NEVER, rig_store_time(r));
    } else {
        collector_finish(r->collector, rig_store_time(r));
    }
    return true;
}

static void two_may_finish_it_at_once(void **state)
{
    struct world *w = *state;
    rig_end(&w->rig);
    grow_old(w);
    struct rig a = rig_on(w->store), b = rig_on(w->store);
    for (int i = 0; i < RIG_LIMIT; i++) {
        if (i == RIG_LIMIT / 2) grow_old(w); // the entry of the one may be under the other's floor
        bool more = step(&a);
        if (i % 3 > 0 || !more) more = step(&b) || more;
        if (!more) break;
    }
    assert_true(collector_finished(a.collector) && collector_finished(b.collector));
    assert_true(slots_left(w) <= 3);
    assert_a_newcomer_knows(w);
    rig_done(&a);
    rig_done(&b);
}

// Its put was on its way for longer than anything is kept.
static void a_slot_that_comes_back_misleads_no_later_reader(void **state)
{
    struct world *w = *state;
    struct rig sleeper = rig_on(w->store);
    rig_settle(&sleeper);
    (void)rig_add(&sleeper, 'y', 1);
    struct request put = rig_until_append(&sleeper);
    rig_end(&w->rig);
    grow_old(w);
    assert_true(visit(w));
    rig_serve(&sleeper, &put, FATE_UNKNOWN_APPLIED);
    rig_done(&sleeper);
    assert_a_newcomer_knows(w);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(of_a_journal_that_has_ended_hardly_anything_stays),
        CASE(a_second_round_adds_nothing),
        CASE(an_end_right_over_the_floor_takes_its_snapshot_along),
        CASE(the_last_snapshot_stays_until_there_is_one_of_the_end),
        CASE(nothing_goes_before_the_retention_has_passed),
        CASE(a_journal_that_goes_on_is_left_alone),
        CASE(an_end_without_a_snapshot_gets_one_and_goes_later),
        CASE(a_writer_that_slept_since_before_the_end_writes_nothing),
        CASE(a_reader_in_mid_replay_starts_over),
        CASE(the_finishing_process_may_die_at_any_request),
        CASE(two_may_finish_it_at_once),
        CASE(a_slot_that_comes_back_misleads_no_later_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
