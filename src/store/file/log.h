// SPDX-License-Identifier: Apache-2.0
// A log of the file store: a folder with a lock file that is never replaced (its page:
// store/file/page.h) and segments named "@<first slot, 20 digits>.<generation>".
#pragma once

#include "store/file/clock.h"
#include "store/file/disk.h"
#include "store/file/page.h"
#include "store/file/segment.h"

#include <pthread.h>

#define LOG_CURSORS 8

// A segment as a reader of this process knows it.
struct log_segment {
    uint64_t first;
    uint64_t generation;
    uint64_t last; // UINT64_MAX: it is the current one
    int fd;        // -1: not open now
    bool dropped;  // only its header is left
    uint64_t size;
    struct segment_head head; // valid when it was opened once
    uint64_t *index;          // offsets of every LOG_INDEX_STEP-th slot, as far as somebody walked
    size_t index_len;
    size_t index_cap;
    uint64_t used; // when it was last read, to close the one that was not
};

// Where a sequential reader will go on.
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

// The segment this process appends to.
struct log_current {
    int fd; // -1: none
    struct segment_head head;
    uint64_t size;
};

struct file_log {
    char *key;
    struct disk *disk;
    struct file_clock *clock;
    ino_t lock_inode; // of the lock file
    struct log_page *page;

    pthread_mutex_t lock; // the writers of this process; then flock between processes
    int lock_fd;          // open only while the lock is held
    struct log_current current;
    struct buf record;

    struct log_reader reader;

    size_t users; // calls under way; with `recent` under the store's lock
    bool recent;  // used since somebody last looked for one to close
};

// Opens the log, and brings it in order when this is its first use since the boot. ERR_NOT_FOUND
// when it does not exist and create is false.
enum err file_log_open(struct disk *d, struct file_clock *clock, const char *key, bool create,
                       struct file_log **out, struct store_answer *a);
void file_log_free(struct file_log *l);

enum err file_log_append(struct file_log *l, uint64_t slot, struct bytes body,
                         struct store_answer *a);
enum err file_log_wait(struct file_log *l, uint64_t slot, int64_t wait_ms);
enum err file_log_read(struct file_log *l, uint64_t slot, size_t bytes_max, struct store_answer *a);
enum err file_log_extents(struct file_log *l, uint64_t from, size_t limit, struct store_answer *a);
enum err file_log_drop(struct file_log *l, uint64_t first, uint64_t last, struct store_answer *a);
enum err file_log_part(struct file_log *l, struct store_answer *a); // goes on in a new segment

// ---- between the files of the log; "held" means that the caller holds the lock

void file_log_path(const struct file_log *l, const char *name, char path[DISK_PATH_MAX]);
void file_log_segment_path(const struct file_log *l, uint64_t first, uint64_t generation,
                           char path[DISK_PATH_MAX]);
enum err file_log_hold(struct file_log *l, struct store_answer *a);
void file_log_release(struct file_log *l);
// A sync of the current segment failed: nobody appends to it again, and this handle does nothing
// more.
void file_log_poison_held(struct file_log *l);

// A new segment that holds `records`, complete and durable under its name, and current. The tail is
// not published.
enum err file_log_create_held(struct file_log *l, const struct segment_head *h,
                              struct bytes records, struct store_answer *a);
// Opens the segment of the tail for appending.
enum err file_log_current_held(struct file_log *l, const struct log_tail *t,
                               struct store_answer *a);

// The first use since the boot: finds the tail by reading the newest segment.
enum err file_log_rebuild_held(struct file_log *l, const uint8_t boot[BOOT_ID_LEN],
                               struct store_answer *a);
// Cleans up after a writer that died or whose sync failed.
enum err file_log_mend_held(struct file_log *l, struct store_answer *a);

// Reads which segments there are up to the tail's; the reader's lock is held.
enum err file_log_list(struct file_log *l, const struct log_tail *t, struct store_answer *a);
// Opens a segment for reading: its head, its size, whether it was dropped. ERR_NOT_FOUND: it is
// gone.
enum err file_log_segment_open(struct file_log *l, struct log_segment *g, struct store_answer *a);
// Whether what was listed reaches up to this tail.
bool file_log_listed(const struct file_log *l, const struct log_tail *t);
void file_log_forget(struct log_reader *r); // lists again before the next use
void file_log_reader_init(struct log_reader *r);
void file_log_reader_done(struct log_reader *r);
