// SPDX-License-Identifier: Apache-2.0
// One small file with the boot's id, the offset, the time of its last change, and a lower bound of
// the time. The bound keeps another process and the next boot from returning an earlier time.
//
// The file is read and written with pread and pwrite: a mapping of a truncated file would end the
// process with SIGBUS. A read costs a system call, so a handle keeps what it read for PAGE_MS. All
// processes compute the same time from the file, except in the PAGE_MS after a change of the
// offset. So the bound is not written for each time that is returned, but once per CLOCK_NOTE_MS. A
// returned time is at most that much later than the bound in the file. When the offset becomes
// smaller, and after a boot, the clock does not go back behind that.
//
// The calls do not use the table of system calls: their number depends on the time that passes, and
// a failure of one is not an error. The page in memory then counts.
#include "store/file/clock.h"
#include "os/lock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define CLOCK_FILE_LEN  4096
#define CLOCK_NOTE_MS   50  // most by which a returned time is later than the time in the file
#define PAGE_MS         5   // a handle reads the file again after this time
#define CLOCK_BOOT_MS   100 // the same after a crash
#define FOLLOW_EVERY_MS 1000
#define FOLLOW_MS_MAX   2000 // the longest time that one step corrects while the store is in use
#define STOP_MS         20   // a longer gap between two reads of a clock: this process was stopped
#define NOTE_TRIES      4
#define WALL_LEAST_MS   1704067200000 // 2024: an earlier wall clock was never set
#define READ_TRIES      8

static_assert(sizeof(struct clock_page) == 40, "the layout is on disk");

static int64_t boot_ms_of(const struct file_clock *c)
{
    return c->disk->sys->boot_ms();
}

static int64_t largest(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static int64_t smallest(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t time_at(const struct clock_page *p, int64_t boot_ms)
{
    return largest(boot_ms + p->offset_ms, p->last_ms);
}

// A write may be in progress. If the page differs from the known one, it is read until two reads
// agree. Returns false if the page is incomplete or of another boot.
static bool page_read(int fd, const struct clock_page *known, struct clock_page *to)
{
    struct clock_page before = *known;
    for (int tries = 0; tries < READ_TRIES; tries++) {
        if (pread(fd, to, sizeof *to, 0) != (ssize_t)sizeof *to) return false;
        if (memcmp(to, &before, sizeof before) == 0)
            return memcmp(to->boot, known->boot, sizeof to->boot) == 0;
        before = *to;
    }
    return false;
}

static bool page_write(int fd, const struct clock_page *p)
{
    return pwrite(fd, p, sizeof *p, 0) == (ssize_t)sizeof *p;
}

static void length_mend(const struct file_clock *c)
{
    struct stat st;
    if (fstat(c->fd, &st) != 0 || st.st_size == CLOCK_FILE_LEN) return;
    if (ftruncate(c->fd, CLOCK_FILE_LEN) != 0) return; // tried again later
}

// If the page was truncated or overwritten, this handle's page replaces it.
static void page_mend(struct file_clock *c)
{
    struct clock_page p = c->page;
    p.last_ms = largest(p.last_ms, atomic_load(&c->told_ms));
    if (page_write(c->fd, &p)) c->page = p;
    length_mend(c);
}

// Returns the current page, or the page as this handle last read it, if that was after `since_ms`.
static struct clock_page page_of(struct file_clock *c, int64_t since_ms)
{
    struct clock_page p;
    LOCKED(&c->lock);
    int64_t now_ms = boot_ms_of(c);
    bool stale = c->read_ms < since_ms;
    if (stale && page_read(c->fd, &c->page, &p))
        c->page = p;
    else if (stale)
        page_mend(c);
    if (stale) c->read_ms = now_ms;
    p = c->page;
    return p;
}

// The caller holds the file's lock.
static void page_replace(struct file_clock *c, const struct clock_page *p)
{
    LOCKED(&c->lock);
    if (page_write(c->fd, p)) c->page = *p;
}

// The lock is taken on a separate descriptor: a child of fork would inherit the lock of a lasting
// one.
static int lock_open(struct file_clock *c)
{
    return openat(c->disk->root, DISK_CLOCK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static void lock_close(int fd)
{
    if (fd >= 0) (void)flock(fd, LOCK_UN); // also if a child has inherited it
    (void)disk_close(fd);
}

static enum err clock_start(struct file_clock *c, struct store_answer *a)
{
    uint64_t boot[2];
    static_assert(sizeof boot == BOOT_ID_LEN, "two words hold a boot id");
    const struct file_sys *sys = c->disk->sys;
    struct clock_page *p = &c->page;
    if (!sys->boot_id((uint8_t *)boot))
        return answer_refuse(a, ERR_UNAVAILABLE,
                             "cannot read /proc/sys/kernel/random/boot_id; mount /proc");
    if (disk_read(c->disk, c->fd, p, sizeof *p, 0) != (ssize_t)sizeof *p)
        return disk_refuse(a, "read", DISK_CLOCK);
    if (memcmp(p->boot, boot, sizeof boot) == 0) return ERR_OK;
    memcpy(p->boot, boot, sizeof boot);
    p->offset_ms = largest(sys->realtime_ms(), p->last_ms + CLOCK_BOOT_MS) - sys->boot_ms();
    p->followed_ms = 0;
    if (disk_write(c->disk, c->fd, p, sizeof *p, 0) != 0)
        return disk_refuse(a, "write", DISK_CLOCK);
    return ERR_OK;
}

static enum err clock_start_locked(struct file_clock *c, struct store_answer *a)
{
    int fd = lock_open(c);
    if (fd < 0) return disk_refuse(a, "open", DISK_CLOCK);
    enum err e = disk_lock(fd, DISK_CLOCK, a);
    if (!e) e = clock_start(c, a);
    lock_close(fd);
    return e;
}

enum err file_clock_open(struct file_clock *c, struct disk *d, struct store_answer *a)
{
    *c = (struct file_clock){.disk = d, .fd = -1};
    (void)pthread_mutex_init(&c->lock, NULL);
    c->fd = disk_open_quiet(d, DISK_CLOCK, O_RDWR);
    if (c->fd < 0 && errno == ENOENT) {
        static const uint8_t empty[CLOCK_FILE_LEN];
        enum err e = disk_put(d, DISK_CLOCK, bytes_of(empty, sizeof empty), 0, true, a);
        if (e && e != ERR_CONFLICT) return e;
        c->fd = disk_open_quiet(d, DISK_CLOCK, O_RDWR);
    }
    if (c->fd < 0) return disk_refuse(a, "open", DISK_CLOCK);
    struct stat st;
    if (fstat(c->fd, &st) != 0 || st.st_size != CLOCK_FILE_LEN)
        return answer_refuse(
            a, ERR_CORRUPT,
            "\"%s\" is not a page of %d bytes; remove it if no process uses the store", DISK_CLOCK,
            CLOCK_FILE_LEN);
    return clock_start_locked(c, a);
}

// Writes the lower bound. It is computed from the current page: this process may have been stopped,
// and the offset may have changed meanwhile. If it was stopped before the write, the bound is an
// old one and is written again.
static void note(struct file_clock *c)
{
    struct clock_page p;
    LOCKED(&c->lock);
    for (int tries = 0; tries < NOTE_TRIES; tries++) {
        int64_t boot_ms = boot_ms_of(c); // before the page: a stop between makes the bound earlier
        if (!page_read(c->fd, &c->page, &p)) break;
        off_t at = offsetof(struct clock_page, last_ms);
        p.last_ms = time_at(&p, boot_ms);
        if (pwrite(c->fd, &p.last_ms, sizeof p.last_ms, at) != (ssize_t)sizeof p.last_ms) break;
        c->page = p;
        if (boot_ms_of(c) - boot_ms < STOP_MS) break;
    }
}

void file_clock_done(struct file_clock *c)
{
    if (!c->disk) return; // it was not opened
    if (atomic_load(&c->told_ms) > 0) {
        (void)page_of(c, INT64_MAX); // writes it again if it was truncated
        note(c);
    }
    c->fd = disk_close(c->fd);
    (void)pthread_mutex_destroy(&c->lock);
}

static int64_t clamp(int64_t value, int64_t most)
{
    return value > most ? most : value < -most ? -most : value;
}

static bool is_due(const struct clock_page *p, int64_t boot_ms)
{
    return p->followed_ms == 0 || boot_ms - p->followed_ms >= FOLLOW_EVERY_MS;
}

// While the store is in use, a step corrects FOLLOW_MS_MAX at most. If no process was told the time
// for longer, no process notices a larger step.
static int64_t step_of(struct file_clock *c, const struct clock_page *p, int64_t wall_ms,
                       int64_t boot_ms)
{
    if (p->followed_ms == 0 || wall_ms < WALL_LEAST_MS) return 0; // the first call notes the time
    int64_t idle = time_at(p, boot_ms) - largest(p->last_ms, atomic_load(&c->told_ms));
    int64_t passed = smallest(boot_ms - p->followed_ms, largest(idle, FOLLOW_MS_MAX));
    return clamp(wall_ms - boot_ms - p->offset_ms, passed / CLOCK_FOLLOW_SHARE);
}

static bool was_stopped(const struct file_clock *c, int64_t since_ms)
{
    return boot_ms_of(c) - since_ms >= STOP_MS;
}

// If this process is stopped between two of these reads, the times do not fit each other, and the
// step is left for the next call. If it is stopped just before the write, other processes used the
// old offset meanwhile, so the step is taken back. If it is stopped after the write, they changed
// the page, or did not read the clock.
static void follow_locked(struct file_clock *c, const struct clock_page *known)
{
    struct clock_page p;
    length_mend(c);
    int64_t began = boot_ms_of(c);
    if (!page_read(c->fd, known, &p)) return;
    int64_t wall = c->disk->sys->realtime_ms(), boot_ms = boot_ms_of(c);
    if (!is_due(&p, boot_ms)) return;
    int64_t step = step_of(c, &p, wall, boot_ms);
    p.followed_ms = boot_ms;
    if (step < 0) p.last_ms = smallest(time_at(&p, boot_ms), p.last_ms + CLOCK_NOTE_MS);
    p.offset_ms += step;
    if (was_stopped(c, began)) return;
    page_replace(c, &p);
    struct clock_page now;
    if (!was_stopped(c, began) || !page_read(c->fd, &p, &now) || now.last_ms != p.last_ms) return;
    p.offset_ms -= step;
    p.last_ms = time_at(&p, boot_ms_of(c));
    page_replace(c, &p);
}

// One process at a time, once a second, moves the offset closer to the wall clock. The step is a
// share of the time since the last step.
static void follow(struct file_clock *c, const struct clock_page *p)
{
    int fd = lock_open(c);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) follow_locked(c, p);
    lock_close(fd);
}

static int64_t tell(struct file_clock *c, const struct clock_page *p, int64_t boot_ms)
{
    int64_t now = time_at(p, boot_ms), told = atomic_load(&c->told_ms);
    if (now - p->last_ms >= CLOCK_NOTE_MS) note(c);
    while (now > told)
        if (atomic_compare_exchange_weak(&c->told_ms, &told, now)) return now;
    return told;
}

// The boot clock is read before the page. If the page changes meanwhile, its time is not earlier.
int64_t file_clock_now(struct file_clock *c)
{
    int64_t boot_ms = boot_ms_of(c);
    struct clock_page p = page_of(c, boot_ms - PAGE_MS);
    if (is_due(&p, boot_ms)) {
        follow(c, &p);
        p = page_of(c, boot_ms - PAGE_MS);
    }
    return tell(c, &p, boot_ms);
}

int64_t file_clock_ahead_ms(struct file_clock *c)
{
    return file_clock_now(c) - c->disk->sys->realtime_ms();
}

// Without the lock, a process that follows the wall clock may restore the old offset; last_ms
// stays.
void file_clock_raise(struct file_clock *c, int64_t at_least_ms)
{
    int64_t boot_ms = boot_ms_of(c);
    struct clock_page p = page_of(c, INT64_MAX);
    if (time_at(&p, boot_ms) >= at_least_ms) return;
    LOCAL(store_answer, a);
    int fd = lock_open(c);
    if (fd >= 0) (void)disk_lock(fd, DISK_CLOCK, &a);
    struct clock_page now;
    if (page_read(c->fd, &p, &now)) p = now;
    boot_ms = boot_ms_of(c);
    if (time_at(&p, boot_ms) < at_least_ms) {
        p.offset_ms += at_least_ms - (boot_ms + p.offset_ms);
        p.last_ms = at_least_ms;
        page_replace(c, &p);
    }
    lock_close(fd);
}
