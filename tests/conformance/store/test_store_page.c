// SPDX-License-Identifier: Apache-2.0
// A page (@lock) that does not fit its segments, in an unchanged boot: stale, zeroed, removed, cut
// short, replaced, copied before or after the segments. No acknowledged slot is hidden, and no slot
// is given out twice.
#define _GNU_SOURCE // F_SET_RW_HINT
#include "log_world.h"

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

#define FIRST 30 // slots appended before
#define MORE  25 // and after the page was saved

// Small segments: some of the cases have a page that knows of an older segment.
static const struct file_options options = {.segment_bytes = 1500, .step_bytes = 1000};

static char copy_dir[SCRATCH_MAX];

static int world_setup(void **state)
{
    static struct world w;
    world_start(&w, &options);
    scratch_make_quick(copy_dir);
    *state = &w;
    return 0;
}

static int world_teardown(void **state)
{
    world_end(*state);
    scratch_remove(copy_dir);
    return 0;
}

static size_t len_of(uint64_t slot)
{
    return 40 + slot % 60;
}

static void append_to(struct world *w, struct store *s, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++)
        world_append(w, s, slot, slot, len_of(slot));
}

static void holds(struct world *w, struct store *s, uint64_t last)
{
    for (uint64_t slot = 1; slot <= last; slot++)
        world_holds(w, s, slot, slot, len_of(slot));
    world_ends(w, s, last);
}

static void page_load(const struct world *w, struct buf *to)
{
    world_load(w, PAGE, to);
}

static void page_save(const struct world *w, struct bytes from)
{
    world_save(w, PAGE, from);
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
    char path[PATH_MAX_LEN];
    append_to(w, w->store, 1, FIRST);
    world_path(w, PAGE, path);
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
    char path[PATH_MAX_LEN], aside[PATH_MAX_LEN];
    struct buf page;
    append_to(w, w->store, 1, FIRST);
    page_load(w, &page);
    append_to(w, w->store, FIRST + 1, FIRST + MORE);
    world_path(w, PAGE, path);
    world_path(w, LOG "/@aside", aside);
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
    char path[PATH_MAX_LEN];
    static const off_t lengths[] = {0, 1, 100, 200, 300, 391, 1000, LOG_PAGE_LEN + 1};
    uint64_t last = FIRST;
    world_path(w, PAGE, path);
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
    char path[PATH_MAX_LEN];
    append_to(w, w->store, 1, 3);
    store_free(w->store);
    w->store = NULL;
    world_path(w, PAGE, path);
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

static struct file_sys rebuilding; // of the process that finds no page
static struct {
    struct world *world;
    struct store *store; // NULL: it has not begun
    struct bytes page;
    uint64_t next; // the slot that it appends next
} other;

static void other_appends(void)
{
    append_to(other.world, other.store, other.next, other.next);
    other.next++;
}

// Another process was about to put page 1. It does so now, and appends to the log by it.
static void other_begins(void)
{
    char path[PATH_MAX_LEN];
    if (other.store) return;
    world_path(other.world, PAGE ".1", path);
    NEED(file_write(path, other.page) == 0);
    other.store = file_open(other.world->dir, &options);
    other_appends();
}

static bool names(const char *path, const char *name)
{
    return strcmp(path, name) == 0;
}

static int rebuilding_mkdir(int dir, const char *path, mode_t mode)
{
    if (names(path, LOG "/" DISK_FRESH ".1")) other_begins();
    return file_sys_linux.mkdir(dir, path, mode);
}

static int rebuilding_link(int dir, const char *from, const char *to)
{
    if (names(to, PAGE ".1")) other_begins();
    if (names(to, PAGE ".2")) other_appends(); // this process has read the segments before
    return file_sys_linux.link(dir, from, to);
}

// The page is gone, and a process has made the folder that fences it. Before that process puts the
// next page, this one finds segments and no page.
static void a_page_that_two_processes_replace_loses_no_slot(void **state)
{
    struct world *w = *state;
    struct buf page;
    char path[PATH_MAX_LEN];
    append_to(w, w->store, 1, FIRST);
    page_load(w, &page);
    store_free(w->store);
    world_path(w, PAGE, path);
    NEED(unlink(path) == 0);
    world_path(w, LOG "/" DISK_FRESH, path);
    NEED(mkdir(path, 0700) == 0);
    other.world = w;
    other.store = NULL;
    other.page = buf_bytes(&page);
    other.next = FIRST + 1;
    rebuilding = file_sys_linux;
    rebuilding.mkdir = rebuilding_mkdir;
    rebuilding.link = rebuilding_link;
    struct file_options mine = options;
    mine.sys = &rebuilding;
    w->store = file_open(w->dir, &mine);
    struct store_answer found;
    store_answer_init(&found);
    ANSWERS(ERR_OK, &found, store_read_log(w->store, LOG, 1, 1, &found));
    store_answer_done(&found);
    NEED(other.store != NULL);
    if (other.next == FIRST + 2) other_appends(); // this process has put no page 2
    holds(w, w->store, FIRST + 2);
    ANSWERS(ERR_CONFLICT, &w->a, store_append(w->store, LOG, FIRST + 2, bytes_str("again"), &w->a));
    store_free(other.store);
    buf_done(&page);
    goes_on(w, FIRST + 2);
}

static struct log_state page_state(const struct world *w)
{
    static struct disk disk = {.sys = &file_sys_linux};
    char path[PATH_MAX_LEN];
    struct log_look look;
    world_path(w, PAGE, path);
    int fd = open(path, O_RDWR);
    NEED(fd >= 0);
    struct log_page *p = log_page_new(&disk, fd, 0);
    NEED(p && log_page_look(p, &look) == LOG_PAGE_GOOD);
    log_page_drop(p);
    return look.state;
}

// The page went to disk while an append was under way. The append ended and more followed; then the
// file system was mounted again. Where the mark cannot be set, the page does not show its age.
static void a_stale_note_of_a_write_under_way_zeroes_no_slot(void **state)
{
    struct world *w = *state;
    uint8_t image[LOG_PAGE_LEN];
    append_to(w, w->store, 1, 3);
    struct log_state s = page_state(w);
    append_to(w, w->store, 4, 6);
    struct log_state now = page_state(w);
    NEED(now.tail.segment == s.tail.segment && now.tail.offset > s.tail.offset);
    store_free(w->store);
    w->store = NULL;
    s.busy_end = now.tail.offset;
    s.marked = 0;
    s.file = 0; // as a page before its first use
    log_page_image(&s, image);
    page_save(w, bytes_of(image, sizeof image));
    goes_on(w, 6);
}

static void copy_file(const struct world *w, const char *name)
{
    char command[3 * SCRATCH_MAX + 100];
    (void)snprintf(command, sizeof command, "cp -a '%s/q/log/%s' '%s/q/log/'", w->dir, name,
                   copy_dir);
    NEED(system(command) == 0); // NOLINT(cert-env33-c)
}

static void copy_segments(const struct world *w)
{
    char command[3 * SCRATCH_MAX + 100];
    (void)snprintf(command, sizeof command, "cp -a '%s'/q/log/@0* '%s/q/log/'", w->dir, copy_dir);
    NEED(system(command) == 0); // NOLINT(cert-env33-c)
}

static void copy_holds(struct world *w, uint64_t least)
{
    struct store *s = file_open(copy_dir, &options);
    uint64_t slot = 1;
    for (; store_read_log(s, LOG, slot, 1, &w->a) == ERR_OK; slot++)
        NEED(body_is(store_row_bytes(&w->a, 0), slot, len_of(slot)));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, LOG, slot, 1, &w->a));
    NEED(slot > least);
    append_to(w, s, slot, slot + MORE);
    holds(w, s, slot + MORE);
    store_free(s);
}

static void copy_make(void)
{
    char path[PATH_MAX_LEN];
    scratch_path(path, sizeof path, copy_dir, "q");
    NEED(mkdir(path, 0700) == 0);
    scratch_path(path, sizeof path, copy_dir, LOG);
    NEED(mkdir(path, 0700) == 0);
}

static void a_copy_with_the_page_first_has_all_slots(void **state)
{
    struct world *w = *state;
    copy_make();
    append_to(w, w->store, 1, FIRST);
    copy_file(w, "@lock");
    append_to(w, w->store, FIRST + 1, FIRST + MORE);
    copy_segments(w);
    copy_holds(w, FIRST + MORE);
}

static void copy_is_refused(struct world *w)
{
    struct store *s = file_open(copy_dir, &options);
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(s, LOG, 1, 1, &w->a));
    ANSWERS(ERR_CORRUPT, &w->a, store_append(s, LOG, FIRST + 1, bytes_str("x"), &w->a));
    store_free(s);
}

// The page knows of slots that are not in the copy. Without the page, the copy is what it has.
static void a_copy_whose_page_is_ahead_is_corrupt(void **state)
{
    struct world *w = *state;
    char path[PATH_MAX_LEN];
    copy_make();
    append_to(w, w->store, 1, FIRST);
    copy_segments(w);
    append_to(w, w->store, FIRST + 1, FIRST + MORE);
    copy_file(w, "@lock");
    copy_is_refused(w);
    copy_is_refused(w); // the first refusal has changed nothing
    scratch_path(path, sizeof path, copy_dir, LOG "/@lock");
    NEED(unlink(path) == 0);
    copy_holds(w, FIRST);
}

// As a full disk leaves it.
static void a_copy_whose_newest_segment_is_cut_is_corrupt(void **state)
{
    struct world *w = *state;
    char command[3 * SCRATCH_MAX + 100];
    copy_make();
    append_to(w, w->store, 1, FIRST);
    copy_segments(w);
    copy_file(w, "@lock");
    (void)snprintf(command, sizeof command, "cd '%s/q/log' && truncate -s 100 $(ls @0* | tail -1)",
                   copy_dir);
    NEED(system(command) == 0); // NOLINT(cert-env33-c)
    copy_is_refused(w);
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
        TEST(a_page_that_two_processes_replace_loses_no_slot),
        TEST(a_stale_note_of_a_write_under_way_zeroes_no_slot),
        TEST(a_copy_with_the_page_first_has_all_slots),
        TEST(a_copy_whose_page_is_ahead_is_corrupt),
        TEST(a_copy_whose_newest_segment_is_cut_is_corrupt),
    };
    return cmocka_run_group_tests_name("file store and its page", tests, NULL, NULL);
}
