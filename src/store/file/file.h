// SPDX-License-Identifier: Apache-2.0
// The store in a local directory. Any number of processes of one machine share it.
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
    const struct file_sys *sys; // the system calls
    uint64_t segment_bytes;     // 64 MiB: limit of a segment; then a new one begins
    uint64_t step_bytes;        // 4 MiB: most bytes that are preallocated in a segment at a time
    int64_t patience_ms;        // 5 s: a writer that was stopped for this long is replaced
    // A 16th of the file system, at most 64 MiB: reserved for all writes except sends.
    uint64_t reserve_bytes;
    // Limit of open logs, in addition to those in use; an eighth of RLIMIT_NOFILE.
    size_t logs_max;
};

// Opens the directory. If only its parent exists, creates it. On an error, why has one sentence.
// ERR_INVALID: the path is not a directory or is on a network file system. ERR_DENIED: it may not
// be written. After a failed sync the handle is dead: every call returns ERR_DENIED. Programs exit
// then; tests open the store again.
MUST_USE enum err store_file_open(const char *dir, const struct file_options *options,
                                  struct store **out, char *why, size_t why_len);
