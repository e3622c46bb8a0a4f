// SPDX-License-Identifier: Apache-2.0
// The store in a local directory, shared by any number of processes of one machine.
//
//   <dir>/<key>                 an object; its modification time is store time
//   <dir>/<log>/@lock           the log's lock and page (store/file/page.h); @lock.1, ... after
//                               takeovers
//   <dir>/<log>/@<first>.<gen>  its segments (store/file/segment.h)
//   <dir>/@clock  <dir>/@tmp/   the clock's page (store/file/clock.h); files being written
//   <dir>/@reserve              allocated space (store/file/reserve.c)
#pragma once

#include "store/file/sys.h"
#include "store/store.h"

// Zero means the default.
struct file_options {
    const struct file_sys *sys; // the kernel's calls
    uint64_t segment_bytes;     // 64 MiB: when a log goes on in a new segment
    uint64_t step_bytes;        // 4 MiB: how much of a segment is preallocated at a time, at most
    int64_t patience_ms;        // 5 s: a writer that was stopped for so long is replaced
    uint64_t reserve_bytes;     // a 16th of the file system, 64 MiB at most: kept for all but sends
    size_t logs_max;            // open at once, beside those in use; an eighth of RLIMIT_NOFILE
};

// Opens the directory, creating it when its parent exists. Refused, with one sentence in why: a
// path that is no directory or lies on a network file system (ERR_INVALID), or that may not be
// written (ERR_DENIED). After a sync that failed the handle is dead: every call answers
// ERR_DENIED. Programs exit; tests open another.
MUST_USE enum err store_file_open(const char *dir, const struct file_options *options,
                                  struct store **out, char *why, size_t why_len);
