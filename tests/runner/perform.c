// SPDX-License-Identifier: Apache-2.0
// Each kind of request is the store call of that name, and its answer is seen through the response.
#include "runner/perform.h"
#include "../unit/unit.h"
#include "store/mem.h"

#include <string.h>

struct world {
    struct store *store;
    struct perform_buffer p;
};

static int set_up(void **state)
{
    struct world *w = test_calloc(1, sizeof *w);
    w->store = store_mem_new();
    perform_buffer_init(&w->p);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    perform_buffer_done(&w->p);
    store_free(w->store);
    test_free(w);
    return 0;
}

static struct response ask(struct world *w, struct request r)
{
    r.id = 77;
    struct response response = perform(w->store, &r, &w->p);
    assert_int_equal(response.id, 77);
    return response;
}

static void append(struct world *w, uint64_t slot, const char *body)
{
    struct request r = {
        .kind = REQUEST_APPEND, .key = "a/log", .first = slot, .body = bytes_str(body)};
    assert_int_equal(ask(w, r).err, ERR_OK);
}

static void objects_are_made_read_listed_and_deleted(void **state)
{
    struct world *w = *state;
    struct request put = {.kind = REQUEST_PUT_NEW, .key = "a/one", .body = bytes_str("first")};
    assert_int_equal(ask(w, put).err, ERR_OK);
    assert_int_equal(ask(w, put).err, ERR_CONFLICT);
    put.key = "a/two";
    assert_int_equal(ask(w, put).err, ERR_OK);

    struct response got = ask(w, (struct request){.kind = REQUEST_GET, .key = "a/one"});
    assert_int_equal(got.err, ERR_OK);
    assert_true(bytes_equal(got.body, bytes_str("first")));
    assert_true(got.time.lo <= got.time.hi && got.time.lo != TIME_UNKNOWN);

    struct request list = {.kind = REQUEST_LIST, .key = "a/", .limit = 1};
    struct response page = ask(w, list);
    assert_int_equal(page.rows_len, 1);
    assert_string_equal(page.rows[0].key, "a/one");
    assert_true(page.more);
    list.after = "a/one";
    page = ask(w, list);
    assert_int_equal(page.rows_len, 1);
    assert_string_equal(page.rows[0].key, "a/two");

    struct request delete = {.kind = REQUEST_DELETE, .key = "a/one"};
    assert_int_equal(ask(w, delete).err, ERR_OK);
    got = ask(w, (struct request){.kind = REQUEST_GET, .key = "a/one"});
    assert_int_equal(got.err, ERR_NOT_FOUND);
    assert_int_equal(got.body.len, 0);            // nothing of the answer before
    delete.body = bytes_of("a/two\0a/three", 14); // several: the missing ones are fine
    assert_int_equal(ask(w, delete).err, ERR_OK);
    assert_int_equal(ask(w, (struct request){.kind = REQUEST_GET, .key = "a/two"}).err,
                     ERR_NOT_FOUND);
}

static void slots_are_appended_read_and_dropped(void **state)
{
    struct world *w = *state;
    append(w, 1, "one");
    append(w, 2, "two");
    append(w, 3, "three");
    struct request late = {
        .kind = REQUEST_APPEND, .key = "a/log", .first = 2, .body = bytes_str("again")};
    assert_int_equal(ask(w, late).err, ERR_CONFLICT);

    struct request read = {.kind = REQUEST_READ_LOG, .key = "a/log", .first = 2, .limit = 1000};
    struct response rows = ask(w, read);
    assert_int_equal(rows.err, ERR_OK);
    assert_true(rows.rows_len >= 1);
    assert_int_equal(rows.rows[0].first, 2);
    assert_true(bytes_equal(rows.rows[0].body, bytes_str("two")));
    read.first = 4;
    rows = ask(w, read);
    assert_int_equal(rows.err, ERR_NOT_FOUND);
    assert_int_equal(rows.rows_len, 0);

    struct request extents = {.kind = REQUEST_EXTENTS, .key = "a/log", .first = 1, .limit = 100};
    rows = ask(w, extents);
    assert_int_equal(rows.rows_len, 3);
    assert_int_equal(rows.rows[0].first, 1);
    struct request drop = {.kind = REQUEST_DROP, .key = "a/log", .first = 1, .last = 2};
    assert_int_equal(ask(w, drop).err, ERR_OK);
    rows = ask(w, extents);
    assert_int_equal(rows.rows_len, 1);
    assert_int_equal(rows.rows[0].first, 3);
}

static void room_for_rows_grows_with_the_answer(void **state)
{
    struct world *w = *state;
    for (uint64_t slot = 1; slot <= 200; slot++)
        append(w, slot, "x");
    struct request extents = {.kind = REQUEST_EXTENTS, .key = "a/log", .first = 200, .limit = 500};
    assert_int_equal(ask(w, extents).rows_len, 1);
    extents.first = 1;
    struct response all = ask(w, extents);
    assert_int_equal(all.rows_len, 200);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(all.rows[i].first, i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(objects_are_made_read_listed_and_deleted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(slots_are_appended_read_and_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(room_for_rows_grows_with_the_answer, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
