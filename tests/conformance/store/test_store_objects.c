// SPDX-License-Identifier: Apache-2.0
// The contract of objects: create once, overwrite, read, list, delete.
#include "contract.h"

#include <string.h>

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
    if (w->bucket) { // it cannot tell, and keeps both
        put(w, "a", "y");
        holds(w, "a/b", "x");
        lists(w, "", NULL, 10, false, "a a/b");
        return;
    }
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

int main(void)
{
    static const struct contract_test tests[] = {
        CONTRACT_TEST(put_new_creates_a_key_once),
        CONTRACT_TEST(put_overwrites_and_get_sees_the_newest),
        CONTRACT_TEST(get_of_a_missing_key_is_not_found),
        CONTRACT_TEST(get_serves_ranges_cut_at_the_end),
        CONTRACT_TEST(empty_and_large_objects_come_back_whole),
        CONTRACT_TEST(list_is_in_byte_order_across_folders),
        CONTRACT_TEST(list_goes_on_after_a_key),
        CONTRACT_TEST(list_tells_sizes_and_times),
        CONTRACT_TEST(deleted_keys_are_gone_and_missing_ones_are_fine),
        CONTRACT_TEST(malformed_keys_are_refused_by_every_call),
        CONTRACT_TEST(a_key_is_never_a_folder_of_another),
        CONTRACT_TEST(sizes_and_limits_out_of_range_are_refused),
    };
    return contract_run("store objects", tests, sizeof tests / sizeof *tests);
}
