// SPDX-License-Identifier: Apache-2.0
// A page (@lock) that does not fit its segments, in an unchanged boot: stale, zeroed, removed, cut
// short, replaced, copied before or after the segments. No acknowledged slot is hidden, and no slot
// is given out twice.
#define _GNU_SOURCE // F_SET_RW_HINT
#include "support.h"

#include "os/file.h"
#include "store/file/page.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG   "q/log"
#define PAGE  LOG "/@lock"
#define FIRST 30 // slots appended before
#define MORE  25 // and after the page was saved

// Small segments: some of the cases have a page that knows of an older segment.
static const struct file_options options = {.segment_bytes = 1500, .step_bytes = 1000};

struct world {
    char dir[SCRATCH_MAX];
    char copy[SCRATCH_MAX];
    struct store *store;
    struct store_answer a;
};

static int world_setup(void **state)
{
    static struct world w;
    scratch_make_quick(w.dir);
    scratch_make_quick(w.copy);
    w.store = file_open(w.dir, &options);
    store_answer_init(&w.a);
    *state = &w;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *w = *state;
    store_free(w->store);
    store_answer_done(&w->a);
    scratch_remove(w->dir);
    scratch_remove(w->copy);
    return 0;
}

static void append_to(struct world *w, struct store *s, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++) {
        struct bytes body = body_make(slot, 40 + slot % 60);
        ANSWERS(ERR_OK, &w->a, store_append(s, LOG, slot, body, &w->a));
        bytes_free(body);
    }
}

static void holds(struct world *w, struct store *s, uint64_t last)
{
    for (uint64_t slot = 1; slot <= last; slot++) {
        ANSWERS(ERR_OK, &w->a, store_read_log(s, LOG, slot, 1, &w->a));
        NEED(body_is(store_row_bytes(&w->a, 0), slot, 40 + slot % 60));
    }
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, LOG, last + 1, 1, &w->a));
}

static void path_of(const struct world *w, const char *name, char path[SCRATCH_MAX + 64])
{
    scratch_path(path, SCRATCH_MAX + 64, w->dir, name);
}

static void page_load(const struct world *w, struct buf *to)
{
    char path[SCRATCH_MAX + 64];
    path_of(w, PAGE, path);
    buf_init(to, LOG_PAGE_LEN);
    NEED(file_read(path, to) == 0);
}

// In place: the file stays the same.
static void page_save(const struct world *w, struct bytes from)
{
    char path[SCRATCH_MAX + 64];
    path_of(w, PAGE, path);
    int fd = open(path, O_WRONLY);
    NEED(fd >= 0 && file_write_fd(fd, from) == 0 && close(fd) == 0);
}

// A process that comes now reads all, appends, and is understood by the next one.
static void goes_on(struct world *w, uint64_t last)
{
    struct store *s = file_open(w->dir, &options);
    holds(w, s, last);
    append_to(w, s, last + 1, last + MORE);
    store_free(s);
    s = file_open(w->dir, &options);
    holds(w, s, last + MORE);
    store_free(s);
}

static void a_page_of_any_age_hides_no_slot(void **state)
{
    struct world *w = *state;
    for (uint64_t age = 0; age <= MORE; age++) {
        struct buf page;
        append_to(w, w->store, 1, FIRST);
        page_load(w, &page);
        append_to(w, w->store, FIRST + 1, FIRST + age);
        store_free(w->store);
        page_save(w, buf_bytes(&page));
        buf_done(&page);
        goes_on(w, FIRST + age);
        scratch_remove(w->dir);
        scratch_make_quick(w->dir);
        w->store = file_open(w->dir, &options);
    }
}

static void a_stale_page_under_an_open_handle_hides_no_slot(void **state)
{
    struct world *w = *state;
    struct buf page;
    append_to(w, w->store, 1, FIRST);
    page_load(w, &page);
    append_to(w, w->store, FIRST + 1, FIRST + MORE);
    page_save(w, buf_bytes(&page));
    holds(w, w->store, FIRST + MORE);
    page_save(w, buf_bytes(&page));
    ANSWERS(ERR_CONFLICT, &w->a,
            store_append(w->store, LOG, FIRST + MORE, bytes_str("again"), &w->a));
    page_save(w, buf_bytes(&page));
    append_to(w, w->store, FIRST + MORE + 1, FIRST + 2 * MORE);
    holds(w, w->store, FIRST + 2 * MORE);
    buf_done(&page);
}

static void a_zeroed_page_is_rebuilt(void **state)
{
    struct world *w = *state;
    static const uint8_t zeros[LOG_PAGE_LEN];
    append_to(w, w->store, 1, FIRST);
    page_save(w, bytes_of(zeros, sizeof zeros));
    holds(w, w->store, FIRST);
    goes_on(w, FIRST);
}

// Ninety-six bytes of a tail, and its check, are zeros; the head of the page is whole.
static void a_page_whose_state_is_zeroed_is_rebuilt(void **state)
{
    struct world *w = *state;
    struct buf page;
    append_to(w, w->store, 1, FIRST);
    store_free(w->store);
    w->store = NULL;
    for (size_t from = 24; from < 512; from += 8) {
        page_load(w, &page);
        memset(page.data + from, 0, 512 - from);
        page_save(w, buf_bytes(&page));
        buf_done(&page);
        struct store *s = file_open(w->dir, &options);
        holds(w, s, FIRST);
        store_free(s);
    }
    goes_on(w, FIRST);
}

static void a_removed_page_is_rebuilt_at_the_next_look(void **state)
{
    struct world *w = *state;
    char path[SCRATCH_MAX + 64];
    append_to(w, w->store, 1, FIRST);
    path_of(w, PAGE, path);
    NEED(unlink(path) == 0);
    struct store *s = file_open(w->dir, &options);
    holds(w, s, FIRST); // a look, and no send
    ANSWERS(ERR_OK, &w->a, store_extents(s, LOG, 1, 100, &w->a));
    NEED(w->a.rows_len > 1);
    store_free(s);
    goes_on(w, FIRST);
    holds(w, w->store, FIRST + MORE); // the handle that was open all the time finds the new page
    append_to(w, w->store, FIRST + MORE + 1, FIRST + 2 * MORE);
    goes_on(w, FIRST + 2 * MORE);
}

static void a_page_that_was_replaced_is_left_by_open_handles(void **state)
{
    struct world *w = *state;
    char path[SCRATCH_MAX + 64], aside[SCRATCH_MAX + 64];
    struct buf page;
    append_to(w, w->store, 1, FIRST);
    page_load(w, &page);
    append_to(w, w->store, FIRST + 1, FIRST + MORE);
    path_of(w, PAGE, path);
    path_of(w, LOG "/@aside", aside);
    NEED(rename(path, aside) == 0 && file_write(path, buf_bytes(&page)) == 0);
    buf_done(&page);
    holds(w, w->store, FIRST + MORE);
    append_to(w, w->store, FIRST + MORE + 1, FIRST + 2 * MORE);
    goes_on(w, FIRST + 2 * MORE);
}

// SIGBUS would end the child.
static void use_cut_page(void *arg)
{
    struct world *w = arg;
    char path[SCRATCH_MAX + 64];
    static const off_t lengths[] = {0, 1, 100, 200, 300, 391, 1000, LOG_PAGE_LEN + 1};
    uint64_t last = FIRST;
    path_of(w, PAGE, path);
    struct store *s = file_open(w->dir, &options);
    holds(w, s, last);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        NEED(truncate(path, lengths[i]) == 0);
        holds(w, s, last);
        NEED(truncate(path, lengths[i]) == 0);
        ANSWERS(ERR_NOT_FOUND, &w->a, store_wait(s, LOG, last + 1, 5, &w->a));
        NEED(truncate(path, lengths[i]) == 0);
        append_to(w, s, last + 1, last + 1);
        last++;
        NEED(truncate(path, lengths[i]) == 0);
        ANSWERS(ERR_OK, &w->a, store_extents(s, LOG, 1, 10, &w->a));
        NEED(truncate(path, lengths[i]) == 0);
        ANSWERS(ERR_OK, &w->a, store_seal(s, LOG, &w->a));
    }
    holds(w, s, last);
    store_free(s);
}

static void a_page_cut_short_under_a_process_does_not_end_it(void **state)
{
    struct world *w = *state;
    append_to(w, w->store, 1, FIRST);
    store_free(w->store);
    w->store = NULL;
    (void)fflush(NULL);
    child_ends_well(child_start(use_cut_page, w));
    goes_on(w, FIRST + 8);
}

// An inode that left memory took the mark with it. The page is right, so no segment is begun.
static void a_lost_life_mark_begins_no_segment(void **state)
{
    struct world *w = *state;
    char path[SCRATCH_MAX + 64];
    append_to(w, w->store, 1, 3);
    store_free(w->store);
    w->store = NULL;
    path_of(w, PAGE, path);
    for (uint64_t slot = 4; slot <= 8; slot++) {
        uint64_t none = 0;
        int fd = open(path, O_RDWR);
        NEED(fd >= 0);
        (void)fcntl(fd, F_SET_RW_HINT, &none); // where it cannot be set there is no mark either
        NEED(close(fd) == 0);
        struct store *s = file_open(w->dir, &options);
        holds(w, s, slot - 1);
        append_to(w, s, slot, slot);
        ANSWERS(ERR_OK, &w->a, store_extents(s, LOG, 1, 10, &w->a));
        NEED(w->a.rows_len == 1);
        store_free(s);
    }
}

static void copy_file(const struct world *w, const char *name)
{
    char command[3 * SCRATCH_MAX + 100];
    (void)snprintf(command, sizeof command, "cp -a '%s/q/log/%s' '%s/q/log/'", w->dir, name,
                   w->copy);
    NEED(system(command) == 0); // NOLINT(cert-env33-c)
}

static void copy_segments(const struct world *w)
{
    char command[3 * SCRATCH_MAX + 100];
    (void)snprintf(command, sizeof command, "cp -a '%s'/q/log/@0* '%s/q/log/'", w->dir, w->copy);
    NEED(system(command) == 0); // NOLINT(cert-env33-c)
}

static void copy_holds(struct world *w, uint64_t least)
{
    struct store *s = file_open(w->copy, &options);
    uint64_t slot = 1;
    for (; store_read_log(s, LOG, slot, 1, &w->a) == ERR_OK; slot++)
        NEED(body_is(store_row_bytes(&w->a, 0), slot, 40 + slot % 60));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, LOG, slot, 1, &w->a));
    NEED(slot > least);
    append_to(w, s, slot, slot + MORE);
    holds(w, s, slot + MORE);
    store_free(s);
}

static void copy_make(struct world *w)
{
    char path[SCRATCH_MAX + 64];
    scratch_path(path, sizeof path, w->copy, "q");
    NEED(mkdir(path, 0700) == 0);
    scratch_path(path, sizeof path, w->copy, LOG);
    NEED(mkdir(path, 0700) == 0);
}

static void a_copy_with_the_page_first_has_all_slots(void **state)
{
    struct world *w = *state;
    copy_make(w);
    append_to(w, w->store, 1, FIRST);
    copy_file(w, "@lock");
    append_to(w, w->store, FIRST + 1, FIRST + MORE);
    copy_segments(w);
    copy_holds(w, FIRST + MORE);
}

// The page knows of slots that are not in the copy. They were never acknowledged by the copy.
static void a_copy_with_the_page_last_has_what_its_segments_have(void **state)
{
    struct world *w = *state;
    copy_make(w);
    append_to(w, w->store, 1, FIRST);
    copy_segments(w);
    append_to(w, w->store, FIRST + 1, FIRST + MORE);
    copy_file(w, "@lock");
    copy_holds(w, FIRST);
}

// As version 1 wrote it: 18 words, the tail at 32 and its check.
static void a_page_of_version_1_is_converted(void **state)
{
    struct world *w = *state;
    static const uint8_t old[LOG_PAGE_LEN] = {1};
    append_to(w, w->store, 1, FIRST);
    page_save(w, bytes_of(old, sizeof old));
    struct store *s = file_open(w->dir, &options);
    holds(w, s, FIRST);
    store_free(s);
    holds(w, w->store, FIRST);
    goes_on(w, FIRST);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_page_of_any_age_hides_no_slot),
        TEST(a_stale_page_under_an_open_handle_hides_no_slot),
        TEST(a_zeroed_page_is_rebuilt),
        TEST(a_page_whose_state_is_zeroed_is_rebuilt),
        TEST(a_removed_page_is_rebuilt_at_the_next_look),
        TEST(a_page_that_was_replaced_is_left_by_open_handles),
        TEST(a_page_cut_short_under_a_process_does_not_end_it),
        TEST(a_lost_life_mark_begins_no_segment),
        TEST(a_copy_with_the_page_first_has_all_slots),
        TEST(a_copy_with_the_page_last_has_what_its_segments_have),
        TEST(a_page_of_version_1_is_converted),
    };
    return cmocka_run_group_tests_name("file store and its page", tests, NULL, NULL);
}
