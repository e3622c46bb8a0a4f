// SPDX-License-Identifier: Apache-2.0
// The contract of logs: append, read, extents, drop, wait.
#include "contract.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static void append_wins_a_slot_once(void **state)
{
    struct world *w = *state;
    ANSWERS(ERR_OK, &w->a, store_append(w->store, LOG, 1, bytes_str("first"), &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_append(w->store, LOG, 1, bytes_str("other"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_append(w->store, LOG, 2, bytes_str("second"), &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_append(w->store, LOG, 1, bytes_str("first"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, 1, 1, &w->a));
    NEED(w->a.rows_len == 1);
    NEED(bytes_equal(store_row_bytes(&w->a, 0), bytes_str("first")));
}

static void a_log_that_does_not_exist_is_empty(void **state)
{
    struct world *w = *state;
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, 1, 1000, &w->a));
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 10, &w->a));
    NEED(w->a.rows_len == 0);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, 10, &w->a));
    ANSWERS(ERR_OK, &w->a, store_seal(w->store, LOG, &w->a));
    append_slots(w, 1, 1);
}

static void read_log_serves_runs_in_order(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 300);
    NEED(read_on(w, 1, 100000) == 301);
    NEED(read_on(w, 1, 1) == 301);
    NEED(read_on(w, 222, 1000) == 301);
    append_slots(w, 301, 320);
    NEED(read_on(w, 301, 100000) == 321);
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, 100, 1, &w->a));
    NEED(w->a.rows_len == 1); // no room for more than the one that is owed
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, 100, 4096, &w->a));
    NEED((w->a.rows_len > 4 || w->bucket) && w->a.body.len <= 4096);
}

static void any_slot_is_found_in_any_order(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 400);
    for (uint64_t i = 0; i < 800; i++) {
        uint64_t slot = 1 + i * 263 % 400;
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 300, &w->a));
        row_is_slot(w, 0, slot);
    }
}

static void large_and_empty_slots_come_back_whole(void **state)
{
    struct world *w = *state;
    static const size_t sizes[] = {0, 1, 100000, 0, 5000000, 32, 65536};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (uint64_t i = 0; i < COUNT; i++) {
        struct bytes body = body_make(i, sizes[i]);
        ANSWERS(ERR_OK, &w->a, store_append(w->store, LOG, i + 1, body, &w->a));
        bytes_free(body);
    }
    for (uint64_t i = COUNT; i-- > 0;) {
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, i + 1, 1000, &w->a));
        NEED(body_is(store_row_bytes(&w->a, 0), i, sizes[i]));
    }
}

static void logs_do_not_see_each_other(void **state)
{
    struct world *w = *state;
    ANSWERS(ERR_OK, &w->a, store_append(w->store, "q/1/log", 1, bytes_str("one"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_append(w->store, "q/2/log", 1, bytes_str("two"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_put_new(w->store, "q/1/snap", bytes_str("snap"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, "q/1/log", 1, 10, &w->a));
    NEED(w->a.rows_len == 1 && bytes_equal(store_row_bytes(&w->a, 0), bytes_str("one")));
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, "q/2/log", 1, 10, &w->a));
    NEED(w->a.rows_len == 1 && bytes_equal(store_row_bytes(&w->a, 0), bytes_str("two")));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, "q/2/log", 2, 10, &w->a));
}

// Pages through the extents and checks that they are whole, ordered and cover first..last; answers
// the first's end.
static uint64_t extents_cover(struct world *w, uint64_t first, uint64_t last, uint64_t *first_end)
{
    uint64_t next = first, count = 0;
    do {
        ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, next, 3, &w->a));
        NEED(w->a.rows_len > 0 && w->a.rows_len <= 3);
        for (size_t i = 0; i < w->a.rows_len; i++) {
            NEED(w->a.rows[i].first == next && w->a.rows[i].last >= next);
            NEED(w->a.rows[i].size > 0 || w->a.rows[i].first == w->a.rows[i].last);
            if (count++ == 0) *first_end = w->a.rows[i].last;
            next = w->a.rows[i].last + 1;
        }
    } while (w->a.more);
    NEED(next == last + 1);
    return count;
}

static void extents_cover_every_slot_and_drop_removes_whole_ones(void **state)
{
    struct world *w = *state;
    uint64_t first_end = 0;
    append_slots(w, 1, 300);
    uint64_t count = extents_cover(w, 1, 300, &first_end);
    NEED(count > 3);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first_end, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, 1, 1000, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, first_end, 1000, &w->a));
    NEED(read_on(w, first_end + 1, 5000) == 301);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first_end, &w->a));
    uint64_t second_end = 0;
    NEED(extents_cover(w, first_end + 1, 300, &second_end) == count - 1);
    append_slots(w, 301, 310);
    NEED(read_on(w, first_end + 1, 5000) == 311);
}

static void a_dropped_extent_in_the_middle_leaves_both_sides(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 300);
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 3, &w->a));
    uint64_t first = w->a.rows[1].first, last = w->a.rows[1].last;
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, first, last, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, first, 1000, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, last, 1000, &w->a));
    NEED(read_on(w, 1, 1000) == first);
    NEED(read_on(w, last + 1, 1000) == 301);
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 3, &w->a));
    NEED(w->a.rows[0].last == first - 1 && w->a.rows[1].first == last + 1);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first - 1, &w->a));
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 1, &w->a));
    NEED(w->a.rows[0].first == last + 1);
    NEED(read_on(w, last + 1, 1000) == 301);
}

static void what_lies_before_a_part_can_be_dropped_without_what_follows(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 10);
    ANSWERS(ERR_OK, &w->a, store_seal(w->store, LOG, &w->a));
    ANSWERS(ERR_OK, &w->a, store_seal(w->store, LOG, &w->a)); // there is nothing to part yet
    NEED(read_on(w, 1, 1000) == 11);
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 100, &w->a));
    NEED(w->a.rows[w->a.rows_len - 1].last == 10);
    append_slots(w, 11, 12);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, 10, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, 10, 1000, &w->a));
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 100, &w->a));
    NEED(w->a.rows[0].first == 11);
    NEED(read_on(w, 11, 1000) == 13);
    append_slots(w, 13, 20);
    NEED(read_on(w, 11, 1000) == 21);
}

static void a_dropped_slot_is_not_written_again_unseen(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 300);
    uint64_t first_end = 0;
    (void)extents_cover(w, 1, 300, &first_end);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first_end, &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_append(w->store, LOG, 300, bytes_str("x"), &w->a));
    append_slots(w, 301, 301);
    NEED(read_on(w, 300, 1) == 302);
}

static void store_time_goes_forward_and_stamps_what_is_written(void **state)
{
    struct world *w = *state;
    struct interval earlier = {0, 0}, before = {0, 0};
    for (uint64_t slot = 1; slot <= 20; slot++) {
        append_slots(w, slot, slot);
        struct interval during = w->a.time;
        NEED(during.lo >= before.lo && during.lo <= during.hi);
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 1, &w->a));
        // An append whose answer was lost may have been made long before it was known of.
        NEED(w->a.rows[0].modified.hi >= before.lo && w->a.rows[0].modified.lo <= w->a.time.hi);
        earlier = before;
        before = during;
    }
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 20, 1, &w->a));
    NEED(w->a.rows[0].modified.hi >= earlier.lo && w->a.rows[0].modified.lo <= w->a.time.hi);
}

// A short wait has little patience with a store that fails: ask again.
static enum err wait_until_answered(struct world *w, uint64_t slot, int64_t wait_ms)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e;
    do {
        e = store_wait(w->store, LOG, slot, wait_ms, &w->a);
    } while (e == ERR_UNAVAILABLE && clock_boot_ms() < end);
    return e;
}

static void wait_gives_up_after_its_time(void **state)
{
    struct world *w = *state;
    int64_t start = clock_boot_ms();
    ANSWERS(ERR_NOT_FOUND, &w->a, wait_until_answered(w, 1, 30));
    NEED(clock_boot_ms() - start < DEADLINE_MS);
    ANSWERS(ERR_NOT_FOUND, &w->a, wait_until_answered(w, 1, 0));
    append_slots(w, 1, 1);
    ANSWERS(ERR_OK, &w->a, wait_until_answered(w, 1, 0));
    ANSWERS(ERR_NOT_FOUND, &w->a, wait_until_answered(w, 2, 1));
}

struct waiter {
    struct store *store;
    pthread_t thread;
    _Atomic uint64_t seen;
    uint64_t until;
};

static void *wait_for_each(void *arg)
{
    struct waiter *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    while (me->seen < me->until && clock_boot_ms() < end)
        if (store_wait(me->store, LOG, me->seen + 1, DEADLINE_MS, &a) == ERR_OK) me->seen++;
    store_answer_done(&a);
    return NULL;
}

static void wait_wakes_when_the_slot_arrives(void **state)
{
    struct world *w = *state;
    struct waiter waiter = {.store = w->store, .until = 50};
    NEED(pthread_create(&waiter.thread, NULL, wait_for_each, &waiter) == 0);
    int64_t start = clock_boot_ms();
    for (uint64_t slot = 1; slot <= waiter.until; slot++) {
        append_slots(w, slot, slot);
        while (waiter.seen < slot) { // one at a time: each append has to wake it
            NEED(clock_boot_ms() - start < DEADLINE_MS);
            (void)sched_yield();
        }
    }
    (void)pthread_join(waiter.thread, NULL);
    NEED(waiter.seen == waiter.until);
}

int main(void)
{
    static const struct contract_test tests[] = {
        CONTRACT_TEST(append_wins_a_slot_once),
        CONTRACT_TEST(a_log_that_does_not_exist_is_empty),
        CONTRACT_TEST(read_log_serves_runs_in_order),
        CONTRACT_TEST(any_slot_is_found_in_any_order),
        CONTRACT_TEST(large_and_empty_slots_come_back_whole),
        CONTRACT_TEST(logs_do_not_see_each_other),
        CONTRACT_TEST(extents_cover_every_slot_and_drop_removes_whole_ones),
        CONTRACT_TEST(a_dropped_extent_in_the_middle_leaves_both_sides),
        CONTRACT_TEST(what_lies_before_a_part_can_be_dropped_without_what_follows),
        CONTRACT_TEST(a_dropped_slot_is_not_written_again_unseen),
        CONTRACT_TEST(store_time_goes_forward_and_stamps_what_is_written),
        CONTRACT_TEST(wait_gives_up_after_its_time),
        CONTRACT_TEST(wait_wakes_when_the_slot_arrives),
    };
    return contract_run("store logs", tests, sizeof tests / sizeof *tests);
}
