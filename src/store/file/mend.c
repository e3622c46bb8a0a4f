// SPDX-License-Identifier: Apache-2.0
// What the holder of the lock does before it may append: find the tail after a boot, finish or wipe
// what a dead writer left, leave a segment whose sync failed.
#include "store/file/log.h"

#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

// The current segment's bytes, from `at` up to `end`; what the file does not have is zeros.
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

// ---- after a dead writer

// A whole record past the mark is kept: its writer got no answer, so it may have happened. Anything
// else becomes zeros. Either way the bytes are written again, because a sync that failed unseen has
// marked the old pages clean.
static enum err mend_busy(struct file_log *l, uint64_t end, struct store_answer *a)
{
    struct log_tail t = log_page_tail(l->page);
    if (end > t.offset) {
        enum err e = file_log_current_held(l, &t, a);
        struct buf found CLEANUP(buf_done) = {0};
        if (!e) e = read_current(l, t.offset, end, &found, a);
        if (e) return e;
        struct record r;
        uint64_t salt = l->current.head.salt;
        bool whole = record_read(buf_bytes(&found), salt, t.offset, &r) == RECORD_GOOD &&
                     r.slot == t.next && r.size == found.len;
        if (!whole) memset(found.data, 0, found.len);
        if (disk_write(l->disk, l->current.fd, found.data, found.len, t.offset) != 0)
            return disk_refuse(a, "mend the journal", l->key);
        if (l->disk->sys->fdatasync(l->current.fd) != 0) return sync_failed(l, a);
        if (whole) {
            t.next++;
            t.offset = end;
            t.time_ms = r.time_ms;
            log_page_publish(l->page, &t);
        }
    }
    atomic_store(&l->page->busy_end, 0);
    return ERR_OK;
}

// ---- after a failed sync

// Nobody knows what the kernel still holds of the segment beyond the mark; up to it everything was
// synced. Copy that.
static enum err leave_poisoned(struct file_log *l, struct store_answer *a)
{
    struct log_tail t = log_page_tail(l->page);
    enum err e = file_log_current_held(l, &t, a);
    struct buf file CLEANUP(buf_done) = {0};
    if (!e) e = read_current(l, 0, t.offset, &file, a);
    if (e) return e;
    struct segment_head h = l->current.head;
    struct segment_scan scan;
    segment_scan(buf_bytes(&file), &h, &scan);
    if (scan.offset != t.offset || scan.next != t.next)
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
    t.generation = h.generation;
    log_page_publish(l->page, &t);
    atomic_store(&l->page->poisoned, 0);
    (void)l->disk->sys->unlink(l->disk->root, old); // left behind, the higher generation wins
    return ERR_OK;
}

enum err file_log_mend_held(struct file_log *l, struct store_answer *a)
{
    if (atomic_load(&l->page->poisoned)) return leave_poisoned(l, a);
    uint64_t busy_end = atomic_load(&l->page->busy_end);
    return busy_end ? mend_busy(l, busy_end, a) : ERR_OK;
}

// ---- after a boot

static enum err scan_current(struct file_log *l, struct log_tail *t, struct store_answer *a)
{
    enum err e = file_log_current_held(l, t, a);
    struct buf file CLEANUP(buf_done) = {0};
    uint64_t size = l->current.size > SEGMENT_HEADER_LEN ? l->current.size : SEGMENT_HEADER_LEN;
    if (!e) e = read_current(l, 0, size, &file, a);
    if (e) return e;
    struct segment_scan scan;
    segment_scan(buf_bytes(&file), &l->current.head, &scan);
    uint64_t proved = log_page_next_proved(l->page);
    if (scan.good_later || scan.next < proved)
        return answer_refuse(a, ERR_CORRUPT,
                             "journal \"%.120s\" is damaged at slot %" PRIu64 " (byte %" PRIu64
                             " of its segment): %s; restore it from a copy",
                             l->key, scan.next, scan.offset,
                             scan.good_later ? "good records follow"
                                             : "more was durable before the last boot");
    if (scan.dirty_end > scan.offset) { // a write that the crash cut short
        if (disk_zero(l->disk, l->current.fd, scan.offset, scan.dirty_end - scan.offset) != 0)
            return disk_refuse(a, "mend the journal", l->key);
    }
    if (l->disk->sys->fdatasync(l->current.fd) != 0) return sync_failed(l, a);
    t->next = scan.next;
    t->offset = scan.offset;
    t->time_ms = scan.time_ms;
    return ERR_OK;
}

enum err file_log_rebuild_held(struct file_log *l, const uint8_t boot[BOOT_ID_LEN],
                               struct store_answer *a)
{
    struct log_tail t = {.next = 1, .segment = UINT64_MAX, .generation = UINT64_MAX};
    struct log_reader *r = &l->reader;
    (void)pthread_mutex_lock(&r->lock);
    enum err e = file_log_list(l, &t, a);
    t.segment = r->len ? r->segments[r->len - 1].first : 0;
    t.generation = r->len ? r->segments[r->len - 1].generation : 0;
    (void)pthread_mutex_unlock(&r->lock);
    if (e) return e;
    if (t.segment > 0) {
        e = scan_current(l, &t, a);
        if (e) return e;
    } else if (log_page_next_proved(l->page) > 1) {
        return answer_refuse(a, ERR_CORRUPT, "the segments of journal \"%.120s\" are gone", l->key);
    }
    file_clock_raise(l->clock, t.time_ms);
    log_page_publish(l->page, &t);
    log_page_start(l->page, boot);
    return ERR_OK;
}
