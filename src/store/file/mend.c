// SPDX-License-Identifier: Apache-2.0
// The work of the lock's holder before it may append. It compares the page with the segments and
// finds the tail in them. It completes or wipes the write of a dead writer. It leaves a segment
// whose sync failed.
#include "store/file/log.h"

#include "os/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

// Reads the current segment's bytes from `at` to `end`. Bytes past the end of the file are zeros.
static enum err read_current(struct file_log *l, uint64_t at, uint64_t end, struct buf *to,
                             struct store_answer *a)
{
    size_t len = (size_t)(end - at);
    buf_init(to, len);
    uint8_t *room = buf_grow(to, len);
    ssize_t n = disk_read(l->disk, l->current.fd, room, len, at);
    if (n < 0) return disk_refuse(a, "read the journal", l->key);
    if ((size_t)n < len) memset(room + n, 0, len - (size_t)n);
    return ERR_OK;
}

static enum err sync_failed(struct file_log *l, struct store_answer *a)
{
    (void)answer_refuse(a, ERR_UNAVAILABLE, "cannot mend journal \"%.120s\": %m", l->key);
    file_log_poison_held(l);
    return ERR_UNAVAILABLE;
}

// Returns whether the write in progress that the page notes left these bytes. Its record ends where
// the note says. A record of the next slot with another size was written later: then the page is an
// old copy, and the bytes may be acknowledged.
static bool is_noted_write(const struct file_log *l, struct bytes found)
{
    struct record r;
    return record_peek(found, &r) != RECORD_GOOD || r.slot != l->state.tail.next ||
           r.size == found.len;
}

// A complete record past the mark is kept: its writer got no answer, so it may count. Anything else
// becomes zeros. In both cases the bytes are written again, because an undetected failed sync has
// marked the old pages clean.
static enum err mend_write(struct file_log *l, struct buf *found, struct store_answer *a)
{
    struct log_tail *t = &l->state.tail;
    struct record r;
    bool whole =
        record_read(buf_bytes(found), l->current.head.salt, t->offset, &r) == RECORD_GOOD &&
        r.slot == t->next && r.size == found->len;
    if (!whole) memset(found->data, 0, found->len);
    if (disk_write(l->disk, l->current.fd, found->data, found->len, t->offset) != 0)
        return disk_refuse(a, "mend the journal", l->key);
    if (l->disk->sys->fdatasync(l->current.fd) != 0) return sync_failed(l, a);
    if (!whole) return ERR_OK;
    t->last = t->offset;
    t->offset += r.size;
    t->time_ms = r.time_ms;
    t->next++;
    return ERR_OK;
}

static enum err mend_busy(struct file_log *l, bool *good, struct store_answer *a)
{
    struct log_tail *t = &l->state.tail;
    if (l->state.busy_end > t->offset) {
        struct buf found CLEANUP(buf_done) = {0};
        enum err e = file_log_current_held(l, t, a);
        if (!e) e = read_current(l, t->offset, l->state.busy_end, &found, a);
        if (e) return e;
        *good = is_noted_write(l, buf_bytes(&found));
        if (!*good) return ERR_OK;
        e = mend_write(l, &found, a);
        if (e) return e;
    }
    l->state.busy_end = 0;
    return file_log_publish_held(l, a);
}

// Past the mark, the kernel's state of the segment is unknown. Everything up to the mark was
// synced, so that part is copied.
static enum err leave_poisoned(struct file_log *l, struct store_answer *a)
{
    const struct log_tail *t = &l->state.tail;
    enum err e = file_log_current_held(l, t, a);
    struct buf file CLEANUP(buf_done) = {0};
    if (!e) e = read_current(l, 0, t->offset, &file, a);
    if (e) return e;
    struct segment_head h = l->current.head;
    struct segment_scan scan;
    segment_scan(buf_bytes(&file), &h, &scan);
    if (scan.offset != t->offset || scan.next != t->next)
        return answer_refuse(a, ERR_CORRUPT,
                             "journal \"%.120s\" is damaged at slot %" PRIu64
                             ", before its durable end",
                             l->key, scan.next);
    char old[DISK_PATH_MAX];
    file_log_segment_path(l, h.first, h.generation, old);
    h.generation++;
    e = file_log_create_held(
        l, &h, bytes_of(file.data + SEGMENT_HEADER_LEN, file.len - SEGMENT_HEADER_LEN), a);
    if (e) return e;
    l->state.tail.generation = h.generation;
    l->state.poisoned = 0;
    e = file_log_publish_held(l, a);
    if (e) return e;
    (void)l->disk->sys->unlink(l->disk->root, old); // if that fails, the higher generation wins
    return ERR_OK;
}

enum err file_log_mend_held(struct file_log *l, bool *good, struct store_answer *a)
{
    if (l->state.poisoned) return leave_poisoned(l, a);
    return l->state.busy_end ? mend_busy(l, good, a) : ERR_OK;
}

struct segment_head file_log_next_head(const struct log_tail *t)
{
    return (struct segment_head){.first = t->next,
                                 .generation = t->next == t->segment ? t->generation + 1 : 1,
                                 .before_ms = t->time_ms};
}

static enum err newest_segment(struct file_log *l, struct log_tail *t, struct store_answer *a)
{
    struct log_reader *r = &l->reader;
    t->segment = t->generation = UINT64_MAX;
    LOCKED(&r->lock);
    enum err e = file_log_list(l, t, a);
    t->segment = r->len ? r->segments[r->len - 1].first : 0;
    t->generation = r->len ? r->segments[r->len - 1].generation : 0;
    return e;
}

// Checks the record before the mark.
static enum err last_is_good(struct file_log *l, bool *good, struct store_answer *a)
{
    const struct log_tail *t = &l->state.tail;
    *good = t->last == 0
                ? t->next == t->segment && t->offset == SEGMENT_HEADER_LEN
                : t->last < t->offset && t->offset - t->last <= record_size(STORE_OBJECT_MAX);
    if (!*good || t->last == 0) return ERR_OK;
    struct buf found CLEANUP(buf_done) = {0};
    struct record r;
    enum err e = read_current(l, t->last, t->offset, &found, a);
    if (e) return e;
    *good = record_read(buf_bytes(&found), l->current.head.salt, t->last, &r) == RECORD_GOOD &&
            r.slot + 1 == t->next && t->last + r.size == t->offset;
    return ERR_OK;
}

enum err file_log_agrees_held(struct file_log *l, bool *agrees, struct store_answer *a)
{
    const struct log_tail *t = &l->state.tail;
    struct log_tail newest = {0};
    enum err e = newest_segment(l, &newest, a);
    *agrees = newest.segment == t->segment && newest.generation == t->generation;
    if (e || !*agrees || t->segment == 0) return e;
    e = file_log_current_held(l, t, a);
    return e ? e : last_is_good(l, agrees, a);
}

enum err file_log_ends_held(struct file_log *l, bool *ends, struct store_answer *a)
{
    const struct log_tail *t = &l->state.tail;
    struct segment_head h = file_log_next_head(t);
    char path[DISK_PATH_MAX];
    struct disk_id id;
    file_log_segment_path(l, h.first, h.generation, path);
    *ends = disk_identify(l->disk->root, path, AT_SYMLINK_NOFOLLOW, &id) != 0;
    if (*ends && errno != ENOENT) return disk_refuse(a, "look for", path);
    // In a segment that is left, a former holder may write anything past the mark.
    if (!*ends || t->segment == 0 || l->state.fresh) return ERR_OK;
    enum err e = file_log_current_held(l, t, a);
    if (e) return e;
    static const uint8_t zeros[RECORD_HEADER_LEN];
    uint8_t found[RECORD_HEADER_LEN] = {0};
    if (disk_read(l->disk, l->current.fd, found, sizeof found, t->offset) < 0)
        return disk_refuse(a, "read the journal", l->key);
    *ends = memcmp(found, zeros, sizeof zeros) == 0;
    return ERR_OK;
}

static enum err refuse_damaged(struct file_log *l, const struct segment_scan *scan,
                               struct store_answer *a)
{
    return answer_refuse(a, ERR_CORRUPT,
                         "journal \"%.120s\" is damaged at slot %" PRIu64 " (byte %" PRIu64
                         " of its segment): %s; restore it from a copy",
                         l->key, scan->next, scan->offset,
                         scan->good_later ? "good records follow" : "more was durable before");
}

// Records past the proved end may not be durable, so they are written again, as in mend_busy.
static enum err make_durable(struct file_log *l, const struct segment_scan *scan,
                             const struct buf *file, bool wipe, struct store_answer *a)
{
    int fd = l->current.fd, failed = 0;
    if (scan->last)
        failed = disk_write(l->disk, fd, file->data + scan->last,
                            (size_t)(scan->offset - scan->last), scan->last);
    if (failed == 0 && wipe && scan->dirty_end > scan->offset) // an incomplete write
        failed = disk_zero(l->disk, fd, scan->offset, scan->dirty_end - scan->offset);
    if (failed != 0) return disk_refuse(a, "mend the journal", l->key);
    if (l->disk->sys->fdatasync(fd) == 0) return ERR_OK;
    (void)answer_refuse(a, ERR_UNAVAILABLE, "cannot mend journal \"%.120s\": %m", l->key);
    disk_die(l->disk); // the page is not trusted yet: the next process finds the tail again
    return ERR_UNAVAILABLE;
}

static enum err scan_current(struct file_log *l, uint64_t proved, bool wipe, struct log_tail *t,
                             struct store_answer *a)
{
    enum err e = file_log_current_held(l, t, a);
    if (e) return e;
    struct stat st;
    if (fstat(l->current.fd, &st) != 0) return disk_refuse(a, "stat a segment of", l->key);
    uint64_t size = (uint64_t)st.st_size;
    struct buf file CLEANUP(buf_done) = {0};
    e = read_current(l, 0, size > SEGMENT_HEADER_LEN ? size : SEGMENT_HEADER_LEN, &file, a);
    if (e) return e;
    struct segment_scan scan;
    segment_scan(buf_bytes(&file), &l->current.head, &scan);
    if (scan.good_later || scan.next < proved) return refuse_damaged(l, &scan, a);
    if (wipe || scan.next > proved) e = make_durable(l, &scan, &file, wipe, a);
    if (e) return e;
    t->next = scan.next;
    t->offset = scan.offset;
    t->last = scan.last;
    t->time_ms = scan.time_ms;
    return ERR_OK;
}

enum err file_log_survey(struct file_log *l, uint64_t proved, bool wipe, struct log_tail *t,
                         struct store_answer *a)
{
    *t = (struct log_tail){.next = 1};
    enum err e = newest_segment(l, t, a);
    if (!e && t->segment > 0) e = scan_current(l, proved, wipe, t, a);
    if (e) return e;
    if (t->segment == 0 && proved > 1)
        return answer_refuse(a, ERR_CORRUPT, "the segments of journal \"%.120s\" are gone", l->key);
    file_clock_raise(l->clock, t->time_ms);
    return ERR_OK;
}
