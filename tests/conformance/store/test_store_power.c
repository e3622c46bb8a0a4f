// SPDX-License-Identifier: Apache-2.0
// Crash images: a disk that goes down keeps of each unsynced sector either the old or the new
// bytes, and of the page any state it ever had. What was acknowledged must be there when it comes
// up again: after a power failure, which brings a new boot id, and after the file system alone went
// down, which does not.
//
// Names (create, rename, remove) are taken to be durable at once: the model is of data, not of
// directories.
#include "support.h"

#include "base/memory.h"
#include "base/rng.h"
#include "os/file.h"
#include "store/file/page.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG         "q/log"
#define SECTOR      512
#define IMAGES_MAX  64
#define PAGES_MAX   64
#define IMAGE_BYTES ((size_t)256 << 10)
#define SLOTS_MAX   2000

// What of a file would survive: its bytes as of the last sync.
struct image {
    ino_t inode;
    struct buf bytes;
};

static struct {
    struct image images[IMAGES_MAX];
    size_t images_len;
    long syncs_left; // then the power fails; -1: it does not
} disk;

static struct image *image_of(int fd)
{
    struct stat st;
    NEED(fstat(fd, &st) == 0);
    for (size_t i = 0; i < disk.images_len; i++)
        if (disk.images[i].inode == st.st_ino) return &disk.images[i];
    return NULL;
}

static void image_take(int fd)
{
    struct stat st;
    NEED(fstat(fd, &st) == 0);
    if (!S_ISREG(st.st_mode) || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR) return; // no segment
    struct image *m = image_of(fd);
    if (!m) {
        NEED(disk.images_len < IMAGES_MAX);
        m = &disk.images[disk.images_len++];
        *m = (struct image){.inode = st.st_ino};
        buf_init(&m->bytes, IMAGE_BYTES);
    }
    buf_clear(&m->bytes);
    uint8_t *room = buf_grow(&m->bytes, (size_t)st.st_size);
    if (st.st_size > 0) NEED(pread(fd, room, (size_t)st.st_size, 0) == st.st_size);
}

static int power_sync(int fd)
{
    if (disk.syncs_left == 0) { // the machine went down in here
        errno = EIO;
        return -1;
    }
    if (disk.syncs_left > 0) disk.syncs_left--;
    image_take(fd);
    return 0;
}

// The inode may be used again by a file that has nothing to do with this one.
static int power_unlink(int dir, const char *path)
{
    struct stat st;
    if (fstatat(dir, path, &st, 0) == 0 && st.st_nlink == 1)
        for (size_t i = 0; i < disk.images_len; i++)
            if (disk.images[i].inode == st.st_ino) {
                buf_done(&disk.images[i].bytes);
                disk.images[i] = disk.images[--disk.images_len];
                break;
            }
    return file_sys_linux.unlink(dir, path);
}

static struct file_sys power_sys(void)
{
    struct file_sys sys = sys_faulty;
    sys.fsync = sys.fdatasync = power_sync;
    sys.unlink = power_unlink;
    return sys;
}

// What the crash does to unsynced sectors.
enum tear {
    TEAR_EACH, // each goes one way or the other
    TEAR_DROP, // none was written
    TEAR_KEEP, // all were
    TEAR_KINDS,
};

static void tear_file(const char *path, enum tear how, struct rng *rng)
{
    int fd = open(path, O_RDWR);
    if (fd < 0) return;
    struct image *m = image_of(fd);
    struct stat st;
    NEED(fstat(fd, &st) == 0);
    for (off_t at = 0; m && at < st.st_size; at += SECTOR) {
        uint8_t old[SECTOR] = {0};
        size_t len = st.st_size - at < SECTOR ? (size_t)(st.st_size - at) : SECTOR;
        if ((size_t)at < m->bytes.len) {
            size_t have = m->bytes.len - (size_t)at;
            memcpy(old, m->bytes.data + at, have < len ? have : len);
        }
        bool drop = how == TEAR_EACH ? rng_below(rng, 2) : how == TEAR_DROP;
        if (drop) NEED(pwrite(fd, old, len, at) == (ssize_t)len);
    }
    image_take(fd);
    (void)close(fd);
}

struct world {
    char dir[SCRATCH_MAX];
    struct file_sys sys;
    struct file_options options;
    struct rng rng;
    uint64_t seeds[SLOTS_MAX]; // of the bodies, by slot
    size_t lens[SLOTS_MAX];
    uint64_t acked; // slots 1..acked are promised
    uint8_t pages[PAGES_MAX][LOG_PAGE_LEN];
    size_t pages_len;
};

static void page_path(const struct world *w, char path[SCRATCH_MAX + 32])
{
    scratch_path(path, SCRATCH_MAX + 32, w->dir, LOG "/@lock");
}

static void page_remember(struct world *w)
{
    char path[SCRATCH_MAX + 32];
    page_path(w, path);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return;
    size_t at = w->pages_len < PAGES_MAX ? w->pages_len++ : rng_below(&w->rng, PAGES_MAX);
    NEED(read(fd, w->pages[at], LOG_PAGE_LEN) == LOG_PAGE_LEN && close(fd) == 0);
}

// The boot id of the next life is another one, or the same.
enum boot { BOOT_NEW, BOOT_SAME };

static void power_fails(struct world *w, enum boot boot)
{
    char path[SCRATCH_MAX + 64];
    enum tear how = (enum tear)rng_below(&w->rng, TEAR_KINDS);
    for (uint64_t first = 1; first <= w->acked + 2; first++) {
        for (int generation = 1; generation < 4; generation++) {
            (void)snprintf(path, sizeof path, "%s/" LOG "/@%020llu.%d", w->dir,
                           (unsigned long long)first, generation);
            tear_file(path, how, &w->rng);
        }
    }
    if (w->pages_len > 0) {
        page_path(w, path);
        int fd = open(path, O_WRONLY);
        NEED(fd >= 0);
        const uint8_t *page = w->pages[rng_below(&w->rng, w->pages_len)];
        NEED(write(fd, page, LOG_PAGE_LEN) == LOG_PAGE_LEN && close(fd) == 0);
        w->pages_len = 0;
    }
    disk.syncs_left = -1;
    if (boot == BOOT_NEW) sys_reboot();
}

// All that was promised is there, unchanged; one more may be, which was unknown.
static void comes_up(struct world *w, struct store *s, struct store_answer *a)
{
    for (uint64_t slot = 1; slot <= w->acked; slot++) {
        ANSWERS(ERR_OK, a, store_read_log(s, LOG, slot, 1, a));
        NEED(body_is(store_row_bytes(a, 0), w->seeds[slot], w->lens[slot]));
    }
    enum err e = store_read_log(s, LOG, w->acked + 1, 1, a);
    if (e == ERR_NOT_FOUND) return;
    ANSWERS(ERR_OK, a, e);
    w->acked++;
    NEED(body_is(store_row_bytes(a, 0), w->seeds[w->acked], w->lens[w->acked]));
    ANSWERS(ERR_NOT_FOUND, a, store_read_log(s, LOG, w->acked + 1, 1, a));
}

// Appends until the power fails, in the middle of an append or, when it comes to that, of what an
// append does first.
static void run_until_dark(struct world *w, struct store *s, struct store_answer *a)
{
    disk.syncs_left = (long)rng_below(&w->rng, 12);
    for (;;) {
        uint64_t slot = w->acked + 1;
        NEED(slot < SLOTS_MAX);
        w->seeds[slot] = rng_next(&w->rng);
        w->lens[slot] = (size_t)rng_below(&w->rng, rng_below(&w->rng, 4) ? 300 : 5000);
        struct bytes body = body_make(w->seeds[slot], w->lens[slot]);
        enum err e = store_append(s, LOG, slot, body, a);
        bytes_free(body);
        page_remember(w);
        if (e == ERR_OK) w->acked = slot;
        if (e == ERR_UNKNOWN || e == ERR_UNAVAILABLE) return;
        ANSWERS(ERR_OK, a, e);
    }
}

#define SEEDS   12
#define CRASHES 25 // of each seed

// So many crashes in a hundred bring a new boot id.
static void survive_crashes(uint64_t seed, uint64_t percent_boots)
{
    struct world *w = NEW(struct world);
    struct store_answer a;
    sys_reset();
    store_answer_init(&a);
    scratch_make_quick(w->dir);
    rng_init(&w->rng, seed);
    w->sys = power_sys();
    w->options = (struct file_options){
        .sys = &w->sys, .segment_bytes = 8000, .step_bytes = 1 + rng_below(&w->rng, 9000)};
    disk.syncs_left = -1;
    for (int crash = 0; crash < CRASHES; crash++) {
        struct store *s = file_open(w->dir, &w->options);
        comes_up(w, s, &a);
        run_until_dark(w, s, &a);
        store_free(s);
        power_fails(w, rng_below(&w->rng, 100) < percent_boots ? BOOT_NEW : BOOT_SAME);
    }
    NEED(w->acked > CRASHES);
    store_answer_done(&a);
    scratch_remove(w->dir);
    while (disk.images_len > 0)
        buf_done(&disk.images[--disk.images_len].bytes);
    memory_free(w);
}

static void acknowledged_slots_survive_power_failures(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        survive_crashes(seed, 100);
}

static void acknowledged_slots_survive_a_crash_of_the_file_system_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 101; seed <= 100 + SEEDS; seed++)
        survive_crashes(seed, 0);
}

static void acknowledged_slots_survive_crashes_of_both_kinds(void **state)
{
    (void)state;
    for (uint64_t seed = 201; seed <= 200 + SEEDS; seed++)
        survive_crashes(seed, 50);
}

// The same loop must notice a store that answers before the sync: else it proves nothing.
static int no_sync(int fd)
{
    (void)fd;
    if (disk.syncs_left > 0) disk.syncs_left--;
    if (disk.syncs_left != 0) return 0;
    errno = EIO;
    return -1;
}

static bool promised_slots_are_there(struct world *w, struct store_answer *a)
{
    struct store *s = file_open(w->dir, &w->options);
    bool whole = true;
    for (uint64_t slot = 1; slot <= w->acked && whole; slot++)
        whole = store_read_log(s, LOG, slot, 1, a) == ERR_OK &&
                body_is(store_row_bytes(a, 0), w->seeds[slot], w->lens[slot]);
    store_free(s);
    return whole;
}

static void a_store_that_does_not_sync_is_caught(void **state)
{
    (void)state;
    int caught = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct world *w = NEW(struct world);
        struct store_answer a;
        sys_reset();
        store_answer_init(&a);
        scratch_make_quick(w->dir);
        rng_init(&w->rng, seed);
        w->sys = power_sys();
        w->sys.fdatasync = no_sync; // fsync, which new segments use, still works
        w->options =
            (struct file_options){.sys = &w->sys, .segment_bytes = 8000, .step_bytes = 4000};
        disk.syncs_left = -1;
        struct store *s = file_open(w->dir, &w->options);
        run_until_dark(w, s, &a);
        store_free(s);
        power_fails(w, BOOT_NEW);
        w->pages_len = 0;
        caught += !promised_slots_are_there(w, &a);
        store_answer_done(&a);
        scratch_remove(w->dir);
        while (disk.images_len > 0)
            buf_done(&disk.images[--disk.images_len].bytes);
        memory_free(w);
    }
    NEED(caught > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_slots_survive_power_failures),
        cmocka_unit_test(acknowledged_slots_survive_a_crash_of_the_file_system_alone),
        cmocka_unit_test(acknowledged_slots_survive_crashes_of_both_kinds),
        cmocka_unit_test(a_store_that_does_not_sync_is_caught),
    };
    return cmocka_run_group_tests_name("file store and the power", tests, NULL, NULL);
}
