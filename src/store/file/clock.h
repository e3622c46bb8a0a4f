// SPDX-License-Identifier: Apache-2.0
// The clock of a file store, shared by all processes that use the directory: the boot clock plus an
// offset that the first of them chose in this boot. Stepping the wall clock changes nothing until
// the next boot.
#pragma once

#include "store/file/disk.h"

struct clock_page;

struct file_clock {
    struct disk *disk;
    struct clock_page *page; // mapped from DISK_CLOCK
};

enum err file_clock_open(struct file_clock *c, struct disk *d, struct store_answer *a);
void file_clock_done(struct file_clock *c);
int64_t file_clock_now(struct file_clock *c);
// Something durable carries this time: the clock must not be behind it.
void file_clock_raise(struct file_clock *c, int64_t at_least_ms);
