// SPDX-License-Identifier: Apache-2.0
// Appending: one write and one fdatasync into preallocated space, under a lock that all processes
// share.
#include "store/file/log.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/entropy.h"
#include "os/futex.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>

#define RECORD_KEEP ((size_t)1 << 20) // a longer buffer is given back after use
#define STEP_LEAST  ((uint64_t)8 << 10)
#define WAIT_MS_MAX 60000 // of one sleep; the loop goes on

void file_log_path(const struct file_log *l, const char *name, char path[DISK_PATH_MAX])
{
    (void)snprintf(path, DISK_PATH_MAX, "%.*s/%s", STORE_KEY_MAX, l->key, name);
}

void file_log_segment_path(const struct file_log *l, uint64_t first, uint64_t generation,
                           char path[DISK_PATH_MAX])
{
    (void)snprintf(path, DISK_PATH_MAX, "%.*s/@%020" PRIu64 ".%" PRIu64, STORE_LOG_MAX, l->key,
                   first, generation);
}

// ---- the lock

// The file is opened for each turn: a child of fork would keep a lasting descriptor, and with it
// the lock of a parent that was killed in its turn.
static enum err lock_take(struct file_log *l, struct store_answer *a)
{
    char path[DISK_PATH_MAX];
    file_log_path(l, DISK_LOCK, path);
    l->lock_fd = disk_open(l->disk, path, O_RDWR);
    if (l->lock_fd < 0) return disk_refuse(a, "open", path);
    struct stat st;
    if (fstat(l->lock_fd, &st) != 0) return disk_refuse(a, "stat", path);
    if (st.st_ino != l->lock_inode)
        return answer_refuse(
            a, ERR_CORRUPT,
            "\"%.120s\" was replaced while in use: stop all processes that use this "
            "store, then start them again",
            path);
    return disk_lock(l->lock_fd, path, a);
}

enum err file_log_hold(struct file_log *l, struct store_answer *a)
{
    (void)pthread_mutex_lock(&l->lock);
    enum err e = lock_take(l, a);
    if (e) file_log_release(l);
    return e;
}

void file_log_release(struct file_log *l)
{
    if (l->lock_fd >= 0) (void)flock(l->lock_fd, LOCK_UN); // also if a child has it by now
    l->lock_fd = disk_close(l->lock_fd);
    (void)pthread_mutex_unlock(&l->lock);
}

void file_log_poison_held(struct file_log *l)
{
    int code = errno;
    atomic_store(&l->page->poisoned, 1);
    atomic_store(&l->page->busy_end, 0);
    errno = code;
    disk_die(l->disk);
}

// ---- segments

static enum err current_take(struct file_log *l, int fd, const struct segment_head *h,
                             struct store_answer *a)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        (void)disk_close(fd);
        return disk_refuse(a, "stat a segment of", l->key);
    }
    (void)disk_close(l->current.fd);
    l->current = (struct log_current){.fd = fd, .head = *h, .size = (uint64_t)st.st_size};
    return ERR_OK;
}

enum err file_log_current_held(struct file_log *l, const struct log_tail *t, struct store_answer *a)
{
    struct log_current *c = &l->current;
    if (c->fd >= 0 && c->head.first == t->segment && c->head.generation == t->generation)
        return ERR_OK;
    char path[DISK_PATH_MAX];
    file_log_segment_path(l, t->segment, t->generation, path);
    int fd = disk_open(l->disk, path, O_RDWR);
    if (fd < 0) return disk_refuse(a, "open", path);
    uint8_t head[SEGMENT_HEADER_LEN];
    struct segment_head h;
    ssize_t n = disk_read(l->disk, fd, head, sizeof head, 0);
    if (n < 0) {
        (void)disk_close(fd);
        return disk_refuse(a, "read", path);
    }
    if (!segment_head_read(bytes_of(head, (size_t)n), &h) || h.first != t->segment ||
        h.generation != t->generation) {
        (void)disk_close(fd);
        return answer_refuse(a, ERR_CORRUPT, "the header of \"%.150s\" is damaged", path);
    }
    return current_take(l, fd, &h, a);
}

// As much again as there is, up to a whole step: of a thousand queues most are hardly used, and
// should not each take megabytes of the disk.
static uint64_t step_after(const struct disk *d, uint64_t used)
{
    uint64_t step = used > STEP_LEAST ? used : STEP_LEAST;
    return step < d->step_bytes ? step : d->step_bytes;
}

// Writes the file under a passing name first: one with the real name is always whole.
static int create_file(struct file_log *l, const char *fresh, struct bytes head, struct bytes rest)
{
    struct disk *d = l->disk;
    int fd = disk_open(d, fresh, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0 && errno == EEXIST) { // of a creator that died; never written to, it may be a link
        if (d->sys->unlink(d->root, fresh) != 0) return -1;
        fd = disk_open(d, fresh, O_RDWR | O_CREAT | O_EXCL);
    }
    if (fd < 0) return -1;
    uint64_t used = head.len + rest.len;
    int failed = d->sys->allocate(fd, 0, (off_t)(used + step_after(d, used)));
    if (failed != 0 && errno == ENOSPC && d->sys->truncate(fd, 0) == 0)
        failed = d->sys->allocate(fd, 0, (off_t)used);
    if (failed == 0) failed = disk_write(d, fd, head.data, head.len, 0);
    if (failed == 0) failed = disk_write(d, fd, rest.data, rest.len, head.len);
    if (failed == 0) failed = d->sys->fsync(fd);
    return failed == 0 ? fd : disk_close(fd);
}

enum err file_log_create_held(struct file_log *l, const struct segment_head *h,
                              struct bytes records, struct store_answer *a)
{
    struct disk *d = l->disk;
    struct buf head CLEANUP(buf_done);
    buf_init(&head, SEGMENT_HEADER_LEN);
    segment_head_put(&head, h);
    char fresh[DISK_PATH_MAX], path[DISK_PATH_MAX];
    file_log_path(l, DISK_FRESH, fresh);
    file_log_segment_path(l, h->first, h->generation, path);
    int fd = create_file(l, fresh, buf_bytes(&head), records);
    if (fd < 0) {
        enum err e = disk_refuse(a, "create", path);
        (void)d->sys->unlink(d->root, fresh);
        return e;
    }
    int folder = disk_open_parent(d, path); // before the name is there, as in disk_put
    bool named = folder >= 0 && d->sys->rename(d->root, fresh, path) == 0;
    if (named && disk_sync_open(d, folder) == 0) {
        (void)disk_close(folder);
        return current_take(l, fd, h, a);
    }
    enum err e = ERR_UNAVAILABLE; // the slot the caller came for was not even written
    if (named)
        (void)answer_refuse(a, e, "cannot make \"%.120s\" durable: %m", path);
    else
        e = disk_refuse(a, "create", path);
    (void)disk_close(folder);
    (void)disk_close(fd);
    return e;
}

static enum err log_roll(struct file_log *l, struct log_tail *t, struct store_answer *a)
{
    struct segment_head h = {
        .first = t->next, .generation = 1, .salt = entropy_u64(), .before_ms = t->time_ms};
    enum err e = file_log_create_held(l, &h, BYTES_EMPTY, a);
    if (e) return e;
    t->segment = h.first;
    t->generation = h.generation;
    t->offset = SEGMENT_HEADER_LEN;
    log_page_publish(l->page, t);
    return ERR_OK;
}

// Makes the segment long enough, a step at a time or, when the disk is nearly full, just so far.
static enum err log_reserve(struct file_log *l, uint64_t end, struct store_answer *a)
{
    struct log_current *c = &l->current;
    if (end <= c->size) return ERR_OK;
    const struct file_sys *sys = l->disk->sys;
    uint64_t step_end = end + step_after(l->disk, end);
    int failed = sys->allocate(c->fd, (off_t)c->size, (off_t)(step_end - c->size));
    if (failed != 0) failed = sys->allocate(c->fd, (off_t)c->size, (off_t)(end - c->size));
    if (failed != 0) return disk_refuse(a, "make room in the journal", l->key);
    struct stat st;
    if (fstat(c->fd, &st) != 0) return disk_refuse(a, "stat a segment of", l->key);
    c->size = (uint64_t)st.st_size;
    CHECK(c->size >= end);
    return ERR_OK;
}

static enum err log_ready(struct file_log *l, struct log_tail *t, uint64_t size,
                          struct store_answer *a)
{
    bool full = t->segment == 0 || (t->offset >= l->disk->segment_bytes && t->next > t->segment);
    enum err e = full ? log_roll(l, t, a) : file_log_current_held(l, t, a);
    return e ? e : log_reserve(l, t->offset + size, a);
}

// ---- append

// The record was not written whole. Zeros in its place make that certain; without them it remains
// to be seen.
static enum err log_undo(struct file_log *l, const struct log_tail *t, uint64_t size,
                         struct store_answer *a)
{
    enum err e = disk_refuse(a, "write to the journal", l->key);
    if (disk_zero(l->disk, l->current.fd, t->offset, size) == 0) {
        atomic_store(&l->page->busy_end, 0);
        return e;
    }
    // The page still says busy: the next holder of the lock mends it, which may be this one when it
    // was for want of space.
    if (disk_err(errno) != ERR_LIMIT) disk_die(l->disk);
    return ERR_UNKNOWN;
}

static enum err log_write(struct file_log *l, struct log_tail *t, struct bytes body,
                          struct store_answer *a)
{
    int64_t now = file_clock_now(l->clock);
    if (now < t->time_ms) now = t->time_ms;
    buf_clear(&l->record);
    record_put(&l->record, l->current.head.salt, t->offset, t->next, now, body);
    CHECK(!l->record.bad);

    size_t size = l->record.len;
    atomic_store(&l->page->busy_end, t->offset + size);
    if (disk_write(l->disk, l->current.fd, l->record.data, size, t->offset) != 0)
        return log_undo(l, t, size, a);
    if (l->disk->sys->fdatasync(l->current.fd) != 0) {
        (void)answer_refuse(a, ERR_UNKNOWN, "the sync of journal \"%.120s\" failed: %m", l->key);
        file_log_poison_held(l);
        return ERR_UNKNOWN;
    }
    t->next++;
    t->offset += size;
    t->time_ms = now;
    log_page_publish(l->page, t);
    atomic_store(&l->page->busy_end, 0);
    if (l->record.cap > RECORD_KEEP) {
        buf_done(&l->record);
        buf_init(&l->record, 2 * STORE_OBJECT_MAX);
    }
    a->modified = (struct interval){now, now};
    return ERR_OK;
}

static enum err log_append_held(struct file_log *l, uint64_t slot, struct bytes body,
                                struct store_answer *a)
{
    enum err e = disk_alive(l->disk, a); // perhaps it died while we waited
    if (!e) e = file_log_mend_held(l, a);
    if (e) return e;
    struct log_tail t = log_page_tail(l->page);
    if (slot < t.next) return ERR_CONFLICT;
    if (slot > t.next)
        return answer_refuse(a, ERR_INVALID,
                             "slot %" PRIu64 " leaves a gap: the next of \"%.120s\" is %" PRIu64,
                             slot, l->key, t.next);
    e = log_ready(l, &t, record_size(body.len), a);
    return e ? e : log_write(l, &t, body, a);
}

enum err file_log_append(struct file_log *l, uint64_t slot, struct bytes body,
                         struct store_answer *a)
{
    if (slot < log_page_tail(l->page).next)
        return ERR_CONFLICT; // lost, and no need to queue for it
    enum err e = file_log_hold(l, a);
    if (e) return e;
    e = log_append_held(l, slot, body, a);
    file_log_release(l);
    return e;
}

static enum err log_part_held(struct file_log *l, struct store_answer *a)
{
    enum err e = disk_alive(l->disk, a);
    if (!e) e = file_log_mend_held(l, a);
    if (e) return e;
    struct log_tail t = log_page_tail(l->page);
    return t.next > t.segment && t.segment != 0 ? log_roll(l, &t, a) : ERR_OK;
}

enum err file_log_part(struct file_log *l, struct store_answer *a)
{
    enum err e = file_log_hold(l, a);
    if (e) return e;
    e = log_part_held(l, a);
    file_log_release(l);
    return e;
}

enum err file_log_wait(struct file_log *l, uint64_t slot, int64_t wait_ms)
{
    int64_t end = clock_boot_ms() + wait_ms;
    for (;;) {
        uint32_t seen = atomic_load(&l->page->wake);
        if (slot < log_page_tail(l->page).next) return ERR_OK;
        int64_t left = end - clock_boot_ms();
        if (left <= 0) return ERR_NOT_FOUND;
        futex_wait(&l->page->wake, seen, left < WAIT_MS_MAX ? left : WAIT_MS_MAX);
    }
}

// ---- open

static enum err page_map(struct file_log *l, int fd, const char *path, struct store_answer *a)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return disk_refuse(a, "stat", path);
    if (st.st_size != LOG_PAGE_LEN)
        return answer_refuse(a, ERR_CORRUPT, "\"%.120s\" is not a page of %d bytes", path,
                             LOG_PAGE_LEN);
    void *page = mmap(NULL, LOG_PAGE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return disk_refuse(a, "map", path);
    l->page = page;
    l->lock_inode = st.st_ino;
    return ERR_OK;
}

static enum err log_lock_file(struct file_log *l, bool create, struct store_answer *a)
{
    struct disk *d = l->disk;
    char path[DISK_PATH_MAX];
    file_log_path(l, DISK_LOCK, path);
    int fd = disk_open(d, path, O_RDWR);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        if (!create) return ERR_NOT_FOUND;
        static const uint8_t empty[LOG_PAGE_LEN];
        enum err e = disk_put(d, path, bytes_of(empty, sizeof empty), 0, true, a);
        if (e == ERR_UNKNOWN) e = ERR_UNAVAILABLE; // a lock file is no slot
        if (e && e != ERR_CONFLICT) return e;
        fd = disk_open(d, path, O_RDWR);
    }
    if (fd < 0) return disk_refuse(a, "open", path);
    enum err e = page_map(l, fd, path, a);
    (void)disk_close(fd);
    return e;
}

static enum err log_start(struct file_log *l, struct store_answer *a)
{
    uint8_t boot[BOOT_ID_LEN];
    if (!l->disk->sys->boot_id(boot))
        return answer_refuse(a, ERR_UNAVAILABLE, "cannot read the id of this boot");
    if (log_page_current(l->page, boot)) return ERR_OK;
    enum err e = file_log_hold(l, a);
    if (e) return e;
    if (!log_page_current(l->page, boot)) e = file_log_rebuild_held(l, boot, a);
    file_log_release(l);
    return e;
}

enum err file_log_open(struct disk *d, struct file_clock *clock, const char *key, bool create,
                       struct file_log **out, struct store_answer *a)
{
    struct file_log *l = NEW(struct file_log);
    l->key = memory_new(strlen(key) + 1);
    memcpy(l->key, key, strlen(key) + 1);
    l->disk = d;
    l->clock = clock;
    l->lock_fd = l->current.fd = -1;
    buf_init(&l->record, 2 * STORE_OBJECT_MAX);
    (void)pthread_mutex_init(&l->lock, NULL);
    file_log_reader_init(&l->reader);
    enum err e = log_lock_file(l, create, a);
    if (!e) e = log_start(l, a);
    if (e) {
        file_log_free(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

void file_log_free(struct file_log *l)
{
    if (!l) return;
    file_log_reader_done(&l->reader);
    if (l->page) (void)munmap(l->page, LOG_PAGE_LEN);
    (void)disk_close(l->lock_fd);
    (void)disk_close(l->current.fd);
    buf_done(&l->record);
    (void)pthread_mutex_destroy(&l->lock);
    memory_free(l->key);
    memory_free(l);
}
