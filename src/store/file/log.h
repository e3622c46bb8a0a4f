// SPDX-License-Identifier: Apache-2.0
// A log of the file store: a folder with a page (store/file/page.h), whose file is also the
// writers' lock, and segments named "@<first slot, 20 digits>.<generation>".
//
// The first page is "@lock". When a process takes over from a holder that was stopped, it continues
// with the page "@lock.1", and so on. The page with the highest number counts (store/file/pages.c).
#pragma once

#include "store/file/clock.h"
#include "store/file/disk.h"
#include "store/file/page.h"
#include "store/file/segment.h"

#include <pthread.h>

#define LOG_CURSORS  8
#define LOG_NAME_MAX 32

// A segment as a reader of this process knows it.
struct log_segment {
    uint64_t first;
    uint64_t generation;
    uint64_t last; // UINT64_MAX: it is the current segment
    int fd;        // -1: not open
    bool dropped;  // only its header is left
    uint64_t size;
    struct segment_head head; // valid after it was opened once
    uint64_t *index;          // offsets of every LOG_INDEX_STEP-th slot, as far as a read went
    size_t index_len;
    size_t index_cap;
    uint64_t used; // reader.uses at its last read; the least recent is closed
};

// Where a sequential reader continues.
struct log_cursor {
    uint64_t slot;
    uint64_t segment;
    uint64_t offset;
};

struct log_reader {
    pthread_mutex_t lock;
    struct log_segment *segments; // oldest first
    size_t len;
    uint64_t uses;
    struct log_cursor cursors[LOG_CURSORS];
    unsigned cursor_turn;
};

// The segment that this process appends to.
struct log_append_segment {
    int fd; // -1: none
    struct segment_head head;
    uint64_t size;
};

// What a waiting writer has seen of the holder.
struct log_watch {
    uint64_t number; // of the page
    uint64_t turn;
    uint64_t sequence;
    int64_t waited_ms; // time without a change of these
    int64_t looked_ms;
};

struct file_log {
    char *key;
    struct disk *disk;
    struct file_clock *clock;

    pthread_mutex_t page_lock; // guards the pointer, which changes only under `lock`
    struct log_page *page;     // NULL: not found yet
    _Atomic uint64_t seen;     // the highest published next slot: proved durable

    pthread_mutex_t lock;   // for the writers of this process; flock is for other processes
    int lock_fd;            // open only while the lock is held
    struct log_state state; // of the page, while the lock is held
    uint64_t sequence;
    uint64_t turn;      // turn of the page when this handle last took the lock
    _Atomic bool alone; // no other handle took the lock between this handle's last two turns
    struct log_watch watch;
    struct log_append_segment current;
    struct buf record;

    struct log_reader reader;

    size_t users; // calls in progress; the store's lock guards it and `recent`
    bool recent;  // used since the last search for a log to close
};

// Opens the log. ERR_NOT_FOUND: it does not exist, and create is false. The first use compares the
// page with the segments.
enum err file_log_open(struct disk *d, struct file_clock *clock, const char *key, bool create,
                       struct file_log **out, struct store_answer *a);
void file_log_free(struct file_log *l);

enum err file_log_append(struct file_log *l, uint64_t slot, struct bytes body,
                         struct store_answer *a);
enum err file_log_wait(struct file_log *l, uint64_t slot, int64_t wait_ms, struct store_answer *a);
enum err file_log_read(struct file_log *l, uint64_t slot, size_t bytes_max, struct store_answer *a);
enum err file_log_extents(struct file_log *l, uint64_t from, size_t limit, struct store_answer *a);
enum err file_log_drop(struct file_log *l, uint64_t first, uint64_t last, struct store_answer *a);
enum err file_log_seal(struct file_log *l, struct store_answer *a); // begins a new segment

void file_log_path(const struct file_log *l, const char *name, char path[DISK_PATH_MAX]);
void file_log_segment_path(const struct file_log *l, uint64_t first, uint64_t generation,
                           char path[DISK_PATH_MAX]);
// Takes the lock, with a page that agrees with the segments. If the holder makes no progress for
// the disk's patience, it loses the lock: this process takes over, or returns ERR_UNAVAILABLE.
enum err file_log_hold(struct file_log *l, struct store_answer *a);
void file_log_release(struct file_log *l);
// Returns whether the page is still the log's page. A holder checks it after it published. If it is
// not, no process accepts what the holder wrote.
bool file_log_owned(struct file_log *l, struct log_page *p);
void file_log_saw(struct file_log *l, uint64_t next); // in a page that was the log's
int file_log_note_held(struct file_log *l); // writes the state to the page: 0, or -1 and errno
// Publishes the state and wakes the waiters.
enum err file_log_publish_held(struct file_log *l, struct store_answer *a);
// A sync of the current segment failed: no process appends to it again, and this handle is dead.
void file_log_poison_held(struct file_log *l);
// A hint whether the slot exists. It costs at most one read of the page, and none while no other
// handle writes.
bool file_log_may_have(struct file_log *l, uint64_t slot);
// Reads the current tail. It takes the lock only if the page must be found or compared.
enum err file_log_look(struct file_log *l, struct log_tail *t, struct store_answer *a);

void file_log_page_name(uint64_t number, char name[LOG_NAME_MAX]);
void file_log_fresh_path(const struct file_log *l, uint64_t number, char path[DISK_PATH_MAX]);
// Finds the page with the highest number. Makes one if there are segments but no page, or, with
// create, if there is nothing.
enum err file_log_attach(struct file_log *l, bool create, struct store_answer *a);
void file_log_detach(struct file_log *l);
// Fences the page and makes its successor.
enum err file_log_take_over(struct file_log *l, uint64_t stalls, struct store_answer *a);

// Makes a new segment that holds `records`, complete and durable under its name, and makes it
// current. It does not publish the tail.
enum err file_log_create_held(struct file_log *l, const struct segment_head *h,
                              struct bytes records, struct store_answer *a);
// Opens the tail's segment for appending.
enum err file_log_current_held(struct file_log *l, const struct log_tail *t,
                               struct store_answer *a);

// Finds the tail by reading the newest segment, and makes what it found durable. Fewer slots than
// `proved` mean damage. With wipe, a torn end is overwritten with zeros.
enum err file_log_survey(struct file_log *l, uint64_t proved, bool wipe, struct log_tail *t,
                         struct store_answer *a);
// Cleans up after a writer that died or whose sync failed. *good becomes false if the page notes a
// write that is not the one in the segment: the page is an old copy.
enum err file_log_mend_held(struct file_log *l, bool *good, struct store_answer *a);
// Returns whether the newest segment is the tail's, and the record before the mark is good.
enum err file_log_agrees_held(struct file_log *l, bool *agrees, struct store_answer *a);
// Returns whether nothing was written past the mark, and no segment starts at the next slot.
enum err file_log_ends_held(struct file_log *l, bool *ends, struct store_answer *a);
// The head of the segment that would follow the current one.
struct segment_head file_log_next_head(const struct log_tail *t);

// Lists the segments up to the tail's. The caller holds the reader's lock.
enum err file_log_list(struct file_log *l, const struct log_tail *t, struct store_answer *a);
// Opens a segment for reading: its head, its size, whether it was dropped. ERR_NOT_FOUND: it does
// not exist any more.
enum err file_log_segment_open(struct file_log *l, struct log_segment *g, struct store_answer *a);
// Returns whether the list of segments reaches this tail.
bool file_log_listed(const struct file_log *l, const struct log_tail *t);
void file_log_forget(struct log_reader *r); // lists again before the next use
void file_log_reader_init(struct log_reader *r);
void file_log_reader_done(struct log_reader *r);
