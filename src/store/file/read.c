// SPDX-License-Identifier: Apache-2.0
// Reads slots: finds the segment and the offset in it, reads a run of records at once, and checks
// each.
#include "store/file/log.h"

#include "base/array.h"
#include "base/memory.h"
#include "os/lock.h"

#include <inttypes.h>
#include <string.h>

#define LOG_INDEX_STEP 64                 // slots between two offsets in the index
#define WALK_CHUNK     ((size_t)32 << 10) // read size during a search for an offset
#define LOOK_TRIES     5                  // tries while other processes change the log
#define READ_FIRST_MIN ((size_t)4 << 10)  // smallest read: most first records fit

static struct log_segment *segment_of(struct log_reader *r, uint64_t slot)
{
    size_t lo = 0, hi = r->len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->segments[mid].first <= slot)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? &r->segments[lo - 1] : NULL;
}

static void index_note(struct log_segment *g, uint64_t slot, uint64_t offset)
{
    uint64_t at = slot - g->first;
    if (at % LOG_INDEX_STEP != 0 || at / LOG_INDEX_STEP != g->index_len) return;
    *ARRAY_ADD(g->index, g->index_len, g->index_cap) = offset;
}

// Returns the nearest known offset at or before the slot.
static struct log_cursor known_place(const struct log_reader *r, const struct log_segment *g,
                                     uint64_t slot)
{
    struct log_cursor best = {g->first, g->first, SEGMENT_HEADER_LEN};
    if (g->index_len > 0) {
        uint64_t at = (slot - g->first) / LOG_INDEX_STEP;
        if (at >= g->index_len) at = g->index_len - 1;
        best.slot = g->first + at * LOG_INDEX_STEP;
        best.offset = g->index[at];
    }
    for (size_t i = 0; i < LOG_CURSORS; i++) {
        const struct log_cursor *c = &r->cursors[i];
        if (c->segment == g->first && c->slot <= slot && c->slot > best.slot) best = *c;
    }
    return best;
}

// The next run starts where this one ended. The new cursor replaces the one that the run started
// from.
static void cursor_move(struct log_reader *r, uint64_t from_slot, struct log_cursor to)
{
    for (size_t i = 0; i < LOG_CURSORS; i++) {
        if (r->cursors[i].segment == to.segment && r->cursors[i].slot == from_slot) {
            r->cursors[i] = to;
            return;
        }
    }
    r->cursors[r->cursor_turn++ % LOG_CURSORS] = to;
}

// The segment may have been cut down during the read. Then the slot is dropped, and nothing is
// damaged.
static enum err damaged(struct file_log *l, struct log_segment *g, uint64_t slot,
                        struct store_answer *a)
{
    struct stat st;
    if (fstat(g->fd, &st) == 0 && st.st_size == SEGMENT_HEADER_LEN) return ERR_NOT_FOUND;
    return answer_refuse(a, ERR_CORRUPT,
                         "slot %" PRIu64 " of journal \"%.120s\" fails its check; restore segment "
                         "%020" PRIu64 " from a copy",
                         slot, l->key, g->first);
}

// Walks from header to header to the slot, and records offsets in the index.
static enum err walk(struct file_log *l, struct log_segment *g, struct log_cursor *c, uint64_t slot,
                     uint64_t end, struct store_answer *a)
{
    index_note(g, c->slot, c->offset);
    if (c->slot == slot) return ERR_OK;
    CLEANUP(memory_let_go) uint8_t *chunk = memory_new(WALK_CHUNK);
    uint64_t chunk_at = 0;
    size_t chunk_len = 0;
    enum err e = ERR_OK;
    while (c->slot < slot && !e) {
        if (c->offset + RECORD_HEADER_LEN > chunk_at + chunk_len || c->offset < chunk_at) {
            ssize_t n = disk_read(l->disk, g->fd, chunk, WALK_CHUNK, c->offset);
            chunk_at = c->offset;
            chunk_len = n > 0 ? (size_t)n : 0;
            if (n < 0) e = disk_refuse(a, "read the journal", l->key);
        }
        size_t in = (size_t)(c->offset - chunk_at);
        struct record r = {0};
        if (!e && (c->offset >= end ||
                   record_peek(bytes_of(chunk + in, chunk_len - in), &r) != RECORD_GOOD ||
                   r.slot != c->slot))
            e = damaged(l, g, c->slot, a);
        if (e) break;
        c->slot++;
        c->offset += r.size;
        index_note(g, c->slot, c->offset);
    }
    return e;
}

// Reads up to `want` bytes at the offset into the answer's body.
static enum err fetch(struct file_log *l, struct log_segment *g, uint64_t offset, uint64_t want,
                      struct store_answer *a)
{
    buf_clear(&a->body);
    uint8_t *room = buf_grow(&a->body, (size_t)want);
    ssize_t n = disk_read(l->disk, g->fd, room, (size_t)want, offset);
    if (n < 0) return disk_refuse(a, "read the journal", l->key);
    a->body.len = (size_t)n;
    return ERR_OK;
}

// Turns the fetched bytes into rows, as far as complete good records reach.
static enum record_kind take_rows(struct log_segment *g, struct log_cursor *c, uint64_t last,
                                  size_t bytes_max, uint64_t *need, struct store_answer *a)
{
    size_t at = 0;
    enum record_kind kind = RECORD_GOOD;
    while (c->slot <= last && at < a->body.len) {
        struct record r;
        struct bytes rest = bytes_of(a->body.data + at, a->body.len - at);
        kind = record_read(rest, g->head.salt, c->offset, &r);
        if (kind == RECORD_GOOD && r.slot != c->slot) kind = RECORD_BAD;
        *need = r.size;
        if (kind != RECORD_GOOD || (at > 0 && at + r.size > bytes_max)) break;
        *answer_row(a) = (struct store_row){.first = c->slot,
                                            .last = c->slot,
                                            .size = r.body.len,
                                            .body_at = at + RECORD_HEADER_LEN,
                                            .modified = {r.time_ms, r.time_ms}};
        index_note(g, c->slot, c->offset);
        c->slot++;
        c->offset += r.size;
        at += (size_t)r.size;
    }
    a->body.len = at;
    return kind;
}

static enum err read_run(struct file_log *l, struct log_segment *g, const struct log_tail *t,
                         uint64_t slot, size_t bytes_max, struct store_answer *a)
{
    bool newest = g->last == UINT64_MAX;
    uint64_t end = newest ? t->offset : g->size;
    uint64_t last = newest ? t->next - 1 : g->last;
    struct log_cursor c = known_place(&l->reader, g, slot);
    enum err e = walk(l, g, &c, slot, end, a);
    if (e) return e;
    if (c.offset >= end) return damaged(l, g, slot, a);
    uint64_t left = end - c.offset;
    uint64_t want = bytes_max < READ_FIRST_MIN ? READ_FIRST_MIN : bytes_max;
    e = fetch(l, g, c.offset, want < left ? want : left, a);
    if (e) return e;
    uint64_t need = 0;
    enum record_kind kind = take_rows(g, &c, last, bytes_max, &need, a);
    // The first record is longer than the request.
    if (a->rows_len == 0 && kind == RECORD_SHORT && need <= left) {
        e = fetch(l, g, c.offset, need, a);
        if (e) return e;
        (void)take_rows(g, &c, c.slot, bytes_max, &need, a);
    }
    if (a->rows_len == 0) return damaged(l, g, slot, a);
    cursor_move(&l->reader, slot, c);
    a->modified = a->rows[0].modified;
    return ERR_OK;
}

// *again: the log changed during the read.
static enum err read_locked(struct file_log *l, const struct log_tail *t, uint64_t slot,
                            size_t bytes_max, bool *again, struct store_answer *a)
{
    if (!file_log_listed(l, t)) {
        enum err e = file_log_list(l, t, a);
        if (e) return e;
        *again = !file_log_listed(l, t);
        if (*again) return ERR_NOT_FOUND;
    }
    struct log_segment *g = segment_of(&l->reader, slot);
    if (!g) return ERR_NOT_FOUND;
    enum err e = file_log_segment_open(l, g, a);
    if (e == ERR_NOT_FOUND) {
        file_log_forget(&l->reader);
        *again = true;
    }
    if (e) return e;
    return g->dropped ? ERR_NOT_FOUND : read_run(l, g, t, slot, bytes_max, a);
}

enum err file_log_read(struct file_log *l, uint64_t slot, size_t bytes_max, struct store_answer *a)
{
    bool again = true;
    enum err e = ERR_OK;
    for (int tries = 0; again && tries < LOOK_TRIES; tries++) {
        struct log_tail t;
        e = file_log_look(l, &t, a); // without the reader's lock: it may take the writers' lock
        if (e) return e;
        if (slot >= t.next) return ERR_NOT_FOUND;
        again = false;
        LOCKED(&l->reader.lock);
        e = read_locked(l, &t, slot, bytes_max, &again, a);
    }
    if (!again) return e;
    return answer_refuse(a, ERR_UNAVAILABLE,
                         "segments of journal \"%.120s\" are missing or change too fast", l->key);
}
