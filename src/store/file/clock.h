// SPDX-License-Identifier: Apache-2.0
// The clock of a file store, shared by all processes that use the directory: the boot clock plus an
// offset. The first process of a boot chooses the offset. From then on the offset follows the wall
// clock by at most one millisecond in CLOCK_FOLLOW_SHARE, and the clock never runs backwards.
//
// So a stepped wall clock moves no deadline noticeably, and a wrong first clock is corrected over
// time (docs/decisions/0015-the-file-stores-clock.md).
#pragma once

#include "store/file/disk.h"

#include <pthread.h>

#define CLOCK_FOLLOW_SHARE 200 // 5 ms in a second

// The content of DISK_CLOCK.
struct clock_page {
    uint64_t boot[2];
    int64_t offset_ms;
    int64_t last_ms;     // the clock returns no earlier time
    int64_t followed_ms; // boot clock at the last change of the offset; 0: none in this boot
};

struct file_clock {
    struct disk *disk;
    int fd;                  // of DISK_CLOCK; -1: not open
    pthread_mutex_t lock;    // guards `page` and `read_ms`
    struct clock_page page;  // as this handle last read it
    int64_t read_ms;         // boot clock at that read
    _Atomic int64_t told_ms; // the latest time that this handle returned
};

enum err file_clock_open(struct file_clock *c, struct disk *d, struct store_answer *a);
void file_clock_done(struct file_clock *c);
int64_t file_clock_now(struct file_clock *c);
// How far the store's clock is ahead of the wall clock; negative: behind it.
int64_t file_clock_ahead_ms(struct file_clock *c);
// Durable data has this time: the clock must not be behind it.
void file_clock_raise(struct file_clock *c, int64_t at_least_ms);
