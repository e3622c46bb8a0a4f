// SPDX-License-Identifier: Apache-2.0
// The page of a log: one small file that all processes of the log share. It says how far the log is
// durable: slots under tail.next exist, nothing else does. Only the holder of its lock writes the
// state; any process reads it at any moment, and a holder may be killed or stopped between any two
// calls.
//
// The page is read and written with pread and pwrite, which share the page cache. It is mapped for
// the futex alone, and only the kernel touches the mapping: a page that is cut short under a
// process is an error here, and no SIGBUS. A disk that went away answers EIO.
//
// The state is kept twice, each copy with a number and a check. A write replaces the older copy;
// the intact copy with the higher number counts.
//
// Nothing syncs the page, so it can be older than the segments. A state alone is never believed:
// store/file/hold.c compares it with the segments.
#pragma once

#include "store/file/disk.h"

#include <stdatomic.h>
#include <stdint.h>

#define LOG_PAGE_LEN     4096
#define LOG_PAGE_VERSION 2

struct log_tail {
    uint64_t next;       // the slot to be written next
    uint64_t segment;    // the first slot of the current segment; 0: there is none yet
    uint64_t generation; // which copy of that segment counts
    uint64_t offset;     // where in it the next record goes: the durable mark
    uint64_t last;       // where in it the last record is; 0: it has none
    int64_t time_ms;     // of the last slot
};

struct log_state {
    struct log_tail tail;
    uint64_t busy_end; // a write is under way from the mark up to here; 0: none
    uint64_t poisoned; // a sync of the current segment failed
    uint64_t fresh;  // the next append begins a new segment: a former holder may write to this one
    uint64_t stalls; // takeovers since the last append
    uint64_t boot[2];
    uint64_t file;   // which file the state was written to; a copy of it is another
    uint64_t marked; // the file carries the life mark (log_page_mark)
};

struct log_page {
    struct disk *disk;
    int fd;
    void *map;
    struct disk_id id;
    uint64_t number; // 0, 1 ...: each takeover makes the next one
    uint64_t file;
    _Atomic size_t refs;
    _Atomic bool verified; // by this process, against the segments
};

enum log_page_kind {
    LOG_PAGE_GOOD,
    LOG_PAGE_DAMAGED, // no copy of the state is intact
    LOG_PAGE_OLD,     // of version 1: a process that still uses it would not see ours
    LOG_PAGE_FAILED,  // it cannot be read: errno
};

// What one read of the page shows.
struct log_look {
    struct log_state state; // GOOD
    uint64_t sequence;      // of the state; the highest of any intact copy
    bool fenced;            // a moment before or after the state was read
    uint32_t wake;          // for log_page_wait
    uint64_t holder;        // the process that last took the lock, in its own pid namespace,
    uint64_t thread;        // and its thread
    uint64_t turn;          // counts takings of the lock
    uint64_t old_next;      // OLD: the next slot as version 1 told it
};

// Takes the descriptor.
struct log_page *log_page_new(struct disk *d, int fd, uint64_t number); // NULL: errno
void log_page_keep(struct log_page *p);
void log_page_drop(struct log_page *p); // NULL is fine

// The bytes of a page with this state, for a new file.
void log_page_image(const struct log_state *s, uint8_t image[LOG_PAGE_LEN]);
void log_page_image_fence(uint8_t image[LOG_PAGE_LEN]); // ... that no process will believe

enum log_page_kind log_page_look(struct log_page *p, struct log_look *to);
// Replaces the older copy.
int log_page_write(struct log_page *p, const struct log_state *s, uint64_t *sequence);
void log_page_wake(struct log_page *p);  // the waiters, after a write that they wait for
int log_page_repair(struct log_page *p); // its length and version; a state must follow
int log_page_sign(struct log_page *p, uint64_t turn); // this thread holds the lock now

// A fenced page is left by all processes, and none believes what is written to it later. A holder
// writes its state, THEN asks whether the page is fenced; a reader reads the state, THEN asks. So
// what any of them relied on was there before the fence.
int log_page_fence(struct log_page *p); // wakes the waiters
bool log_page_fenced(struct log_page *p);

void log_page_wait(struct log_page *p, uint32_t seen, int64_t wait_ms);

// A mark on the file's inode in memory, which lives as long as the page cache of the file and is
// never written to disk: the write hint of fcntl(2). Without the mark on a page that had it, the
// file system was mounted again, or the inode left memory. False: it cannot be set here.
bool log_page_mark(struct log_page *p);
bool log_page_marked(struct log_page *p);
