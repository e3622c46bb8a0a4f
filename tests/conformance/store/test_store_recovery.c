// SPDX-License-Identifier: Apache-2.0
// What a crash, a reboot or a rotten disk leaves in a segment: torn ends are cut, damage is told
// and never cut.
#include "log_world.h"

#include "base/hash.h"
#include "os/file.h"
#include "store/file/disk.h"
#include "store/file/page.h"
#include "store/file/segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SEGMENT  LOG "/@00000000000000000001.1"
#define SLOT_LEN 45

static const struct file_options faulty = {
    .sys = &sys_faulty, .segment_bytes = 4096, .step_bytes = 2048};

static int world_setup(void **state)
{
    static struct world w;
    sys_reset();
    world_start(&w, &faulty);
    *state = &w;
    return 0;
}

static int world_teardown(void **state)
{
    world_end(*state);
    sys_reset();
    return 0;
}

static void power_off(struct world *w)
{
    store_free(w->store);
    w->store = NULL;
    sys_reboot();
}

static void power_on(struct world *w)
{
    w->store = file_open(w->dir, &faulty);
}

static void append(struct world *w, uint64_t slot, uint64_t seed)
{
    world_append(w, w->store, slot, seed, SLOT_LEN);
}

static void append_run(struct world *w, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++)
        append(w, slot, slot);
}

static void holds(struct world *w, uint64_t slot, uint64_t seed)
{
    world_holds(w, w->store, slot, seed, SLOT_LEN);
}

static void holds_run(struct world *w, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++)
        holds(w, slot, slot);
    world_ends(w, w->store, last);
}

// Where the record of a slot lies, by walking the headers.
static uint64_t offset_of(const struct buf *segment, uint64_t slot)
{
    uint64_t offset = SEGMENT_HEADER_LEN;
    struct record r;
    while (record_peek(bytes_of(segment->data + offset, segment->len - offset), &r) ==
               RECORD_GOOD &&
           r.slot < slot)
        offset += r.size;
    return offset;
}

static void is_zero_from(const struct world *w, uint64_t slot)
{
    struct buf segment;
    world_load(w, SEGMENT, &segment);
    for (uint64_t i = offset_of(&segment, slot); i < segment.len; i++)
        NEED(segment.data[i] == 0);
    buf_done(&segment);
}

// A log of four slots; then a fifth, of which the crash left only what `tear` leaves. The page is
// from before it.
struct crash {
    struct buf page;   // as it was on disk
    struct buf before; // the segment with four slots
    struct buf after;  // with five
    uint64_t offset;   // of the fifth
    uint64_t size;
};

static void crash_prepare(struct world *w, struct crash *c)
{
    append_run(w, 1, 4);
    world_load(w, LOG "/@lock", &c->page);
    world_load(w, SEGMENT, &c->before);
    append(w, 5, 5);
    world_load(w, SEGMENT, &c->after);
    c->offset = offset_of(&c->after, 5);
    c->size = record_size(SLOT_LEN);
    power_off(w);
}

static void crash_done(struct crash *c)
{
    buf_done(&c->page);
    buf_done(&c->before);
    buf_done(&c->after);
}

// Comes up with this segment, and finds four slots, or five if the fifth is whole. Then goes on,
// through another reboot.
static void comes_up(struct world *w, const struct crash *c, const struct buf *segment)
{
    struct record r;
    struct bytes rest = bytes_of(segment->data + c->offset, segment->len - (size_t)c->offset);
    struct segment_head h;
    NEED(segment_head_read(buf_bytes(segment), &h));
    bool whole = record_read(rest, h.salt, c->offset, &r) == RECORD_GOOD;
    world_save(w, LOG "/@lock", buf_bytes(&c->page));
    world_save(w, SEGMENT, buf_bytes(segment));
    power_on(w);
    holds_run(w, 1, whole ? 5 : 4);
    if (!whole) is_zero_from(w, 5);
    uint64_t next = whole ? 6 : 5;
    ANSWERS(ERR_OK, &w->a, store_append(w->store, LOG, next, bytes_str("short"), &w->a));
    power_off(w);
    power_on(w); // nothing of the torn record comes to light behind the short one
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, next, 1, &w->a));
    NEED(bytes_equal(store_row_bytes(&w->a, 0), bytes_str("short")));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, next + 1, 1, &w->a));
    power_off(w);
}

static void a_record_torn_at_any_byte_is_cut(void **state)
{
    struct world *w = *state;
    struct crash c;
    crash_prepare(w, &c);
    for (uint64_t at = 0; at <= c.size; at++) {
        struct buf torn = {0};
        world_load(w, SEGMENT, &torn);
        // The first bytes arrived, the rest did not.
        memcpy(torn.data, c.after.data, c.after.len);
        memset(torn.data + c.offset + at, 0, (size_t)(c.size - at));
        comes_up(w, &c, &torn);
        // The last bytes arrived, the first did not.
        memcpy(torn.data, c.after.data, c.after.len);
        memset(torn.data + c.offset, 0, (size_t)at);
        comes_up(w, &c, &torn);
        // One byte is wrong.
        memcpy(torn.data, c.after.data, c.after.len);
        if (at < c.size) torn.data[c.offset + at] ^= 0x40;
        comes_up(w, &c, &torn);
        buf_done(&torn);
    }
    crash_done(&c);
}

static void every_call_is_corrupt(struct world *w)
{
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(w->store, LOG, 1, 1, &w->a));
    NEED(strstr(w->a.why, LOG) != NULL);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(w->store, LOG, 5, bytes_str("x"), &w->a));
    ANSWERS(ERR_CORRUPT, &w->a, store_extents(w->store, LOG, 1, 1, &w->a));
}

static void a_bad_record_before_a_good_one_is_corrupt_and_never_cut(void **state)
{
    struct world *w = *state;
    struct crash c;
    crash_prepare(w, &c);
    struct buf page = {0};
    buf_init(&page, LOG_PAGE_LEN);
    (void)buf_grow(&page, LOG_PAGE_LEN);
    memset(page.data, 0, LOG_PAGE_LEN); // not even the page remembers
    uint64_t offset = offset_of(&c.after, 2);
    for (uint64_t at = 0; at < RECORD_HEADER_LEN + SLOT_LEN; at++) {
        struct buf bad = {0}, left = {0};
        world_load(w, SEGMENT, &bad);
        memcpy(bad.data, c.after.data, c.after.len);
        bad.data[offset + at] ^= 0x01;
        world_save(w, SEGMENT, buf_bytes(&bad));
        world_save(w, LOG "/@lock", buf_bytes(&page));
        power_on(w);
        every_call_is_corrupt(w);
        power_off(w);
        world_load(w, SEGMENT, &left);
        NEED(bytes_equal(buf_bytes(&left), buf_bytes(&bad)));
        buf_done(&bad);
        buf_done(&left);
    }
    buf_done(&page);
    crash_done(&c);
}

static void damage_to_what_was_proved_durable_is_corrupt(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 5); // the page that survives knows of all five
    power_off(w);
    struct buf segment = {0}, left = {0};
    world_load(w, SEGMENT, &segment);
    segment.data[offset_of(&segment, 5) + RECORD_HEADER_LEN] ^= 1;
    world_save(w, SEGMENT, buf_bytes(&segment));
    power_on(w);
    every_call_is_corrupt(w);
    world_load(w, SEGMENT, &left);
    NEED(bytes_equal(buf_bytes(&left), buf_bytes(&segment)));
    buf_done(&segment);
    buf_done(&left);
}

static void segments_that_vanished_are_corrupt(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 5);
    power_off(w);
    char path[PATH_MAX_LEN];
    scratch_path(path, sizeof path, w->dir, SEGMENT);
    NEED(unlink(path) == 0);
    power_on(w);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(w->store, LOG, 1, bytes_str("x"), &w->a));
}

static void damage_found_while_reading_is_corrupt_for_that_slot_alone(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 5);
    struct buf segment = {0};
    world_load(w, SEGMENT, &segment);
    segment.data[offset_of(&segment, 3) + RECORD_HEADER_LEN + 7] ^= 1;
    world_save(w, SEGMENT, buf_bytes(&segment));
    buf_done(&segment);
    holds(w, 1, 1);
    holds(w, 2, 2);
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(w->store, LOG, 3, 1, &w->a));
    holds(w, 4, 4);
    ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, 1, 10000, &w->a));
    NEED(w->a.rows_len == 2); // a run ends before it
}

static void a_torn_record_that_contains_a_segment_is_cut_all_the_same(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 4);
    struct buf page, before, after;
    world_load(w, LOG "/@lock", &page);
    world_load(w, SEGMENT, &before);
    ANSWERS(ERR_OK, &w->a, store_append(w->store, LOG, 5, buf_bytes(&before), &w->a));
    power_off(w);
    world_load(w, SEGMENT, &after);
    after.data[offset_of(&after, 5)] ^= 1;
    world_save(w, SEGMENT, buf_bytes(&after));
    world_save(w, LOG "/@lock", buf_bytes(&page));
    power_on(w);
    holds_run(w, 1, 4);
    buf_done(&page);
    buf_done(&before);
    buf_done(&after);
}

static struct log_page *page_open(const struct world *w, struct disk *d)
{
    char path[PATH_MAX_LEN];
    scratch_path(path, sizeof path, w->dir, LOG "/@lock");
    int fd = open(path, O_RDWR);
    NEED(fd >= 0);
    *d = (struct disk){.sys = &file_sys_linux, .root = -1};
    struct log_page *page = log_page_new(d, fd, 0);
    NEED(page != NULL);
    return page;
}

// Leaves what a writer leaves that is killed after it wrote `len` of `bytes` at the mark.
static void die_writing(struct world *w, const struct buf *bytes, size_t len)
{
    struct disk d;
    struct log_page *page = page_open(w, &d);
    struct log_look look;
    NEED(log_page_look(page, &look) == LOG_PAGE_GOOD);
    uint64_t offset = look.state.tail.offset;
    char path[PATH_MAX_LEN];
    scratch_path(path, sizeof path, w->dir, SEGMENT);
    int fd = open(path, O_WRONLY);
    NEED(fd >= 0);
    look.state.busy_end = offset + bytes->len;
    NEED(log_page_write(page, &look.state, &look.sequence) == 0);
    NEED(pwrite(fd, bytes->data, len, (off_t)offset) == (ssize_t)len && close(fd) == 0);
    log_page_drop(page);
}

static void record_of(struct world *w, struct buf *to, uint64_t slot)
{
    struct buf segment;
    struct segment_head h;
    world_load(w, SEGMENT, &segment);
    NEED(segment_head_read(buf_bytes(&segment), &h));
    uint64_t offset = offset_of(&segment, slot);
    struct bytes body = body_make(slot, SLOT_LEN);
    buf_init(to, 4096);
    record_put(to, h.salt, offset, slot, 12345, body);
    bytes_free(body);
    buf_done(&segment);
}

static void bytes_of_a_dead_writer_never_come_back(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 4);
    struct buf record;
    record_of(w, &record, 5);
    for (size_t len = 0; len < RECORD_HEADER_LEN + SLOT_LEN; len += 3) {
        die_writing(w, &record, len);
        ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, 5, 1, &w->a));
        // The next holder of the lock wipes them, whether it then writes or not.
        ANSWERS(ERR_INVALID, &w->a, store_append(w->store, LOG, 9, bytes_str("x"), &w->a));
        is_zero_from(w, 5);
    }
    append(w, 5, 5);
    holds_run(w, 1, 5);
    buf_done(&record);
}

static void a_whole_record_of_a_dead_writer_is_kept(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 4);
    struct buf record;
    record_of(w, &record, 5);
    die_writing(w, &record, record.len);
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, 5, 1, &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_append(w->store, LOG, 5, bytes_str("x"), &w->a));
    holds_run(w, 1, 5);
    append(w, 6, 6);
    power_off(w);
    power_on(w);
    holds_run(w, 1, 6);
    buf_done(&record);
}

#define PUBLICATIONS 100000

static struct log_state state_of(uint64_t i)
{
    return (struct log_state){.tail = {i, i, i, i, i, (int64_t)i}};
}

static void *publish_often(void *arg)
{
    uint64_t sequence = 1;
    for (uint64_t i = 1; i <= PUBLICATIONS; i++) {
        struct log_state s = state_of(i);
        NEED(log_page_write(arg, &s, &sequence) == 0);
    }
    return NULL;
}

static struct log_page *page_alone(struct world *w, struct disk *d)
{
    uint8_t image[LOG_PAGE_LEN];
    struct log_state none = {0};
    char path[PATH_MAX_LEN];
    log_page_image(&none, image);
    scratch_path(path, sizeof path, w->dir, "@page");
    NEED(file_write(path, bytes_of(image, sizeof image)) == 0);
    int fd = open(path, O_RDWR);
    NEED(fd >= 0);
    *d = (struct disk){.sys = &file_sys_linux, .root = -1};
    struct log_page *page = log_page_new(d, fd, 0);
    NEED(page != NULL);
    return page;
}

static void a_reader_never_sees_half_a_state(void **state)
{
    struct disk d;
    struct log_page *page = page_alone(*state, &d);
    pthread_t writer;
    NEED(pthread_create(&writer, NULL, publish_often, page) == 0);
    uint64_t seen = 0;
    while (seen < PUBLICATIONS) {
        struct log_look look;
        NEED(log_page_look(page, &look) == LOG_PAGE_GOOD);
        struct log_tail t = look.state.tail;
        NEED(t.next >= seen);
        NEED(t.segment == t.next && t.generation == t.next && t.offset == t.next);
        NEED(t.time_ms == (int64_t)t.next);
        seen = t.next;
    }
    (void)pthread_join(writer, NULL);
    log_page_drop(page);
}

// A writer may be killed in the middle of a copy: the other one is the state before it.
static void a_state_half_written_does_not_count(void **state)
{
    struct disk d;
    struct log_page *page = page_alone(*state, &d);
    uint64_t sequence = 1;
    for (uint64_t i = 1; i < 10; i++) {
        struct log_state s = state_of(i);
        NEED(log_page_write(page, &s, &sequence) == 0);
        uint8_t before[LOG_PAGE_LEN], after[LOG_PAGE_LEN];
        NEED(pread(page->fd, before, sizeof before, 0) == LOG_PAGE_LEN);
        s = state_of(1000);
        uint64_t next = sequence;
        NEED(log_page_write(page, &s, &next) == 0);
        NEED(pread(page->fd, after, sizeof after, 0) == LOG_PAGE_LEN);
        for (size_t at = 0; at < LOG_PAGE_LEN; at++) {
            if (before[at] == after[at]) continue;
            struct log_look look;
            NEED(pwrite(page->fd, before + at, 1, (off_t)at) == 1);
            NEED(log_page_look(page, &look) == LOG_PAGE_GOOD);
            bool futex = at >= 256 && at < 264; // not part of a copy
            NEED(look.state.tail.next == (futex ? 1000 : i));
            NEED(pwrite(page->fd, after + at, 1, (off_t)at) == 1);
        }
        NEED(pwrite(page->fd, before, sizeof before, 0) == LOG_PAGE_LEN);
    }
    log_page_drop(page);
}

static void a_log_of_many_segments_comes_up_after_a_reboot(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 400);
    power_off(w);
    power_on(w);
    holds_run(w, 1, 400);
    append_run(w, 401, 420);
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 100, &w->a));
    NEED(w->a.rows_len > 5);
    uint64_t last = w->a.rows[2].last;
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, w->a.rows[1].first, last, &w->a));
    power_off(w);
    power_on(w);
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, last, 1, &w->a));
    holds_run(w, last + 1, 420);
    holds(w, 1, 1);
}

// All that was there is dropped, and nothing follows it yet.
static void a_log_that_was_parted_comes_up_after_a_reboot(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 5);
    ANSWERS(ERR_OK, &w->a, store_seal(w->store, LOG, &w->a));
    power_off(w);
    power_on(w);
    holds_run(w, 1, 5);
    ANSWERS(ERR_OK, &w->a, store_drop(w->store, LOG, 1, 5, &w->a));
    power_off(w);
    power_on(w);
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->store, LOG, 5, 1, &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, store_append(w->store, LOG, 5, bytes_str("x"), &w->a));
    append_run(w, 6, 9);
    holds_run(w, 6, 9);
}

static void a_missing_segment_in_the_middle_is_corrupt_not_absent(void **state)
{
    struct world *w = *state;
    append_run(w, 1, 200);
    ANSWERS(ERR_OK, &w->a, store_extents(w->store, LOG, 1, 100, &w->a));
    uint64_t first = w->a.rows[1].first;
    char name[64], path[SCRATCH_MAX + 80];
    (void)snprintf(name, sizeof name, LOG "/@%020llu.1", (unsigned long long)first);
    scratch_path(path, sizeof path, w->dir, name);
    power_off(w);
    NEED(unlink(path) == 0);
    power_on(w);
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(w->store, LOG, first, 1, &w->a));
    holds(w, 1, 1);
    holds(w, 200, 200);
}

static void a_store_whose_directory_was_removed_says_so(void **state)
{
    struct world *w = *state;
    struct disk d = {.sys = &file_sys_linux};
    char path[SCRATCH_MAX + 16];
    scratch_path(path, sizeof path, w->dir, "@removed");
    NEED(mkdir(path, 0777) == 0);
    d.root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    disk_learn(&d);
    ANSWERS(ERR_OK, &w->a, disk_alive(&d, &w->a));
    NEED(rmdir(path) == 0);
    ANSWERS(ERR_UNAVAILABLE, &w->a, disk_alive(&d, &w->a));
    NEED(strstr(w->a.why, "was removed") != NULL);
    (void)disk_close(d.root);
}

// One that has no links now had none when it was opened: it looks as it always does there.
static void a_file_system_that_counts_no_links_is_not_mistaken_for_that(void **state)
{
    struct world *w = *state;
    struct disk d = {.sys = &file_sys_linux};
    char path[SCRATCH_MAX + 16];
    scratch_path(path, sizeof path, w->dir, "@uncounted");
    NEED(mkdir(path, 0777) == 0);
    d.root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    NEED(rmdir(path) == 0);
    disk_learn(&d);
    ANSWERS(ERR_OK, &w->a, disk_alive(&d, &w->a));
    (void)disk_close(d.root);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_record_torn_at_any_byte_is_cut),
        TEST(a_bad_record_before_a_good_one_is_corrupt_and_never_cut),
        TEST(damage_to_what_was_proved_durable_is_corrupt),
        TEST(segments_that_vanished_are_corrupt),
        TEST(damage_found_while_reading_is_corrupt_for_that_slot_alone),
        TEST(a_torn_record_that_contains_a_segment_is_cut_all_the_same),
        TEST(bytes_of_a_dead_writer_never_come_back),
        TEST(a_whole_record_of_a_dead_writer_is_kept),
        TEST(a_reader_never_sees_half_a_state),
        TEST(a_state_half_written_does_not_count),
        TEST(a_log_of_many_segments_comes_up_after_a_reboot),
        TEST(a_log_that_was_parted_comes_up_after_a_reboot),
        TEST(a_missing_segment_in_the_middle_is_corrupt_not_absent),
        TEST(a_store_whose_directory_was_removed_says_so),
        TEST(a_file_system_that_counts_no_links_is_not_mistaken_for_that),
    };
    return cmocka_run_group_tests_name("file store after a crash", tests, NULL, NULL);
}
