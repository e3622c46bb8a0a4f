// SPDX-License-Identifier: Apache-2.0
// One mapped page: boot, offset, the latest time that was told, so that neither another process nor
// the next boot tells an earlier one, and when the offset was last moved.
#include "store/file/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>

#define CLOCK_PAGE_LEN  4096
#define CLOCK_NOTE_MS   100 // how stale the latest time told may be after a crash
#define FOLLOW_EVERY_MS 1000
#define WALL_LEAST_MS   1704067200000 // 2024: a wall clock before it was never set

struct clock_page {
    _Atomic uint64_t boot[2];
    _Atomic int64_t offset_ms;
    _Atomic int64_t last_ms;
    _Atomic int64_t followed_ms; // by the boot clock; 0: not in this boot
};
static_assert(sizeof(struct clock_page) == 40, "the layout is on disk");

static enum err clock_start(struct file_clock *c, struct store_answer *a)
{
    uint64_t boot[2];
    static_assert(sizeof boot == BOOT_ID_LEN, "two words hold a boot id");
    const struct file_sys *sys = c->disk->sys;
    if (!sys->boot_id((uint8_t *)boot))
        return answer_refuse(a, ERR_UNAVAILABLE,
                             "cannot read /proc/sys/kernel/random/boot_id; mount /proc");
    struct clock_page *p = c->page;
    if (atomic_load(&p->boot[0]) == boot[0] && atomic_load(&p->boot[1]) == boot[1]) return ERR_OK;
    atomic_store(&p->boot[0], 0); // a process that dies here leaves a page that is started again
    atomic_store(&p->followed_ms, 0);
    int64_t now = sys->realtime_ms();
    int64_t last = atomic_load(&p->last_ms) + CLOCK_NOTE_MS;
    atomic_store(&p->offset_ms, (now > last ? now : last) - sys->boot_ms());
    atomic_store(&p->boot[1], boot[1]);
    atomic_store(&p->boot[0], boot[0]);
    return ERR_OK;
}

static enum err clock_map(struct file_clock *c, int fd, struct store_answer *a)
{
    enum err locked = disk_lock(fd, DISK_CLOCK, a);
    if (locked) return locked;
    void *page = mmap(NULL, CLOCK_PAGE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return disk_refuse(a, "map", DISK_CLOCK);
    c->page = page;
    enum err e = clock_start(c, a);
    (void)flock(fd, LOCK_UN); // the mapping keeps the open file alive, so closing would not do
    return e;
}

enum err file_clock_open(struct file_clock *c, struct disk *d, struct store_answer *a)
{
    *c = (struct file_clock){.disk = d};
    int fd = disk_open(d, DISK_CLOCK, O_RDWR);
    if (fd < 0 && errno == ENOENT) {
        static const uint8_t empty[CLOCK_PAGE_LEN];
        enum err e = disk_put(d, DISK_CLOCK, bytes_of(empty, sizeof empty), 0, true, a);
        if (e && e != ERR_CONFLICT) return e;
        fd = disk_open(d, DISK_CLOCK, O_RDWR);
    }
    if (fd < 0) return disk_refuse(a, "open", DISK_CLOCK);
    struct stat st;
    enum err e = ERR_CORRUPT;
    if (fstat(fd, &st) != 0 || st.st_size != CLOCK_PAGE_LEN)
        (void)answer_refuse(
            a, e, "\"%s\" is not a page of %d bytes; remove it if no process uses the store",
            DISK_CLOCK, CLOCK_PAGE_LEN);
    else
        e = clock_map(c, fd, a);
    (void)disk_close(fd);
    return e;
}

void file_clock_done(struct file_clock *c)
{
    if (c->page) (void)munmap(c->page, CLOCK_PAGE_LEN);
    c->page = NULL;
}

static int64_t clamp(int64_t value, int64_t most)
{
    return value > most ? most : value < -most ? -most : value;
}

// One process at a time, once a second: the offset comes nearer to the wall clock, by a share of
// the time that passed since it last did. If it dies before the second store, that share is lost.
static void follow(struct file_clock *c, int64_t boot_ms)
{
    struct clock_page *p = c->page;
    int64_t at = atomic_load(&p->followed_ms), passed = boot_ms - at;
    if (at != 0 && passed < FOLLOW_EVERY_MS) return; // or this thread was stopped since its look
    if (!atomic_compare_exchange_strong(&p->followed_ms, &at, boot_ms)) return;
    int64_t wall = c->disk->sys->realtime_ms();
    if (at == 0 || wall < WALL_LEAST_MS) return; // the first look only notes the time
    int64_t off = wall - boot_ms - atomic_load(&p->offset_ms);
    atomic_fetch_add(&p->offset_ms, clamp(off, passed / CLOCK_FOLLOW_SHARE));
}

int64_t file_clock_now(struct file_clock *c)
{
    struct clock_page *p = c->page;
    int64_t boot_ms = c->disk->sys->boot_ms();
    follow(c, boot_ms);
    int64_t now = boot_ms + atomic_load(&p->offset_ms);
    int64_t last = atomic_load(&p->last_ms);
    while (now > last)
        if (atomic_compare_exchange_weak(&p->last_ms, &last, now)) return now;
    return last; // told already, perhaps by another process
}

int64_t file_clock_ahead_ms(struct file_clock *c)
{
    return file_clock_now(c) - c->disk->sys->realtime_ms();
}

void file_clock_raise(struct file_clock *c, int64_t at_least_ms)
{
    int64_t offset = atomic_load(&c->page->offset_ms);
    for (;;) {
        int64_t now = c->disk->sys->boot_ms() + offset;
        if (now >= at_least_ms) return;
        int64_t raised = offset + (at_least_ms - now);
        if (atomic_compare_exchange_weak(&c->page->offset_ms, &offset, raised)) return;
    }
}
