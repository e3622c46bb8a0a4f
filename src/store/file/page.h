// SPDX-License-Identifier: Apache-2.0
// The page of a log: one small file that all processes of the log share. It records how far the log
// is durable: exactly the slots below tail.next exist. Only the holder of its lock writes the
// state. Any process may read it at any time, and a holder may be killed or stopped between any two
// calls.
//
// The page is read and written with pread and pwrite, which share the page cache. It is mapped only
// for the futex, and only the kernel accesses the mapping. So a page that is truncated during its
// use causes an error and no SIGBUS. A removed disk causes EIO.
//
// The state is stored twice, each copy with a number and a check. A write replaces the older copy.
// The intact copy with the higher number counts.
//
// The page is never synced, so it can be older than the segments. A state alone is never trusted:
// store/file/hold.c compares it with the segments.
#pragma once

#include "store/file/disk.h"

#include <stdatomic.h>
#include <stdint.h>

#define LOG_PAGE_LEN     4096
#define LOG_PAGE_VERSION 1

struct log_tail {
    uint64_t next;       // the next slot to write
    uint64_t segment;    // first slot of the current segment; 0: none yet
    uint64_t generation; // which copy of that segment counts
    uint64_t offset;     // offset of the next record in it: the durable mark
    uint64_t last;       // offset of the last record in it; 0: none
    int64_t time_ms;     // of the last slot
};

struct log_state {
    struct log_tail tail;
    uint64_t busy_end; // a write is in progress from the mark to here; 0: none
    uint64_t poisoned; // a sync of the current segment failed
    // The next append begins a new segment, because a former holder may write to this one.
    uint64_t fresh;
    uint64_t stalls; // takeovers since the last append
    uint64_t boot[2];
    uint64_t file;   // identity of the state's file; a copy of the file has another
    uint64_t marked; // the file has the life mark (log_page_mark)
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
    LOG_PAGE_FAILED,  // it cannot be read: errno
};

// The result of one read of the page.
struct log_look {
    struct log_state state; // if GOOD
    uint64_t sequence;      // of the state; the highest of any intact copy
    bool fenced;            // just before or after the read of the state
    uint32_t wake;          // for log_page_wait
    uint64_t holder;        // process that last took the lock, in its pid namespace
    uint64_t thread;        // thread of that process
    uint64_t turn;          // counts how often the lock was taken
};

// Takes ownership of the descriptor.
struct log_page *log_page_new(struct disk *d, int fd, uint64_t number); // NULL: errno
void log_page_keep(struct log_page *p);
void log_page_drop(struct log_page *p); // accepts NULL

// The bytes of a page with this state, for a new file.
void log_page_image(const struct log_state *s, uint8_t image[LOG_PAGE_LEN]);
void log_page_image_fence(uint8_t image[LOG_PAGE_LEN]); // makes it a page that no process trusts

enum log_page_kind log_page_look(struct log_page *p, struct log_look *to);
// Replaces the older copy.
int log_page_write(struct log_page *p, const struct log_state *s, uint64_t *sequence);
void log_page_wake(struct log_page *p);  // wakes the waiters, after a write that they wait for
int log_page_repair(struct log_page *p); // its length and version; a write of the state must follow
int log_page_sign(struct log_page *p, uint64_t turn); // this thread holds the lock now

// All processes leave a fenced page, and none trusts what is written to it later. A holder writes
// its state and THEN checks the fence. A reader reads the state and THEN checks the fence. So
// everything that they relied on was there before the fence.
int log_page_fence(struct log_page *p); // wakes the waiters
bool log_page_fenced(struct log_page *p);

void log_page_wait(struct log_page *p, uint32_t seen, int64_t wait_ms);

// A mark on the file's inode in memory: the write hint of fcntl(2). It lasts as long as the file's
// page cache and is never written to disk. If a marked page has lost its mark, the file system was
// mounted again, or the inode left memory. False: the mark cannot be set here.
bool log_page_mark(struct log_page *p);
bool log_page_marked(struct log_page *p);
