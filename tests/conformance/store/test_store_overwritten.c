// SPDX-License-Identifier: Apache-2.0
// A page (@lock) that is overwritten in place with an older copy, as `cp backup/@lock .` does. The
// file, its inode and its mark in memory stay the same. No acknowledged slot is lost or replaced.
#include "log_world.h"

#include "os/file.h"
#include "store/file/page.h"
#include "store/file/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST       3
#define LEN         400 // of a body: its record is longer than any write to the page
#define PATIENCE_MS 40

static const struct file_options options = {
    .segment_bytes = 8000, .step_bytes = 1000, .patience_ms = PATIENCE_MS};

static int world_setup(void **state)
{
    static struct world w;
    world_start(&w, &options);
    *state = &w;
    return 0;
}

static int world_teardown(void **state)
{
    world_end(*state);
    return 0;
}

static void append_to(struct world *w, struct store *s, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++)
        world_append(w, s, slot, slot, LEN);
}

static void holds(struct world *w, struct store *s, uint64_t last)
{
    for (uint64_t slot = 1; slot <= last; slot++)
        world_holds(w, s, slot, slot, LEN);
    world_ends(w, s, last);
}

static void goes_on(struct world *w, uint64_t last)
{
    struct store *s = file_open(w->dir, &options);
    holds(w, s, last);
    append_to(w, s, last + 1, last + 2);
    holds(w, s, last + 2);
    store_free(s);
}

static struct log_look page_look(const struct world *w)
{
    static struct disk disk = {.sys = &file_sys_linux};
    char path[PATH_MAX_LEN];
    struct log_look look = {0};
    world_path(w, PAGE, path);
    struct log_page *p = log_page_new(&disk, open(path, O_RDWR), 0);
    NEED(p && log_page_look(p, &look) == LOG_PAGE_GOOD);
    log_page_drop(p);
    return look;
}

// The page of slot FIRST, which notes a write of `size` bytes, is put over the page of FIRST + 3.
static void roll_back(struct world *w, uint64_t from, uint64_t size)
{
    uint8_t image[LOG_PAGE_LEN];
    append_to(w, w->store, from, FIRST);
    struct log_look old = page_look(w);
    append_to(w, w->store, FIRST + 1, FIRST + 3);
    NEED(page_look(w).state.tail.segment == old.state.tail.segment);
    old.state.busy_end = old.state.tail.offset + size;
    log_page_image(&old.state, image);
    world_save(w, PAGE, bytes_of(image, sizeof image));
}

static const uint64_t sizes[] = {RECORD_HEADER_LEN, 200, LEN + RECORD_HEADER_LEN, 1000, 3000};

static void again(struct world *w)
{
    store_free(w->store);
    scratch_remove(w->dir);
    scratch_make_quick(w->dir);
    w->store = file_open(w->dir, &options);
}

static void an_old_page_that_notes_a_write_erases_no_slot(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        roll_back(w, 1, sizes[i]);
        store_free(w->store);
        w->store = NULL;
        goes_on(w, FIRST + 3);
        again(w);
    }
}

// The handle has verified the page, but knows only of the first slots.
static void an_old_page_under_an_idle_handle_erases_no_slot(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        append_to(w, w->store, 1, 1);
        struct store *idle = file_open(w->dir, &options);
        holds(w, idle, 1);
        roll_back(w, 2, sizes[i]);
        ANSWERS(ERR_CONFLICT, &w->a, store_append(idle, LOG, FIRST + 1, bytes_str("x"), &w->a));
        holds(w, idle, FIRST + 3);
        append_to(w, idle, FIRST + 4, FIRST + 4);
        holds(w, w->store, FIRST + 4);
        store_free(idle);
        again(w);
    }
}

static struct {
    struct world *world;
    struct file_sys holder, taker;
    struct bytes page; // the old copy
    bool armed;
} overwrite;

// The taker dies before it removes the old page, and the copy is put over the fenced page.
static int taker_unlink(int dir, const char *path)
{
    if (strcmp(path, PAGE) != 0) return file_sys_linux.unlink(dir, path);
    world_save(overwrite.world, PAGE, overwrite.page);
    errno = EIO;
    return -1;
}

// The holder was stopped before it wrote its record.
static ssize_t holder_pwrite(int fd, const void *from, size_t len, off_t at)
{
    if (overwrite.armed && len > LEN) {
        overwrite.armed = false;
        struct file_options taker = options;
        taker.sys = &overwrite.taker;
        struct store *s = file_open(overwrite.world->dir, &taker);
        append_to(overwrite.world, s, FIRST + 1, FIRST + 1);
        store_free(s);
    }
    return file_sys_linux.pwrite(fd, from, len, at);
}

static void a_holder_whose_fence_was_overwritten_acknowledges_nothing(void **state)
{
    struct world *w = *state;
    struct buf page;
    append_to(w, w->store, 1, FIRST);
    world_load(w, PAGE, &page);
    overwrite.world = w;
    overwrite.page = buf_bytes(&page);
    overwrite.holder = overwrite.taker = file_sys_linux;
    overwrite.holder.pwrite = holder_pwrite;
    overwrite.taker.unlink = taker_unlink;
    struct file_options holder = options;
    holder.sys = &overwrite.holder;
    struct store *s = file_open(w->dir, &holder);
    holds(w, s, FIRST);
    overwrite.armed = true;
    struct bytes body = body_make(77, LEN);
    ANSWERS(ERR_UNKNOWN, &w->a, store_append(s, LOG, FIRST + 1, body, &w->a));
    NEED(!overwrite.armed);
    ANSWERS(ERR_CONFLICT, &w->a, store_append(s, LOG, FIRST + 1, body, &w->a));
    bytes_free(body);
    holds(w, s, FIRST + 1);
    append_to(w, s, FIRST + 2, FIRST + 2);
    holds(w, w->store, FIRST + 2);
    store_free(s);
    buf_done(&page);
    goes_on(w, FIRST + 2);
}

// Another holder prepares a segment of the same slot under the same temporary name.
static int holder_link(int dir, const char *from, const char *to)
{
    if (overwrite.armed && strcmp(from, LOG "/" DISK_FRESH) == 0) {
        overwrite.armed = false;
        char path[PATH_MAX_LEN];
        struct buf head;
        struct segment_head h = {.first = FIRST + 1, .generation = 1, .salt = 5};
        buf_init(&head, SEGMENT_HEADER_LEN);
        segment_head_put(&head, &h);
        world_path(overwrite.world, LOG "/" DISK_FRESH, path);
        NEED(unlink(path) == 0 && file_write(path, buf_bytes(&head)) == 0);
        buf_done(&head);
    }
    return file_sys_linux.link(dir, from, to);
}

static void a_segment_that_another_holder_named_takes_no_record(void **state)
{
    struct world *w = *state;
    append_to(w, w->store, 1, FIRST);
    overwrite.world = w;
    overwrite.holder = file_sys_linux;
    overwrite.holder.link = holder_link;
    struct file_options holder = options;
    holder.sys = &overwrite.holder;
    holder.segment_bytes = 100; // the next append begins a segment
    struct store *s = file_open(w->dir, &holder);
    holds(w, s, FIRST);
    overwrite.armed = true;
    struct bytes body = body_make(FIRST + 1, LEN);
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_append(s, LOG, FIRST + 1, body, &w->a));
    NEED(!overwrite.armed);
    bytes_free(body);
    append_to(w, s, FIRST + 1, FIRST + 2);
    holds(w, s, FIRST + 2);
    store_free(s);
    goes_on(w, FIRST + 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_old_page_that_notes_a_write_erases_no_slot),
        TEST(an_old_page_under_an_idle_handle_erases_no_slot),
        TEST(a_holder_whose_fence_was_overwritten_acknowledges_nothing),
        TEST(a_segment_that_another_holder_named_takes_no_record),
    };
    return cmocka_run_group_tests_name("page overwritten in place", tests, NULL, NULL);
}
