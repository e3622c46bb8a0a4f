// SPDX-License-Identifier: Apache-2.0
// Appending: one write and one fdatasync into preallocated space, under a lock that all processes
// share.
#include "store/file/log.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RECORD_KEEP ((size_t)1 << 20) // a longer buffer is freed after use
#define STEP_LEAST  ((uint64_t)8 << 10)

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

static enum err current_take(struct file_log *l, int fd, const struct segment_head *h,
                             struct store_answer *a)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        (void)disk_close(fd);
        return disk_refuse(a, "stat a segment of", l->key);
    }
    (void)disk_close(l->current.fd);
    l->current = (struct log_append_segment){.fd = fd, .head = *h, .size = (uint64_t)st.st_size};
    return ERR_OK;
}

enum err file_log_current_held(struct file_log *l, const struct log_tail *t, struct store_answer *a)
{
    struct log_append_segment *c = &l->current;
    if (c->fd >= 0 && c->head.first == t->segment && c->head.generation == t->generation)
        return ERR_OK;
    char path[DISK_PATH_MAX];
    file_log_segment_path(l, t->segment, t->generation, path);
    int fd = disk_open_quiet(l->disk, path, O_RDWR);
    if (fd < 0) return disk_refuse_open(a, path);
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

// Preallocates as much again as is used, up to a whole step. Of a thousand queues most are hardly
// used, and each should not take megabytes of the disk.
static uint64_t step_after(const struct disk *d, uint64_t used)
{
    uint64_t step = used > STEP_LEAST ? used : STEP_LEAST;
    if (atomic_load(&d->reserve.tight)) return 0; // every byte counts
    return step < d->step_bytes ? step : d->step_bytes;
}

// Writes the file under a temporary name first, so that a file with the real name is always
// complete. The temporary name may be a second link of a segment whose writer died, so the file is
// never opened again.
static int create_file(struct file_log *l, const char *fresh, struct bytes head, struct bytes rest)
{
    struct disk *d = l->disk;
    (void)d->sys->unlink(d->root, fresh);
    int fd = disk_open_quiet(d, fresh, O_RDWR | O_CREAT | O_EXCL);
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

static enum err refuse_taken_over(struct file_log *l, enum err e, struct store_answer *a)
{
    return answer_refuse(a, e, "another process took over journal \"%.120s\" while this one wrote",
                         l->key);
}

// After a takeover the temporary name is a folder (store/file/pages.c).
static enum err refuse_create(struct file_log *l, const char *path, struct store_answer *a)
{
    int code = errno;
    if (!file_log_owned(l, l->page)) return refuse_taken_over(l, ERR_UNAVAILABLE, a);
    errno = code;
    return disk_refuse(a, "create", path);
}

// If an old page was put in place of one that is held, two holders prepare segments under the same
// temporary name. Then the name may lead to the file of the other holder.
static bool is_named(const struct disk *d, const char *path, int fd)
{
    struct disk_id named, own;
    return disk_identify(d->root, path, AT_SYMLINK_NOFOLLOW, &named) == 0 &&
           disk_identify(fd, "", 0, &own) == 0 && disk_is_same(&named, &own);
}

enum err file_log_create_held(struct file_log *l, const struct segment_head *h,
                              struct bytes records, struct store_answer *a)
{
    struct disk *d = l->disk;
    LOCAL(buf, head, SEGMENT_HEADER_LEN);
    segment_head_put(&head, h);
    char fresh[DISK_PATH_MAX], path[DISK_PATH_MAX];
    file_log_fresh_path(l, l->page->number, fresh);
    file_log_segment_path(l, h->first, h->generation, path);
    int fd = create_file(l, fresh, buf_bytes(&head), records);
    while (fd < 0 && disk_spend(d, head.len + records.len))
        fd = create_file(l, fresh, buf_bytes(&head), records);
    if (fd < 0) {
        enum err e = refuse_create(l, path, a);
        (void)d->sys->unlink(d->root, fresh);
        return e;
    }
    int folder = disk_open_parent(d, path); // before the name exists, as in disk_put
    bool linked = folder >= 0 && d->sys->link(d->root, fresh, path) == 0;
    bool named = linked && is_named(d, path, fd);
    int code = errno;
    (void)d->sys->unlink(d->root, fresh);
    errno = code;
    if (named && disk_sync_open(d, folder) == 0) {
        (void)disk_close(folder);
        return current_take(l, fd, h, a);
    }
    enum err e = ERR_UNAVAILABLE; // the caller's slot was not even written
    if (named)
        (void)answer_refuse(a, e, "cannot make \"%.120s\" durable: %m", path);
    else if (linked)
        e = refuse_taken_over(l, e, a);
    else
        e = refuse_create(l, path, a);
    (void)disk_close(folder);
    (void)disk_close(fd);
    return e;
}

static enum err log_roll(struct file_log *l, struct store_answer *a)
{
    struct log_tail *t = &l->state.tail;
    struct segment_head h = file_log_next_head(t);
    h.salt = entropy_u64();
    enum err e = file_log_create_held(l, &h, BYTES_EMPTY, a);
    if (e) return e;
    t->segment = h.first;
    t->generation = h.generation;
    t->offset = SEGMENT_HEADER_LEN;
    t->last = 0;
    l->state.fresh = 0;
    return file_log_publish_held(l, a);
}

// Makes the segment long enough: by a step or, when the disk is nearly full, by what is needed.
static enum err log_reserve(struct file_log *l, uint64_t end, struct store_answer *a)
{
    struct log_append_segment *c = &l->current;
    if (end <= c->size) return ERR_OK;
    const struct file_sys *sys = l->disk->sys;
    uint64_t step_end = end + step_after(l->disk, end);
    int failed = sys->allocate(c->fd, (off_t)c->size, (off_t)(step_end - c->size));
    if (failed != 0) failed = sys->allocate(c->fd, (off_t)c->size, (off_t)(end - c->size));
    while (failed != 0 && disk_spend(l->disk, end - c->size))
        failed = sys->allocate(c->fd, (off_t)c->size, (off_t)(end - c->size));
    if (failed != 0) return disk_refuse(a, "make room in the journal", l->key);
    struct stat st;
    if (fstat(c->fd, &st) != 0) return disk_refuse(a, "stat a segment of", l->key);
    c->size = (uint64_t)st.st_size;
    CHECK(c->size >= end);
    return ERR_OK;
}

static enum err log_ready(struct file_log *l, uint64_t size, struct store_answer *a)
{
    const struct log_tail *t = &l->state.tail;
    bool full = t->segment == 0 || l->state.fresh ||
                (t->offset >= l->disk->segment_bytes && t->next > t->segment);
    enum err e = full ? log_roll(l, a) : file_log_current_held(l, t, a);
    return e ? e : log_reserve(l, t->offset + size, a);
}

// The record was not written completely. Zeros in its place make sure that it is not applied.
// Without them that is not certain.
static enum err log_undo(struct file_log *l, uint64_t size, struct store_answer *a)
{
    enum err e = disk_refuse(a, "write to the journal", l->key);
    if (disk_zero(l->disk, l->current.fd, l->state.tail.offset, size) == 0) {
        l->state.busy_end = 0;
        (void)file_log_note_held(l); // if that fails, the next holder of the lock writes the zeros
        return e;
    }
    // The page still says busy. The next holder of the lock repairs it. That may be this process,
    // if the cause was a full disk.
    if (disk_err(errno) != ERR_LIMIT) disk_die(l->disk);
    return ERR_UNKNOWN;
}

// The record is durable. It counts when the page says so and is still the log's page, so that no
// other process took over meanwhile.
static enum err log_commit(struct file_log *l, struct store_answer *a)
{
    if (file_log_note_held(l) != 0)
        return answer_refuse(a, ERR_UNKNOWN, "cannot write the page of journal \"%.120s\": %m",
                             l->key);
    log_page_wake(l->page);
    if (!file_log_owned(l, l->page)) return refuse_taken_over(l, ERR_UNKNOWN, a);
    file_log_saw(l, l->state.tail.next);
    return ERR_OK;
}

static enum err log_write(struct file_log *l, struct bytes body, struct store_answer *a)
{
    struct log_tail *t = &l->state.tail;
    int64_t now = file_clock_now(l->clock);
    if (now < t->time_ms) now = t->time_ms;
    buf_clear(&l->record);
    record_put(&l->record, l->current.head.salt, t->offset, t->next, now, body);
    CHECK(!l->record.bad);

    size_t size = l->record.len;
    l->state.busy_end = t->offset + size;
    if (file_log_note_held(l) != 0) return disk_refuse(a, "write the page of", l->key);
    if (disk_write(l->disk, l->current.fd, l->record.data, size, t->offset) != 0)
        return log_undo(l, size, a);
    if (l->disk->sys->fdatasync(l->current.fd) != 0) {
        (void)answer_refuse(a, ERR_UNKNOWN, "the sync of journal \"%.120s\" failed: %m", l->key);
        file_log_poison_held(l);
        return ERR_UNKNOWN;
    }
    t->next++;
    t->last = t->offset;
    t->offset += size;
    t->time_ms = now;
    l->state.busy_end = 0;
    l->state.stalls = 0;
    if (l->record.cap > RECORD_KEEP) {
        buf_done(&l->record);
        buf_init(&l->record, 2 * STORE_OBJECT_MAX);
    }
    a->modified = (struct interval){now, now};
    return log_commit(l, a);
}

static enum err log_append_held(struct file_log *l, uint64_t slot, struct bytes body,
                                struct store_answer *a)
{
    // The handle may have died during the wait.
    enum err e = atomic_load(&l->disk->dead) ? disk_alive(l->disk, a) : ERR_OK;
    if (e) return e;
    uint64_t next = l->state.tail.next;
    if (slot < next) return ERR_CONFLICT;
    if (slot > next)
        return answer_refuse(a, ERR_INVALID,
                             "slot %" PRIu64 " leaves a gap: the next of \"%.120s\" is %" PRIu64,
                             slot, l->key, next);
    e = log_ready(l, record_size(body.len), a);
    return e ? e : log_write(l, body, a);
}

enum err file_log_append(struct file_log *l, uint64_t slot, struct bytes body,
                         struct store_answer *a)
{
    enum err e = ERR_OK;
    if (file_log_may_have(l, slot)) {
        struct log_tail t;
        e = file_log_look(l, &t, a);
        if (e) return e;
        if (slot < t.next) return ERR_CONFLICT; // lost: no need to wait for the lock
    }
    e = file_log_hold(l, a);
    if (e) return e;
    e = log_append_held(l, slot, body, a);
    file_log_release(l);
    return e;
}

static enum err log_seal_held(struct file_log *l, struct store_answer *a)
{
    enum err e = disk_alive(l->disk, a);
    if (e) return e;
    const struct log_tail *t = &l->state.tail;
    if (t->segment == 0 || t->next == t->segment) return ERR_OK;
    e = log_roll(l, a);
    if (e || file_log_owned(l, l->page)) return e;
    return refuse_taken_over(l, ERR_UNAVAILABLE, a);
}

enum err file_log_seal(struct file_log *l, struct store_answer *a)
{
    enum err e = file_log_hold(l, a);
    if (e) return e;
    e = log_seal_held(l, a);
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
    (void)pthread_mutex_init(&l->page_lock, NULL);
    file_log_reader_init(&l->reader);
    enum err e = file_log_attach(l, create, a);
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
    log_page_drop(l->page);
    (void)disk_close(l->lock_fd);
    (void)disk_close(l->current.fd);
    buf_done(&l->record);
    (void)pthread_mutex_destroy(&l->page_lock);
    (void)pthread_mutex_destroy(&l->lock);
    memory_free(l->key);
    memory_free(l);
}
