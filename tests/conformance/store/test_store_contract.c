// SPDX-License-Identifier: Apache-2.0
// The contract of store.h, told once and run unchanged against every backend. A test is handed an
// empty store and nothing that says which one it is.
#include "support.h"

#include "base/memory.h"
#include "store/mem.h"
#include "store/meter.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RACERS 16

struct backend {
    const char *name;
    struct store *(*open)(const char *dir);
};

struct world {
    char dir[SCRATCH_MAX];
    struct store *store;
    struct store_answer a;
};

// Segments of 16 KiB, so that a test of a few hundred slots crosses several.
static const struct file_options small = {.segment_bytes = 16384, .step_bytes = 8192};

static struct store *open_mem(const char *dir)
{
    (void)dir;
    return store_mem_new();
}

static struct store *open_file(const char *dir)
{
    return file_open(dir, &small);
}

static struct store *open_meter_mem(const char *dir)
{
    return store_meter_take(open_mem(dir));
}

static struct store *open_meter_file(const char *dir)
{
    return store_meter_take(open_file(dir));
}

static const struct backend backends[] = {
    {"mem", open_mem},
    {"file", open_file},
    {"meter over mem", open_meter_mem},
    {"meter over file", open_meter_file},
};

static int world_setup(void **state)
{
    const struct backend *backend = *state;
    struct world *w = NEW(struct world);
    scratch_make(w->dir);
    w->store = backend->open(w->dir);
    store_answer_init(&w->a);
    *state = w;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *w = *state;
    store_answer_done(&w->a);
    store_free(w->store);
    scratch_remove(w->dir);
    memory_free(w);
    return 0;
}

static void put(struct world *w, const char *key, const char *text)
{
    ANSWERS(ERR_OK, &w->a, store_put(w->store, key, bytes_str(text), &w->a));
}

static void holds(struct world *w, const char *key, const char *text)
{
    ANSWERS(ERR_OK, &w->a, store_get(w->store, key, 0, SIZE_MAX, &w->a));
    NEED(bytes_equal(buf_bytes(&w->a.body), bytes_str(text)));
}

// The keys a list answered, joined by spaces.
static void lists(struct world *w, const char *prefix, const char *after, size_t limit, bool more,
                  const char *want)
{
    char got[4096] = "";
    ANSWERS(ERR_OK, &w->a, store_list(w->store, prefix, after, limit, &w->a));
    for (size_t i = 0; i < w->a.rows_len; i++) {
        size_t len = strlen(got);
        (void)snprintf(got + len, sizeof got - len, "%s%s", i ? " " : "", store_row_key(&w->a, i));
    }
    assert_string_equal(got, want);
    NEED(w->a.more == more);
}

// ---- objects

static void put_new_creates_a_key_once(void **state)
{
    struct world *w = *state;
    ANSWERS(ERR_OK, &w->a, store_put_new(w->store, "a/key", bytes_str("first"), &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_put_new(w->store, "a/key", bytes_str("second"), &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_put_new(w->store, "a/key", bytes_str("first"), &w->a));
    holds(w, "a/key", "first");
}

static void put_overwrites_and_get_sees_the_newest(void **state)
{
    struct world *w = *state;
    put(w, "key", "first, and longer");
    put(w, "key", "second");
    holds(w, "key", "second");
    ANSWERS(ERR_CONFLICT, &w->a, store_put_new(w->store, "key", bytes_str("third"), &w->a));
    holds(w, "key", "second");
}

static void get_of_a_missing_key_is_not_found(void **state)
{
    struct world *w = *state;
    ANSWERS(ERR_NOT_FOUND, &w->a, store_get(w->store, "none", 0, SIZE_MAX, &w->a));
    put(w, "some/key", "x");
    ANSWERS(ERR_NOT_FOUND, &w->a, store_get(w->store, "some", 0, SIZE_MAX, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_get(w->store, "some/key/x", 0, SIZE_MAX, &w->a));
}

static void get_serves_ranges_cut_at_the_end(void **state)
{
    struct world *w = *state;
    static const struct {
        size_t from, len;
        const char *want;
    } ranges[] = {
        {0, 3, "012"}, {3, 4, "3456"},           {8, 10, "89"}, {10, 5, ""}, {99, SIZE_MAX, ""},
        {0, 0, ""},    {2, SIZE_MAX, "23456789"}};
    put(w, "key", "0123456789");
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        ANSWERS(ERR_OK, &w->a, store_get(w->store, "key", ranges[i].from, ranges[i].len, &w->a));
        NEED(bytes_equal(buf_bytes(&w->a.body), bytes_str(ranges[i].want)));
    }
}

static void empty_and_large_objects_come_back_whole(void **state)
{
    struct world *w = *state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct bytes body = body_make(i, sizes[i]);
        ANSWERS(ERR_OK, &w->a, store_put(w->store, "key", body, &w->a));
        bytes_free(body);
        ANSWERS(ERR_OK, &w->a, store_get(w->store, "key", 0, SIZE_MAX, &w->a));
        NEED(body_is(buf_bytes(&w->a.body), i, sizes[i]));
    }
}

static void list_is_in_byte_order_across_folders(void **state)
{
    struct world *w = *state;
    static const char *const keys[] = {"b/z", "a0",    "a/b", "ab/c", "a-b",
                                       "a.b", "a/c/d", "B",   "a/a"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put(w, keys[i], "x");
    lists(w, "", NULL, 100, false, "B a-b a.b a/a a/b a/c/d a0 ab/c b/z");
    lists(w, "a", NULL, 100, false, "a-b a.b a/a a/b a/c/d a0 ab/c");
    lists(w, "a/", NULL, 100, false, "a/a a/b a/c/d");
    lists(w, "a/c", NULL, 100, false, "a/c/d");
    lists(w, "a/c/d", NULL, 100, false, "a/c/d");
    lists(w, "c", NULL, 100, false, "");
    lists(w, "no/such/folder/", NULL, 100, false, "");
}

static void list_goes_on_after_a_key(void **state)
{
    struct world *w = *state;
    static const char *const keys[] = {"a", "b-c", "b/1", "b/2", "b/3/x", "c"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put(w, keys[i], "x");
    lists(w, "", NULL, 2, true, "a b-c");
    lists(w, "", "b-c", 2, true, "b/1 b/2");
    lists(w, "", "b/2", 2, false, "b/3/x c");
    lists(w, "", "b/", 1, true, "b/1");
    lists(w, "", "b/2x", 10, false, "b/3/x c");
    lists(w, "b/", "b/1", 10, false, "b/2 b/3/x");
    lists(w, "b/", "a", 10, false, "b/1 b/2 b/3/x");
    lists(w, "b/", "c", 10, false, "");
    lists(w, "", "c", 10, false, "");
}

static void list_tells_sizes_and_times(void **state)
{
    struct world *w = *state;
    put(w, "key", "12345");
    struct interval put_at = w->a.time;
    ANSWERS(ERR_OK, &w->a, store_list(w->store, "key", NULL, 1, &w->a));
    NEED(w->a.rows_len == 1 && w->a.rows[0].size == 5);
    NEED(w->a.rows[0].modified.hi >= put_at.lo && w->a.rows[0].modified.lo <= w->a.time.hi);
    struct interval listed = w->a.rows[0].modified;
    ANSWERS(ERR_OK, &w->a, store_get(w->store, "key", 0, SIZE_MAX, &w->a));
    NEED(w->a.modified.lo == listed.lo && w->a.modified.hi == listed.hi);
}

static void deleted_keys_are_gone_and_missing_ones_are_fine(void **state)
{
    struct world *w = *state;
    static const char *const keys[] = {"d/1", "none", "d/2", "e", "e/none/none"};
    put(w, "d/1", "x");
    put(w, "d/2", "x");
    put(w, "e", "x");
    put(w, "kept", "x");
    ANSWERS(ERR_OK, &w->a, store_delete(w->store, keys, 5, &w->a));
    lists(w, "", NULL, 10, false, "kept");
    ANSWERS(ERR_OK, &w->a, store_put_new(w->store, "d/1", bytes_str("again"), &w->a));
    holds(w, "d/1", "again");
}

static void malformed_keys_are_refused_by_every_call(void **state)
{
    struct world *w = *state;
    char part[STORE_PART_MAX + 2], key[STORE_KEY_MAX + 2];
    memset(part, 'p', sizeof part);
    part[sizeof part - 1] = 0;
    memset(key, 'k', sizeof key);
    for (size_t i = 100; i < sizeof key; i += 100)
        key[i] = '/';
    key[sizeof key - 1] = 0;
    const char *const bad[] = {"",    "/",   "/a",  "a/",  "a//b",     ".",  "..", "a/.",
                               "./a", "a b", "a@b", "a\n", "\xc3\xa4", part, key,  "a/../b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ANSWERS(ERR_INVALID, &w->a, store_put_new(w->store, bad[i], BYTES_EMPTY, &w->a));
        NEED(w->a.why[0] != 0);
        ANSWERS(ERR_INVALID, &w->a, store_put(w->store, bad[i], BYTES_EMPTY, &w->a));
        ANSWERS(ERR_INVALID, &w->a, store_get(w->store, bad[i], 0, 1, &w->a));
        ANSWERS(ERR_INVALID, &w->a, store_delete(w->store, &bad[i], 1, &w->a));
        ANSWERS(ERR_INVALID, &w->a, store_append(w->store, bad[i], 1, BYTES_EMPTY, &w->a));
        ANSWERS(ERR_INVALID, &w->a, store_read_log(w->store, bad[i], 1, 1, &w->a));
    }
    part[STORE_PART_MAX] = 0;
    key[STORE_KEY_MAX] = 0;
    put(w, part, "longest part");
    put(w, key, "longest key");
    put(w, "..a/.b/c..", "dots");
    holds(w, key, "longest key");
    lists(w, "..a", NULL, 9, false, "..a/.b/c..");
}

static void a_key_is_never_a_folder_of_another(void **state)
{
    struct world *w = *state;
    put(w, "a/b", "x");
    ANSWERS(ERR_INVALID, &w->a, store_put_new(w->store, "a", BYTES_EMPTY, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_put(w->store, "a", BYTES_EMPTY, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_put_new(w->store, "a/b/c", BYTES_EMPTY, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_put(w->store, "a/b/c/d", BYTES_EMPTY, &w->a));
    holds(w, "a/b", "x");
    lists(w, "", NULL, 10, false, "a/b");
}

static void sizes_and_limits_out_of_range_are_refused(void **state)
{
    struct world *w = *state;
    struct bytes huge = bytes_of("", STORE_OBJECT_MAX + 1); // never read
    ANSWERS(ERR_LIMIT, &w->a, store_put_new(w->store, "k", huge, &w->a));
    ANSWERS(ERR_LIMIT, &w->a, store_append(w->store, "log", 1, huge, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_list(w->store, "", NULL, 0, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_append(w->store, "log", 0, BYTES_EMPTY, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_read_log(w->store, "log", 0, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_drop(w->store, "log", 2, 1, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_get(w->store, "k", 0, 1, &w->a));
}

// ---- logs

#define LOG "q/id/0/log"

static size_t slot_len(uint64_t slot)
{
    return (size_t)(slot * 37 % 300);
}

static void append_slots(struct world *w, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++) {
        struct bytes body = body_make(slot, slot_len(slot));
        ANSWERS(ERR_OK, &w->a, store_append(w->store, LOG, slot, body, &w->a));
        bytes_free(body);
    }
}

static void row_is_slot(struct world *w, size_t row, uint64_t slot)
{
    NEED(w->a.rows[row].first == slot && w->a.rows[row].last == slot);
    NEED(body_is(store_row_bytes(&w->a, row), slot, slot_len(slot)));
}

// Reads from first on until the end, and answers the slot after it.
static uint64_t read_on(struct world *w, uint64_t first, size_t bytes_max)
{
    uint64_t next = first;
    for (;;) {
        enum err e = store_read_log(w->store, LOG, next, bytes_max, &w->a);
        if (e == ERR_NOT_FOUND) return next;
        ANSWERS(ERR_OK, &w->a, e);
        NEED(w->a.rows_len > 0);
        for (size_t i = 0; i < w->a.rows_len; i++)
            row_is_slot(w, i, next + i);
        next += w->a.rows_len;
    }
}

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
}

static void read_log_serves_runs_in_order(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 500);
    NEED(read_on(w, 1, 100000) == 501);
    NEED(read_on(w, 1, 1) == 501);
    NEED(read_on(w, 333, 1000) == 501);
    append_slots(w, 501, 520);
    NEED(read_on(w, 501, 100000) == 521);
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, 100, 1, &w->a));
    NEED(w->a.rows_len == 1); // no room for more than the one that is owed
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, 100, 4096, &w->a));
    NEED(w->a.rows_len > 4 && w->a.body.len <= 4096);
}

static void any_slot_is_found_in_any_order(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 400);
    for (uint64_t i = 0; i < 800; i++) {
        uint64_t slot = 1 + i * 263 % 400;
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 500, &w->a));
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
    append_slots(w, 1, 500);
    uint64_t count = extents_cover(w, 1, 500, &first_end);
    NEED(count > 3);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first_end, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, 1, 1000, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, first_end, 1000, &w->a));
    NEED(read_on(w, first_end + 1, 5000) == 501);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first_end, &w->a));
    uint64_t second_end = 0;
    NEED(extents_cover(w, first_end + 1, 500, &second_end) == count - 1);
    append_slots(w, 501, 510);
    NEED(read_on(w, first_end + 1, 5000) == 511);
}

static void a_dropped_extent_in_the_middle_leaves_both_sides(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 500);
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 3, &w->a));
    uint64_t first = w->a.rows[1].first, last = w->a.rows[1].last;
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, first, last, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, first, 1000, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, last, 1000, &w->a));
    NEED(read_on(w, 1, 1000) == first);
    NEED(read_on(w, last + 1, 1000) == 501);
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 3, &w->a));
    NEED(w->a.rows[0].last == first - 1 && w->a.rows[1].first == last + 1);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first - 1, &w->a));
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 1, &w->a));
    NEED(w->a.rows[0].first == last + 1);
    NEED(read_on(w, last + 1, 1000) == 501);
}

static void a_dropped_slot_is_not_written_again_unseen(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 500);
    uint64_t first_end = 0;
    (void)extents_cover(w, 1, 500, &first_end);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, first_end, &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_append(w->store, LOG, 500, bytes_str("x"), &w->a));
    append_slots(w, 501, 501);
    NEED(read_on(w, 500, 1) == 502);
}

static void store_time_goes_forward_and_stamps_what_is_written(void **state)
{
    struct world *w = *state;
    struct interval before = {0, 0};
    for (uint64_t slot = 1; slot <= 20; slot++) {
        append_slots(w, slot, slot);
        struct interval during = w->a.time;
        NEED(during.lo >= before.lo && during.lo <= during.hi);
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 1, &w->a));
        NEED(w->a.rows[0].modified.hi >= during.lo && w->a.rows[0].modified.lo <= w->a.time.hi);
        before = during;
    }
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 20, 1, &w->a));
    NEED(w->a.rows[0].modified.hi >= before.lo && w->a.rows[0].modified.lo <= w->a.time.hi);
}

// ---- waiting

static void wait_gives_up_after_its_time(void **state)
{
    struct world *w = *state;
    int64_t start = clock_boot_ms();
    ANSWERS(ERR_NOT_FOUND, &w->a, store_wait(w->store, LOG, 1, 30, &w->a));
    NEED(clock_boot_ms() - start < DEADLINE_MS);
    ANSWERS(ERR_NOT_FOUND, &w->a, store_wait(w->store, LOG, 1, 0, &w->a));
    append_slots(w, 1, 1);
    ANSWERS(ERR_OK, &w->a, store_wait(w->store, LOG, 1, 0, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_wait(w->store, LOG, 2, 1, &w->a));
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
        while (waiter.seen < slot) // one at a time: each append has to wake it
            NEED(clock_boot_ms() - start < DEADLINE_MS);
    }
    (void)pthread_join(waiter.thread, NULL);
    NEED(waiter.seen == waiter.until);
}

// ---- races

struct racer {
    struct store *store;
    pthread_barrier_t *start;
    pthread_t thread;
    uint64_t id;
    uint64_t slot; // 0: race for a key
    uint64_t wins;
    enum err end;
};

static void *race_once(void *arg)
{
    struct racer *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    struct bytes body = body_make(me->id, 100);
    (void)pthread_barrier_wait(me->start);
    me->end = me->slot ? store_append(me->store, LOG, me->slot, body, &a)
                       : store_put_new(me->store, "race/key", body, &a);
    bytes_free(body);
    store_answer_done(&a);
    return NULL;
}

static void race(struct world *w, struct racer racers[RACERS], uint64_t slot,
                 void *(*run)(void *arg))
{
    pthread_barrier_t start;
    NEED(pthread_barrier_init(&start, NULL, RACERS) == 0);
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.store = w->store, .start = &start, .id = i, .slot = slot};
        NEED(pthread_create(&racers[i].thread, NULL, run, &racers[i]) == 0);
    }
    for (size_t i = 0; i < RACERS; i++)
        (void)pthread_join(racers[i].thread, NULL);
    (void)pthread_barrier_destroy(&start);
}

static const struct racer *only_winner(const struct racer racers[RACERS])
{
    const struct racer *winner = NULL;
    for (size_t i = 0; i < RACERS; i++) {
        NEED(racers[i].end == ERR_OK || racers[i].end == ERR_CONFLICT);
        if (racers[i].end != ERR_OK) continue;
        NEED(winner == NULL);
        winner = &racers[i];
    }
    NEED(winner != NULL);
    return winner;
}

static void of_sixteen_threads_that_create_a_key_one_wins(void **state)
{
    struct world *w = *state;
    static const char *const key = "race/key";
    for (int round = 0; round < 20; round++) {
        struct racer racers[RACERS];
        race(w, racers, 0, race_once);
        const struct racer *winner = only_winner(racers);
        ANSWERS(ERR_OK, &w->a, store_get(w->store, key, 0, SIZE_MAX, &w->a));
        NEED(body_is(buf_bytes(&w->a.body), winner->id, 100));
        ANSWERS(ERR_OK, &w->a, store_delete(w->store, &key, 1, &w->a));
    }
}

static void of_sixteen_threads_that_append_a_slot_one_wins(void **state)
{
    struct world *w = *state;
    for (uint64_t slot = 1; slot <= 20; slot++) {
        struct racer racers[RACERS];
        race(w, racers, slot, race_once);
        const struct racer *winner = only_winner(racers);
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 1, &w->a));
        NEED(body_is(store_row_bytes(&w->a, 0), winner->id, 100));
    }
}

#define WINS_EACH 20

// Appends until it has won often enough, each time at the slot after the one it lost or won.
static void *race_on(void *arg)
{
    struct racer *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    (void)pthread_barrier_wait(me->start);
    while (me->wins < WINS_EACH && me->end == ERR_OK) {
        uint8_t body[2] = {(uint8_t)me->id, (uint8_t)me->wins};
        enum err e = store_append(me->store, LOG, me->slot, bytes_of(body, 2), &a);
        if (e == ERR_OK)
            me->wins++;
        else if (e != ERR_CONFLICT)
            me->end = e;
        me->slot++;
    }
    store_answer_done(&a);
    return NULL;
}

static void what_many_threads_append_is_all_there_once(void **state)
{
    struct world *w = *state;
    struct racer racers[RACERS];
    race(w, racers, 1, race_on);
    uint8_t next[RACERS] = {0};
    for (uint64_t slot = 1; slot <= (uint64_t)RACERS * WINS_EACH; slot++) {
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 1, &w->a));
        struct bytes body = store_row_bytes(&w->a, 0);
        NEED(body.len == 2 && body.data[0] < RACERS);
        NEED(body.data[1] == next[body.data[0]]++); // in the order each wrote them
    }
    ANSWERS(ERR_NOT_FOUND, &w->a,
            store_read_log(w->store, LOG, (uint64_t)RACERS * WINS_EACH + 1, 1, &w->a));
}

static void a_handle_carried_through_fork_is_refused(void **state);

// ---- the list

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }

static const struct {
    const char *name;
    CMUnitTestFunction run;
} tests[] = {
    TEST(put_new_creates_a_key_once),
    TEST(put_overwrites_and_get_sees_the_newest),
    TEST(get_of_a_missing_key_is_not_found),
    TEST(get_serves_ranges_cut_at_the_end),
    TEST(empty_and_large_objects_come_back_whole),
    TEST(list_is_in_byte_order_across_folders),
    TEST(list_goes_on_after_a_key),
    TEST(list_tells_sizes_and_times),
    TEST(deleted_keys_are_gone_and_missing_ones_are_fine),
    TEST(malformed_keys_are_refused_by_every_call),
    TEST(a_key_is_never_a_folder_of_another),
    TEST(sizes_and_limits_out_of_range_are_refused),
    TEST(append_wins_a_slot_once),
    TEST(a_log_that_does_not_exist_is_empty),
    TEST(read_log_serves_runs_in_order),
    TEST(any_slot_is_found_in_any_order),
    TEST(large_and_empty_slots_come_back_whole),
    TEST(logs_do_not_see_each_other),
    TEST(extents_cover_every_slot_and_drop_removes_whole_ones),
    TEST(a_dropped_extent_in_the_middle_leaves_both_sides),
    TEST(a_dropped_slot_is_not_written_again_unseen),
    TEST(store_time_goes_forward_and_stamps_what_is_written),
    TEST(wait_gives_up_after_its_time),
    TEST(wait_wakes_when_the_slot_arrives),
    TEST(of_sixteen_threads_that_create_a_key_one_wins),
    TEST(of_sixteen_threads_that_append_a_slot_one_wins),
    TEST(what_many_threads_append_is_all_there_once),
    TEST(a_handle_carried_through_fork_is_refused),
};

static void use_in_child(void *arg)
{
    struct world *w = arg;
    const char *key = "key";
    ANSWERS(ERR_INVALID, &w->a, store_put_new(w->store, "k", bytes_str("x"), &w->a));
    NEED(strstr(w->a.why, "fork") != NULL);
    ANSWERS(ERR_INVALID, &w->a, store_put(w->store, "k", bytes_str("x"), &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_get(w->store, "k", 0, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_list(w->store, "", NULL, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_delete(w->store, &key, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_append(w->store, LOG, 2, bytes_str("x"), &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_read_log(w->store, LOG, 1, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_extents(w->store, LOG, 1, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_drop(w->store, LOG, 1, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_wait(w->store, LOG, 1, 1, &w->a));
    store_free(w->store); // must not take anything from the parent
}

static void a_handle_carried_through_fork_is_refused(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 1);
    child_ends_well(child_start(use_in_child, w));
    append_slots(w, 2, 3);
    NEED(read_on(w, 1, 1000) == 4);
    lists(w, "k", NULL, 9, false, "");
}

int main(void)
{
    enum { TESTS = sizeof tests / sizeof *tests, BACKENDS = sizeof backends / sizeof *backends };
    static struct CMUnitTest all[TESTS * BACKENDS];
    static char names[TESTS * BACKENDS][128];
    for (size_t i = 0; i < (size_t)TESTS * BACKENDS; i++) {
        const struct backend *backend = &backends[i / TESTS];
        (void)snprintf(names[i], sizeof names[i], "%s: %s", backend->name, tests[i % TESTS].name);
        all[i] = (struct CMUnitTest){names[i], tests[i % TESTS].run, world_setup, world_teardown,
                                     (void *)(uintptr_t)backend};
    }
    return cmocka_run_group_tests_name("store contract", all, NULL, NULL);
}
